"""State that travels through a host and comes back: signed, bound to who may bring it, short-lived, used once.

A host must be taken for an attacker here (S/basic/patterns/mrtr): nothing is believed that we did not sign.
"""

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from typing import Any, Final

from aggregator.wire.codec import decode, encode

_USED_LIMIT: Final = 10_000
_SIGNATURE_BYTES: Final = 32


class Sealer:
    """Seals and opens with a key of this process; `now` is seconds on the caller's monotonic clock."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._used: dict[str, float] = {}

    def seal(self, state: Mapping[str, Any], expires: float) -> str:
        """An opaque text that `open` takes once, until `expires`."""
        body = encode({**state, "nonce": secrets.token_urlsafe(12), "expires": expires})
        return base64.urlsafe_b64encode(self._sign(body) + body).decode()

    def open(self, sealed: Any, now: float) -> Mapping[str, Any] | None:
        """What was sealed, or None: not ours, changed, expired, or opened before."""
        if not isinstance(sealed, str):
            return None
        try:
            raw = base64.urlsafe_b64decode(sealed.encode())
        except (binascii.Error, ValueError):
            return None
        signature, body = raw[:_SIGNATURE_BYTES], raw[_SIGNATURE_BYTES:]
        if not hmac.compare_digest(signature, self._sign(body)):
            return None
        state: dict[str, Any] = decode(body)
        if state["expires"] < now or state["nonce"] in self._used:
            return None
        self._make_room(now)
        self._used[state["nonce"]] = state["expires"]
        return state

    def _sign(self, body: bytes) -> bytes:
        return hmac.digest(self._key, body, hashlib.sha256)

    def _make_room(self, now: float) -> None:
        if len(self._used) < _USED_LIMIT:
            return
        self._used = {nonce: expires for nonce, expires in self._used.items() if expires >= now}
        if len(self._used) >= _USED_LIMIT:
            # A new key makes every older seal worthless, so none of them has to be remembered.
            self._key = secrets.token_bytes(32)
            self._used.clear()
