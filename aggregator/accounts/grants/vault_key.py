"""The secret that the vault is encrypted with: configured, or made once beside an SQLite file."""

import logging
import os
import secrets
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from aggregator.domain.ordinary_files import read_ordinary
from aggregator.storage.errors import StorageError

log = logging.getLogger(__name__)

SUFFIX: Final = ".vault-key"
_BYTES: Final = 32
_AT_LEAST: Final = 32
_AT_MOST: Final = 4096


class VaultKeyMissing(StorageError):
    """The lack of a secret to encrypt tokens with."""


def vault_secret(configured: str | None, database: Path | None) -> str:
    """Return the secret. configured: `auth.vault_key`. database: the SQLite file; None for other databases.

    A thread runs this: it reads a file, and creates it if it is missing.

    Raises:
        VaultKeyMissing: there is none, and it cannot be created.
    """
    if configured is not None:
        return configured
    if database is None:
        raise VaultKeyMissing(
            "Tokens are kept encrypted, and with PostgreSQL there is no file for the key: set `auth.vault_key`."
        )
    path = database.with_name(database.name + SUFFIX)
    try:
        return _read(path) if path.exists() else _made(path)
    except OSError as error:
        said = f"{path}, the key that tokens are encrypted with, cannot be used: {error.strerror or error}."
        raise VaultKeyMissing(f"{said} Mend that, or set `auth.vault_key`.") from None


def _read(path: Path) -> str:
    secret = read_ordinary(path, _AT_MOST).decode("ascii", "replace").strip()
    if len(secret) < _AT_LEAST:
        raise VaultKeyMissing(
            f"{path} holds no key of {_AT_LEAST} characters or more. Restore it from where you keep a copy; or delete "
            "it, and every account has to be connected again."
        )
    return secret


def _made(path: Path) -> str:
    """Make the file, whole from the first moment and for this user only; of several processes one does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(secrets.token_hex(_BYTES) + "\n")
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(temporary, path)
            log.warning("tokens are encrypted with the new key in %s: keep a copy, but not beside the database", path)
    finally:
        with suppress(OSError):
            os.unlink(temporary)
    return _read(path)
