"""One upstream through its states: connect, greet, list, serve calls, notice the end, come back."""

import asyncio
import logging
import time
from collections.abc import Callable, Hashable, Mapping
from contextlib import AsyncExitStack, suppress
from typing import Any, Final

from aggregator.config.model import ServerConfig
from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.errors import RpcError, UpstreamBusy, UpstreamError, UpstreamUnavailable
from aggregator.redaction.redactor import Redactor
from aggregator.upstream.caller import Caller
from aggregator.upstream.connection import SessionExpired
from aggregator.upstream.health.health import Health, is_silence
from aggregator.upstream.lifecycle import failures as setback
from aggregator.upstream.lifecycle.failures import Failure
from aggregator.upstream.lifecycle.idle import IdleStop
from aggregator.upstream.lifecycle.reconnect_loop import ReconnectLoop
from aggregator.upstream.lifecycle.state import UpstreamState
from aggregator.upstream.lifecycle.states import State, StateAndReason
from aggregator.upstream.list_kinds import LISTS_CHANGED, WAYS
from aggregator.upstream.lists.lists import UpstreamLists
from aggregator.upstream.lists.subscriptions import UpstreamSubscriptions
from aggregator.upstream.process.launch import launched
from aggregator.upstream.process.process import ChildProcess, Reaper
from aggregator.upstream.redaction import discretion
from aggregator.upstream.sessions import request as errands
from aggregator.upstream.sessions.clients import DownstreamClients
from aggregator.upstream.sessions.connect import Connector, UpstreamSession
from aggregator.upstream.sessions.isolation import IsolatedSessions
from aggregator.upstream.sessions.negotiate import Negotiated, negotiate
from aggregator.upstream.sessions.request import OutgoingRequest
from aggregator.upstream.transports.connection_end import end_of
from aggregator.wire.peer import OnProgress, PeerGone

log = logging.getLogger(__name__)

_COMING: Final = frozenset({"starting", "reconnecting"})  # a connection is on its way, or will be in a moment


class Upstream:
    """`run` owns everything; the rest of the program calls `call` and reads the attributes."""

    def __init__(
        self,
        config: ServerConfig,
        warden: Reaper,
        changed: Callable[["Upstream"], None],
        audience: DownstreamClients | None = None,
        redact: Redactor | None = None,
    ) -> None:
        audience = audience or DownstreamClients()
        self.config = config
        self.discreet = discretion(config, redact)
        off = config.disabled_reason or ("" if config.enabled else "disabled in the config")
        first = StateAndReason("starting" if config.enabled else "disabled", off, time.time())
        self.life = UpstreamState(config.id, first, lambda: self.config.grace, lambda: changed(self), self.discreet)
        self.lists = UpstreamLists(config, lambda: changed(self), self.discreet)
        self.watch = UpstreamSubscriptions(config.id)
        self.health = Health(lambda: self.config, lambda: changed(self))
        self.greeting: Negotiated | None = None
        self.transport: str | None = None
        self.connect_seconds: float | None = None
        self._warden = warden
        self._way_in = Connector(config, warden, self._hear, self.discreet)
        self._front = audience.front
        self._shared = config.isolation == "shared"
        self._apart = IsolatedSessions(config, self._way_in, audience, self._hear, self.lists.renew)
        self._rest = IdleStop(lambda: self.config)
        self._session: UpstreamSession | None = None
        # Done when the connection is to end: with the reason, or None when it comes to rest.
        self._lost: asyncio.Future[str | None] | None = None
        self._renewing = asyncio.Lock()
        self.in_flight = 0
        self.calls = 0
        self.refused = 0
        self.reconnects = 0

    def __repr__(self) -> str:
        why = f" ({self.reason})" if self.reason else ""
        return f"<Link {self.config.id} {self.state}{why}, {self.in_flight} in flight>"

    @property
    def state(self) -> State:
        """Where it is in the table of `states`."""
        return self.life.state

    @property
    def reason(self) -> str:
        """Why it is in that state, and when it is tried again; empty where there is nothing to say."""
        return self.life.condition.told(time.time())

    @property
    def since(self) -> float:
        """Since when it is, in seconds since 1970."""
        return self.life.condition.since

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
        return self.life.shown

    @property
    def settles(self) -> bool:
        """Whether a first list waits for it: it is on its way for the first time, and nobody knows what it has."""
        return self.state == "starting" and not self.shown and not self.life.tried

    # -- what it had when it was last seen

    def recall(self, definitions: list[Any]) -> None:
        """Take what it had when it was last connected, until it has answered or turns out to be away."""
        if self.state == "starting" and self._session is None:
            self.definitions = definitions
            self.life.known = True

    def looked_up(self) -> None:
        """Whatever was to be recalled has been."""
        self._rest.looked_up()

    # -- another configuration

    def amend(self, config: ServerConfig) -> None:
        """What its tools are, or how long things may take, is other than before; the connection stays."""
        self.config = self.lists.config = self._apart.config = config
        self._rest.amended()

    def succeed(self, other: "Upstream") -> None:
        """Show what the link had in whose place this one comes, until it knows better."""
        if other.shown:
            self.recall(other.definitions)
            for kind in WAYS:
                self.lists.put(kind, other.lists[kind])

    async def quiet(self, limit: float) -> bool:
        """Wait until no call is under way, at most `limit` seconds; whether none is."""
        return await self._rest.free(limit)

    def wake(self) -> None:
        """Start it, should it be asleep."""
        self._rest.need()
        self.life.wake()

    def stay(self, seconds: float) -> None:
        """Somebody is asked something on its account: it is not to come to rest before."""
        self._rest.stay(seconds)

    # -- the life of a link

    async def run(self) -> None:
        """Connect, and connect again, until cancelled."""
        await ReconnectLoop(lambda: self.config, self.life, self._rest, self._once, self._apart.close).run()

    async def _once(self) -> Failure | None:
        """One connection, and why it ended or could not be made; None if it came to rest."""
        try:
            async with AsyncExitStack() as stack:
                try:
                    return await self._live(stack)
                except asyncio.CancelledError:
                    self.life.end()
                    self._apart.end()  # side by side with what the stack closes
                    raise
        except UpstreamError as error:
            return setback.failed(self.config, error)
        except Exception as error:
            log.exception("%s: connecting failed in a way nobody foresaw", self.config.id)
            return Failure(f"{type(error).__name__}: {error}")

    async def _live(self, stack: AsyncExitStack) -> Failure | None:
        """The same; `stack` closes what was opened."""
        began = time.monotonic()
        child: ChildProcess | None = None
        try:
            async with asyncio.timeout(self.config.connect_timeout):
                config, child = await stack.enter_async_context(launched(self.config, self._warden))
                session = await self._way_in.enter(stack, config, child, self._front())
                self._apart.begin(config)
                await self.lists.begin(await self._apart.lister(session))
        except (TimeoutError, RpcError, PeerGone, SessionExpired, UpstreamError) as error:
            if isinstance(error, TimeoutError):
                self._way_in.timed_out()
            obituary = child.obituary() if child is not None and child.exited.done() else None
            return setback.failed(self.config, error, obituary)
        now, calls = time.monotonic(), self.calls
        self.connect_seconds = now - began
        self.greeting, self.transport = session.greeting, session.transport
        self._session = session
        self._lost = asyncio.get_running_loop().create_future()
        try:
            async with Tasks(f"server {self.config.id}") as tasks:
                for kind in WAYS:
                    tasks.start(self.lists.keep(kind, self._lister, self._lose))
                tasks.start(self.watch.keep(lambda: self._session, self._lose))
                tasks.start(self.health.keep(lambda: self._session, self._lose, lambda: self.in_flight > 0))
                if session.greeting.era == "modern":
                    tasks.start(self.lists.listen(session, self._lose))
                await self.lists.others_read()
                if not (session.over or self._lost.done()):
                    self.reconnects += self.state != "starting"
                    self._rest.begin()
                    self.life.move("connected")
                    tasks.start(self._rest_when_idle(session, self._lost))
                reason = await end_of(session.connection.ended, self._lost, child)
                # Before what is left of it is cleared away, which may take a while.
                if reason is not None and self._session is not None:
                    self._lose(self._session, reason)
        finally:
            self._session = None
        if reason is None:
            return None
        ended = child.exited.done() if child is not None else session.over and self.transport == "stdio"
        # What dies of a call has lived: it is not to be kept from other callers for that.
        died = ended and self.calls == calls
        return Failure(reason, died=died, served=time.monotonic() - now)

    async def _rest_when_idle(self, session: UpstreamSession, lost: asyncio.Future[str | None]) -> None:
        """Come to rest once nobody has used it for long. Whoever comes after that starts it anew."""
        await self._rest.idle(lambda: self._wanted(session))
        if not lost.done():
            self._session = None
            lost.set_result(None)
            self.life.move("rest", self._rest.told())

    def _wanted(self, session: UpstreamSession) -> bool:
        """Whether it is needed though no call is under way: somebody subscribed, or is being asked something."""
        return self.watch.wanted or session.callers.busy or self._apart.busy

    # -- what the upstream says on its own account

    def _hear(self, method: str, params: dict[str, Any]) -> None:
        self.health.hear()
        if method in LISTS_CHANGED:
            self._apart.told = None
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
        if self._rest.uses >= self.config.max_pending:
            self.refused += 1
            raise UpstreamBusy(self.config.id, self.config.max_pending)
        errand = OutgoingRequest(method, params, limit, on_progress, headers, caller)
        with self._rest.use():
            began = time.monotonic()
            session = await self._session_for(caller, limit)
            if caller is not None:
                caller.sent_in = session.greeting.version
            try:
                return await self._send(errand, session)
            except UpstreamUnavailable:
                left = limit - (time.monotonic() - began)
                if not session.over or left <= 0:
                    raise
                # Nothing was sent: only now did it show that the connection was gone.
                errand.limit = left
                return await self._send(errand, await self._session_for(caller, left))

    async def _send(self, errand: OutgoingRequest, session: UpstreamSession) -> dict[str, Any]:
        # The health of the connection for all says nothing of a process that is somebody's own.
        alone = session is not self._session and not session.cheap
        began = self.health.begin(alone=alone)
        if errand.on_progress is not None:
            errand.on_progress = self.health.hearing(errand.on_progress)
        self.calls += 1
        self.in_flight += 1
        try:
            result = await errands.run(errand, self.config, session, self._renew, self.discreet)
        except BaseException as error:
            self.health.failed(began, error, alone=alone)
            if alone and is_silence(error):
                self._apart.unanswered(session)
            raise
        finally:
            self.in_flight -= 1
        self.health.answered(began, alone=alone)
        if alone:
            self._apart.answered(session)
        return result

    async def _session_for(self, caller: Caller | None, limit: float) -> UpstreamSession:
        session = self._session
        if session is None or session.over:
            session = await self._come_back(limit)
        if caller is not None and not (self._shared and session.fits(caller)):
            with self.discreet.hushed():
                session = await self._apart.session(caller, session, limit)
        return session

    async def agrees_to_tell(self, uri: str, limit: float) -> None:
        """Wait until the upstream has agreed to tell of changes of a resource that `watch` wants.

        Raises:
            UpstreamRpcError: it refuses.
            UpstreamError: it is away, or too slow.
        """
        with self._rest.use():
            if self._session is None or self._session.over:
                await self._come_back(limit)
            with self.discreet.hushed():
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
        if (session := await self._lister()) is not None:
            await self.lists.refresh(session, "tool", self._lose)

    async def _lister(self) -> UpstreamSession | None:
        """Return the session to read lists over; None while there is none."""
        return await self._apart.lister(self._session) if self._session is not None else None

    async def _come_back(self, limit: float) -> UpstreamSession:
        """The session once it is there: a start is given the time of the call, a reconnection `reconnect_wait`."""
        if self._session is not None and self._session.over:
            self._lose(self._session, self._session.connection.ended.result())
        if self.state == "reconnecting":
            limit = min(limit, self.config.reconnect_wait)
        with suppress(TimeoutError):
            async with asyncio.timeout(limit):
                while self._session is None and (self.life.asleep or self.state in _COMING):
                    self.wake()
                    await self.life.moved()
        if self._session is None:
            raise self.away()
        return self._session

    def away(self) -> UpstreamUnavailable:
        """Why it cannot be asked anything now."""
        return self.life.away()

    async def _renew(self, session: UpstreamSession, limit: float) -> UpstreamSession:
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
                    # It may have been lost meanwhile, and is not to come back then.
                    if self._session is session:
                        self._session = session.renewed(greeting)
                        self.greeting = self._session.greeting
                        self.lists.renew()
                        self.watch.forget()
        renewed = self._session
        return renewed if renewed is not None and not renewed.over else await self._come_back(limit)

    def _lose(self, session: UpstreamSession, reason: str) -> None:
        """From now on no call gets this session; `run` makes the next."""
        if self._session is session and self._lost is not None and not self._lost.done():
            self._session = None
            self._lost.set_result(reason)
            self.life.move("lost" if self.state == "ready" else "failed", reason)
        else:
            self._apart.lose(session)
