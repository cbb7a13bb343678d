"""The user's keyring for commands that write to it: at a terminal, where the user can answer its questions.

A keyring cannot list its content, so the names of stored secrets are kept in a file beside the user's configuration,
which only this user can read. It has no values.
Law: no message shows a value, nor the text of an error of the keyring, which may contain one.
"""

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from aggregator.config.errors import ConfigError
from aggregator.config.files.find import platform_folder
from aggregator.config.files.jsonfile import read_bytes
from aggregator.config.files.private_file import write_private
from aggregator.domain.errors import OperatorError
from aggregator.secret_sources.keyring_program import SERVICE
from aggregator.secret_sources.reference import name_fault
from aggregator.secret_sources.values import INSTALL, NO_KEYRING, keyring_problem

# Seconds that a keyring may take to say that it is there.
_ANSWERS_WITHIN: Final = 10.0
# Bytes of UTF-16.
_LONGEST_IN_WINDOWS: Final = 2_560

FILE: Final = "keyring-names.json"


@dataclass(frozen=True, slots=True)
class KeptNames:
    """The list of names in the file at `path`."""

    path: Path

    def __call__(self) -> tuple[str, ...]:
        """Return the names in their order. Raises ConfigError when the list cannot be read."""
        if not os.path.exists(self.path):
            return ()
        try:
            found: Any = json.loads(read_bytes(self.path))
        except (ValueError, RecursionError):
            found = None
        names = found.get("names") if isinstance(found, dict) else None
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ConfigError(f"{self.path} is not a list of names. Remove it; the keyring keeps its secrets.")
        return tuple(sorted(set(names)))

    def add(self, name: str) -> None:
        """Add a name. Raises ConfigError when the list cannot be written."""
        if name not in (names := self()):
            self._write([*names, name])

    def remove(self, name: str) -> bool:
        """Remove a name; return False if it was not there. Raises ConfigError when the list cannot be written."""
        names = self()
        if name not in names:
            return False
        self._write(one for one in names if one != name)
        return True

    def _write(self, names: Iterable[str]) -> None:
        write_private(self.path, json.dumps({"names": sorted(names)}, indent=2, ensure_ascii=False) + "\n")


def kept_names(environ: Mapping[str, str]) -> KeptNames:
    """Return the list of this user."""
    return KeptNames(platform_folder(environ) / "aggregator" / FILE)


def can_store() -> str | None:
    """Return why no secret can be stored on this machine, with what to do about it; None if one can."""
    problem = keyring_problem(_ANSWERS_WITHIN)
    return None if problem is None else f"{problem.message} {problem.fix}"


def store(name: str, value: str) -> None:
    """Store a secret in the keyring, in place of one of the same name; it is referred to as `${keyring:name}`.

    Raises:
        OperatorError: the name or the value cannot be used, or there is no keyring that takes it.
    """
    check_name(name)
    if not value or "\0" in value:
        raise OperatorError(f"The secret `{name}` was not stored: its value is empty, or has a NUL character.")
    library = _library()
    try:
        too_long = _too_long(library, value)
    except Exception as error:
        raise _failed(f"The secret `{name}` was not stored", error) from None
    if too_long:
        raise OperatorError(
            f"The secret `{name}` was not stored: the Credential Manager of Windows takes {_LONGEST_IN_WINDOWS // 2:,} "
            "characters at most. Put it into a file, and refer to that as ${file:PATH}."
        )
    try:
        library.set_password(SERVICE, name, value)
        kept = library.get_password(SERVICE, name) == value
    except Exception as error:
        raise _failed(f"The secret `{name}` was not stored", error) from None
    if not kept:
        raise OperatorError(f"The secret `{name}` was not stored: the keyring did not keep it. {NO_KEYRING}")
    kept_names(os.environ).add(name)


def delete(name: str) -> None:
    """Delete a secret of the keyring.

    Raises:
        OperatorError: there is none of this name, or the keyring cannot be used.
    """
    check_name(name)
    library, names = _library(), kept_names(os.environ)
    try:
        there = library.get_password(SERVICE, name) is not None
        if there:
            library.delete_password(SERVICE, name)
    except Exception as error:
        raise _failed(f"The secret `{name}` was not deleted", error) from None
    listed = names.remove(name)
    if not there:
        also = " It is taken off the list." if listed else ""
        raise OperatorError(f"The keyring holds no secret `{name}`.{also} `aggregator secrets list` has their names.")


def stored_names() -> KeptNames:
    """Return the list of the names that were stored with this program."""
    return kept_names(os.environ)


def backend_name() -> str:
    """Return the name of the keyring in use, as the library calls it. Raises OperatorError."""
    backend = _library().get_keyring()
    return f"{type(backend).__module__}.{type(backend).__qualname__}"


def check_name(name: str) -> None:
    """Refuse a name that no reference can have. Raises OperatorError."""
    if fault := name_fault(name):
        raise OperatorError(f"{name!r:.60} cannot be the name of a secret. {fault} Choose another, such as github.")


def _library() -> ModuleType:
    """Return the library `keyring`, which takes 70 ms to load. Raises OperatorError."""
    try:
        import keyring
    except ImportError:
        raise OperatorError(f"The library `keyring` is not installed. {INSTALL}") from None
    return keyring


def _too_long(library: ModuleType, value: str) -> bool:
    """Tell whether a secret is longer than a credential of Windows may be (CRED_MAX_CREDENTIAL_BLOB_SIZE)."""
    size = len(value.encode("utf-16-le", "surrogatepass"))
    return size > _LONGEST_IN_WINDOWS and type(library.get_keyring()).__module__ == "keyring.backends.Windows"


def _failed(said: str, error: Any) -> OperatorError:
    kind = type(error).__name__
    if kind == "NoKeyringError":
        return OperatorError(f"{said}: no keyring answers on this machine. {NO_KEYRING}")
    if kind in ("KeyringLocked", "InitError"):
        return OperatorError(f"{said}: the keyring is locked, or cannot be opened. Unlock it and try again.")
    return OperatorError(f"{said}: the keyring failed ({kind}). Try `keyring set` by hand, or another keyring.")
