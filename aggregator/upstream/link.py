"""One upstream through its states: connect, greet, list, serve calls, notice the end, come back."""

import asyncio
import logging
import random
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Any, Final

from aggregator.config.model import Protocol, ServerConfig
from aggregator.domain.errors import (
    METHOD_NOT_FOUND,
    RpcError,
    UpstreamBadAnswer,
    UpstreamError,
    UpstreamHttpStatus,
    UpstreamLost,
    UpstreamRefused,
    UpstreamRpcError,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from aggregator.domain.tasks import Tasks
from aggregator.upstream import backoff
from aggregator.upstream.connection import TRANSPORTS, Connection, Inbound, Open, SessionExpired
from aggregator.upstream.launch import launched
from aggregator.upstream.listing import drain
from aggregator.upstream.negotiate import Greeting, negotiate
from aggregator.upstream.process import Child, Warden
from aggregator.upstream.states import SHOWN, Event, State, after
from aggregator.wire.peer import Channel, OnProgress, PeerGone

log = logging.getLogger(__name__)

# How long cached tools stay listed after a working connection dropped, and how long a call waits for it to come back.
GRACE: Final = 30.0
RECONNECT_WAIT: Final = 5.0
# A connection that lasted this long was a good one: the next failure counts as the first.
STABLE: Final = 30.0

_LAUNCH_POLL: Final = 0.1
# Statuses by which a Streamable HTTP endpoint says that it is not one (SH, Backward Compatibility).
_NOT_STREAMABLE: Final = frozenset({400, 404, 405})


@dataclass(frozen=True, slots=True)
class Session:
    """An upstream that answers."""

    connection: Connection
    greeting: Greeting
    transport: str
    envelope: Mapping[str, Any]


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
        self._session: Session | None = None
        self._ready = asyncio.Event()
        self._stale = asyncio.Event()
        self._renewing = asyncio.Lock()
        self._giving_up: asyncio.TimerHandle | None = None
        self._known_way: tuple[str, Protocol] | None = None
        self.in_flight = 0

    def __repr__(self) -> str:
        why = f" ({self.reason})" if self.reason else ""
        return f"<Link {self.config.id} {self.state}{why}, {self.in_flight} in flight>"

    @property
    def shown(self) -> bool:
        """Whether its tools are listed and callable."""
        return self.state in SHOWN

    # -- the life of a link

    async def run(self) -> None:
        """Connect, and connect again, until cancelled."""
        failures = 0
        loop = asyncio.get_running_loop()
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
                session = await self._connect(stack, config, child)
                self.definitions = await self._list(session)
        except TimeoutError:
            self._known_way = self._suspect_probe()
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
        self._move("connected", "")
        self._ready.set()
        try:
            async with Tasks(f"server {self.config.id}") as tasks:
                if session.greeting.era == "modern":
                    tasks.start(self._subscribe(session))
                reason = await self._attend(session, child)
        finally:
            self._ready.clear()
            self._session = None
        self._drop(reason)

    async def _attend(self, session: Session, child: Child | None) -> str:
        """Stay until the connection ends, listing again whenever the upstream says that its list changed."""
        async with Tasks(f"server {self.config.id}") as tasks:
            while True:
                stale = tasks.start(self._stale.wait())
                ends: set[asyncio.Future[Any]] = {session.connection.ended}
                if child is not None:
                    ends.add(child.exited)
                await asyncio.wait({stale, *ends}, return_when=asyncio.FIRST_COMPLETED)
                if session.connection.ended.done():
                    return session.connection.ended.result()
                if child is not None and child.exited.done():
                    return f"the program it is served by ended with exit code {child.exited.result()}"
                self._stale.clear()
                await self._refresh(session)

    async def _refresh(self, session: Session) -> None:
        try:
            async with asyncio.timeout(self.config.connect_timeout):
                self.definitions = await self._list(session)
        except (TimeoutError, RpcError, PeerGone, UpstreamError, SessionExpired) as error:
            log.warning("%s: its changed list could not be read, the old one stays: %s", self.config.id, error)
        else:
            self._changed(self)

    async def _subscribe(self, session: Session) -> None:
        """Hear of list changes from a modern upstream (S/basic/patterns/subscriptions)."""
        tools = session.greeting.capabilities.get("tools")
        if not (isinstance(tools, dict) and tools.get("listChanged")):
            return
        params = {"notifications": {"toolsListChanged": True}, "_meta": dict(session.envelope)}
        try:
            await session.connection.request("subscriptions/listen", params)
        except (RpcError, PeerGone, UpstreamError, SessionExpired) as error:
            log.info("%s does not tell of changes: %s", self.config.id, error)

    async def _list(self, session: Session) -> list[Any]:
        if "tools" not in session.greeting.capabilities:
            return []
        return await drain(self.config.id, session.connection, "tools/list", "tools", dict(session.envelope))

    # -- finding the way in

    async def _connect(self, stack: AsyncExitStack, config: ServerConfig, child: Child | None) -> Session:
        ways = self._ways()
        for transport, protocol in ways:
            is_last = (transport, protocol) == ways[-1]
            try:
                session = await self._try(stack, config, transport, protocol, child)
            except (PeerGone, UpstreamHttpStatus) as error:
                if is_last or not _leads_on(error, transport, protocol):
                    self._known_way = None
                    raise
                log.info("%s: %s; trying %s, %s", self.config.id, error, *ways[ways.index((transport, protocol)) + 1])
            else:
                self._known_way = (transport, session.greeting.era)
                return session
        raise AssertionError("unreachable: the last way returns or raises")

    def _ways(self) -> list[tuple[str, Protocol]]:
        """(transport, protocol) pairs in the order to try them."""
        if self._known_way is not None:
            return [self._known_way]
        transport, protocol = self.config.type, self.config.protocol
        if transport == "sse":
            # The transport is older than the modern era.
            return [("sse", "legacy")]
        first = "http" if transport == "auto" else transport
        ways: list[tuple[str, Protocol]] = [(first, protocol)]
        if protocol == "auto":
            # For servers that die of the probe.
            ways.append((first, "legacy"))
        if transport == "auto":
            ways.append(("sse", "legacy"))
        return ways

    def _suspect_probe(self) -> tuple[str, Protocol] | None:
        """After a time-out: the next attempt leaves the probe out, the one after that asks again."""
        if self.config.protocol != "auto" or self._known_way is not None or self.config.type == "sse":
            return None
        return ("http" if self.config.type == "auto" else self.config.type, "legacy")

    async def _try(
        self, stack: AsyncExitStack, config: ServerConfig, transport: str, protocol: Protocol, child: Child | None
    ) -> Session:
        # Loading a transport's libraries takes a while: not on the loop.
        opener: Open = await asyncio.to_thread(resolve_name, TRANSPORTS[transport])
        inbound = Inbound(self._answer, self._hear)
        while True:
            async with AsyncExitStack() as attempt:
                try:
                    connection = await attempt.enter_async_context(opener(config, inbound, self._warden))
                    greeting = await negotiate(self.config.id, connection, protocol)
                except UpstreamUnavailable:
                    # What we launched may need a moment until it listens.
                    if child is None or child.exited.done():
                        raise
                except SessionExpired:
                    raise UpstreamBadAnswer(self.config.id, f"{self.config.id} forgot its session at once.") from None
                else:
                    stack.push_async_exit(attempt.pop_all())
                    return Session(connection, greeting, transport, greeting.envelope())
            await asyncio.sleep(_LAUNCH_POLL)

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
        session = self._session or await self._come_back(limit)
        envelope = session.envelope
        if envelope:
            params = {**params, "_meta": {**params.get("_meta", {}), **envelope}}
        self.in_flight += 1
        try:
            async with asyncio.timeout(limit) as clock:
                if on_progress is not None and self.config.timeout_resets_on_progress:
                    on_progress = self._extending(clock, limit, on_progress)
                try:
                    return await session.connection.request(method, params, on_progress, headers)
                except SessionExpired:
                    # Nothing was run: the one case in which a call is sent again.
                    await self._renew(session)
                    return await session.connection.request(method, params, on_progress, headers)
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
                f"The connection to {self.config.id} ended during the call ({error}); "
                "whether it took effect is unknown.",
            ) from error
        except SessionExpired:
            raise UpstreamUnavailable(self.config.id, f"{self.config.id} keeps forgetting its session.") from None
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
        """The session once it is there, if that is soon."""
        if self.state in ("starting", "reconnecting"):
            try:
                async with asyncio.timeout(min(limit, RECONNECT_WAIT)):
                    await self._ready.wait()
            except TimeoutError:
                pass
        if self._session is None:
            why = f": {self.reason}" if self.reason else ""
            raise UpstreamUnavailable(
                self.config.id, f"{self.config.id} is {self.state}{why}".rstrip(".") + ".", state=self.state
            )
        return self._session

    async def _renew(self, session: Session) -> None:
        """Initialize a new session on the same connection, once however many calls ask for it."""
        async with self._renewing:
            if self._session is not session:
                return
            log.info("%s no longer knows our session; a new one is initialized", self.config.id)
            greeting = await negotiate(self.config.id, session.connection, "legacy")
            self._session = Session(session.connection, greeting, session.transport, greeting.envelope())
            self._stale.set()

    # -- states

    def _drop(self, reason: str) -> None:
        """The connection ended, or could not be made."""
        self._move("lost" if self.state == "ready" else "failed", reason)

    def _give_up(self) -> None:
        if self.state == "reconnecting":
            self._move("gave_up", self.reason)

    def _move(self, event: Event, reason: str) -> None:
        before, self.state = self.state, after(self.state, event)
        self.reason = reason.removeprefix(f"{self.config.id}: ")
        if before == self.state and event != "connected":
            return
        self.since = time.time()
        if self._giving_up is not None:
            self._giving_up.cancel()
            self._giving_up = None
        if self.state == "reconnecting":
            self._giving_up = asyncio.get_running_loop().call_later(GRACE, self._give_up)
        level = logging.WARNING if self.state in ("reconnecting", "unavailable") else logging.INFO
        log.log(level, "server %s is %s%s", self.config.id, self.state, f": {reason}" if reason else "")
        self._changed(self)


def _leads_on(error: Exception, transport: str, protocol: Protocol) -> bool:
    """Whether another way may work where this one failed like that."""
    if isinstance(error, PeerGone):
        return protocol == "auto"
    return transport == "http" and isinstance(error, UpstreamHttpStatus) and error.details["status"] in _NOT_STREAMABLE
