"""`aggregator completion`: the scripts by which shells complete our commands, printed or put in their place."""

import os
from pathlib import Path
from typing import Final

from aggregator.cli.first_run.complete import SHELLS
from aggregator.cli.runtime.writer import say
from aggregator.domain.errors import OperatorError
from aggregator.editing.replace import read_file, replace_file

_BASH: Final = r"""# Completion of aggregator for bash.
_aggregator() {
    local value rest
    COMPREPLY=()
    while IFS=$'\t' read -r value rest; do
        if [ "$value" = ":files" ]; then
            compopt -o default
            COMPREPLY=()
            return
        fi
        printf -v value '%q' "$value"
        COMPREPLY+=("$value")
    done < <("${COMP_WORDS[0]}" complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _aggregator aggregator
"""
_ZSH: Final = r"""#compdef aggregator
# Completion of aggregator for zsh.
_aggregator() {
    local value rest
    local -a values texts
    while IFS=$'\t' read -r value rest; do
        if [[ "$value" == ":files" ]]; then
            _files
            return
        fi
        values+=("$value")
        texts+=("$value${rest:+  -- $rest}")
    done < <("${words[1]}" complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)
    (( ${#values} )) && compadd -l -d texts -a values
}
if [ "$funcstack[1]" = "_aggregator" ]; then
    _aggregator "$@"
else
    compdef _aggregator aggregator
fi
"""
_FISH: Final = r"""# Completion of aggregator for fish.
function __aggregator_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l found (command $words[1] complete -- $words[2..-1] "$current" 2>/dev/null)
    if test "$found[1]" = ":files"
        __fish_complete_path "$current"
    else
        printf '%s\n' $found
    end
end
complete -c aggregator -f -a '(__aggregator_complete)'
"""
SCRIPTS: Final = dict(zip(SHELLS, (_BASH, _ZSH, _FISH), strict=True))
_USE: Final = {
    "bash": "It counts in new shells that have the package bash-completion; for this one: source {path}",
    "zsh": "Put this before `compinit` in your .zshrc, once: fpath=({folder} $fpath)",
    "fish": "It counts in new shells.",
}


def run(shell: str | None, install: bool) -> int:
    """Print the script for a shell, or write it to the place that the shell reads.

    Raises:
        OperatorError: the shell is not known, or the file cannot be written.
    """
    name = shell or Path(os.environ.get("SHELL", "")).name
    if name not in SCRIPTS:
        said = f"There is no completion for {name!r:.40}" if name else "SHELL does not say which shell this is"
        raise OperatorError(f"{said}; name one of {', '.join(SHELLS)}.")
    if not install:
        say(SCRIPTS[name], end="")
        return 0
    path = _place(name)
    was = read_file(path) if path.exists() else None
    script = SCRIPTS[name].encode()
    if was != script:
        replace_file(path, script, was)
    say(f"Wrote {path}. {_USE[name].format(path=path, folder=path.parent)}")
    return 0


def _place(shell: str) -> Path:
    home = Path(os.environ.get("HOME") or os.path.expanduser("~"))
    data = Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    config = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
    return {
        "bash": data / "bash-completion" / "completions" / "aggregator",
        "zsh": data / "zsh" / "site-functions" / "_aggregator",
        "fish": config / "fish" / "completions" / "aggregator.fish",
    }[shell]
