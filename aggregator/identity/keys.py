"""API keys: `agk_<key id>_<secret><checksum>`. Only a salted hash is stored.

The secret has 256 random bits, which cannot be searched, however fast the hash. A slow hash (scrypt, argon2) protects
memorable passwords; here it would only make every request costly and a flood of wrong keys an attack. The salt keeps
equal hashes from revealing equal secrets; the key id in the hash keeps a hash from being moved to another key.
"""

import re
import secrets
from dataclasses import dataclass, field
from hashlib import blake2b
from hmac import compare_digest
from typing import Final
from zlib import crc32

from aggregator.domain.principal import check_agent_id
from aggregator.storage.records import KeyRecord

PREFIX: Final = "agk_"
# Without letters and digits that look or sound alike.
_ID_ALPHABET: Final = "abcdefghijkmnpqrstuvwxyz23456789"
_ID_LENGTH: Final = 10
_BASE62: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_SECRET_LENGTH: Final = 43  # 62**43 > 2**256
_CHECK_LENGTH: Final = 6  # 62**6 > 2**32
_PLACES: Final = tuple(62**place for place in reversed(range(_SECRET_LENGTH)))
_KEY: Final = re.compile(
    rf"({PREFIX}([{_ID_ALPHABET}]{{{_ID_LENGTH}}})_([0-9A-Za-z]{{{_SECRET_LENGTH}}}))([0-9A-Za-z]{{{_CHECK_LENGTH}}})"
)
_HASH: Final = re.compile(r"b2-([0-9a-f]{32})-([0-9a-f]{64})")
_KEY_ID: Final = re.compile(rf"[{_ID_ALPHABET}]{{{_ID_LENGTH}}}")
_PERSON: Final = b"aggregator key 1"


@dataclass(frozen=True, slots=True)
class PresentedKey:
    """A well-formed key from a request."""

    key_id: str
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key that was just made; `text` is the only copy of the secret."""

    record: KeyRecord
    text: str = field(repr=False)


def new_key(agent_id: str, *, now: float, label: str = "", expires: float | None = None) -> NewKey:
    """Return a new key for an agent.

    Raises:
        ValueError: the text cannot be the name of an agent.
    """
    check_agent_id(agent_id)
    key_id = "".join(secrets.choice(_ID_ALPHABET) for _ in range(_ID_LENGTH))
    secret = _base62(secrets.randbits(256), _SECRET_LENGTH)
    body = f"{PREFIX}{key_id}_{secret}"
    record = KeyRecord(key_id, agent_id, hashed(PresentedKey(key_id, secret)), label, created=now, expires=expires)
    return NewKey(record, body + _checksum(body))


def parse_key(text: str) -> PresentedKey | None:
    """Return the parts of a key; None for a malformed or mistyped one. The checksum is public and proves nothing."""
    found = _KEY.fullmatch(text)
    if found is None or _checksum(found[1]) != found[4]:
        return None
    return PresentedKey(found[2], found[3])


def hashed(key: PresentedKey, salt: bytes | None = None) -> str:
    """Return the stored form of a key: `b2-<salt>-<digest>`, in hexadecimal (BLAKE2b, RFC 7693, with its salt
    parameter).
    """
    salt = secrets.token_bytes(16) if salt is None else salt
    digest = blake2b(f"{key.key_id}:{key.secret}".encode(), digest_size=32, salt=salt, person=_PERSON)
    return f"b2-{salt.hex()}-{digest.hexdigest()}"


def matches(key: PresentedKey, kept: str) -> bool:
    """Return whether `kept` is the hash of this key, in constant time."""
    found = _HASH.fullmatch(kept)
    return found is not None and compare_digest(hashed(key, bytes.fromhex(found[1])), kept)


def policy_line(record: KeyRecord) -> str:
    """Return `KEYID:HASH`, as a policy file holds it."""
    return f"{record.key_id}:{record.hash}"


def parse_policy_line(text: str, agent_id: str) -> KeyRecord:
    """Return the key of `KEYID:HASH` in a policy file.

    Raises:
        ValueError: the text is invalid; the message does not repeat it, since it may be a whole key put there by
            mistake.
    """
    key_id, _, kept = text.strip().partition(":")
    if PREFIX in text:
        raise ValueError("This is a key, not a hash: take it out, revoke it, and make a hash with --print-hash.")
    if not _KEY_ID.fullmatch(key_id) or not _HASH.fullmatch(kept):
        raise ValueError("Expected KEYID:HASH, as `aggregator keys new AGENT --print-hash` prints it.")
    return KeyRecord(key_id, agent_id, kept)


def _checksum(body: str) -> str:
    return _base62(crc32(body.encode()), _CHECK_LENGTH)


def _base62(number: int, length: int) -> str:
    return "".join([_BASE62[number // place % 62] for place in _PLACES[-length:]])
