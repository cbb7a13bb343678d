"""Telling hosts that one of their lists changed: once for a burst of changes, and only those whose own list did."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Literal

from aggregator.gateway.host import Host

# Servers tend to come up together: one notification for all of them.
COALESCE: Final = 0.1

ListKind = Literal["tools", "prompts", "resources"]
LIST_KINDS: Final[tuple[ListKind, ...]] = ("tools", "prompts", "resources")

Seen = Mapping[ListKind, object]
"""The lists as a host sees them: whatever differs when one of them does."""


def notification(kind: ListKind) -> str:
    """The method by which a host is told."""
    return f"notifications/{kind}/list_changed"


@dataclass(slots=True, eq=False)
class _Listener:
    """One who is told: `seen` is each list as it was when it was last told of or last asked for."""

    host: Host
    tell: Callable[[ListKind], None]
    seen: dict[ListKind, object]


class Changes:
    """Handshake-era hosts hear on their session, 2026-07-28 ones on the `subscriptions/listen` they opened.

    `left` hears of every host that is gone.
    """

    def __init__(self, seen_by: Callable[[Host], Seen], left: Callable[[Host], None] = lambda host: None) -> None:
        self._seen_by = seen_by
        self._left = left
        self._hosts: dict[Host, _Listener] = {}
        self._streams: set[_Listener] = set()
        self._closing = asyncio.Event()
        self._pending: asyncio.TimerHandle | None = None

    def attach(self, host: Host) -> None:
        """From now on `host` is told, once it has finished its handshake."""

        def tell(kind: ListKind) -> None:
            if host.initialized and host.notify is not None:
                host.notify(notification(kind), {})

        self._hosts[host] = _Listener(host, tell, dict(self._seen_by(host)))

    def detach(self, host: Host) -> None:
        self._hosts.pop(host, None)
        self._left(host)

    def told(self, host: Host, kind: ListKind, seen: object) -> None:
        """`host` has just been given this list."""
        listener = self._hosts.get(host)
        if listener is not None:
            listener.seen[kind] = seen

    def refresh(self, host: Host) -> None:
        """What `host` would be shown differs for a reason of its own: that is no change to tell it of."""
        listener = self._hosts.get(host)
        if listener is not None:
            listener.seen = dict(self._seen_by(host))

    def sessions(self) -> dict[str, int]:
        """How many hosts have one, by door."""
        return Counter(host.door for host in self._hosts)

    def announce(self) -> None:
        """Something changed that lists depend on."""
        if self._pending is None and not self._closing.is_set():
            self._pending = asyncio.get_running_loop().call_later(COALESCE, self._tell)

    def close(self) -> None:
        """End every open stream gracefully."""
        self._closing.set()
        if self._pending is not None:
            self._pending.cancel()

    async def closed(self) -> None:
        """Wait for that."""
        await self._closing.wait()

    @contextmanager
    def listening(self, host: Host, kinds: Iterable[ListKind], tell: Callable[[ListKind], None]) -> Iterator[None]:
        """`tell` hears of changes of these lists inside."""
        seen = self._seen_by(host)
        listener = _Listener(host, tell, {kind: seen[kind] for kind in kinds})
        self._streams.add(listener)
        try:
            yield
        finally:
            self._streams.discard(listener)

    def _tell(self) -> None:
        self._pending = None
        for listener in [*self._hosts.values(), *self._streams]:
            now = self._seen_by(listener.host)
            for kind, before in list(listener.seen.items()):
                if now[kind] != before:
                    listener.seen[kind] = now[kind]
                    listener.tell(kind)
