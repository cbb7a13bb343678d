"""Sealing: the secret part of a vault row is encrypted for that row alone (AES-256-GCM)."""

import base64
import binascii
import json
import os
from collections.abc import Mapping
from typing import Any, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

_KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12
_ID_BYTES: Final = 8
_FOR_ROWS: Final = b"aggregator vault 1: rows"
_FOR_ID: Final = b"aggregator vault 1: id"


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
