"""What one upstream lists, kind by kind: read when it connects, and again whenever it says that something changed.

Law: without its tools a server is not there; any other list that cannot be had costs itself alone.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from random import SystemRandom
from typing import Any, Final

from aggregator.config.model import ServerConfig
from aggregator.domain.bounds.slices import Slices, Steps
from aggregator.domain.errors import METHOD_NOT_FOUND, RpcError, UpstreamError
from aggregator.domain.freshness import Freshness
from aggregator.upstream.connection import SessionExpired
from aggregator.upstream.lifecycle import backoff
from aggregator.upstream.list_kinds import LIST_CHANGE_FILTERS, LISTS_CHANGED, WAYS, Kind
from aggregator.upstream.lists.paging import DrainedList, drain
from aggregator.upstream.redaction import ServerRedaction
from aggregator.upstream.sessions.connect import UpstreamSession
from aggregator.upstream.sessions.negotiate import Negotiated
from aggregator.wire.codec import TooDeep, encode_sorted
from aggregator.wire.peer import PeerGone

log = logging.getLogger(__name__)

# From one reading of a list that keeps changing to the next.
REFRESH_PAUSE: Final = 1.0
# How long a server that has listed its tools is not shown yet, so that the rest comes with them.
OTHERS_WAIT: Final = 2.0

Current = Callable[[], UpstreamSession | None]
Lister = Callable[[], Awaitable[UpstreamSession | None]]
Lose = Callable[[UpstreamSession, str], None]
LookOver = Callable[[Kind, list[Any]], Awaitable[None]]


async def _nothing_to_do(kind: Kind, items: list[Any]) -> None:
    """Nobody looks a list over before it counts."""


class UpstreamLists:
    """`changed` is called when a list is another one than before. The same one stays the same object. `config` may be
    another one later. `discreet` takes known secrets out of what is listed.

    `look_over` is awaited with each list before it counts, so that a long one has been gone through in `slices`.
    """

    def __init__(self, config: ServerConfig, changed: Callable[[], None], discreet: ServerRedaction) -> None:
        self.config = config
        self._changed = changed
        self._discreet = discreet
        self.slices = Slices()
        self.look_over: LookOver = _nothing_to_do
        self._items: dict[Kind, list[Any]] = {kind: [] for kind in WAYS}
        self._fresh: dict[Kind, tuple[Freshness | None, float]] = {}
        self._greeting: Negotiated | None = None
        self._mute = False
        self._stale = {kind: asyncio.Event() for kind in WAYS}
        # One reading of a kind after the other: a later one is of a newer list.
        self._reading = {kind: asyncio.Lock() for kind in WAYS}
        self._first: DrainedList | None = None
        self._unread: set[Kind] = set()
        self._all_read = asyncio.Event()

    def __repr__(self) -> str:
        return f"<Lists of {self.config.id}: {', '.join(f'{len(i)} {kind}s' for kind, i in self._items.items())}>"

    def __getitem__(self, kind: Kind) -> list[Any]:
        return self._items[kind]

    def put(self, kind: Kind, items: list[Any]) -> None:
        """From now on this is the list."""
        self._items[kind] = items

    # -- how fresh they are

    def freshness(self, kind: Kind, now: float) -> Freshness | None:
        """How long a list still holds by the server's own word; None where it says nothing. `now` is the loop's time.

        Whoever tells of changes has said until now that there was none.
        """
        fresh, since = self._fresh.get(kind, (None, now))
        return fresh if fresh is None or self._tells(kind) else fresh.after(now - since)

    def look_again(self, kind: Kind, now: float) -> None:
        """Somebody wants the list: one that no longer holds, of a server that does not tell, is read anew meanwhile."""
        fresh = self.freshness(kind, now)
        if fresh is not None and fresh.ttl == 0 and not self._tells(kind):
            self._stale[kind].set()

    def _tells(self, kind: Kind) -> bool:
        if self._mute:
            return False
        offered = self._greeting.capabilities.get(WAYS[kind].capability) if self._greeting is not None else None
        return isinstance(offered, dict) and bool(offered.get("listChanged"))

    # -- keeping them

    async def begin(self, session: UpstreamSession) -> None:
        """Read the tools of a new connection, which count from `others_read` on; the rest is read by `keep`.

        Raises:
            RpcError, PeerGone, UpstreamError: there are none to be had.
        """
        self._greeting, self._mute = session.greeting, False
        self._stale["tool"].clear()
        self._first = await self._read(session, "tool")
        self._unread = {kind for kind in WAYS if kind != "tool"}
        self._all_read.clear()
        for kind in self._unread:
            self._stale[kind].set()

    async def others_read(self) -> None:
        """Take the tools that `begin` read, and wait for the first reading of the rest, for a moment."""
        async with self._reading["tool"]:
            if self._first is not None:
                first, self._first = self._first, None
                await self._take("tool", first)
        try:
            async with asyncio.timeout(OTHERS_WAIT):
                await self._all_read.wait()
        except TimeoutError:
            late = "s and ".join(sorted(self._unread))
            log.info("%s is slow to list its %ss; they come later", self.config.id, late)

    def hear(self, method: str) -> bool:
        """Whether a notification is about a list."""
        if method not in LISTS_CHANGED:
            return False
        self.renew(method.split("/")[1])
        return True

    def renew(self, capability: str | None = None) -> None:
        """Read these lists again, or all."""
        for kind, way in WAYS.items():
            if capability in (None, way.capability):
                self._stale[kind].set()

    async def keep(self, kind: Kind, lister: Lister, lose: Lose) -> None:
        """Read one list whenever it may have changed, for ever; a burst of changes is one."""
        failures = 0
        while True:
            await self._stale[kind].wait()
            self._stale[kind].clear()
            session = await lister()
            if session is not None:
                failures = 0 if await self.refresh(session, kind, lose) else failures + 1
            again = kind not in self._unread
            self._unread.discard(kind)
            if not self._unread:
                self._all_read.set()
            if failures:
                await asyncio.sleep(backoff.delay(failures, SystemRandom().random()))
                self._stale[kind].set()
            elif again:
                await asyncio.sleep(REFRESH_PAUSE)

    async def refresh(self, session: UpstreamSession, kind: Kind, lose: Lose) -> bool:
        """Read one list; whether there was an answer, of whatever kind."""
        async with self._reading[kind]:
            return await self._refresh(session, kind, lose)

    async def _refresh(self, session: UpstreamSession, kind: Kind, lose: Lose) -> bool:
        try:
            async with asyncio.timeout(self.config.connect_timeout):
                drained = await self._read(session, kind)
        except SessionExpired:
            lose(session, "it no longer knows our session")
            return True
        except (TimeoutError, RpcError, PeerGone, UpstreamError) as error:
            what = str(error) or f"no answer within {self.config.connect_timeout:g} s"
            log.warning("%s: its %ss could not be listed, the old ones stay: %s", self.config.id, kind, what)
            return isinstance(error, RpcError)
        self._greeting = session.greeting
        self._first = None
        if await self._take(kind, drained):
            self._changed()
        return True

    async def _take(self, kind: Kind, drained: DrainedList) -> bool:
        """Whether it is another list than before."""
        self._fresh[kind] = drained.fresh, asyncio.get_running_loop().time()
        if await self.slices.run(_same(drained.items, self._items[kind])):
            return False
        await self.look_over(kind, drained.items)
        self._items[kind] = drained.items
        return True

    async def _read(self, session: UpstreamSession, kind: Kind) -> DrainedList:
        way = WAYS[kind]
        if way.capability not in session.greeting.capabilities:
            return DrainedList([], None)
        try:
            drained = await drain(self.config.id, session.connection, way.method, way.field, session.lists())
        except RpcError as error:
            # Many servers with resources know nothing of templates.
            if kind == "tool" or error.code != METHOD_NOT_FOUND:
                raise
            return DrainedList([], None)
        # A long list takes a while.
        named = kind in ("tool", "prompt")
        items = await asyncio.to_thread(self._discreet.definitions, drained.items, named=named)
        return drained._replace(items=items)

    async def listen(self, session: UpstreamSession, lose: Lose) -> None:
        """Hear of changes from a modern upstream (S/basic/patterns/subscriptions), again when the stream ends."""
        offered = session.greeting.capabilities
        wanted = {name: True for capability, name in LIST_CHANGE_FILTERS.items() if _listed(offered.get(capability))}
        if not wanted:
            return
        params = {"notifications": wanted, "_meta": dict(session.envelope)}
        failures = 0
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            if failures:
                # What changed meanwhile nobody told us; read once this subscription is on its way.
                loop.call_soon(self.renew)
            try:
                await session.connection.request("subscriptions/listen", params)
            except RpcError as error:
                log.info("%s does not tell of changes: %s", self.config.id, error)
                self._mute = True
                return
            except SessionExpired:
                lose(session, "it no longer knows us")
                return
            except (PeerGone, UpstreamError) as error:
                log.debug("%s: its subscription broke off: %s", self.config.id, error)
            failures = 1 if loop.time() - began > backoff.STABLE else failures + 1
            await asyncio.sleep(backoff.delay(failures, SystemRandom().random()))


def _listed(capability: Any) -> bool:
    return isinstance(capability, dict) and bool(capability.get("listChanged"))


def _same(one: list[Any], other: list[Any]) -> Steps[bool]:
    """Return whether two lists say the same, also to who tells true from 1 and 1 from 1.0, as Python does not."""
    if len(one) != len(other):
        return False
    for mine, others in zip(one, other, strict=True):
        yield
        try:
            if mine != others or encode_sorted(mine) != encode_sorted(others):
                return False
        except (RecursionError, TooDeep):
            return False
    return True
