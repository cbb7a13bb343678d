"""State that travels through a host and comes back: signed, bound to its bearer, short-lived, used once.

A host counts as an attacker here (S/basic/patterns/mrtr): only values signed with the key of the group, which all
replicas share, are trusted. Each counts once, over all replicas and across restarts. Rule: if the database cannot tell
whether a state was used, another replica may have used it; it is refused here.
"""

import asyncio
import base64
import binascii
import hashlib
import hmac
import logging
import secrets
from collections.abc import Mapping
from typing import Any, Final

from aggregator.replicas.group.replication import Replication
from aggregator.storage.errors import StorageError
from aggregator.wire.codec import decode, encode

log = logging.getLogger(__name__)

_SIGNATURE_BYTES: Final = 32
# States remembered here; beyond that, all states made so far become invalid.
USED_AT_MOST: Final = 100_000
# Seconds that an answer waits for the database.
_PATIENCE: Final = 2.0


class NotKnown(Exception):
    """The database cannot say now whether a state was used."""


class UsedOnce:
    """The states used at this replica, and those of all replicas in the database."""

    def __init__(self, group: Replication) -> None:
        self._group = group
        self._used: dict[str, float] = {}
        self._unwritten: dict[str, float] = {}
        self._since = 0.0

    def __repr__(self) -> str:
        return f"<UsedOnce {len(self._used)} states>"

    def __len__(self) -> int:
        return len(self._used)

    def use_here(self, nonce: str, expires: float, made: float, now: float) -> bool:
        """Return whether a state that no other replica can use is used for the first time."""
        self._make_room(now)
        if nonce in self._used or made <= self._since:
            return False
        self._used[nonce] = expires
        return True

    async def use(self, nonce: str, expires: float, made: float, now: float, *, here: bool) -> bool:
        """Use a state; return whether this is its first use. Times are by the group's clock.

        `here`: it was made by this process.

        Raises:
            NotKnown: the database cannot tell now.
        """
        if not self.use_here(nonce, expires, made, now):
            return False
        group = self._group
        if not group.stored:
            return True
        try:
            async with asyncio.timeout(_PATIENCE):
                states = (await group.database()).used_states
                first = await states.use(nonce, expires, now)
                await self._write_rest(now)
        except (StorageError, TimeoutError) as error:
            if here and not group.enabled:
                # No other process can have used it. It is written later, for the one that runs after a restart.
                self._unwritten[nonce] = expires
                return True
            del self._used[nonce]
            raise NotKnown from error
        return first

    async def _write_rest(self, now: float) -> None:
        assert self._group is not None, "only a group with a database has used states to write"
        states = (await self._group.database()).used_states
        while self._unwritten:
            nonce, expires = self._unwritten.popitem()
            if expires > now:
                await states.use(nonce, expires, now)

    def _make_room(self, now: float) -> None:
        if len(self._used) < USED_AT_MOST:
            return
        self._used = {nonce: expires for nonce, expires in self._used.items() if expires >= now}
        if len(self._used) >= USED_AT_MOST:
            # Older states are refused from now on, so that none of them has to be remembered.
            self._since = now
            self._used.clear()


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
