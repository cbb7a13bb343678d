"""State that travels through a host and comes back: signed, bound to its bearer, short-lived, used once.

A host counts as an attacker here (S/basic/patterns/mrtr): only values signed with the key of the group, which all
replicas share, are trusted.
"""

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from typing import Any, Final

from aggregator.gateway.ask.used_once import UsedOnce
from aggregator.replicas.group.replication import Replication
from aggregator.wire.codec import decode, encode

_SIGNATURE_BYTES: Final = 32


class StateSealer:
    """The sealing of states with the key of the group.

    `kind` precedes the sealed value: it distinguishes kinds of states, and is not trusted.
    """

    def __init__(self, kind: str, group: Replication) -> None:
        self._prefix = f"{kind}."
        self._key = group.key
        self._clock = group.clock
        self._used = UsedOnce(group)
        self.me = group.membership.id

    def claims(self, sealed: Any) -> bool:
        """Return whether a text claims to be sealed here, true or not."""
        return isinstance(sealed, str) and sealed.startswith(self._prefix)

    def seal(self, state: Mapping[str, Any], lifetime: float) -> str:
        """Return an opaque text that `open` takes once, for `lifetime` seconds."""
        now = self._clock.now()
        own = {"nonce": secrets.token_urlsafe(12), "made": now, "expires": now + lifetime, "by": self.me}
        body = encode({**state, **own})
        return self._prefix + base64.urlsafe_b64encode(self._sign(self._key.derive("states"), body) + body).decode()

    def peek(self, sealed: Any) -> Mapping[str, Any] | None:
        """Return the sealed state without using it; None: not ours, or changed. `by` is the replica that sealed it."""
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
        good = [self._sign(key, body) for key in self._key.derive_all("states")]
        if not any(hmac.compare_digest(signature, one) for one in good):
            return None
        state: dict[str, Any] = decode(body)
        return state

    async def open(
        self, sealed: Any, bound: Mapping[str, Any] | None = None, *, at_its_maker: bool = False
    ) -> Mapping[str, Any] | None:
        """Return the sealed state, or None: not ours, changed, expired, opened before, or not `bound` to all of this.

        A host that brings the state of another does not use it up. `at_its_maker`: a state that only the replica that
        made it takes.

        Raises:
            NotKnown: the database cannot say now whether it was opened before.
        """
        state = self.peek(sealed)
        now = self._clock.now()
        if state is None or state["expires"] < now:
            return None
        if bound is not None and any(state.get(key) != value for key, value in bound.items()):
            return None
        nonce, expires, made = state["nonce"], state["expires"], state["made"]
        here = state["by"] == self.me
        if at_its_maker:
            return state if here and self._used.use_here(nonce, expires, made, now) else None
        return state if await self._used.use(nonce, expires, made, now, here=here) else None

    def _sign(self, key: bytes, body: bytes) -> bytes:
        return hmac.digest(key, self._prefix.encode() + body, hashlib.sha256)
