"""The configuration: the file that is used or not, and every problem in it. This file decides; it reads nothing."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aggregator.doctor.finding import CheckFinding, found
from aggregator.domain.patient_files import ON_WINDOWS
from aggregator.domain.problems import Problem
from aggregator.domain.shell import in_turn, let_read, make_folder, move_file, shell_word

# What the sentences of configuration errors begin with or contain, and the code of each.
_FILE_FAULTS: Final = (
    (r"is not trusted|was changed since it was trusted", "config_not_trusted"),
    (r"is not UTF-8", "config_encoding"),
    (r", line \d+, column \d+: |expected an object at the root|nested too deeply|holds a number", "config_not_json"),
    (r"^There is no (?:file|configuration)|is a link to ", "config_missing"),
    (r"no home folder", "home_missing"),
    (r"cannot be read|is a folder|is larger than", "config_unreadable"),
)
_PROBLEMS: Final = (
    (r"^The environment variable |is answered by the environment variable", "server_variable_missing"),
    (r"^The file .* cannot be read|is not an ordinary file", "value_file_unreadable"),
    (r"means seconds here", "timeout_milliseconds"),
    (r"^The (?:prefix|name) `.*` is already that of|do without a prefix", "server_name_taken"),
    (r"^This key is not known", "config_key_unknown"),
    (r"^This option belongs in", "config_key_misplaced"),
    (r"there more than once", "config_key_repeated"),
    (r"^The file lists no servers", "no_servers"),
)


@dataclass(frozen=True, slots=True)
class UnusableConfig:
    """An invalid configuration: `error` is the sentence that every command prints for it.

    `own` is where the user's own file belongs, `misplaced` are files that look like one, elsewhere.
    `owner` is the name of the owner of `path`, if that is another user.
    """

    error: str
    path: Path | None
    own: Path | None
    misplaced: Sequence[Path] = ()
    owner: str | None = None


def of_unusable(facts: UnusableConfig) -> Iterator[CheckFinding]:
    """Yield why a configuration cannot be used."""
    code = next((code for pattern, code in _FILE_FAULTS if re.search(pattern, facts.error)), "config_unreadable")
    message, fix = _divided(facts.error)
    if code == "config_missing" and facts.own is not None and facts.misplaced and facts.path is None:
        other = facts.misplaced[0]
        move = in_turn(make_folder(facts.own.parent), move_file(other, facts.own))
        yield found(
            "config_wrong_place",
            f"There is a configuration {other}, where none is looked for; the place is {facts.own}.",
            f"Run {move}.",
            other,
        )
        return
    if code == "config_missing" and facts.path is None:
        message, fix = "There is no configuration: neither your own nor one of this folder.", "Run `aggregator init`."
        yield found(code, message, fix, facts.own)
    elif code == "config_not_trusted" and facts.path is not None:
        folder = shell_word(str(facts.path.parent))
        yield found(code, message, f"Read it, then run `aggregator trust {folder}`.", facts.path)
    elif code == "config_unreadable" and facts.path is not None and facts.owner is not None:
        fix = f'Give it to your user: `sudo chown "$USER" {shell_word(str(facts.path))}`.'
        yield found(code, f"{message.rstrip('.')}; it belongs to {facts.owner}.", fix, facts.path)
    elif code == "config_unreadable" and facts.path is not None and "Permission" in facts.error:
        yield found(code, message, f"Run `{let_read(facts.path)}`.", facts.path)
    elif code == "home_missing":
        yield found(code, message, "Set HOME, or name the configuration with --config.")
    else:
        yield found(code, message, fix, facts.path)


def of_shadowed(own: Path, passed_over: Path) -> CheckFinding:
    """Return the finding about a file of the working folder that is not used."""
    return found(
        "config_shadowed",
        f"{passed_over} is not used, although it is in this folder: {own} goes first.",
        f"Name it with `--config {shell_word(str(passed_over))}`, or remove it.",
        passed_over,
    )


def of_utf16(path: Path) -> CheckFinding:
    """Return the finding about a file in UTF-16."""
    name = shell_word(str(path))
    convert = f"Run `iconv -f UTF-16 -t UTF-8 {name} > {name}.new && mv {name}.new {name}`, or save it as UTF-8."
    return found(
        "config_utf16",
        f"{path} is UTF-16 text: it is read, but commands that edit it and other programs may not.",
        "Save it as UTF-8 in an editor." if ON_WINDOWS else convert,
        path,
    )


def of_problems(problems: Iterable[Problem]) -> Iterator[CheckFinding]:
    """Yield a finding for each problem in the file."""
    for problem in problems:
        code = next((code for pattern, code in _PROBLEMS if re.search(pattern, problem.message)), "config_problem")
        where = f"{problem.file}: {problem.where}" if problem.where else problem.file
        subject = f"`{problem.where}`: " if problem.where else ""
        yield found(code, f"{subject}{problem.message}", problem.fix, where, severity=problem.severity)


def of_variables(names: Iterable[str]) -> Iterator[CheckFinding]:
    """Yield a finding for each variable whose value has white space at an end, as lines of a CRLF file have."""
    for name in names:
        in_shell = (
            "; a file with Windows line ends leaves one behind in a shell "
            f'(`export {name}="$(printf %s "${name}" | tr -d \'\\r\')"` takes it off)'
        )
        yield found(
            "variable_with_line_end",
            f"The value of the variable {name} begins or ends with white space or a line end, which a server gets too.",
            f"Set {name} without it{'' if ON_WINDOWS else in_shell}.",
            name,
        )


def _divided(error: str) -> tuple[str, str | None]:
    """Return the fault and the fix, which is the last sentence of an error, or the last two."""
    sentences = re.split(r"(?<=[.;]) (?=[A-Z])", error)
    if len(sentences) == 1:
        return error, None
    return sentences[0], " ".join(sentences[1:])
