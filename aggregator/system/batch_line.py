"""The command line for a batch file of Windows, whose arguments `cmd.exe` reads before the file does.

Law: an argument reaches the batch file as it was written, or is refused; no argument is ever read as a command
(the class of CVE-2024-27980). Decides alone; no I/O.

`cmd.exe` and the C library read quotes differently: a quote inside quotes is written twice, which both read as one. A
percent sign begins a variable even inside quotes: `%cd:~,%` is an empty piece of a variable that always exists.
"""

from collections.abc import Sequence
from typing import Final

SUFFIXES: Final = (".bat", ".cmd")
# No extensions of the registry, extended commands on (for `%cd:~,%`), and no `!` as a sign of variables.
_OPTIONS: Final = "/d /e:ON /v:OFF /c"
_PERCENT: Final = "%%cd:~,%"
# Characters that the longest command line of `cmd.exe` has, in UTF-16.
LONGEST: Final = 8191
# `cmd.exe` ends its line at these, whatever stands around them.
_ENDS: Final = {"\0": "a zero byte", "\r": "a carriage return", "\n": "a line break"}
# No documentation says what `cmd.exe` makes of the other control characters; a tab is one more space.
_CONTROLS: Final = frozenset(map(chr, range(32))) - {"\t"}
_VERBATIM: Final = ("\\\\?\\", "//?/", "\\\\.\\", "//./", "\\??\\")


class UnquotableArgument(ValueError):
    """An argument, or the batch file's own path, that cannot be given to `cmd.exe` safely."""


def is_batch(program: str) -> bool:
    """Return whether Windows runs a program with `cmd.exe`; it ignores dots and spaces at the end of a name."""
    return program.rstrip(". ").lower().endswith(SUFFIXES)


def batch_line(shell: str, file: str, args: Sequence[str]) -> str:
    """Return the command line that runs a batch file; `shell` is the path of `cmd.exe`.

    Raises:
        UnquotableArgument: an argument cannot be passed to a batch file.
    """
    if file.startswith(_VERBATIM):
        raise UnquotableArgument(
            f"cmd.exe takes no path that begins as {file!r} does: write it with its drive letter or share alone"
        )
    if not _CONTROLS.isdisjoint(file) or not {'"', "%", "\t"}.isdisjoint(file) or file.endswith(("\\", "/")):
        raise UnquotableArgument(
            f"the path {file!r} has a character that cmd.exe does not take in the path of a program"
        )
    words = [f'"{file}"', *(_quoted(number, word) for number, word in enumerate(args, 1))]
    # The outermost pair is taken away by `/c`.
    line = f'"{shell}" {_OPTIONS} "{" ".join(words)}"'
    length = len(line.encode("utf-16-le", "surrogatepass")) // 2
    if length > LONGEST:
        raise UnquotableArgument(
            f"its arguments have {length} characters together, and cmd.exe, which runs {file!r}, takes {LONGEST}"
        )
    return line


def _quoted(number: int, word: str) -> str:
    character = next((character for character in word if character in _CONTROLS), None)
    if character is not None:
        name = _ENDS.get(character, "a control character")
        raise UnquotableArgument(
            f"argument {number} has {name}, which cmd.exe passes to no batch file: start the program behind the "
            "batch file instead, such as node with the path of the script"
        )
    parts: list[str] = []
    backslashes = 0
    for character in word:
        if character == "\\":
            backslashes += 1
        else:
            if character == '"':
                # Backslashes before a quote are read in pairs.
                parts.append("\\" * backslashes + '"')
            backslashes = 0
        parts.append(_PERCENT if character == "%" else character)
    return f'"{"".join(parts)}{chr(92) * backslashes}"'
