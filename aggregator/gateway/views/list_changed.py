"""Notifications `list_changed`: one for a burst of changes, and only to hosts whose own list changed."""

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

from aggregator.domain.bounds.tasks import Tasks
from aggregator.gateway.host import Host

# Seconds. Servers tend to come up together: one notification covers all of them.
COALESCE: Final = 0.1

ListKind = Literal["tools", "prompts", "resources"]
LIST_KINDS: Final[tuple[ListKind, ...]] = ("tools", "prompts", "resources")

Seen = Mapping[ListKind, object]
"""The lists as a host sees them: whatever differs when one of them does."""


class ListSnapshot(Protocol):
    """The lists of hosts. `lists_of` may take long unless `is_ready`; `prepare` makes it so."""

    def is_ready(self, host: Host) -> bool: ...
    async def prepare(self, host: Host) -> None: ...
    def lists_of(self, host: Host) -> Seen: ...


def notification(kind: ListKind) -> str:
    """Return the method of the notification about one kind of list."""
    return f"notifications/{kind}/list_changed"


class NotifyListChanged(Protocol):
    """The notification that a list of one kind changed."""

    def __call__(self, kind: ListKind, /) -> None: ...


@dataclass(slots=True, eq=False)
class _Listener:
    """A host or stream to be notified about `kinds`. `seen` holds each list as it was last notified or requested; a
    missing one has not been worked out for this host yet.
    """

    host: Host
    notify: NotifyListChanged
    kinds: Collection[ListKind]
    seen: dict[ListKind, object] = field(default_factory=dict)

    def compare(self, now: Seen) -> None:
        """Notify about each list that differs from the one seen before."""
        for kind in self.kinds:
            if kind in now:
                before = self.seen.get(kind, now[kind])
                self.seen[kind] = now[kind]
                if now[kind] != before:
                    self.notify(kind)


class HostObserver(Protocol):
    """A part that keeps state for hosts."""

    def host_left(self, host: Host) -> None:
        """End what belongs to a host whose session is over."""


class ListChanges:
    """The listeners: handshake-era hosts by session, hosts of 2026-07-28 by their `subscriptions/listen` stream."""

    def __init__(self, lists: ListSnapshot, observer: HostObserver | None = None) -> None:
        self._lists = lists
        self._observer = observer
        self._hosts: dict[Host, _Listener] = {}
        self._streams: set[_Listener] = set()
        self._closing = asyncio.Event()
        self._pending: asyncio.TimerHandle | None = None
        self._tasks = Tasks("the news of changes")
        self._notifying: asyncio.Task[None] | None = None

    def attach(self, host: Host) -> None:
        """Notify `host` from now on, once it has finished its handshake."""

        def notify(kind: ListKind) -> None:
            if host.initialized:
                host.notify(notification(kind), {})

        self._hosts[host] = _Listener(host, notify, LIST_KINDS)
        self._note_lists(self._hosts[host])

    def detach(self, host: Host) -> None:
        self._hosts.pop(host, None)
        if self._observer is not None:
            self._observer.host_left(host)

    def record_sent(self, host: Host, kind: ListKind, seen: object) -> None:
        """Note that `host` has just been sent this list."""
        listener = self._hosts.get(host)
        if listener is not None:
            listener.seen[kind] = seen

    def refresh(self, host: Host) -> None:
        """Note the lists of `host` again without notifying it: they changed for a reason of its own."""
        listener = self._hosts.get(host)
        if listener is not None:
            listener.seen.clear()
            self._note_lists(listener)

    def sessions(self) -> dict[str, int]:
        """Return the number of attached hosts by frontend."""
        return Counter(host.frontend for host in self._hosts)

    def announce(self) -> None:
        """Schedule a comparison of all lists: something they depend on has changed."""
        if self._pending is None and not self._closing.is_set():
            self._pending = asyncio.get_running_loop().call_later(COALESCE, self._notify)

    def close(self) -> None:
        """End every open stream gracefully."""
        self._closing.set()
        if self._pending is not None:
            self._pending.cancel()
        if self._notifying is not None:
            self._notifying.cancel()

    async def wait_closed(self) -> None:
        """Wait until `close` is called."""
        await self._closing.wait()

    @contextmanager
    def listen(self, host: Host, kinds: Iterable[ListKind], notify: NotifyListChanged) -> Iterator[None]:
        """Call `notify` for changes of these lists inside the context."""
        listener = _Listener(host, notify, tuple(kinds))
        self._note_lists(listener)
        self._streams.add(listener)
        try:
            yield
        finally:
            self._streams.discard(listener)

    def _note_lists(self, listener: _Listener) -> None:
        """Note the lists of a listener now; where that takes long, with the next announcement."""
        if not self._compare(listener):
            self.announce()

    def _notify(self) -> None:
        """Notify all listeners: at once where the lists are ready, the others one after the other."""
        self._pending = None
        if self._notifying is not None and not self._notifying.done():
            self.announce()
            return
        late = [listener for listener in self._listeners() if not self._compare(listener)]
        if late:
            self._notifying = self._tasks.start(self._notify_late(late))

    async def _notify_late(self, listeners: Iterable[_Listener]) -> None:
        for listener in listeners:
            await self._lists.prepare(listener.host)
            if listener in self._listeners():
                self._compare(listener)

    def _compare(self, listener: _Listener) -> bool:
        ready = self._lists.is_ready(listener.host)
        if ready:
            listener.compare(self._lists.lists_of(listener.host))
        return ready

    def _listeners(self) -> list[_Listener]:
        return [*self._hosts.values(), *self._streams]
