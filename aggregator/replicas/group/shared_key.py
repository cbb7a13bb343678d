"""The key that the replicas of a group share, and the keys for single purposes derived from it."""

import hashlib
import hmac
import secrets
from typing import Final, Literal

Purpose = Literal["sessions", "states", "hops"]
_BYTES: Final = 32


class SharedKey:
    """The secret of the group; until `use`, a secret of this process alone.

    Data sealed with the key of this process stays readable in it, since `derive_all` returns both keys.
    """

    def __init__(self) -> None:
        self._own = secrets.token_bytes(_BYTES)
        self._shared: bytes | None = None

    def __repr__(self) -> str:
        return f"<SharedKey {'of the group' if self._shared is not None else 'of this process'}>"

    def use(self, secret: str) -> None:
        """Take over the secret of the group."""
        self._shared = hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()

    def derive(self, purpose: Purpose) -> bytes:
        """Return the key to seal or sign with for one purpose: 32 bytes."""
        return _derived(self._shared or self._own, purpose)

    def derive_all(self, purpose: Purpose) -> tuple[bytes, ...]:
        """Return the keys to open and verify with, the group's first."""
        keys = (self._shared, self._own) if self._shared is not None else (self._own,)
        return tuple(_derived(key, purpose) for key in keys)


def _derived(key: bytes, purpose: Purpose) -> bytes:
    return hmac.digest(key, f"aggregator {purpose}".encode(), hashlib.sha256)
