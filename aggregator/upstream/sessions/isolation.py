"""Connections beside the first of a server, for callers that it does not do for.

They speak the handshake era where the first does not, were told what other hosts can be asked, are for one host alone
(`isolation`), or for a call whose questions could not be told from another host's. Each is opened for the first call
that needs it, and closed with its host's session or when nobody has used it for long.
"""

import asyncio
import logging
from collections.abc import Callable, Hashable
from contextlib import AsyncExitStack
from functools import partial
from itertools import count
from math import inf
from typing import Any, Final

from aggregator.config.model import ServerConfig
from aggregator.domain.abilities import EVERYTHING, NOTHING, HostCapabilities
from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.errors import (
    RpcError,
    UpstreamBadAnswer,
    UpstreamError,
    UpstreamHttpStatus,
    UpstreamRefused,
    UpstreamUnavailable,
)
from aggregator.domain.versions import Era
from aggregator.upstream.caller import Caller
from aggregator.upstream.connection import SessionExpired
from aggregator.upstream.list_kinds import LISTS_CHANGED
from aggregator.upstream.sessions.back_channel import ClientSide
from aggregator.upstream.sessions.clients import DownstreamClients
from aggregator.upstream.sessions.connect import CHEAP, Connector, Hear, UpstreamSession
from aggregator.upstream.sessions.negotiate import negotiate
from aggregator.upstream.sessions.side_connection import SideConnection
from aggregator.wire.peer import PeerGone

log = logging.getLogger(__name__)

AT_MOST: Final = 64
IDLE_LIMIT: Final = 1800.0
# So long a call waits for a connection of its host's era, before it goes over one of the other.
OTHER_ERA_WAIT: Final = 10.0
# After a failure that may pass, none of the host's era is tried for so long.
OTHER_ERA_PAUSE: Final = 300.0
# So many calls in a row without an answer, and a process that only some hosts use is given up for a new one.
SILENT_AT_MOST: Final = 3
# So long the first list waits for a session that is told that everything can be asked.
LISTER_WAIT: Final = 5.0
# A session that the server forgot so soon is not opened again.
SHORT_LIVED: Final = 60.0

# Who it is for, the era, what was declared of them, and a number where these have several.
Key = tuple[Hashable, Era, HostCapabilities, int]


class IsolatedSessions:
    """Those of one server, whose `config` may be another one later. `hear` gets what they say on their own account,
    `relist` has the lists read again; `told` is the one that said last that a list changed."""

    def __init__(
        self,
        config: ServerConfig,
        way_in: Connector,
        audience: DownstreamClients,
        hear: Hear,
        relist: Callable[[], None],
    ) -> None:
        self.config = config
        self.told: SideConnection | None = None
        self._hear = hear
        self._relist = relist
        self._placed = config
        self._way_in = way_in
        self._audience = audience
        self._sides: dict[Key, SideConnection] = {}
        self._tasks = Tasks(f"server {config.id}, apart")
        self._takes_no_more = False
        self._one_era_until = 0.0

    def __repr__(self) -> str:
        return f"<Apart {self.config.id}: {len(self._sides)}>"

    @property
    def busy(self) -> bool:
        """Whether any of them is in use."""
        return any(not side.idle for side in self._sides.values())

    def begin(self, placed: ServerConfig) -> None:
        """The server is there, at this place."""
        self._placed = placed
        self._takes_no_more = False
        self._one_era_until = 0.0
        for side in self._sides.values():
            if side.lists:
                side.close()

    async def session(self, caller: Caller, base: UpstreamSession, limit: float) -> UpstreamSession:
        """The session for a caller, within `limit` seconds; `base` is the one that all could share.

        Raises:
            UpstreamError: there is none to be had.
        """
        own, together = base.greeting.era, self._audience.single or self.config.isolation == "shared"
        if self._era(caller, base) != own:
            found = await self._of_era("legacy", caller, base, min(limit, OTHER_ERA_WAIT), together=together)
            if found is not None:
                return found
        if own == "modern" and (together or base.transport == "http"):
            # Every request says what its host can do, and over HTTP there are no sessions to be kept apart.
            return base
        if not together:
            return await self._opened(self._side(caller, base, own, together=together), limit, caller.identity)
        if self._takes_no_more or base.fits(caller):
            return base
        try:
            return await self._opened(self._side(caller, base, own, together=together), limit, caller.identity)
        except UpstreamError as error:
            # It may know one session only: then nobody behind it can be asked anything.
            log.info("%s gives hosts that can be asked something no session of their own: %s", self.config.id, error)
            self._takes_no_more = True
            return base

    async def lister(self, base: UpstreamSession) -> UpstreamSession:
        """The session to read lists over: what a server has for hosts that can do all is what it has.

        Where a session is cheap, it is one that was told so, if the server allows another; of the processes of a server
        that speaks both eras it is the one that said last that a list changed.
        """
        if self._audience.single or not base.cheap:
            told = self.told.session if self.told is not None and not self.told.over else None
            return told or base
        if base.greeting.era == "modern" or self._takes_no_more:
            return base
        side: SideConnection | None = None
        try:
            key: Key = (None, "legacy", EVERYTHING, 0)
            side = self._sides.get(key)
            if side is None or side.over:
                side = self._open(key, base.transport, None, lists=True)
            return await self._opened(side, LISTER_WAIT)
        except UpstreamError as error:
            log.info("%s is listed as for hosts that cannot be asked anything: %s", self.config.id, error)
            self._takes_no_more = True
            return base

    def lose(self, session: UpstreamSession) -> None:
        """One of these is no longer known to the server: lists that were read over it are read over another."""
        side = self._of(session)
        if side is not None:
            side.close()
            # One that is forgotten at once would be opened for ever.
            self._takes_no_more |= asyncio.get_running_loop().time() - side.began < SHORT_LIVED
            self._relist()

    def _heard(self, side: SideConnection, alike: bool, method: str, params: dict[str, Any]) -> None:
        """Take what a server says on one of these; `alike`: all hosts may use it, and it has lists of its own."""
        self._hear(method, params)
        if alike and method in LISTS_CHANGED:
            self.told = side

    async def _of_era(
        self, era: Era, caller: Caller, base: UpstreamSession, limit: float, *, together: bool
    ) -> UpstreamSession | None:
        """The session for a caller in the era that `base` does not speak; None where there is none to be had."""
        side: SideConnection | None = None
        try:
            side = self._side(caller, base, era, together=together)
            return await self._opened(side, limit, caller.identity)
        except UpstreamError as error:
            if side is not None and side.refused:
                log.info("%s speaks 2026-07-28 only: hosts of the handshake eras are translated", self.config.id)
                self._one_era_until = inf
            else:
                log.warning("%s: hosts of the handshake eras are translated for a while: %s", self.config.id, error)
                self._one_era_until = asyncio.get_running_loop().time() + OTHER_ERA_PAUSE
            return None

    def _era(self, caller: Caller, base: UpstreamSession) -> Era:
        """The era of the connection that a call goes over: its host's, where the server speaks both and may ask it."""
        if caller.era == "modern" or base.greeting.era == "legacy" or self._placed.protocol != "auto":
            return base.greeting.era
        if caller.abilities == NOTHING:
            return base.greeting.era
        return "modern" if self._one_era_until > asyncio.get_running_loop().time() else "legacy"

    async def _opened(self, side: SideConnection, limit: float, of: Hashable = None) -> UpstreamSession:
        if side.session is not None:
            return side.session
        side.awaited_by.append(of)
        try:
            async with asyncio.timeout(limit):
                return await asyncio.shield(side.opened)
        except TimeoutError:
            raise UpstreamUnavailable(
                self.config.id, f"{self.config.id} did not open another connection within {limit:g} s."
            ) from None
        finally:
            side.awaited_by.remove(of)

    def _side(self, caller: Caller, base: UpstreamSession, era: Era, *, together: bool) -> SideConnection:
        scope, owner, alone = self._scope(caller, base, together=together)
        abilities = caller.abilities
        if era == "modern":
            abilities = NOTHING
        elif together and not base.cheap and not self._audience.single:
            abilities = EVERYTHING
        for number in count():
            key = (scope, era, abilities, number)
            side = self._sides.get(key)
            if side is None or side.over:
                return self._open(key, base.transport, owner)
            if side.free if alone else not (together and self._way_in.manner.asks and side.doubtful(caller)):
                side.used = asyncio.get_running_loop().time()
                return side
        raise AssertionError("unreachable: there is always another number")

    def answered(self, session: UpstreamSession) -> None:
        """A call in one of these was answered."""
        side = self._of(session)
        if side is not None:
            side.silent = 0

    def unanswered(self, session: UpstreamSession) -> None:
        """A call in one of these was not; where that goes on, and nothing else is under way, it is given up."""
        side = self._of(session)
        if side is not None:
            side.silent += 1
            if side.silent >= SILENT_AT_MOST and side.idle:
                log.warning("%s: a connection that did not answer %d calls is closed", self.config.id, side.silent)
                side.close()

    def has(self, session: UpstreamSession) -> bool:
        """Whether it is one of these."""
        return self._of(session) is not None

    async def renew(self, session: UpstreamSession) -> UpstreamSession:
        """Its connection, greeted once more.

        Raises:
            UpstreamError: something else answers there now.
        """
        side = self._of(session)
        if side is None or side.session is None:
            raise UpstreamUnavailable(self.config.id, f"{self.config.id} closed that connection.")
        async with side.renewing:
            if side.session is session:
                try:
                    greeting = await negotiate(self.config.id, session.connection, "legacy", session.declare)
                except (RpcError, PeerGone, SessionExpired, UpstreamError) as error:
                    side.close()
                    raise UpstreamUnavailable(
                        self.config.id, f"{self.config.id}: a session could not be renewed: {error}"
                    ) from error
                side.opened = asyncio.get_running_loop().create_future()
                side.opened.set_result(session.renewed(greeting))
            return side.opened.result()

    def left(self, host: Hashable) -> None:
        """A host's session is over."""
        for key, side in list(self._sides.items()):
            if key[0] == ("session", host):
                del self._sides[key]
                side.close()

    def of_host(self, host: Hashable) -> list[UpstreamSession]:
        """The open sessions that are this host's alone."""
        found = [side.session for side in self._sides.values() if side.owner is not None and side.owner.host == host]
        return [session for session in found if session is not None and not session.over]

    def end(self) -> None:
        """Begin to end them all; `close` waits for that."""
        for side in self._sides.values():
            side.close()

    async def close(self) -> None:
        """End them all."""
        await self._tasks.cancel()

    def _of(self, session: UpstreamSession) -> SideConnection | None:
        return next((s for s in self._sides.values() if s.session and s.session.callers is session.callers), None)

    def _scope(self, caller: Caller, base: UpstreamSession, *, together: bool) -> tuple[Hashable, Caller | None, bool]:
        """Who shares a connection, the only host there can be behind it, and whether it takes one call at a time.

        A host without a session is a session of its own for each of its calls: what it used before is its agent's, and
        no two calls use it at once.
        """
        if self._audience.single:
            return None, caller.standing(), False
        if self.config.isolation == "per_agent":
            return ("agent", caller.agent), None, False
        if together and base.transport != "sse":
            return None, None, False
        # By SSE in any case: its sessions are cheap, and nothing in them tells whose a question is.
        if caller.session is not None:
            return ("session", caller.session), caller.standing(), False
        return ("agent", caller.agent), None, True

    def _open(self, key: Key, transport: str, owner: Caller | None, *, lists: bool = False) -> SideConnection:
        if len(self._sides) >= AT_MOST:
            idle = [known for known, side in self._sides.items() if side.idle and not side.lists]
            if not idle:
                raise UpstreamUnavailable(
                    self.config.id, f"{self.config.id} has {AT_MOST} connections for different hosts, all in use."
                )
            self._sides.pop(min(idle, key=lambda known: self._sides[known].used)).close()
        side = self._sides[key] = SideConnection(owner, lists)
        self._tasks.start(self._live(key, side, transport))
        return side

    async def _live(self, key: Key, side: SideConnection, transport: str) -> None:
        scope, era, abilities, _ = key

        async def declare(transport: str) -> HostCapabilities:
            return abilities

        owner, why = side.owner, "it is being closed"
        front = ClientSide(declare, (lambda: owner) if owner is not None else None)
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(self.config.connect_timeout):
                    hear = partial(self._heard, side, scope is None and transport not in CHEAP)
                    session = await self._way_in.again(stack, self._placed, transport, era, front, hear)
                side.opened.set_result(session)
                # A slow one that calls no longer waited for serves the next.
                self._one_era_until = 0.0
                said = "server %s has one more connection (%s, isolation: %s)"
                log.info(said, self.config.id, session.greeting.version, self.config.isolation)
                await self._end_of(side, session)
                self._forget(key, side)
        except (TimeoutError, RpcError, PeerGone, SessionExpired, UpstreamError) as error:
            why = str(error) or f"no answer within {self.config.connect_timeout:g} s"
            side.refused = _refuses(error)
        finally:
            self._forget(key, side)
            if not side.opened.done():
                said = f"{self.config.id} cannot be connected once more: {why}".rstrip(".") + "."
                side.opened.set_exception(UpstreamUnavailable(self.config.id, said))
                # Whoever waited may be gone.
                side.opened.exception()

    def _forget(self, key: Key, side: SideConnection) -> None:
        if self._sides.get(key) is side:
            del self._sides[key]
        if self.told is side:
            self.told = None
            self._relist()

    async def _end_of(self, side: SideConnection, session: UpstreamSession) -> None:
        """Stay until it is over, no longer wanted, or was not used for long."""
        loop = asyncio.get_running_loop()
        ends: set[asyncio.Future[Any]] = {session.connection.ended, side.closing}
        while not any(end.done() for end in ends):
            limit = self.config.idle_timeout or IDLE_LIMIT
            await asyncio.wait(ends, timeout=limit / 4, return_when=asyncio.FIRST_COMPLETED)
            if side.idle and not side.lists and loop.time() - side.used > limit:
                return


def _refuses(error: Exception) -> bool:
    """Whether the server said that it would not have the connection, rather than being away or slow."""
    if isinstance(error, UpstreamHttpStatus):
        status: int = error.details["status"]
        return 400 <= status < 500 and "retry_after" not in error.details
    return isinstance(error, RpcError | UpstreamRefused | UpstreamBadAnswer)
