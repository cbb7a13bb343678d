"""The words or the line with which a program is started: on Windows found by PATHEXT, and batch files by `cmd.exe`."""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Final

from aggregator.system.batch_line import batch_line, is_batch

_EXTENSIONS: Final = ".COM;.EXE;.BAT;.CMD"


def program_words(command: str, args: Sequence[str], env: Mapping[str, str], cwd: str | None = None) -> str | list[str]:
    """Return the argument for `subprocess.Popen`: as written on POSIX, a line for a batch file on Windows.

    `cwd` is the working folder of the program, from which a relative path of it starts on every system.

    Raises:
        FileNotFoundError: Windows has no such program.
        ValueError: an argument cannot be passed to a batch file.
    """
    if sys.platform != "win32":
        return [command, *args]
    return windows_words(command, args, env, cwd)


def windows_words(command: str, args: Sequence[str], env: Mapping[str, str], cwd: str | None = None) -> str | list[str]:
    """Return the words or the line on Windows; see `program_words`."""
    variables = {name.upper(): value for name, value in env.items()}
    if os.path.dirname(command):
        # Windows itself starts from the folder of the starting process, and `cmd.exe` from the working folder.
        command = os.path.abspath(os.path.join(cwd or "", command))
    found = find_program(command, variables.get("PATH"), variables.get("PATHEXT"))
    if found is None:
        raise FileNotFoundError(2, "not found", command)
    if not is_batch(found):
        return [found, *args]
    # Not that of `env`: the variables of an entry choose no shell.
    root = os.environ.get("SYSTEMROOT") or r"C:\Windows"
    return batch_line(rf"{root}\System32\cmd.exe", found, args)


def find_program(command: str, path: str | None, extensions: str | None) -> str | None:
    """Return the file that Windows runs for a command, by the endings of names in `PATHEXT`.

    The current folder is not searched, unless the path names it: a file there must not take the place of a program.
    """
    if not command or "\0" in command:
        return None
    endings = [ending for ending in (extensions or _EXTENSIONS).split(";") if ending.startswith(".")]
    given = os.path.splitext(command)[1].lower() in map(str.lower, endings)
    # The name as written too, last: a file without a known ending is a program for Windows only if it is one.
    names = [command] if given else [*(command + ending for ending in endings), command]
    if os.path.dirname(command):
        return next((name for name in names if os.path.isfile(name)), None)
    folders = [folder.strip('"') for folder in (path or "").split(os.pathsep)]
    places = (os.path.join(folder, name) for folder in folders if os.path.isabs(folder) for name in names)
    return next((place for place in places if os.path.isfile(place)), None)
