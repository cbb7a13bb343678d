"""Notifications `list_changed`: one for a burst of changes, and only to hosts whose own list changed."""

import asyncio
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

from aggregator.domain.bounds.tasks import Tasks
from aggregator.gateway.host import Host

# Seconds. Servers tend to come up together: one notification covers all of them.
COALESCE: Final = 0.1
# Listeners whose lists are compared in one turn of the loop.
_IN_A_TURN: Final = 50

# The host did not read its messages; its key or token was revoked.
SessionFailure = Literal["unread", "revoked"]

ListKind = Literal["tools", "prompts", "resources"]
LIST_KINDS: Final[tuple[ListKind, ...]] = ("tools", "prompts", "resources")

SeenList = tuple[object, ...]
"""A list as a host sees it: objects of which one differs if the list does."""

Seen = Mapping[ListKind, SeenList]
"""The lists as a host sees them."""


class ListSnapshot(Protocol):
    """The lists of hosts. `lists_of` may take long unless `is_ready`; `prepare` computes them ahead.

    Hosts with the same `key_of` have the same lists.
    """

    def key_of(self, host: Host) -> Hashable: ...
    def is_ready(self, host: Host) -> bool: ...
    async def prepare(self, host: Host) -> None: ...
    def lists_of(self, host: Host) -> Seen: ...


def notification(kind: ListKind) -> str:
    """Return the method of the notification about one kind of list."""
    return f"notifications/{kind}/list_changed"


class NotifyListChanged(Protocol):
    """The notification that a list of one kind changed."""

    def __call__(self, kind: ListKind, /) -> None: ...


class _Comparison:
    """A comparison of many lists without a wait in between: results common to many hosts are computed once."""

    def __init__(self, lists: ListSnapshot) -> None:
        self._lists = lists
        self._seen: dict[Hashable, Seen | None] = {}
        # By the ids of the objects in two lists: whether these differ. The lists stay here, so that their ids do.
        self._differing: dict[tuple[int, ...], tuple[SeenList, SeenList, bool]] = {}

    def seen(self, host: Host) -> Seen | None:
        """Return the lists of a host; None if working them out may take long."""
        key = self._lists.key_of(host)
        if key not in self._seen:
            self._seen[key] = self._lists.lists_of(host) if self._lists.is_ready(host) else None
        return self._seen[key]

    def differ(self, before: SeenList, now: SeenList) -> bool:
        """Return whether a list is another one now."""
        key = (*map(id, before), *map(id, now))
        known = self._differing.get(key)
        if known is None:
            known = self._differing[key] = before, now, before != now
        return known[2]


@dataclass(slots=True, eq=False)
class _Listener:
    """A host or stream to notify about `kinds`. `seen` holds each list as of its last notification or request; a
    missing one was not computed for this host yet. `began` is by the clock of the event loop.
    """

    host: Host
    notify: NotifyListChanged
    kinds: Collection[ListKind]
    seen: dict[ListKind, SeenList] = field(default_factory=dict)
    began: float = field(default_factory=lambda: asyncio.get_running_loop().time())

    def compare(self, comparison: _Comparison) -> bool:
        """Notify about each list that differs from the one seen before; return False if the lists may take long."""
        lists = comparison.seen(self.host)
        if lists is None:
            return False
        for kind in self.kinds:
            if kind in lists:
                now = lists[kind]
                before = self.seen.get(kind, now)
                self.seen[kind] = now
                if comparison.differ(before, now):
                    self.notify(kind)
        return True


class HostObserver(Protocol):
    """A part that keeps state for hosts."""

    def host_left(self, host: Host) -> None:
        """Drop the state of a host whose session has ended."""

    def session_over(self, host: Host, seconds: float, failure: SessionFailure | None) -> None:
        """Count the session of a host; see `ListChanges.detach`."""


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

    def detach(self, host: Host, failure: SessionFailure | None = None, idle: float = 0.0) -> None:
        """End the session of `host`, if it has one.

        failure: the error that ended it. idle: seconds since it was last used.
        """
        listener = self._hosts.pop(host, None)
        if self._observer is not None:
            if listener is not None:
                seconds = asyncio.get_running_loop().time() - listener.began - idle
                self._observer.session_over(host, seconds, failure)
            self._observer.host_left(host)

    def record_sent(self, host: Host, kind: ListKind, seen: SeenList) -> None:
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
        """Record the lists of a listener now; if that takes long, with the next announcement."""
        if not listener.compare(_Comparison(self._lists)):
            self.announce()

    def _notify(self) -> None:
        """Notify all listeners."""
        self._pending = None
        if self._notifying is not None and not self._notifying.done():
            self.announce()
        elif listeners := (*self._hosts.values(), *self._streams):
            self._notifying = self._tasks.start(self._notify_all(listeners))

    async def _notify_all(self, listeners: Sequence[_Listener]) -> None:
        """Notify listeners, some in one turn of the loop; missing lists are prepared in slices."""
        for start in range(0, len(listeners), _IN_A_TURN):
            await asyncio.sleep(0)
            comparison = _Comparison(self._lists)
            for listener in listeners[start : start + _IN_A_TURN]:
                if self._is_here(listener) and not listener.compare(comparison):
                    await self._lists.prepare(listener.host)
                    comparison = _Comparison(self._lists)
                    if self._is_here(listener):
                        listener.compare(comparison)

    def _is_here(self, listener: _Listener) -> bool:
        return self._hosts.get(listener.host) is listener or listener in self._streams
