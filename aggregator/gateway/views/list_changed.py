"""Telling hosts that one of their lists changed: once for a burst of changes, and only those whose own list did."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

from aggregator.domain.bounds.tasks import Tasks
from aggregator.gateway.host import Host

# Servers tend to come up together: one notification for all of them.
COALESCE: Final = 0.1

ListKind = Literal["tools", "prompts", "resources"]
LIST_KINDS: Final[tuple[ListKind, ...]] = ("tools", "prompts", "resources")

Seen = Mapping[ListKind, object]
"""The lists as a host sees them: whatever differs when one of them does."""


class ListSnapshot(Protocol):
    """What hosts are shown; `seen_by` may take long unless `is_ready`, which `prepare` sees to."""

    def is_ready(self, host: Host) -> bool: ...
    async def prepare(self, host: Host) -> None: ...
    def seen_by(self, host: Host) -> Seen: ...


def notification(kind: ListKind) -> str:
    """The method by which a host is told."""
    return f"notifications/{kind}/list_changed"


@dataclass(slots=True, eq=False)
class _Listener:
    """One who is told of these `kinds`: `seen` is each list as it was when it was last told of or last asked for; one
    that is not there has not been worked out for this host yet."""

    host: Host
    tell: Callable[[ListKind], None]
    kinds: Collection[ListKind]
    seen: dict[ListKind, object] = field(default_factory=dict)

    def look(self, now: Seen) -> None:
        """Tell of what differs from before."""
        for kind in self.kinds:
            if kind in now:
                before = self.seen.get(kind, now[kind])
                self.seen[kind] = now[kind]
                if now[kind] != before:
                    self.tell(kind)


class ListChanges:
    """Handshake-era hosts hear on their session, 2026-07-28 ones on the `subscriptions/listen` they opened.

    `left` hears of every host that is gone.
    """

    def __init__(self, lists: ListSnapshot, left: Callable[[Host], None] = lambda host: None) -> None:
        self._lists = lists
        self._left = left
        self._hosts: dict[Host, _Listener] = {}
        self._streams: set[_Listener] = set()
        self._closing = asyncio.Event()
        self._pending: asyncio.TimerHandle | None = None
        self._tasks = Tasks("the news of changes")
        self._telling: asyncio.Task[None] | None = None

    def attach(self, host: Host) -> None:
        """From now on `host` is told, once it has finished its handshake."""

        def tell(kind: ListKind) -> None:
            if host.initialized and host.notify is not None:
                host.notify(notification(kind), {})

        self._hosts[host] = _Listener(host, tell, LIST_KINDS)
        self._see(self._hosts[host])

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
            listener.seen.clear()
            self._see(listener)

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
        if self._telling is not None:
            self._telling.cancel()

    async def closed(self) -> None:
        """Wait for that."""
        await self._closing.wait()

    @contextmanager
    def listening(self, host: Host, kinds: Iterable[ListKind], tell: Callable[[ListKind], None]) -> Iterator[None]:
        """`tell` hears of changes of these lists inside."""
        listener = _Listener(host, tell, tuple(kinds))
        self._see(listener)
        self._streams.add(listener)
        try:
            yield
        finally:
            self._streams.discard(listener)

    def _see(self, listener: _Listener) -> None:
        """Note what a host is shown now; where that takes a while, with the next news."""
        if not self._look(listener):
            self.announce()

    def _tell(self) -> None:
        """Tell everybody: one round after the other, and those at once for whom it takes but a moment."""
        self._pending = None
        if self._telling is not None and not self._telling.done():
            self.announce()
            return
        late = [listener for listener in self._listeners() if not self._look(listener)]
        if late:
            self._telling = self._tasks.start(self._tell_late(late))

    async def _tell_late(self, listeners: Iterable[_Listener]) -> None:
        for listener in listeners:
            await self._lists.prepare(listener.host)
            if listener in self._listeners():
                self._look(listener)

    def _look(self, listener: _Listener) -> bool:
        ready = self._lists.is_ready(listener.host)
        if ready:
            listener.look(self._lists.seen_by(listener.host))
        return ready

    def _listeners(self) -> list[_Listener]:
        return [*self._hosts.values(), *self._streams]
