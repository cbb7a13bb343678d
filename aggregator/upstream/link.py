"""One upstream through its states: connect, greet, list, serve calls, notice the end, come back."""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Hashable, Mapping
from contextlib import AsyncExitStack
from typing import Any, Final

from aggregator.config.model import ServerConfig
from aggregator.domain.errors import (
    RpcError,
    UpstreamBadAnswer,
    UpstreamError,
    UpstreamRefused,
    UpstreamUnavailable,
)
from aggregator.domain.tasks import Tasks
from aggregator.upstream import backoff
from aggregator.upstream import errand as errands
from aggregator.upstream.apart import Apart
from aggregator.upstream.audience import Audience
from aggregator.upstream.callers import Caller
from aggregator.upstream.connection import SessionExpired
from aggregator.upstream.discretion import discretion
from aggregator.upstream.errand import Errand
from aggregator.upstream.launch import launched
from aggregator.upstream.lists import STABLE, WAYS, Lists
from aggregator.upstream.negotiate import Greeting, negotiate
from aggregator.upstream.process import Child, Warden
from aggregator.upstream.states import SHOWN, Event, State, after
from aggregator.upstream.watch import Watch
from aggregator.upstream.way_in import Session, WayIn
from aggregator.wire.peer import OnProgress, PeerGone

log = logging.getLogger(__name__)

# How long cached tools stay listed after a working connection dropped, and how long a call waits for it to come back.
GRACE: Final = 30.0
RECONNECT_WAIT: Final = 5.0


class Link:
    """`run` owns everything; the rest of the program calls `call` and reads the attributes."""

    def __init__(
        self,
        config: ServerConfig,
        warden: Warden,
        changed: Callable[["Link"], None],
        audience: Audience | None = None,
        redact: Callable[[str], str] | None = None,
    ) -> None:
        audience = audience or Audience()
        self.config = config
        self.state: State = "starting" if config.enabled else "disabled"
        self.reason: str = config.disabled_reason or ("" if config.enabled else "disabled in the config")
        self.since = time.time()
        self.lists = Lists(config, lambda: self._changed(self))
        self.watch = Watch(config.id)
        self.greeting: Greeting | None = None
        self.transport: str | None = None
        self.connect_seconds: float | None = None
        self._warden = warden
        self._changed = changed
        self._way_in = WayIn(config, warden, self._hear)
        self._front = audience.front
        self._shared = config.isolation == "shared"
        self._apart = Apart(config, self._way_in, audience)
        self._discreet = discretion(config, redact)
        self._session: Session | None = None
        self._lost: asyncio.Future[str] | None = None
        self._recalled = False
        self._moved = asyncio.Event()
        self._renewing = asyncio.Lock()
        self._giving_up: asyncio.TimerHandle | None = None
        self.in_flight = 0
        self.reconnects = 0

    def __repr__(self) -> str:
        why = f" ({self.reason})" if self.reason else ""
        return f"<Link {self.config.id} {self.state}{why}, {self.in_flight} in flight>"

    @property
    def definitions(self) -> list[Any]:
        """Its tools, as it has them."""
        return self.lists["tool"]

    @definitions.setter
    def definitions(self, definitions: list[Any]) -> None:
        self.lists.put("tool", definitions)

    @property
    def shown(self) -> bool:
        """Whether its tools are listed and callable: also before it has answered, where it is known what it had."""
        return self.state in SHOWN or (self._recalled and self.state == "starting")

    def recall(self, definitions: list[Any]) -> None:
        """Take what it had when it was last connected, until it has answered or turns out to be away."""
        if self.state == "starting" and self._session is None:
            self.definitions = definitions
            self._recalled = True

    # -- the life of a link

    async def run(self) -> None:
        """Connect, and connect again, until cancelled."""
        failures = 0
        loop = asyncio.get_running_loop()
        own_task = asyncio.current_task()
        try:
            while True:
                began = loop.time()
                refused = False
                try:
                    async with AsyncExitStack() as stack:
                        await self._live(stack)
                except UpstreamError as error:
                    refused = isinstance(error, UpstreamRefused)
                    self._drop(error.message)
                except Exception as error:
                    log.exception("%s: connecting failed in a way nobody foresaw", self.config.id)
                    self._drop(f"{type(error).__name__}: {error}")
                if own_task is not None and own_task.cancelling():
                    # A library lost the cancellation on its way here.
                    raise asyncio.CancelledError
                if refused:
                    self._give_up()
                failures = 1 if loop.time() - began > STABLE else failures + 1
                await asyncio.sleep(backoff.delay(failures, random.random(), refused=refused))  # noqa: S311
        finally:
            await self._apart.close()
            self._move("stop", "")

    async def _live(self, stack: AsyncExitStack) -> None:
        """One connection from start to end.

        Raises:
            UpstreamError: it could not be made.
        """
        began = time.monotonic()
        try:
            async with asyncio.timeout(self.config.connect_timeout):
                config, child = await stack.enter_async_context(launched(self.config, self._warden))
                session = await self._way_in.enter(stack, config, child, self._front())
                self._apart.begin(config)
                await self.lists.begin(session)
        except TimeoutError:
            self._way_in.timed_out()
            raise UpstreamUnavailable(
                self.config.id,
                f"{self.config.id} did not answer within {self.config.connect_timeout:g} s of connecting "
                "(`connect_timeout` in its config).",
            ) from None
        except RpcError as error:
            raise UpstreamBadAnswer(self.config.id, f"{self.config.id} refused to start: {error.message}") from error
        except (PeerGone, SessionExpired) as error:
            raise UpstreamUnavailable(self.config.id, f"{self.config.id}: {error}.") from error
        self.connect_seconds = time.monotonic() - began
        self.greeting, self.transport = session.greeting, session.transport
        self._session = session
        self._lost = asyncio.get_running_loop().create_future()
        try:
            async with Tasks(f"server {self.config.id}") as tasks:
                for kind in WAYS:
                    tasks.start(self.lists.keep(kind, lambda: self._session, self._lose))
                tasks.start(self.watch.keep(lambda: self._session, self._lose))
                if session.greeting.era == "modern":
                    tasks.start(self.lists.listen(session, self._lose))
                await self.lists.others_read()
                if not (session.over or self._lost.done()):
                    self._move("connected", "")
                reason = await self._end_of(session, self._lost, child)
        finally:
            self._session = None
        self._drop(reason)

    async def _end_of(self, session: Session, lost: asyncio.Future[str], child: Child | None) -> str:
        """Stay until the connection ends, however that shows."""
        ended = session.connection.ended
        ends: set[asyncio.Future[Any]] = {ended, lost}
        if child is not None:
            ends.add(child.exited)
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if child is not None and child.exited.done() and not ended.done():
            return f"the program it is served by ended with exit code {child.exited.result()}"
        return ended.result() if ended.done() else lost.result()

    # -- what the upstream says on its own account

    def _hear(self, method: str, params: dict[str, Any]) -> None:
        if not (self.lists.hear(method) or self.watch.hear(method, params)):
            log.debug("%s sent %.100s, which means nothing here", self.config.id, method)

    # -- calls

    async def call(
        self,
        method: str,
        params: dict[str, Any],
        limit: float,
        on_progress: OnProgress | None = None,
        headers: Mapping[str, str] | None = None,
        caller: Caller | None = None,
    ) -> dict[str, Any]:
        """One request to this upstream and its result; `params` carries no hop-local `_meta`. `caller` is for whom it
        is: without one, nobody can be asked anything.

        Raises:
            UpstreamRpcError: the upstream's own error, to be relayed whole.
            UpstreamError: it is away, too slow, gone in the middle, or answered nonsense.
        """
        session = self._session
        if session is None or session.connection.ended.done():
            session = await self._come_back(limit)
        if caller is not None and not (self._shared and session.fits(caller)):
            session = await self._apart.session(caller, session, limit)
        self.in_flight += 1
        try:
            errand = Errand(method, params, limit, on_progress, headers, caller)
            return await errands.run(errand, self.config, session, self._renew, self._discreet)
        finally:
            self.in_flight -= 1

    async def agrees_to_tell(self, uri: str, limit: float) -> None:
        """Wait until the upstream has agreed to tell of changes of a resource that `watch` wants.

        Raises:
            UpstreamRpcError: it refuses.
            UpstreamError: it is away, or too slow.
        """
        if self._session is None or self._session.over:
            await self._come_back(limit)
        await self.watch.agreed(uri, limit)

    def left(self, host: Hashable) -> None:
        """A host's session is over, and with it the connection that was its own."""
        self._apart.left(host)

    async def tell_alone(self, host: Hashable, method: str) -> None:
        """Pass a notification of a host on where nobody else is behind the connection."""
        mine = self._apart.of_host(host)
        owner = self._session.callers.owner if self._session is not None else None
        if self._session is not None and owner is not None and (only := owner()) is not None and only.host == host:
            mine.append(self._session)
        for session in mine:
            if session.greeting.era == "legacy":
                await session.connection.notify(method)

    async def list_again(self) -> None:
        """Read its tools now: what was known of them was wrong."""
        if self._session is not None:
            await self.lists.refresh(self._session, "tool", self._lose)

    async def _come_back(self, limit: float) -> Session:
        """The session once it is there: a first connection is given the time of the call, another one a moment."""
        if self._session is not None and self._session.over:
            self._lose(self._session, self._session.connection.ended.result())
        try:
            async with asyncio.timeout(limit if self.state == "starting" else min(limit, RECONNECT_WAIT)):
                while self._session is None and self.state in ("starting", "reconnecting"):
                    await self._moved.wait()
        except TimeoutError:
            pass
        if self._session is None:
            raise self.away()
        return self._session

    def away(self) -> UpstreamUnavailable:
        """Why it cannot be asked anything now."""
        why = f": {self.reason}" if self.reason else ""
        return UpstreamUnavailable(
            self.config.id, f"{self.config.id} is {self.state}{why}".rstrip(".") + ".", state=self.state
        )

    async def _renew(self, session: Session, limit: float) -> Session:
        """A new session, initialized on the same connection, once however many calls ask for it."""
        if self._apart.has(session):
            return await self._apart.renew(session)
        async with self._renewing:
            if self._session is session and not session.over:
                log.info("%s no longer knows our session; a new one is initialized", self.config.id)
                try:
                    greeting = await negotiate(self.config.id, session.connection, "legacy", session.declare)
                except (RpcError, UpstreamError) as error:
                    # Something else than before answers there.
                    self._lose(session, f"its session could not be renewed: {error}")
                else:
                    self.greeting = greeting
                    self._session = session.renewed(greeting)
                    self.lists.renew()
                    self.watch.forget()
        renewed = self._session
        return renewed if renewed is not None and not renewed.over else await self._come_back(limit)

    # -- states

    def _lose(self, session: Session, reason: str) -> None:
        """From now on no call gets this session; `run` makes the next."""
        if self._session is session and self._lost is not None and not self._lost.done():
            self._session = None
            self._lost.set_result(reason)
            self._drop(reason)

    def _drop(self, reason: str) -> None:
        """The connection ended, or could not be made."""
        self._move("lost" if self.state == "ready" else "failed", reason)

    def _give_up(self) -> None:
        if self.state == "reconnecting":
            self._move("gave_up", self.reason)

    def _move(self, event: Event, reason: str) -> None:
        before, self.state = self.state, after(self.state, event)
        self.reconnects += event == "connected" and before != "starting"
        reason = self._discreet(reason)
        self.reason = reason.removeprefix(f"{self.config.id}: ")
        if before == self.state and event != "connected":
            return
        self.since = time.time()
        self._moved.set()
        self._moved = asyncio.Event()
        if self._giving_up is not None:
            self._giving_up.cancel()
            self._giving_up = None
        if self.state == "reconnecting":
            self._giving_up = asyncio.get_running_loop().call_later(GRACE, self._give_up)
        level = logging.WARNING if self.state in ("reconnecting", "unavailable") else logging.INFO
        log.log(level, "server %s is %s%s", self.config.id, self.state, f": {reason}" if reason else "")
        self._changed(self)


def _enveloped(params: dict[str, Any], envelope: Mapping[str, Any]) -> dict[str, Any]:
    return {**params, "_meta": {**params.get("_meta", {}), **envelope}} if envelope else params
