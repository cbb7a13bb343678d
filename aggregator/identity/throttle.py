"""Guessing is slowed: a peer that failed a few times waits, longer each time.

Rule 1: only a peer's own failures make it wait. No one can lock a valid key out from another address.
Rule 2: a key that a peer has used with success goes on working from there while others behind the same address fail;
only failures with that very key make it wait, and then briefly.
"""

import ipaddress
from collections import OrderedDict
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeVar

# Failures that cost nothing: a person pasting the wrong key.
FREE: Final = 5
# Once a key id has failed this often from wherever, the next peer that fails with it gets no more free tries.
SUSPICIOUS: Final = 20
LONGEST: Final = 60.0
LONGEST_KNOWN: Final = 2.0
# Without a failure for this long all is forgotten.
FORGET: Final = 900.0
ENTRIES: Final = 10_000

T = TypeVar("T")


@dataclass(slots=True)
class _Failures:
    count: int
    last: float
    until: float = 0.0


class Throttle:
    """What is remembered of failed attempts: at most `entries` peers, key ids and pairs each, the oldest forgotten."""

    def __init__(self, entries: int = ENTRIES) -> None:
        self._entries = entries
        self._peers: OrderedDict[str, _Failures] = OrderedDict()
        self._key_ids: OrderedDict[str, _Failures] = OrderedDict()
        # Keys that have worked from a peer, with what failed since under the same id.
        self._known: OrderedDict[tuple[str, str], _Failures] = OrderedDict()

    def __repr__(self) -> str:
        return f"<Throttle {len(self._peers)} peers have failed>"

    def wait(self, peer: str | None, key_id: str | None, now: float) -> float:
        """How many seconds this peer has to wait before its next attempt is looked at; 0.0 to look at it."""
        group = peer_group(peer)
        if key_id is not None and (known := self._known.get((group, key_id))) is not None:
            return _left(known, now, LONGEST_KNOWN)
        failures = self._peers.get(group)
        return _left(failures, now, LONGEST) if failures is not None else 0.0

    def failed(self, peer: str | None, key_id: str | None, now: float) -> None:
        """A key was wrong, or none at all."""
        group = peer_group(peer)
        free = FREE
        if key_id is not None:
            if (known := self._known.get((group, key_id))) is not None:
                _count(known, now, FREE, LONGEST_KNOWN)
                return
            everywhere = self._of(self._key_ids, key_id, now)
            _count(everywhere, now, FREE, 0.0)
            free = 0 if everywhere.count > SUSPICIOUS else FREE
        _count(self._of(self._peers, group, now), now, free, LONGEST)

    def succeeded(self, peer: str | None, key_id: str, now: float) -> None:
        """A key was right. It clears the key's own failures here, not those of others behind the same address."""
        pair = (peer_group(peer), key_id)
        if pair not in self._known or self._known[pair].count:
            self._of(self._known, pair, now).count = 0
        else:
            self._known.move_to_end(pair)

    def _of(self, table: "OrderedDict[T, _Failures]", key: T, now: float) -> _Failures:
        entry = table.get(key)
        if entry is None or not 0.0 <= now - entry.last <= FORGET:
            entry = table[key] = _Failures(0, now)
        table.move_to_end(key)
        if len(table) > self._entries:
            table.popitem(last=False)
        return entry


def _count(entry: _Failures, now: float, free: int, longest: float) -> None:
    entry.count += 1
    entry.last = now
    over = entry.count - free
    entry.until = now + min(2.0 ** min(over - 1, 30), longest) if over > 0 else 0.0


def _left(entry: _Failures, now: float, longest: float) -> float:
    left = entry.until - now
    # More than the longest wait: the clock was set back.
    return left if 0.0 < left <= longest else 0.0


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
