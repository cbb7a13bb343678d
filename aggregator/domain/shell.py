"""Commands as people copy them into a shell: one of POSIX, or one of Windows (cmd.exe, PowerShell).

Law: a path is one word of the command, and every program in it is one that the system has. What a server or an agent
chose is never an option, and no shell runs a part of it.
"""

import json
import os
import re
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from aggregator.domain.patient_files import ON_WINDOWS

# What neither shell of Windows changes: `,` and a first `@` mean something to PowerShell, `%` and `^` to cmd.exe.
_PLAIN: Final = re.compile(r"[\w.:\\/+=-][\w.:\\/+=@-]*")
# What a shell of Windows reads within double quotes too; PowerShell takes all of these for such quotes.
_READ_IN_QUOTES: Final = re.compile('["$`%\u201c\u201d\u201e]')
# What stands in a JSON text as it is: nothing that a shell of Windows runs, whatever it takes for quotes.
_NOT_PLAIN_JSON: Final = re.compile(r'[^\w {}\[\],:"\\./+-]')
# In place of a name that cannot be written safely; the person knows it.
_LEFT_TO_FILL_IN: Final = "NAME"


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


def foreign_word(word: str, *, windows: bool = ON_WINDOWS) -> str:
    """Return a word that a server or an agent chose, as a shell of this system takes it; `NAME` in place of one with
    control characters, or that a shell of Windows would read in any quotes.
    """
    if not word.isprintable() or (windows and _READ_IN_QUOTES.search(word)):
        return _LEFT_TO_FILL_IN
    return shell_word(word, windows=windows)


def foreign_operands(*words: str, windows: bool = ON_WINDOWS) -> str:
    """Return such words as the last ones of a command of ours, which takes none of them for an option."""
    shown = " ".join(foreign_word(word, windows=windows) for word in words)
    return f"-- {shown}" if any(word.startswith("-") for word in words) else shown


def json_word(value: Any, *, windows: bool = ON_WINDOWS) -> str:
    """Return a JSON value as one word; on Windows signs are written by their numbers, as a server may have chosen them.

    Raises:
        RecursionError: it is nested too deeply.
    """
    text = json.dumps(value, ensure_ascii=False)
    return shell_word(_NOT_PLAIN_JSON.sub(_by_number, text) if windows else text, windows=windows)


def _by_number(sign: re.Match[str]) -> str:
    number = ord(sign[0])
    return f"\\u{number:04x}" if number < 0x80 else json.dumps(sign[0])[1:-1]


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


def keep_private(path: str | Path, *, windows: bool = ON_WINDOWS) -> str:
    """Return the command after which the owner of a file alone may read it; on Windows with the system itself."""
    shown = shell_word(str(path), windows=windows)
    if not windows:
        return f"chmod 600 {shown}"
    user = "\\".join(os.environ[one] for one in ("USERDOMAIN", "USERNAME") if os.environ.get(one))
    granted = shell_line((f"{user}:F", "*S-1-5-18:F"), windows=True)
    return f"icacls {shown} /inheritance:r /grant:r {granted}"


def take_rights(path: str | Path, identifiers: Iterable[str]) -> str:
    """Return the commands of Windows after which the groups of these identifiers have no rights to a file or folder."""
    shown = shell_word(str(path), windows=True)
    groups = shell_line((f"*{one}" for one in identifiers), windows=True)
    return in_turn(f"icacls {shown} /inheritance:d", f"icacls {shown} /remove:g {groups}", windows=True)


def in_powershell(program: str, *, windows: bool = ON_WINDOWS) -> str:
    """Return what PowerShell needs before a command that begins with a quoted path, in words; `` if nothing."""
    return " (in PowerShell, write `& ` before it)" if windows and program.startswith('"') else ""


def let_write(path: str | Path, *, windows: bool = ON_WINDOWS) -> str:
    """Return the command by which the owner of a file or folder may change it."""
    shown = shell_word(str(path), windows=windows)
    return f"attrib -r {shown}" if windows else f"chmod u+rwX {shown}"


def set_variable(name: str, value: str, *, windows: bool = ON_WINDOWS) -> str:
    """Return the command that sets a variable: on POSIX for one shell, on Windows for all programs started later."""
    shown = shell_word(value, windows=windows)
    return f"setx {name} {shown}" if windows else f"export {name}={shown}"
