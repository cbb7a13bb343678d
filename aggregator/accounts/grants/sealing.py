"""Sealing: the secret part of a vault row is encrypted for that row alone (AES-256-GCM).

The secret that the keys come from is configured, or made once beside an SQLite file.
"""

import base64
import binascii
import json
import logging
import os
import secrets
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from aggregator.domain.ordinary_files import read_ordinary
from aggregator.storage.errors import StorageError

log = logging.getLogger(__name__)

_KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12
_ID_BYTES: Final = 8
_FOR_ROWS: Final = b"aggregator vault 1: rows"
_FOR_ID: Final = b"aggregator vault 1: id"
SUFFIX: Final = ".vault-key"
_SECRET_BYTES: Final = 32
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
            file.write(secrets.token_hex(_SECRET_BYTES) + "\n")
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(temporary, path)
            log.warning("tokens are encrypted with the new key in %s: keep a copy, but not beside the database", path)
    finally:
        with suppress(OSError):
            os.unlink(temporary)
    return _read(path)


class SealBroken(Exception):
    """A sealed value cannot be opened: it was sealed with another key or for another row, or it is damaged."""


class Sealer:
    """The key of the vault. `key_id` names it; nothing can be learned of the key from that."""

    def __init__(self, secret: str) -> None:
        self._key = AESGCM(_derived(secret, _FOR_ROWS, _KEY_BYTES))
        self.key_id = _derived(secret, _FOR_ID, _ID_BYTES).hex()

    def __repr__(self) -> str:
        return f"<Sealer {self.key_id}>"

    def seal(self, table: str, row: str, value: Mapping[str, Any]) -> str:
        """Return a value encrypted for one row."""
        nonce = os.urandom(_NONCE_BYTES)
        text = json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode()
        return base64.b64encode(nonce + self._key.encrypt(nonce, text, _place(table, row))).decode()

    def open(self, table: str, row: str, key_id: str, sealed: str) -> dict[str, Any]:
        """Return the value that was sealed for a row.

        Raises:
            SealBroken: it cannot be opened.
        """
        if key_id != self.key_id:
            raise SealBroken("it was sealed with another key")
        try:
            whole = base64.b64decode(sealed, validate=True)
            text = self._key.decrypt(whole[:_NONCE_BYTES], whole[_NONCE_BYTES:], _place(table, row))
            value = json.loads(text)
        except (InvalidTag, binascii.Error, ValueError):
            raise SealBroken("it is damaged, or was sealed for another row") from None
        if not isinstance(value, dict):
            raise SealBroken("it is damaged")
        return value


def _derived(secret: str, purpose: bytes, size: int) -> bytes:
    return HKDF(SHA256(), size, None, purpose).derive(secret.encode())


def _place(table: str, row: str) -> bytes:
    return json.dumps([table, row], ensure_ascii=True).encode()
