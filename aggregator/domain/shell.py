"""Commands as people copy them into a shell: one of POSIX, or one of Windows (cmd.exe, PowerShell).

Law: a path is one word of the command, and every program in it is one that the system has.
"""

import re
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from aggregator.domain.patient_files import ON_WINDOWS

# What neither shell of Windows changes: `,` and a first `@` mean something to PowerShell, `%` and `^` to cmd.exe.
_PLAIN: Final = re.compile(r"[\w.:\\/+=-][\w.:\\/+=@-]*")


def shell_word(word: str, *, windows: bool = ON_WINDOWS) -> str:
    """Return a word as a shell of this system takes it; on Windows in double quotes, if in any."""
    if not windows:
        return shlex.quote(word)
    if _PLAIN.fullmatch(word):
        return word
    # The rules by which programs split their line: backslashes count twice before a quote, and nowhere else.
    return '"' + re.sub(r'(\\*)("|\Z)', lambda found: found[1] * 2 + (r"\"" if found[2] else ""), word) + '"'


def shell_line(words: Iterable[str], *, windows: bool = ON_WINDOWS) -> str:
    """Return words as one line; see `shell_word`."""
    return " ".join(shell_word(word, windows=windows) for word in words)


def split_line(line: str, *, windows: bool = ON_WINDOWS) -> list[str]:
    r"""Return the words of a command line: on Windows `\` is a letter, as in paths; quotes of both kinds hold a word.

    Raises:
        ValueError: a quote is not closed.
    """
    lexer = shlex.shlex(line, posix=True, punctuation_chars=False)
    lexer.whitespace_split, lexer.commenters = True, ""
    if windows:
        lexer.escape = ""
    return list(lexer)


def in_turn(*commands: str, windows: bool = ON_WINDOWS) -> str:
    """Return commands as a sentence names them: both shells of Windows have no sign for "if that went well"."""
    return ", then ".join(f"`{one}`" for one in commands) if windows else f"`{' && '.join(commands)}`"


def make_folder(folder: str | Path, *, windows: bool = ON_WINDOWS) -> str:
    """Return the command that makes a folder and those above it."""
    return f"{'mkdir' if windows else 'mkdir -p'} {shell_word(str(folder), windows=windows)}"


def move_file(path: str | Path, target: str | Path, *, windows: bool = ON_WINDOWS) -> str:
    """Return the command that renames a file."""
    return f"{'move' if windows else 'mv'} {shell_line((str(path), str(target)), windows=windows)}"


def remove_file(path: str | Path, *, windows: bool = ON_WINDOWS) -> str:
    """Return the command that removes a file."""
    return f"{'del' if windows else 'rm'} {shell_word(str(path), windows=windows)}"


def let_read(path: str | Path, *, windows: bool = ON_WINDOWS) -> str:
    """Return the command by which the owner of a file may read it: on Windows with the rights of its folder."""
    shown = shell_word(str(path), windows=windows)
    return f"icacls {shown} /reset" if windows else f"chmod u+r {shown}"


def let_write(path: str | Path, *, windows: bool = ON_WINDOWS) -> str:
    """Return the command by which the owner of a file or folder may change it."""
    shown = shell_word(str(path), windows=windows)
    return f"attrib -r {shown}" if windows else f"chmod u+rwX {shown}"


def set_variable(name: str, value: str, *, windows: bool = ON_WINDOWS) -> str:
    """Return the command that sets a variable: on POSIX for one shell, on Windows for all programs started later."""
    shown = shell_word(value, windows=windows)
    return f"setx {name} {shown}" if windows else f"export {name}={shown}"
