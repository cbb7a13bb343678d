"""Signing and checking of hops: requests from one replica to another.

Rule: only a replica of the group can make a hop, for one other replica, one request and one moment, once. The signed
part names the caller; the receiving replica still decides whether to admit that caller.
"""

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from aggregator.replicas.group.clock import GroupClock
from aggregator.replicas.group.shared_key import SharedKey
from aggregator.wire.codec import decode, encode

HEADER: Final = "aggregator-hop"
# Seconds before and after its time, by the group clock, in which a signature is good.
GOOD_FOR: Final = 30.0
_USED_AT_MOST: Final = 200_000
_SIGNATURE_BYTES: Final = 32


class HopRefused(Exception):
    """A request that is no hop of this group, is for another replica, or came before; the text says which."""


@dataclass(frozen=True, slots=True)
class Hop:
    """A request with a checked head. `origin` is the replica that sent it, `claims` its signed claims, `digest` that of
    its body.
    """

    origin: str
    claims: Mapping[str, Any]
    digest: str

    def fits(self, body: bytes) -> bool:
        """Return whether this is the body that was signed."""
        return hmac.compare_digest(self.digest, hashlib.sha256(body).hexdigest())


class HopSigner:
    """The signatures of one replica, whose id in the group is `me`."""

    def __init__(self, me: str, key: SharedKey, clock: GroupClock) -> None:
        self._me = me
        self._key = key
        self._clock = clock
        self._used: dict[str, float] = {}

    def sign(self, target: str, method: str, path: str, body: bytes, claims: Mapping[str, Any]) -> str:
        """Return the value of the header `HEADER` for one request to the replica `target`."""
        stated = {
            "from": self._me,
            "to": target,
            "at": self._clock.now(),
            "nonce": secrets.token_urlsafe(12),
            "request": f"{method} {path}",
            "body": hashlib.sha256(body).hexdigest(),
            "claims": dict(claims),
        }
        text = encode(stated)
        signature = hmac.digest(self._key.derive("hops"), text, hashlib.sha256)
        return base64.urlsafe_b64encode(signature + text).decode()

    def check(self, header: str | None, method: str, path: str) -> Hop:
        """Check the head of a request and return its hop; `path` includes the query. The body must fit that hop.

        Raises:
            HopRefused: no replica of this group sent it to this one, or it came before.
        """
        stated = self._stated(header)
        now = self._clock.now()
        if stated["to"] != self._me:
            raise HopRefused("it is for another replica")
        if stated["request"] != f"{method} {path}":
            raise HopRefused("it was changed on its way")
        if abs(stated["at"] - now) > GOOD_FOR:
            raise HopRefused("it is too old, or the clocks differ")
        if stated["nonce"] in self._used:
            raise HopRefused("it was here before")
        self._remember(stated["nonce"], now)
        return Hop(stated["from"], stated["claims"], stated["body"])

    def _stated(self, header: str | None) -> dict[str, Any]:
        """Return the statement of a header with a good signature."""
        try:
            raw = base64.urlsafe_b64decode((header or "").encode())
        except (binascii.Error, ValueError):
            raw = b""
        signature, text = raw[:_SIGNATURE_BYTES], raw[_SIGNATURE_BYTES:]
        good = [hmac.digest(key, text, hashlib.sha256) for key in self._key.derive_all("hops")]
        if not text or not any(hmac.compare_digest(signature, one) for one in good):
            raise HopRefused("it is not signed with the key of this group")
        stated: dict[str, Any] = decode(text)
        return stated

    def _remember(self, nonce: str, now: float) -> None:
        if len(self._used) >= _USED_AT_MOST:
            # Both bounds of `GOOD_FOR`: an older signature is refused by its time.
            self._used = {one: at for one, at in self._used.items() if at > now - 2 * GOOD_FOR}
            if len(self._used) >= _USED_AT_MOST:
                raise HopRefused("too many came at once")
        self._used[nonce] = now
