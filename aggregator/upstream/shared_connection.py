"""The connection of one upstream that its callers share: opened, maintained, and given up when it fails."""

import asyncio
import logging
import time
from collections.abc import Hashable
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import Final, Protocol

from aggregator.config.server_config import ServerConfig
from aggregator.domain.bounds.kept_work import KeptWork, Work
from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.errors import RpcError, UpstreamError, reason_of
from aggregator.domain.grant_owner import GrantOwner
from aggregator.domain.reasons import Reason
from aggregator.upstream.connection import SessionExpired
from aggregator.upstream.current_config import CurrentConfig
from aggregator.upstream.health.health import Health
from aggregator.upstream.health.in_flight import CallCounts
from aggregator.upstream.late_secrets import same_secrets
from aggregator.upstream.lifecycle.failures import Failure, failure_of
from aggregator.upstream.lifecycle.idle import IdleStop
from aggregator.upstream.list_kinds import LIST_METHODS
from aggregator.upstream.lists.lists import UpstreamLists
from aggregator.upstream.lists.subscriptions import UpstreamSubscriptions
from aggregator.upstream.process.launch import launched
from aggregator.upstream.process.process import ChildProcess
from aggregator.upstream.process.reaper_pipe import Reaper
from aggregator.upstream.sessions.clients import DownstreamClients
from aggregator.upstream.sessions.connect import Connector
from aggregator.upstream.sessions.isolation import IsolatedSessions
from aggregator.upstream.sessions.negotiate import Negotiated, negotiate
from aggregator.upstream.sessions.session import UpstreamSession
from aggregator.upstream.transports.connection_end import wait_for_end
from aggregator.wire.peer import PeerGone

log = logging.getLogger(__name__)

# Seconds between two looks for new credentials in place of refused ones.
REFUSED_PAUSE: Final = 15.0
# Seconds that calls in a renewed session wait for its tools.
TOOLS_WITHIN: Final = 1.0


class ConnectionEvents(Protocol):
    """The owner of the state, which gets the reports of a connection (`ReconnectLoop`)."""

    def connected(self) -> None: ...

    def lost(self, reason: str) -> None: ...

    def idle(self) -> None: ...

    def hurry(self) -> None: ...

    def stop(self) -> None: ...


class SharedConnection:
    """The shared connections of one upstream, one after the other; a `SessionHolder`.

    session: the open session, or None.
    negotiated, transport, connect_seconds: of the latest connection; None before the first.
    """

    def __init__(
        self,
        config: CurrentConfig,
        events: ConnectionEvents,
        counts: CallCounts,
        *,
        reaper: Reaper,
        clients: DownstreamClients,
        connector: Connector,
        isolated: IsolatedSessions,
        lists: UpstreamLists,
        subscriptions: UpstreamSubscriptions,
        health: Health,
        idle: IdleStop,
        kept: KeptWork | None = None,
    ) -> None:
        self.session: UpstreamSession | None = None
        self.negotiated: Negotiated | None = None
        self.transport: str | None = None
        self.connect_seconds: float | None = None
        self._config = config
        self._events = events
        self._counts = counts
        self._reaper = reaper
        self._clients = clients
        self._connector = connector
        self._isolated = isolated
        self._lists = lists
        self._subscriptions = subscriptions
        self._health = health
        self._idle = idle
        self._kept = kept or KeptWork()
        # Done when the connection has to end: with the reason, or None if the upstream is idle.
        self._end: asyncio.Future[str | None] | None = None
        self._renewing = asyncio.Lock()

    def __repr__(self) -> str:
        return f"<SharedConnection {self._config.value.id} {'open' if self.session is not None else 'closed'}>"

    # -- for users of the session

    @property
    def busy(self) -> bool:
        """True if calls are running."""
        return self._counts.in_flight > 0

    @property
    def calls(self) -> int:
        """The number of calls that were sent so far."""
        return self._counts.calls

    async def for_lists(self) -> UpstreamSession | None:
        """Return the session to read lists over, or None."""
        return await self._isolated.lister(self.session) if self.session is not None else None

    def lose(self, session: UpstreamSession, reason: str) -> None:
        """Give up a session: no further call gets it, and another one is opened."""
        if session is self.session:
            self._lost(reason)
        else:
            self._isolated.lose(session)

    async def renew(self, session: UpstreamSession) -> None:
        """Initialize a new session on the connection, once for all calls that found the old one expired."""
        async with self._renewing:
            if self.session is not session or session.over:
                return
            server = self._config.value.id
            log.info("%s no longer knows our session; a new one is initialized", server)
            try:
                negotiated = await negotiate(server, session.connection, "legacy", session.declare)
            except (RpcError, PeerGone, SessionExpired, UpstreamError) as error:
                # Another server answers there now.
                why = reason_of(error)
                self.lose(session, Reason(f"its session could not be renewed: {why}", why.said))
                return
            # If it was lost meanwhile, it must not come back.
            if self.session is session:
                self.session = session.renewed(negotiated)
                self.negotiated = self.session.negotiated
                self._lists.read_again()
                self._subscriptions.reset()
                await self._read_tools()

    async def _read_tools(self) -> None:
        """Read the tools of a renewed session if that takes a moment: calls that go on there may need other names."""
        with suppress(TimeoutError):
            async with asyncio.timeout(TOOLS_WITHIN):
                # Over HTTP, the session for lists may be forgotten too: the second time it is another one.
                for _ in range(2):
                    if (session := await self.for_lists()) is not None:
                        await self._lists.read_if_announced("tool", session, self)

    def host_left(self, host: Hashable) -> None:
        """Close the connections of a host whose session has ended."""
        self._isolated.host_left(host)

    def account_changed(self, account: GrantOwner, *, connected: bool) -> None:
        """Handle an account that was connected or disconnected."""
        if connected:
            self._events.hurry()
            return
        self._isolated.account_gone(account)
        if self.session is not None and account == self._connector.account:
            self.lose(self.session, "its account is not connected any more")

    async def notify_dedicated(self, host: Hashable, method: str) -> None:
        """Send a notification of a host over the connections for this host alone."""
        dedicated, session = self._isolated.of_host(host), self.session
        owner = session.back_channel.owner if session is not None else None
        if session is not None and owner is not None and (only := owner()) is not None and only.host == host:
            dedicated.append(session)
        for session in dedicated:
            if session.negotiated.era == "legacy":
                await session.connection.notify(method)

    async def close_isolated(self) -> None:
        """Close the isolated sessions beside this connection."""
        await self._isolated.close()

    # -- one connection after the other

    async def run_once(self) -> Failure | None:
        """Connect, wait for the end, and return why it ended or failed; None if the upstream was idle."""
        try:
            async with AsyncExitStack() as stack:
                try:
                    return await self._run(stack)
                except asyncio.CancelledError:
                    # Report first: closing the stack may take a while.
                    self._events.stop()
                    self._isolated.begin_close()
                    raise
        except UpstreamError as error:
            return failure_of(self._config.value, error)
        except Exception as error:
            log.exception("%s: connecting failed: an unexpected error", self._config.value.id)
            return Failure(Reason(f"an unexpected error ({type(error).__name__})", str(error)))

    async def _run(self, stack: AsyncExitStack) -> Failure | None:
        began, config = time.monotonic(), self._config.value
        child: ChildProcess | None = None
        session: UpstreamSession | None = None
        try:
            completed = await self._connector.complete(config)
            async with asyncio.timeout(config.limits.connect_timeout):
                placed, child = await stack.enter_async_context(launched(completed, self._reaper))
                session = await self._connector.connect(stack, placed, child, self._clients.client_side())
                self._isolated.begin(placed)
                await self._lists.begin(await self._isolated.lister(session))
        except (TimeoutError, RpcError, PeerGone, SessionExpired, UpstreamError) as error:
            if isinstance(error, TimeoutError):
                self._connector.timed_out()
            if session is not None:
                session.lost()
            end_reason = child.end_reason() if child is not None and child.exited.done() else None
            return failure_of(self._config.value, error, end_reason)
        self.connect_seconds = time.monotonic() - began
        self.negotiated, self.transport = session.negotiated, session.transport
        return await self._serve(session, child, completed)

    async def _serve(
        self, session: UpstreamSession, child: ChildProcess | None, completed: ServerConfig
    ) -> Failure | None:
        """Keep an open connection in order until it ends."""
        began, calls = time.monotonic(), self._counts.calls
        self.session = session
        self._end = asyncio.get_running_loop().create_future()
        try:
            async with Tasks(f"server {self._config.value.id}") as tasks:
                for kind in LIST_METHODS:
                    self._keep(tasks, f"the list of {kind}s", partial(self._lists.keep, kind, self))
                self._keep(tasks, "the subscriptions", partial(self._subscriptions.keep, self))
                self._keep(tasks, "the health checks", partial(self._health.keep, self))
                if completed.references:
                    self._keep(tasks, "the look at secrets", partial(self._watch_secrets, session, completed))
                if session.negotiated.era == "modern":
                    self._keep(tasks, "the news of lists", partial(self._lists.listen, session, self))
                await self._lists.wait_others()
                if not (session.over or self._end.done()):
                    self._idle.begin()
                    self._events.connected()
                    self._keep(tasks, "the stop of idle servers", partial(self._stop_when_idle, session, self._end))
                reason = await wait_for_end(session.connection.ended, self._end, child)
                if reason is not None:
                    # Report first: closing the rest may take a while.
                    self._lost(reason)
        finally:
            self.session = None
        if reason is None:
            return None
        ended = child.exited.done() if child is not None else session.over and self.transport == "stdio"
        # A program that ended during a call had worked: other callers may still use it.
        died = ended and self._counts.calls == calls
        return Failure(reason, died=died, served=time.monotonic() - began)

    def _keep(self, tasks: Tasks, name: str, work: Work) -> None:
        """Run a connection's background work: if it raises, report it and begin again."""
        tasks.start(self._kept.keep(f"{name} (server {self._config.value.id})", work))

    def _lost(self, reason: str) -> None:
        if self.session is not None and self._end is not None and not self._end.done():
            self.session.lost()
            self.session = None
            self._end.set_result(reason)
            self._events.lost(reason)

    async def _stop_when_idle(self, session: UpstreamSession, end: asyncio.Future[str | None]) -> None:
        """Give the session up after a long time without use; the next call connects again."""
        await self._idle.wait_idle(lambda: self._in_use(session))
        if not end.done():
            self.session = None
            end.set_result(None)
            self._events.idle()

    async def _watch_secrets(self, session: UpstreamSession, completed: ServerConfig) -> None:
        """Give the session up if the server refuses its credentials and new ones exist."""
        self._health.refused.clear()
        while True:
            await self._health.refused.wait()
            try:
                changed = not same_secrets(await self._connector.complete(self._config.value), completed)
            except UpstreamError as error:
                log.debug("%s", error)
                changed = False
            if changed:
                self._isolated.begin_close()
                self.lose(session, "it refused its credentials, which are others by now")
                return
            # A server may refuse single calls: an agent that repeats one keeps no source busy.
            await asyncio.sleep(REFUSED_PAUSE)
            self._health.refused.clear()

    def _in_use(self, session: UpstreamSession) -> bool:
        """Return True if the upstream is needed by a subscription, a request to a host, or an isolated session."""
        return self._subscriptions.wanted or session.back_channel.busy or self._isolated.busy
