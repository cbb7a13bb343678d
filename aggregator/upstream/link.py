"""One upstream through its states: connect, greet, list, serve calls, notice the end, come back."""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any, Final

from aggregator.config.model import ServerConfig
from aggregator.domain.errors import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    HostError,
    RpcError,
    UpstreamBadAnswer,
    UpstreamError,
    UpstreamLost,
    UpstreamRefused,
    UpstreamRpcError,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from aggregator.domain.tasks import Tasks
from aggregator.upstream import backoff
from aggregator.upstream.connection import Inbound, SessionExpired
from aggregator.upstream.discretion import discretion
from aggregator.upstream.launch import launched
from aggregator.upstream.listing import drain
from aggregator.upstream.negotiate import Greeting, negotiate
from aggregator.upstream.process import Child, Warden
from aggregator.upstream.states import SHOWN, Event, State, after
from aggregator.upstream.way_in import Session, WayIn
from aggregator.wire.codec import TooDeep, encode_sorted
from aggregator.wire.peer import Channel, OnProgress, PeerGone

log = logging.getLogger(__name__)

# How long cached tools stay listed after a working connection dropped, and how long a call waits for it to come back.
GRACE: Final = 30.0
RECONNECT_WAIT: Final = 5.0
# A connection that lasted this long was a good one: the next failure counts as the first.
STABLE: Final = 30.0
# From one reading of a list that keeps changing to the next.
REFRESH_PAUSE: Final = 1.0


class Link:
    """`run` owns everything; the rest of the program calls `call` and reads the attributes."""

    def __init__(self, config: ServerConfig, warden: Warden, changed: Callable[["Link"], None]) -> None:
        self.config = config
        self.state: State = "starting" if config.enabled else "disabled"
        self.reason: str = config.disabled_reason or ("" if config.enabled else "disabled in the config")
        self.since = time.time()
        self.definitions: list[Any] = []
        self.greeting: Greeting | None = None
        self.transport: str | None = None
        self.connect_seconds: float | None = None
        self._warden = warden
        self._changed = changed
        self._way_in = WayIn(config, warden, Inbound(self._answer, self._hear))
        self._discreet = discretion(config)
        self._session: Session | None = None
        self._lost: asyncio.Future[str] | None = None
        self._recalled = False
        self._moved = asyncio.Event()
        self._stale = asyncio.Event()
        self._renewing = asyncio.Lock()
        self._giving_up: asyncio.TimerHandle | None = None
        self.in_flight = 0
        self.reconnects = 0

    def __repr__(self) -> str:
        why = f" ({self.reason})" if self.reason else ""
        return f"<Link {self.config.id} {self.state}{why}, {self.in_flight} in flight>"

    @property
    def shown(self) -> bool:
        """Whether its tools are listed and callable: also before it has answered, where it is known what it had."""
        return self.state in SHOWN or (self._recalled and self.state == "starting")

    def recall(self, definitions: list[Any]) -> None:
        """Take what it had when it was last connected, until it can be asked or turns out to be away."""
        if self.state == "starting":
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
                session = await self._way_in.enter(stack, config, child)
                self._stale.clear()
                self._take(await self._list(session))
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
        self._move("connected", "")
        try:
            async with Tasks(f"server {self.config.id}") as tasks:
                tasks.start(self._keep_listed())
                if session.greeting.era == "modern":
                    tasks.start(self._subscribe(session))
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

    async def _keep_listed(self) -> None:
        """List again whenever the upstream says that its list changed; a burst of changes is one."""
        while True:
            await self._stale.wait()
            self._stale.clear()
            if self._session is not None:
                await self._refresh(self._session)
            await asyncio.sleep(REFRESH_PAUSE)

    async def _refresh(self, session: Session) -> None:
        try:
            async with asyncio.timeout(self.config.connect_timeout):
                definitions = await self._list(session)
        except SessionExpired:
            self._lose(session, "it no longer knows our session")
            return
        except (TimeoutError, RpcError, PeerGone, UpstreamError) as error:
            log.warning("%s: its changed list could not be read, the old one stays: %s", self.config.id, error)
            return
        if self._take(definitions):
            self._changed(self)

    async def _subscribe(self, session: Session) -> None:
        """Hear of list changes from a modern upstream (S/basic/patterns/subscriptions), again when the stream ends."""
        tools = session.greeting.capabilities.get("tools")
        if not (isinstance(tools, dict) and tools.get("listChanged")):
            return
        params = {"notifications": {"toolsListChanged": True}, "_meta": dict(session.envelope)}
        failures = 0
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            if failures:
                # What changed meanwhile nobody told us; read once this subscription is on its way.
                loop.call_soon(self._stale.set)
            try:
                await session.connection.request("subscriptions/listen", params)
            except RpcError as error:
                log.info("%s does not tell of changes: %s", self.config.id, error)
                return
            except SessionExpired:
                self._lose(session, "it no longer knows us")
                return
            except (PeerGone, UpstreamError) as error:
                log.debug("%s: its subscription broke off: %s", self.config.id, error)
            failures = 1 if loop.time() - began > STABLE else failures + 1
            await asyncio.sleep(backoff.delay(failures, random.random()))  # noqa: S311

    def _take(self, definitions: list[Any]) -> bool:
        """Whether the list is another one; the same one stays the same object, which spares vetting it again."""
        if _same(definitions, self.definitions):
            return False
        self.definitions = definitions
        return True

    async def _list(self, session: Session) -> list[Any]:
        if "tools" not in session.greeting.capabilities:
            return []
        return await drain(self.config.id, session.connection, "tools/list", "tools", dict(session.envelope))

    # -- what the upstream says on its own account

    async def _answer(self, method: str, params: dict[str, Any], channel: Channel) -> dict[str, Any]:
        if method == "ping":
            return {}
        if method in ("initialize", "server/discover"):
            raise RpcError(METHOD_NOT_FOUND, "what it is sent comes back, so it is no MCP server")
        raise RpcError(METHOD_NOT_FOUND, f"The aggregator declares no capability for {method}.")

    def _hear(self, method: str, params: dict[str, Any]) -> None:
        if method == "notifications/tools/list_changed":
            self._stale.set()
        elif method == "notifications/message":
            log.info("%s says: %.500s", self.config.id, params.get("data"))

    # -- calls

    async def call(
        self,
        method: str,
        params: dict[str, Any],
        limit: float,
        on_progress: OnProgress | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """One request to this upstream and its result; `params` carries no hop-local `_meta`.

        Raises:
            UpstreamRpcError: the upstream's own error, to be relayed whole.
            UpstreamError: it is away, too slow, gone in the middle, or answered nonsense.
        """
        began = time.monotonic()
        session = self._session
        if session is None or session.connection.ended.done():
            session = await self._come_back(limit)
        self.in_flight += 1
        try:
            async with asyncio.timeout(limit) as clock:
                if on_progress is not None and self.config.timeout_resets_on_progress:
                    on_progress = self._extending(clock, limit, on_progress)
                sent = _enveloped(params, session.envelope)
                try:
                    return await session.connection.request(method, sent, on_progress, headers)
                except SessionExpired:
                    # Nothing was run: the one case in which a call is sent again.
                    session = await self._renew(session, limit)
                    sent = _enveloped(params, session.envelope)
                    return await session.connection.request(method, sent, on_progress, headers)
        except TimeoutError:
            raise UpstreamTimeout(
                self.config.id,
                f"{self.config.id} did not answer within its limit of {limit:g} s; the call was cancelled.",
                limit=f"{limit:g} s",
                waited=f"{time.monotonic() - began:.3g} s",
            ) from None
        except RpcError as error:
            raise UpstreamRpcError(self.config.id, error.code, error.message, error.data) from error
        except PeerGone as error:
            raise UpstreamLost(
                self.config.id,
                f"The connection to {self.config.id} ended during the call ({self._discreet(str(error))}); "
                "whether it took effect is unknown.",
            ) from error
        except SessionExpired:
            raise UpstreamUnavailable(self.config.id, f"{self.config.id} keeps forgetting its session.") from None
        except TooDeep:
            raise HostError(INVALID_PARAMS, "The arguments are nested too deeply to be passed on.") from None
        finally:
            self.in_flight -= 1

    def _extending(self, clock: asyncio.Timeout, limit: float, on_progress: OnProgress) -> OnProgress:
        loop = asyncio.get_running_loop()
        latest = loop.time() + self.config.max_timeout

        def heard(params: dict[str, Any]) -> None:
            clock.reschedule(min(loop.time() + limit, latest))
            on_progress(params)

        return heard

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
            why = f": {self.reason}" if self.reason else ""
            raise UpstreamUnavailable(
                self.config.id, f"{self.config.id} is {self.state}{why}".rstrip(".") + ".", state=self.state
            )
        return self._session

    async def _renew(self, session: Session, limit: float) -> Session:
        """A new session, initialized on the same connection, once however many calls ask for it."""
        async with self._renewing:
            if self._session is session and not session.over:
                log.info("%s no longer knows our session; a new one is initialized", self.config.id)
                try:
                    greeting = await negotiate(self.config.id, session.connection, "legacy")
                except (RpcError, UpstreamError) as error:
                    # Something else than before answers there.
                    self._lose(session, f"its session could not be renewed: {error}")
                else:
                    self.greeting = greeting
                    self._session = Session(session.connection, greeting, session.transport, greeting.envelope())
                    self._stale.set()
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


def _same(one: list[Any], other: list[Any]) -> bool:
    """Whether two lists say the same, also to who tells true from 1 and 1 from 1.0, as Python does not."""
    try:
        return one == other and encode_sorted(one) == encode_sorted(other)
    except (RecursionError, TooDeep):
        return False
