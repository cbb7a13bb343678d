"""The value of a reference, by its kind. It takes a while: call it in a thread.

Law: a message names the reference and the fix, never a value, nor anything that a program printed.
"""

import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any, Final

from aggregator import DISTRIBUTION
from aggregator.domain.shell import foreign_operands, shell_word
from aggregator.secret_sources.file_text import file_text
from aggregator.secret_sources.program_run import MOST, ProgramFailed, ProgramRun
from aggregator.secret_sources.reference import SecretReference, SecretUnavailable

_KEYRING_PROGRAM: Final = Path(__file__).with_name("keyring_program.py")
# Control characters except those of texts with several lines, and lone surrogates, which are no text.
_NOT_IN_SECRETS: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
INSTALL: Final = f"Install it: `pip install {shell_word(f'{DISTRIBUTION}[keyring]')}`."
NO_KEYRING: Final = (
    "Keep the secret in a file that only you can read (mode 0600) and refer to it with ${file:PATH}, or set a keyring "
    "up as docs/secrets.md says."
)


def value_of(reference: SecretReference, limit: float, run: ProgramRun | None = None) -> str:
    """Return the value of a reference, within `limit` seconds; `run` allows another thread to end the wait.

    Raises:
        SecretUnavailable: it has none now.
    """
    run = run or ProgramRun()
    if reference.kind == "file":
        return file_text(Path(reference.name), reference.written).rstrip("\r\n")
    value = (
        _from_keyring(reference, limit, run) if reference.kind == "keyring" else _from_command(reference, limit, run)
    )
    _check(value, reference)
    return value


def keyring_problem(limit: float) -> SecretUnavailable | None:
    """Return why this machine has no keyring that can be used, within `limit` seconds; None if it has one."""
    try:
        _ask_keyring(["backend"], "The keyring cannot be used", limit, ProgramRun())
    except SecretUnavailable as error:
        return error
    return None


def _from_keyring(reference: SecretReference, limit: float, run: ProgramRun) -> str:
    failed = f"`{reference.shown}` has no value"
    found = _ask_keyring(["get", reference.name], failed, limit, run)
    if found.get("problem") == "absent":
        fix = f"Store it: `aggregator secrets set {foreign_operands(reference.name)}`."
        raise SecretUnavailable(f"{failed}: the keyring holds no secret of this name.", fix)
    return str(found["value"])


def _ask_keyring(arguments: list[str], failed: str, limit: float, run: ProgramRun) -> dict[str, Any]:
    """Return the answer of the keyring, which may be that the name is absent.

    Raises:
        SecretUnavailable: there is no keyring, or it gives no answer. Its text begins with `failed`.
    """
    # -P: no module of the folder that this program runs in is imported.
    words = [sys.executable, "-P", str(_KEYRING_PROGRAM), *arguments]
    try:
        found = json.loads(run.output(words, os.environ, limit, os.path.abspath(os.sep)))
    except ProgramFailed as error:
        if "longer" in str(error):
            said = f"{failed}: the keyring did not answer within {limit:g} s; a person may have to unlock it."
            raise SecretUnavailable(said, "Unlock it, or allow more time with `secrets.timeout`.") from None
        raise SecretUnavailable(f"{failed}: the program that reads the keyring {error}.", "Try again.") from None
    except ValueError:
        raise SecretUnavailable(f"{failed}: the keyring cannot be read.", "Try again.") from None
    match found.get("problem"):
        case "library":
            raise SecretUnavailable(f"{failed}: the library `keyring` is not installed.", INSTALL)
        case "none":
            raise SecretUnavailable(f"{failed}: no keyring answers on this machine.", NO_KEYRING)
        case "locked":
            fix = "Unlock it, such as by logging in to the desktop of this user."
            raise SecretUnavailable(f"{failed}: the keyring is locked, or cannot be opened.", fix)
        case "failed":
            kind = found.get("type")
            raise SecretUnavailable(f"{failed}: the keyring failed ({kind}).", "Try `keyring get` by hand.")
    return dict(found)


def _from_command(reference: SecretReference, limit: float, run: ProgramRun) -> str:
    failed = f"`{reference.shown}` has no value"
    program = _program(reference.words[0])
    if program is None:
        said = f"{failed}: its program was not found on `PATH`."
        raise SecretUnavailable(said, "Install it, or name it by its full path, here and in `secrets.commands`.")
    by_hand = "Run it by hand to see why."
    try:
        data = run.output([program, *reference.words[1:]], os.environ, limit, reference.folder or None)
    except ProgramFailed as error:
        fix = "Allow more time with `secrets.timeout`, or run it by hand to see what it waits for."
        raise SecretUnavailable(f"{failed}: its program {error}.", fix if "longer" in str(error) else by_hand) from None
    try:
        return data.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise SecretUnavailable(f"{failed}: what its program printed is not UTF-8 text.", by_hand) from None


def _program(name: str) -> str | None:
    """Return the path of a program; folders of `PATH` that are relative do not count."""
    folders = [folder for folder in os.environ.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(folder)]
    found = shutil.which(name, path=os.pathsep.join(folders))
    return found if found is not None and os.path.isabs(found) else None


def _check(value: str, reference: SecretReference) -> None:
    """Refuse a value that is no secret: an empty one, one that is too long, or one with control characters."""
    shown = f"What `{reference.shown}` stands for"
    if not value:
        raise SecretUnavailable(f"{shown} is empty.", "Store the secret there, or correct the reference.")
    if len(value) > MOST:
        raise SecretUnavailable(f"{shown} is longer than {MOST // 1024} KiB.", "Let it stand for the secret alone.")
    if _NOT_IN_SECRETS.search(value):
        said = f"{shown} has control characters in it, such as the colours of a terminal."
        raise SecretUnavailable(said, "Let it stand for the secret alone.")
