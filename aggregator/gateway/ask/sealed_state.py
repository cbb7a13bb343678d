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

_USED_LIMIT: Final = 100_000
_SIGNATURE_BYTES: Final = 32


class StateSealer:
    """The sealing of states with a key of this process; `now` is seconds on the caller's monotonic clock.

    `kind` stands before what it seals: by that states of other kinds are told apart, not trusted.
    """

    def __init__(self, kind: str = "state") -> None:
        self._prefix = f"{kind}."
        self._key = secrets.token_bytes(32)
        self._used: dict[str, float] = {}

    def claims(self, sealed: Any) -> bool:
        """Return whether a text claims to be sealed here, true or not."""
        return isinstance(sealed, str) and sealed.startswith(self._prefix)

    def seal(self, state: Mapping[str, Any], expires: float) -> str:
        """Return an opaque text that `open` takes once, until `expires`."""
        body = encode({**state, "nonce": secrets.token_urlsafe(12), "expires": expires})
        return self._prefix + base64.urlsafe_b64encode(self._sign(body) + body).decode()

    def open(self, sealed: Any, now: float, bound: Mapping[str, Any] | None = None) -> Mapping[str, Any] | None:
        """Return the sealed state, or None: not ours, changed, expired, opened before, or not `bound` to all of this.

        A host that brings the state of another does not use it up.
        """
        if not isinstance(sealed, str) or not sealed.startswith(self._prefix):
            return None
        try:
            written = sealed[len(self._prefix) :].encode()
            raw = base64.urlsafe_b64decode(written)
        except (binascii.Error, ValueError):
            return None
        # Base64 can be written in other ways that read the same; only ours counts.
        if base64.urlsafe_b64encode(raw) != written:
            return None
        signature, body = raw[:_SIGNATURE_BYTES], raw[_SIGNATURE_BYTES:]
        if not hmac.compare_digest(signature, self._sign(body)):
            return None
        state: dict[str, Any] = decode(body)
        if state["expires"] < now or state["nonce"] in self._used:
            return None
        if bound is not None and any(state.get(key) != value for key, value in bound.items()):
            return None
        self._prune_used(now)
        self._used[state["nonce"]] = state["expires"]
        return state

    def _sign(self, body: bytes) -> bytes:
        return hmac.digest(self._key, body, hashlib.sha256)

    def _prune_used(self, now: float) -> None:
        if len(self._used) < _USED_LIMIT:
            return
        self._used = {nonce: expires for nonce, expires in self._used.items() if expires >= now}
        if len(self._used) >= _USED_LIMIT:
            # A new key makes every older seal worthless, so none of them has to be remembered.
            self._key = secrets.token_bytes(32)
            self._used.clear()
