"""Throttling of wrong keys: after a few, the sender has to wait, longer each time.

Rule 1: only wrong keys are throttled. The key is checked first, so that a valid key cannot be kept out by failures from
its address or under its id. Rule 2: one guess costs one look-up and one hash, and the memory used is bounded.
"""

import ipaddress
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from aggregator.domain.bounds.lru import LruCache

# Failures without a wait: a user may paste the wrong key.
FREE: Final = 5
LONGEST: Final = 60.0
# Seconds without a failure after which a peer is forgotten.
FORGET: Final = 900.0
ENTRIES: Final = 10_000


@dataclass(slots=True)
class _Failures:
    """The wrong keys of one peer."""

    count: int
    last: float
    until: float = 0.0


class Throttle:
    """The wrong keys of at most `entries` peers; the peer that failed longest ago is forgotten first."""

    def __init__(self, entries: int = ENTRIES) -> None:
        self._peers: LruCache[str, _Failures] = LruCache(entries)

    def __repr__(self) -> str:
        return f"<Throttle {len(self._peers)} peers have failed>"

    def failed(self, peer: str | None, now: float) -> float:
        """Count a wrong key; return the seconds until the peer may try again, 0.0 if it need not wait.

        Failures during the wait do not make it longer.
        """
        entry = self._of(peer_group(peer), now)
        left = entry.until - now
        # More than the longest wait: the clock was set back.
        if 0.0 < left <= LONGEST:
            return left
        entry.count += 1
        entry.last = now
        over = entry.count - FREE
        if over <= 0:
            return 0.0
        wait = min(2.0 ** min(over - 1, 30), LONGEST)
        entry.until = now + wait
        return wait

    def waits(self, peer: str | None, now: float) -> bool:
        """Tell whether the peer still has to wait. Nothing is counted."""
        entry = self._peers.peek(peer_group(peer))
        return entry is not None and 0.0 < entry.until - now <= LONGEST

    def _of(self, group: str, now: float) -> _Failures:
        entry = self._peers.get(group)
        if entry is None or not 0.0 <= now - entry.last <= FORGET:
            entry = _Failures(0, now)
            self._peers.put(group, entry)
        return entry


@lru_cache(maxsize=1024)
def peer_group(peer: str | None) -> str:
    """Return the unit that counts as one peer: an IPv4 address, or a /64 network of IPv6, which one host controls."""
    try:
        address = ipaddress.ip_address((peer or "").partition("%")[0])
    except ValueError:
        return peer or ""
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((address, 64), strict=False).network_address)
