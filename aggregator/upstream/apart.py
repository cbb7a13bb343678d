"""Connections of their own, for callers that must not share one: by `isolation`, or for what was declared of them.

Each is opened for the first call that needs it, and closed with its host's session or when nobody has used it for long.
"""

import asyncio
import logging
from collections.abc import Hashable
from contextlib import AsyncExitStack
from itertools import count
from typing import Any, Final

from aggregator.config.model import ServerConfig
from aggregator.domain.abilities import NOTHING, Abilities
from aggregator.domain.errors import RpcError, UpstreamError, UpstreamUnavailable
from aggregator.domain.tasks import Tasks
from aggregator.upstream.audience import Audience
from aggregator.upstream.callers import Caller, Front
from aggregator.upstream.connection import SessionExpired
from aggregator.upstream.negotiate import negotiate
from aggregator.upstream.way_in import Session, WayIn
from aggregator.wire.peer import PeerGone

log = logging.getLogger(__name__)

AT_MOST: Final = 64
IDLE_LIMIT: Final = 1800.0

# Who it is for, what was declared of them, and a number where these have several.
Key = tuple[Hashable, Abilities, int]


class _Side:
    """One connection, from when it is asked for."""

    def __init__(self, owner: Caller | None) -> None:
        loop = asyncio.get_running_loop()
        self.owner = owner
        self.opened: asyncio.Future[Session] = loop.create_future()
        self.closing: asyncio.Future[None] = loop.create_future()
        self.used = loop.time()
        self.awaited = 0
        self.renewing = asyncio.Lock()

    @property
    def session(self) -> Session | None:
        """Once it is there."""
        opened = self.opened
        return opened.result() if opened.done() and not opened.cancelled() and opened.exception() is None else None

    @property
    def over(self) -> bool:
        """Whether nobody can use it any more."""
        return self.closing.done() or (self.session is not None and self.session.over)

    @property
    def idle(self) -> bool:
        """Whether no call is under way in it, nor about to be."""
        return self.session is not None and not self.awaited and not self.session.callers.busy

    @property
    def free(self) -> bool:
        """The same, and nothing is left that an earlier call may have begun."""
        return self.idle and self.session is not None and not self.session.callers.haunted

    def close(self) -> None:
        """Let nobody in any more; `run` does the rest."""
        if not self.closing.done():
            self.closing.set_result(None)


class Apart:
    """Those of one server, whose `config` may be another one later."""

    def __init__(self, config: ServerConfig, way_in: WayIn, audience: Audience) -> None:
        self.config = config
        self._placed = config
        self._way_in = way_in
        self._audience = audience
        self._sides: dict[Key, _Side] = {}
        self._tasks = Tasks(f"server {config.id}, apart")
        self._takes_no_more = False

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

    async def session(self, caller: Caller, base: Session, limit: float) -> Session:
        """The session for a caller, within `limit` seconds; `base` is the one that all could share.

        Raises:
            UpstreamError: there is none to be had.
        """
        shared = self.config.isolation == "shared"
        if (self._audience.single or shared) and base.fits(caller):
            return base
        if base.greeting.era == "modern" and base.transport == "http":
            # There are no sessions to be kept apart.
            return base
        if shared and self._takes_no_more:
            return base
        try:
            return await self._opened(self._side(base, caller), limit)
        except UpstreamError as error:
            if not shared:
                raise
            # It may know one session only: then nobody behind it can be asked anything.
            log.info("%s gives hosts that can be asked something no session of their own: %s", self.config.id, error)
            self._takes_no_more = True
            return base

    async def _opened(self, side: _Side, limit: float) -> Session:
        side.used = asyncio.get_running_loop().time()
        side.awaited += 1
        try:
            async with asyncio.timeout(limit):
                return await asyncio.shield(side.opened)
        except TimeoutError:
            raise UpstreamUnavailable(
                self.config.id, f"{self.config.id} did not open another connection within {limit:g} s."
            ) from None
        finally:
            side.awaited -= 1

    def _side(self, base: Session, caller: Caller) -> _Side:
        scope, owner, alone = self._scope(caller, base)
        abilities = NOTHING if base.greeting.era == "modern" else caller.abilities
        for number in count():
            key = (scope, abilities, number)
            side = self._sides.get(key)
            if side is None or side.over:
                return self._open(key, caller, owner)
            if not alone or side.free:
                return side
        raise AssertionError("unreachable: there is always another number")

    def has(self, session: Session) -> bool:
        """Whether it is one of these."""
        return self._of(session) is not None

    async def renew(self, session: Session) -> Session:
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

    def of_host(self, host: Hashable) -> list[Session]:
        """The open sessions that are this host's alone."""
        found = [side.session for key, side in self._sides.items() if key[0] == ("session", host)]
        return [session for session in found if session is not None and not session.over]

    def end(self) -> None:
        """Begin to end them all; `close` waits for that."""
        for side in self._sides.values():
            side.close()

    async def close(self) -> None:
        """End them all."""
        await self._tasks.cancel()

    def _of(self, session: Session) -> _Side | None:
        return next((s for s in self._sides.values() if s.session and s.session.callers is session.callers), None)

    def _scope(self, caller: Caller, base: Session) -> tuple[Hashable, Caller | None, bool]:
        """Who shares a connection, the only host there can be behind it, and whether it takes one call at a time.

        A host without a session is a session of its own for each of its calls: what it used before is its agent's, and
        no two calls use it at once.
        """
        isolation = self.config.isolation
        if isolation == "per_agent":
            return ("agent", caller.agent), None, False
        if isolation == "shared" and base.transport == "http":
            return None, None, False
        # By SSE in any case: its sessions are cheap, and nothing in them tells whose a question is.
        if caller.session is not None:
            return ("session", caller.session), caller.standing(), False
        return ("agent", caller.agent), None, True

    def _open(self, key: Key, caller: Caller, owner: Caller | None) -> _Side:
        if len(self._sides) >= AT_MOST:
            idle = [known for known, side in self._sides.items() if side.idle]
            if not idle:
                raise UpstreamUnavailable(
                    self.config.id, f"{self.config.id} has {AT_MOST} connections for different hosts, all in use."
                )
            self._sides.pop(min(idle, key=lambda known: self._sides[known].used)).close()
        side = self._sides[key] = _Side(owner)
        self._tasks.start(self._live(key, side, caller.abilities))
        return side

    async def _live(self, key: Key, side: _Side, abilities: Abilities) -> None:
        async def declare(transport: str) -> Abilities:
            return abilities

        owner, why = side.owner, "it is being closed"
        front = Front(declare, (lambda: owner) if owner is not None else None)
        try:
            async with AsyncExitStack() as stack:
                async with asyncio.timeout(self.config.connect_timeout):
                    session = await self._way_in.enter(stack, self._placed, None, front)
                side.opened.set_result(session)
                log.info("server %s has one more connection (isolation: %s)", self.config.id, self.config.isolation)
                await self._end_of(side, session)
                self._forget(key, side)
        except (TimeoutError, RpcError, PeerGone, SessionExpired, UpstreamError) as error:
            why = str(error) or f"no answer within {self.config.connect_timeout:g} s"
        finally:
            self._forget(key, side)
            if not side.opened.done():
                said = f"{self.config.id} cannot be connected once more: {why}".rstrip(".") + "."
                side.opened.set_exception(UpstreamUnavailable(self.config.id, said))
                # Whoever waited may be gone.
                side.opened.exception()

    def _forget(self, key: Key, side: _Side) -> None:
        if self._sides.get(key) is side:
            del self._sides[key]

    async def _end_of(self, side: _Side, session: Session) -> None:
        """Stay until it is over, no longer wanted, or was not used for long."""
        loop = asyncio.get_running_loop()
        ends: set[asyncio.Future[Any]] = {session.connection.ended, side.closing}
        while not any(end.done() for end in ends):
            limit = self.config.idle_timeout or IDLE_LIMIT
            await asyncio.wait(ends, timeout=limit / 4, return_when=asyncio.FIRST_COMPLETED)
            if side.idle and loop.time() - side.used > limit:
                return
