"""The lists of one upstream, kind by kind: read when it connects, and again when it says that one has changed.

Law: an upstream without a list of tools is not connected; a failure to read another list costs that list alone.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import SystemRandom
from typing import Any, Final

from aggregator.domain.bounds.slices import Slices, Steps
from aggregator.domain.errors import METHOD_NOT_FOUND, RpcError, UpstreamError, operator_text
from aggregator.domain.freshness import Freshness
from aggregator.upstream.connection import SessionExpired
from aggregator.upstream.current_config import CurrentConfig
from aggregator.upstream.faults import ServerFaults
from aggregator.upstream.lifecycle import backoff
from aggregator.upstream.lifecycle.state import OnChange
from aggregator.upstream.list_kinds import (
    LIST_CHANGE_FILTERS,
    LIST_METHODS,
    LISTS_CHANGED,
    Kind,
    declared_extension,
)
from aggregator.upstream.lists.paging import DrainedList, read_pages
from aggregator.upstream.redaction import ServerRedaction
from aggregator.upstream.sessions.negotiate import Negotiated
from aggregator.upstream.sessions.session import SessionHolder, UpstreamSession
from aggregator.wire.codec import TooDeep, encode_sorted
from aggregator.wire.peer import PeerGone

log = logging.getLogger(__name__)

# Seconds between two readings of a list that keeps changing.
REFRESH_PAUSE: Final = 1.0
# Seconds that an upstream with a list of tools is held back, so that its other lists are shown together with it.
OTHERS_WAIT: Final = 2.0
# Seconds until the tools of a server that announces no changes are read again, if it was called in that time: it may
# have added some.
LOOK_AFTER: Final = 60.0
# The lists of a server together, whose fault is that nothing is in them.
_ALL: Final = "lists"
# The part of `limits.connect_timeout` that one page after the first may take.
PAGE_SHARE: Final = 0.5


# Works through a list before it takes effect, in pieces if it is long.
ExamineItems = Callable[[Kind, list[Any]], Awaitable[None]]


class UpstreamLists:
    """The lists of one upstream, by kind. A list that is read again without a change stays the same object.

    `on_change` is called after a list has changed. `examine` is awaited with each list before it takes effect, and with
    the first one of a connection even if it is the same, so that a long one has been worked through in `slices`.
    `redaction` removes known secrets from the items. `faults` gets what was wrong with a list that is used all the
    same. `grows`: the server has added tools while it was connected, and changed no other, in this process or an
    earlier one.
    """

    def __init__(
        self,
        config: CurrentConfig,
        on_change: OnChange,
        redaction: ServerRedaction,
        slices: Slices,
        examine: ExamineItems,
        faults: ServerFaults,
    ) -> None:
        self._config = config
        self._on_change = on_change
        self._redaction = redaction
        self._slices = slices
        self._examine = examine
        self._faults = faults
        self.grows = False
        self._items: dict[Kind, list[Any]] = {kind: [] for kind in LIST_METHODS}
        self._known: set[Kind] = set()
        self._in_part: set[Kind] = set()
        self._fresh: dict[Kind, tuple[Freshness | None, float]] = {}
        self._negotiated: Negotiated | None = None
        self._silent = False
        self._stale = {kind: asyncio.Event() for kind in LIST_METHODS}
        # The readings of one kind do not overlap: a later one must have the newer list.
        self._reading = {kind: asyncio.Lock() for kind in LIST_METHODS}
        self._first: DrainedList | None = None
        self._unread: set[Kind] = set()
        # Lists that were not examined over this connection yet.
        self._unexamined: set[Kind] = set()
        self._all_read = asyncio.Event()

    def __repr__(self) -> str:
        counts = ", ".join(f"{len(items)} {kind}s" for kind, items in self._items.items())
        return f"<UpstreamLists of {self._config.value.id}: {counts}>"

    def __getitem__(self, kind: Kind) -> list[Any]:
        return self._items[kind]

    def put(self, kind: Kind, items: list[Any]) -> None:
        """Replace a list by one that an earlier connection left."""
        self._items[kind] = items
        self._known.add(kind)

    def is_known(self, kind: Kind) -> bool:
        """Return whether the server has answered a request for this list, now or in an earlier connection."""
        return kind in self._known

    def was_read(self, kind: Kind) -> bool:
        """Return whether the server has answered a request for this list."""
        return kind in self._fresh

    def is_whole(self, kind: Kind) -> bool:
        """Return whether the last read got all pages of the list; if not, the server may have more items."""
        return kind not in self._in_part

    # -- freshness

    def freshness(self, kind: Kind, now: float) -> Freshness | None:
        """Return for how long a list is fresh, as the server states it; None if it states nothing.

        A server that announces changes has until now announced none. `now` is the time of the event loop.
        """
        fresh, since = self._fresh.get(kind, (None, now))
        return fresh if fresh is None or self._announces(kind) else fresh.after(now - since)

    def refresh_if_stale(self, kind: Kind, now: float) -> None:
        """Read a list again in the background, if it is stale and the server announces no changes."""
        fresh = self.freshness(kind, now)
        if fresh is not None and fresh.ttl == 0 and not self._announces(kind):
            self._stale[kind].set()

    def may_differ(self, kind: Kind) -> bool:
        """Return True if the server may have another list now than the one that was read, without a word: it announces
        no changes, and has not stated that this one is fresh.
        """
        if not self.was_read(kind) or self._announces(kind):
            return False
        fresh = self.freshness(kind, asyncio.get_running_loop().time())
        return fresh is None or fresh.ttl == 0

    @property
    def grows_silently(self) -> bool:
        """True if the server `grows` and does not announce it."""
        return self.grows and not self._announces("tool")

    def _announces(self, kind: Kind) -> bool:
        if self._silent:
            return False
        offered = (
            self._negotiated.capabilities.get(LIST_METHODS[kind].capability) if self._negotiated is not None else None
        )
        return isinstance(offered, dict) and bool(offered.get("listChanged"))

    # -- reading

    async def begin(self, session: UpstreamSession) -> None:
        """Read the tools of a new connection, which replace the old ones in `wait_others`; `keep` reads the rest.

        Raises:
            RpcError, PeerGone, UpstreamError: the tools cannot be listed.
        """
        self._negotiated, self._silent = session.negotiated, False
        self._stale["tool"].clear()
        self._first = await self._read(session, "tool")
        self._unread = {kind for kind in LIST_METHODS if kind != "tool"}
        self._unexamined = set(LIST_METHODS)
        self._all_read.clear()
        for kind in self._unread:
            self._stale[kind].set()
        if self._first.cut:
            self._stale["tool"].set()

    async def wait_others(self) -> None:
        """Put the tools of `begin` in place, and wait up to `OTHERS_WAIT` for the first reading of other lists."""
        async with self._reading["tool"]:
            if self._first is not None:
                first, self._first = self._first, None
                await self._take("tool", first)
        try:
            async with asyncio.timeout(OTHERS_WAIT):
                await self._all_read.wait()
        except TimeoutError:
            late = "s and ".join(sorted(self._unread))
            log.info("%s is slow to list its %ss; they come later", self._config.value.id, late)
        self._note_emptiness()

    @property
    def is_empty(self) -> bool:
        """True if the server has answered for all its lists, and nothing is in them."""
        return self._fresh.keys() == LIST_METHODS.keys() and not any(self._items.values())

    def _note_emptiness(self) -> None:
        """Say that a server has nothing to offer: its host sees no fault, and no tool."""
        nothing = "offers nothing: it lists no tools, prompts or resources" if self.is_empty else None
        self._faults.note_list(_ALL, nothing)

    def on_notification(self, method: str) -> bool:
        """Take a notification; return True if it is about a list."""
        if method not in LISTS_CHANGED:
            return False
        self.read_again(method.split("/")[1])
        return True

    def read_again(self, capability: str | None = None) -> None:
        """Read the lists of a capability again in the background, or all lists."""
        for kind, method in LIST_METHODS.items():
            if capability in (None, method.capability):
                self._stale[kind].set()

    def read_kind_again(self, kind: Kind) -> None:
        """Read one list again in the background."""
        self._stale[kind].set()

    async def keep(self, kind: Kind, sessions: SessionHolder) -> None:
        """Read one list each time it may have changed, until cancelled; a burst of changes is read once.

        What raises leaves the list as one that may have changed.
        """
        try:
            await self._keep(kind, sessions)
        except Exception:
            self._stale[kind].set()
            self._note_read(kind)
            raise

    async def _keep(self, kind: Kind, sessions: SessionHolder) -> None:
        failures = 0
        while True:
            await self._until_stale(kind, sessions)
            self._stale[kind].clear()
            session = await sessions.for_lists()
            if session is not None:
                failures = 0 if await self.refresh(session, kind, sessions) else failures + 1
            again = kind not in self._unread
            self._note_read(kind)
            if again:
                self._note_emptiness()
            if failures:
                await asyncio.sleep(backoff.delay(failures, SystemRandom().random()))
                self._stale[kind].set()
            elif again:
                await asyncio.sleep(REFRESH_PAUSE)

    async def _until_stale(self, kind: Kind, sessions: SessionHolder) -> None:
        """Wait until a list may have changed: the server says so, or it was called and would not say."""
        if kind != "tool":
            await self._stale[kind].wait()
        while not self._stale[kind].is_set():
            calls = sessions.calls
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_AFTER):
                    await self._stale[kind].wait()
            if sessions.calls != calls and self.may_differ(kind):
                return

    def _note_read(self, kind: Kind) -> None:
        """Wait for this list no longer before the connection is shown."""
        self._unread.discard(kind)
        if not self._unread:
            self._all_read.set()

    async def refresh(self, session: UpstreamSession, kind: Kind, sessions: SessionHolder) -> bool:
        """Read one list; return True if it is not to be read again soon: it came whole, or was refused."""
        async with self._reading[kind]:
            return await self._refresh(session, kind, sessions)

    async def read_if_announced(self, kind: Kind, session: UpstreamSession, sessions: SessionHolder) -> None:
        """Read one list now, if the server announced a change of it that is not read yet."""
        async with self._reading[kind]:
            if self._stale[kind].is_set():
                self._stale[kind].clear()
                done = False
                try:
                    done = await self._refresh(session, kind, sessions)
                finally:
                    if not done:
                        self._stale[kind].set()

    async def _refresh(self, session: UpstreamSession, kind: Kind, sessions: SessionHolder) -> bool:
        try:
            async with asyncio.timeout(self._config.value.limits.connect_timeout):
                drained = await self._read(session, kind)
        except SessionExpired:
            sessions.lose(session, "it no longer knows our session")
            return True
        except (TimeoutError, RpcError, PeerGone, UpstreamError) as error:
            late = f"no answer within {self._config.value.limits.connect_timeout:g} s"
            what = late if isinstance(error, TimeoutError) else operator_text(error)
            log.warning("%s: its %ss could not be listed, the old ones stay: %s", self._config.value.id, kind, what)
            return isinstance(error, RpcError)
        self._negotiated = session.negotiated
        self._first = None
        if await self._take(kind, drained):
            self._on_change()
        return not drained.cut

    async def _take(self, kind: Kind, drained: DrainedList) -> bool:
        """Put a list in place; return True if it differs from the one before."""
        fresh = drained.fresh, asyncio.get_running_loop().time()
        self._faults.note_list(LIST_METHODS[kind].method, drained.fault)
        items = drained.items
        made_whole = drained.whole and kind in self._in_part
        self._in_part = self._in_part - {kind} if drained.whole else self._in_part | {kind}
        if drained.cut:
            items = await self._slices.run(_with_missing(items, self._items[kind], LIST_METHODS[kind].named_by))
        # A list that is whole now counts anew, even with the same items: nothing else is there.
        begins = kind in self._unexamined
        self._unexamined.discard(kind)
        if not made_whole and await self._slices.run(_same(items, self._items[kind])):
            if begins:
                # Other instructions may have come with the connection.
                await self._examine(kind, self._items[kind])
            self._put_fresh(kind, fresh)
            return False
        if kind == "tool" and drained.whole and not (begins or made_whole or self.grows):
            self.grows = await self._slices.run(_adds(items, self._items[kind]))
        await self._examine(kind, items)
        # Not before: until now the list was what an earlier connection or another entry left.
        self._items[kind] = items
        self._put_fresh(kind, fresh)
        return True

    def _put_fresh(self, kind: Kind, fresh: tuple[Freshness | None, float]) -> None:
        self._fresh[kind] = fresh
        self._known.add(kind)

    async def _read(self, session: UpstreamSession, kind: Kind) -> DrainedList:
        method = LIST_METHODS[kind]
        offered = session.negotiated.capabilities
        lacks = method.extension is not None and declared_extension(offered, method.extension) is None
        if method.capability not in offered or lacks:
            return DrainedList([], None)
        try:
            config = self._config.value
            drained = await read_pages(
                config.id,
                session.connection,
                method.method,
                method.field,
                session.lists(),
                method.named_by,
                # The whole has `limits.connect_timeout`, at the end of which all pages would be lost.
                config.limits.connect_timeout * PAGE_SHARE,
            )
        except RpcError as error:
            # Many servers with resources do not know the method for templates.
            if kind == "tool" or error.code != METHOD_NOT_FOUND:
                raise
            return DrainedList([], None)
        # In a thread, since a long list takes a while.
        named = kind in ("tool", "prompt")
        items = await asyncio.to_thread(self._redaction.definitions, drained.items, named=named)
        if kind == "skill" and items is not drained.items:
            # Hosts compare an entry with the files: changed, it would be of no use, and say less than it should.
            items = await self._slices.run(_unchanged(drained.items, items))
            log.warning("%s: skills whose entries hold secrets are left out", self._config.value.id)
        return drained._replace(items=items)

    async def listen(self, session: UpstreamSession, sessions: SessionHolder) -> None:
        """Subscribe to changes of the lists of a modern upstream (S/basic/patterns/subscriptions), until cancelled."""
        offered = session.negotiated.capabilities
        wanted = {name: True for capability, name in LIST_CHANGE_FILTERS.items() if _listed(offered.get(capability))}
        if not wanted:
            return
        params = {"notifications": wanted, "_meta": dict(session.envelope)}
        failures = 0
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            if failures:
                # Changes while there was no subscription were not announced; read once this one is on its way.
                loop.call_soon(self.read_again)
            try:
                await session.connection.request("subscriptions/listen", params)
            except RpcError as error:
                log.info("%s does not tell of changes: %s", self._config.value.id, error)
                self._silent = True
                return
            except SessionExpired:
                sessions.lose(session, "it no longer knows us")
                return
            except (PeerGone, UpstreamError) as error:
                log.debug("%s: its subscription broke off: %s", self._config.value.id, error)
            failures = 1 if loop.time() - began > backoff.STABLE else failures + 1
            await asyncio.sleep(backoff.delay(failures, SystemRandom().random()))


def _with_missing(items: list[Any], before: list[Any], named_by: str) -> Steps[list[Any]]:
    """Return the items of a list that broke off, and after them those of the list before that did not come."""
    names = {item.get(named_by) for item in items if isinstance(item, dict) and isinstance(item.get(named_by), str)}
    kept = list(items)
    for old in before:
        yield
        name = old.get(named_by) if isinstance(old, dict) else None
        if isinstance(name, str) and name not in names:
            kept.append(old)
    return kept


def _adds(tools: list[Any], before: list[Any]) -> Steps[bool]:
    """Return True if a list has all the tools of the one before unchanged, and more."""
    named = {_name(tool): tool for tool in before}
    for tool in tools:
        yield
        if (name := _name(tool)) in named and named.pop(name) != tool:
            return False
    return not named and len(tools) > len(before)


def _name(tool: Any) -> str | None:
    name = tool.get("name") if isinstance(tool, dict) else None
    return name if isinstance(name, str) else None


def _unchanged(before: list[Any], after: list[Any]) -> Steps[list[Any]]:
    """Return the items that redaction left as they were."""
    kept: list[Any] = []
    for old, new in zip(before, after, strict=True):
        yield
        if old is new or old == new:
            kept.append(new)
    return kept


def _listed(capability: Any) -> bool:
    return isinstance(capability, dict) and bool(capability.get("listChanged"))


def _same(one: list[Any], other: list[Any]) -> Steps[bool]:
    """Return True if hosts are sent the same for two lists.

    As JSON true, 1 and 1.0 differ, and NaN and null do not: Python compares them the other way round.
    """
    if len(one) != len(other):
        return False
    for mine, others in zip(one, other, strict=True):
        yield
        try:
            if encode_sorted(mine) != encode_sorted(others):
                return False
        except TooDeep:
            return False
    return True
