"""Sealing of kept results: AES-256-GCM in parts, with a key derived from the handle and the owner.

Law: each handle has its own key, so that the number of a part can be its nonce.
"""

from collections.abc import Sequence
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

PART_BYTES: Final = 256 * 1024
_KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12
_PURPOSE: Final = b"aggregator kept result 1"


class KeptResultDamaged(Exception):
    """The parts are not those that were sealed with this handle for this owner."""


def seal(handle: str, owner: str, data: bytes) -> list[bytes]:
    """Return a result in sealed parts, at least one. `owner` is in hexadecimal."""
    key, count = _key(handle, owner), max(1, -(-len(data) // PART_BYTES))
    parts = (data[number * PART_BYTES : (number + 1) * PART_BYTES] for number in range(count))
    return [key.encrypt(_nonce(number), part, _place(number, count)) for number, part in enumerate(parts)]


def unseal(handle: str, owner: str, parts: Sequence[bytes]) -> bytes:
    """Return the result that was sealed in these parts.

    Raises:
        KeptResultDamaged: it was not, or not in this order, or one is missing.
    """
    key, count = _key(handle, owner), len(parts)
    try:
        return b"".join(key.decrypt(_nonce(number), part, _place(number, count)) for number, part in enumerate(parts))
    except InvalidTag:
        raise KeptResultDamaged from None


def _key(handle: str, owner: str) -> AESGCM:
    return AESGCM(HKDF(SHA256(), _KEY_BYTES, bytes.fromhex(owner), _PURPOSE).derive(handle.encode()))


def _nonce(number: int) -> bytes:
    return number.to_bytes(_NONCE_BYTES, "big")


def _place(number: int, count: int) -> bytes:
    return b"part %d of %d" % (number, count)
