"""Wrong keys are answered more and more shortly: after a few, a peer is told to wait instead of what is wrong.

Rule 1: only what is wrong is slowed. A key is looked at before anything here is asked, so that nobody can keep a valid
one out, whatever else comes from its address or under its id.
Rule 2: one guess costs one look-up and one hash, and what is remembered has a bound.
"""

import ipaddress
from collections import OrderedDict
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

# Failures that cost nothing: a person pasting the wrong key.
FREE: Final = 5
LONGEST: Final = 60.0
# Without a failure for this long all is forgotten.
FORGET: Final = 900.0
ENTRIES: Final = 10_000


@dataclass(slots=True)
class _Failures:
    count: int
    last: float
    until: float = 0.0


class Throttle:
    """What is remembered of wrong keys: of at most `entries` peers, the one that failed longest ago forgotten first."""

    def __init__(self, entries: int = ENTRIES) -> None:
        self._entries = entries
        self._peers: OrderedDict[str, _Failures] = OrderedDict()

    def __repr__(self) -> str:
        return f"<Throttle {len(self._peers)} peers have failed>"

    def failed(self, peer: str | None, now: float) -> float:
        """Note a wrong key; returns how many seconds the peer is to wait with the next one, 0.0 if it was free.

        What comes before that time is over makes it no longer.
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

    def _of(self, group: str, now: float) -> _Failures:
        entry = self._peers.get(group)
        if entry is None or not 0.0 <= now - entry.last <= FORGET:
            entry = self._peers[group] = _Failures(0, now)
        self._peers.move_to_end(group)
        if len(self._peers) > self._entries:
            self._peers.popitem(last=False)
        return entry


@lru_cache(maxsize=1024)
def peer_group(peer: str | None) -> str:
    """Who counts as one peer: an IPv4 address, or an IPv6 network of 64 bits, for a host commands a whole one."""
    try:
        address = ipaddress.ip_address((peer or "").partition("%")[0])
    except ValueError:
        return peer or ""
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((address, 64), strict=False).network_address)
