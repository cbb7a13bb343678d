"""The web server: Streamable HTTP, SSE, `/v1`, the console and the health pages behind one guard, at one address."""

import asyncio
import errno
import socket
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Set
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Final, Protocol

from aggregator.accounts.connect.entry import CONNECT_PATH, Connect
from aggregator.config.model import Config
from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.errors import OperatorError
from aggregator.domain.principal import Principal
from aggregator.frontends.acceptor import Acceptor, SharedSocket
from aggregator.frontends.connection_admission import ConnectionAdmission
from aggregator.frontends.console.entry import Console
from aggregator.frontends.console.parts import CONSOLE_PATH
from aggregator.frontends.forwarded import ForwardedRequests
from aggregator.frontends.http_server import Listener
from aggregator.frontends.protected_resources import ProtectedResources
from aggregator.frontends.stdio import DrainRequests
from aggregator.frontends.tls import ServerTls
from aggregator.frontends.v1.routes import ROUTES, V1_CALLS_PATH, V1_PATH, V1Frontend, failure, refusal
from aggregator.frontends.web.address_wishes import take_out_wishes
from aggregator.frontends.web.answer import Answer
from aggregator.frontends.web.body_limits import limits_of
from aggregator.frontends.web.connection_limits import BoundedConnection
from aggregator.frontends.web.credentials import CHALLENGE, refuse, request_facts
from aggregator.frontends.web.forwarder import Forwarder
from aggregator.frontends.web.host_guard import (
    WRITE_WHOLE,
    App,
    HostGuard,
    Receive,
    Scope,
    Send,
    header,
    respond,
    source_in,
    values,
)
from aggregator.frontends.web.metrics_page import METRICS_PATH, MetricsPage, MetricsText
from aggregator.frontends.web.own_address import OwnAddress
from aggregator.frontends.web.repeated_fields import memory_of
from aggregator.frontends.web.request_cache import BEGUN, DirectPost, RequestCache
from aggregator.frontends.web.resumable import KeptEvents
from aggregator.frontends.web.sessions.kept_sessions import KeptSessions
from aggregator.frontends.web.sessions.session_ids import SessionIds
from aggregator.frontends.web.sessions.session_table import Sessions
from aggregator.frontends.web.sse import SseFrontend
from aggregator.frontends.web.status_pages import ALIVE_PATH, READY_PATH, StatusPages, StatusReport
from aggregator.frontends.web.streamable_http import StreamableHttpFrontend
from aggregator.gateway.access import Access
from aggregator.gateway.admission import AGENT_SHARE
from aggregator.gateway.dispatcher import Dispatcher
from aggregator.identity.identify import FrontendName, Refused
from aggregator.replicas.hop_listener import HopListener
from aggregator.wire.headers import LAST_EVENT
from aggregator.wire.responses import error_message

SSE_PATH: Final = "/sse"
MESSAGES_PATH: Final = "/messages"
# Health checks may use any host name here; details are shown on this machine only.
HEALTH_PATHS: Final = frozenset({ALIVE_PATH, READY_PATH})

BACKLOG: Final = 2048
# Seconds for requests that the drain does not wait for, such as pages, and then for hosts to read the last answers.
LAST_ANSWERS: Final = 1.0
LAST_BYTES: Final = 2.0
_UNTIL_ABORTED: Final = 0.1
_NO_LONGER: Final = 5
# Seconds that a worker waits for its hosts to go to others, and since when a host has sent nothing whose connection is
# closed before its next request.
HAND_OVER_FOR: Final = 10.0
IDLE_FOR: Final = 3.0
_LOOK_AGAIN: Final = 0.1
# Seconds for requests on connections that came just before the port was closed, and between two looks.
LAST_ARRIVALS: Final = 1.0
LOOK_EVERY: Final = 0.02

# For a request whose principal is let in again before its end.
_LET_OUT: Final = Refused(401, "This request was ended, since its key was not good for a moment; send it again.")

# An ASGI application for requests of an authenticated principal.
ServeRequest = Callable[[Principal, Scope, Receive, Send], Coroutine[Any, Any, None]]


class ReportsOfAll(Protocol):
    """The details for `/readyz`, and the metrics, of all replicas."""

    async def report(self) -> Mapping[str, Any]: ...

    def page(self) -> AsyncIterator[bytes]: ...


class WebServer:
    """An ASGI application that routes requests to the frontends by path, all others to the pages."""

    def __init__(
        self,
        gateway: Dispatcher,
        config: Config,
        access: Access,
        report: StatusReport,
        metrics: MetricsText | None = None,
        console: Console | None = None,
        of_all: ReportsOfAll | None = None,
        connect: Connect | None = None,
    ) -> None:
        http, sse = config.http, config.sse
        self._tasks = Tasks("the web frontends")
        limits = limits_of(http, gateway.admission)
        group = gateway.group
        self._kept = KeptSessions(group)
        forwarder = Forwarder(group, gateway.drain)
        self._sessions = Sessions(
            gateway.list_changes,
            gateway.revocation,
            self._tasks,
            gateway.admission,
            http.session_idle_timeout,
            limits.unread,
            ids=SessionIds(group.key, group.clock, me=group.membership.id),
            kept=self._kept,
            names=http.names,
            schemas=http.schemas,
            gateway=gateway,
            question_ids=forwarder.questions.numbers,
            kept_events=KeptEvents(limits.unread, group.membership.id),
        )
        self._posts = RequestCache(gateway, access, limits, self._sessions, self._tasks)
        self._http = StreamableHttpFrontend(gateway, http, limits, self._sessions, self._posts, self._tasks, forwarder)
        self.own = OwnAddress(http)
        self._sse = SseFrontend(gateway, sse, MESSAGES_PATH, limits, self._prefix, forwarder)
        others = {path: path for path in (SSE_PATH, V1_PATH, METRICS_PATH, CONSOLE_PATH)} | {MESSAGES_PATH: SSE_PATH}
        self._resources = ProtectedResources(access, self.own, self._prefix, http.path, others)
        self._stall_timeout = http.stall_timeout
        self.connection_admission = ConnectionAdmission(
            gateway.admission.refused, AGENT_SHARE, self.own.speaks_for_many
        )
        gateway.admission.connections = self.connection_admission
        self._gateway = gateway
        self._access = access
        self._http_path = http.path
        self._frontends: dict[str, tuple[FrontendName, ServeRequest]] = {}
        if http.enabled:
            self._frontends[http.path] = ("http", self._http.serve)
        if sse.enabled:
            self._frontends |= {SSE_PATH: ("sse", self._sse.stream), MESSAGES_PATH: ("sse", self._sse.message)}
        if config.v1.enabled:
            v1 = V1Frontend(gateway, config.v1, limits, self.own.public_url, console)
            self._frontends |= {path: ("v1", v1.serve) for path in ROUTES}
        paths = {
            "streamable_http": http.path if http.enabled else None,
            "sse": SSE_PATH if sse.enabled else None,
            "v1": f"{V1_PATH}/openapi.json" if config.v1.enabled else None,
        }
        of_group = of_all.page if of_all is not None else None
        self._metrics = (
            MetricsPage(access, self._resources.challenge, metrics, of_group) if metrics is not None else None
        )
        base = self.own.public_url or ""
        self._pages = StatusPages(
            report,
            {kind: f"{base}{path}" for kind, path in paths.items() if path is not None},
            CONSOLE_PATH if console is not None else None,
            of_all.report if of_all is not None else None,
        )
        self._console = console
        self._connect = connect
        self._leaving = False
        # The requests that are being served, and those of them that were ended with the process.
        self._serving: dict[asyncio.Task[Any], Answer] = {}
        self._cut_off: set[asyncio.Task[Any]] = set()
        self.app = HostGuard(self._route, self.own, HEALTH_PATHS, (CONSOLE_PATH, CONNECT_PATH))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """End idle sessions inside; on the way out, end all of them."""
        async with self._tasks:
            self._tasks.start(self._sessions.sweep())
            self._tasks.start(self._kept.run())
            self._tasks.start(self._gateway.revocation.run(self._access.holds))
            try:
                yield
            finally:
                self._sessions.close()
                await self._gateway.close_parked()

    def answer_hops(self, listener: HopListener) -> None:
        """Have requests of hosts that other replicas forward to this one answered at the listener for replicas."""
        ForwardedRequests(self._gateway, self._access, self._http, self._sse, self._sessions).add_to(listener)

    def connection(self, *given: Any, **more: Any) -> BoundedConnection:
        """Return the protocol of one connection, for the HTTP server below."""
        made = BoundedConnection(self._stall_timeout, self._gateway.admission.refused, self._posts, *given, **more)
        if self._leaving:
            made.answer_last()
        return made

    def leave(self, connections: Iterable[object]) -> None:
        """Have all connections, those that come later too, end with their next answer, so that hosts go elsewhere."""
        self._leaving = True
        for connection in list(connections):
            if isinstance(connection, BoundedConnection):
                connection.answer_last()

    async def end_requests(self, serving: "asyncio.Task[Any]", connections: Set[object]) -> None:
        """End what is still being answered once the drain is over and the server ends: what has no answer by then gets
        a 503, and a host that does not read its answer loses its connection. `serving` is done when all has ended.
        """
        await asyncio.wait([serving], timeout=LAST_ANSWERS)
        self._cut({task for task, answer in self._serving.items() if not answer.started})
        await asyncio.wait([serving], timeout=LAST_BYTES)
        for connection in list(connections):
            if isinstance(connection, BoundedConnection):
                connection.transport.abort()
        await asyncio.wait([serving], timeout=_UNTIL_ABORTED)
        # Work for hosts that have left before.
        self._cut(set(self._serving))

    def _cut(self, tasks: "set[asyncio.Task[Any]]") -> None:
        self._cut_off |= tasks
        for task in tasks:
            task.cancel()

    async def answer_arrivals(self, connections: Set[object]) -> None:
        """Serve requests that have come, or whose connections are there, for `LAST_ARRIVALS` at most; close others."""
        ends = asyncio.get_running_loop().time() + LAST_ARRIVALS
        # A connection that was just accepted is among them some turns of the loop later: one look does not see it.
        quiet = 0
        while quiet < 2 and asyncio.get_running_loop().time() < ends:
            expected = [one for one in list(connections) if isinstance(one, BoundedConnection) and one.is_expected()]
            quiet = 0 if expected else quiet + 1
            await asyncio.sleep(LOOK_EVERY)

    def close_streams(self) -> None:
        """Close the streams that would otherwise stay open, so that the server can drain."""
        self._gateway.list_changes.close()
        self._sessions.close_streams()
        self._sse.close()
        if self._console is not None:
            self._console.close()

    def _prefix(self, scope: Scope) -> str:
        """Return the prefix of our paths as the sender of a request sees them."""
        source, host = source_in(scope), header(scope, b"host") or ""
        sent = values(scope, b"x-forwarded-prefix")
        before = self.own.prefix(host, sent, forwarded=source.forwarded, by_trusted=source.by_trusted)
        return before or str(scope.get("root_path", ""))

    async def _close_to(self, send: Send, kind: FrontendName, *, waited: bool = False) -> None:
        """Refuse, during the drain, requests that do not reach the gateway; `waited`: at its end."""
        shut = self._gateway.drain.unfinished() if waited else self._gateway.drain.refusal()
        body = failure(shut.word, shut.message) if kind == "v1" else error_message(None, shut)
        await respond(send, shut.status, body, {b"retry-after": b"%d" % shut.retry_after, b"connection": b"close"})

    async def _authenticate(self, scope: Scope, kind: FrontendName, agent: str | None) -> Principal | Refused:
        """Return the principal of a request, or why there is none. A request that repeats the one before on its
        connection is only checked for what may have changed since.
        """
        memory, endpoint = memory_of(scope), (scope["path"], scope["query_string"])
        if memory is not None and memory.authentication is not None and memory.endpoint == endpoint:
            known = self._access.repeated(memory.authentication)
            if known is not None:
                return known
        principal = await self._access.admit(request_facts(scope, kind, agent))
        if memory is not None and isinstance(principal, Principal):
            memory.endpoint, memory.authentication = endpoint, self._access.authentication(principal)
        return principal

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        task, answer = asyncio.current_task(), Answer(send, scope.pop(WRITE_WHOLE, None))
        assert task is not None, "a request is served in a task"
        self._serving[task] = answer
        try:
            await self._serve(task, scope, receive, answer)
        except asyncio.CancelledError:
            if task not in self._cut_off or task.uncancel():
                raise
            if not answer.started:
                await self._close_to(answer, "v1" if scope["path"].startswith(f"{V1_PATH}/") else "http", waited=True)
        finally:
            del self._serving[task]
            self._cut_off.discard(task)

    async def _serve(self, task: "asyncio.Task[Any]", scope: Scope, receive: Receive, answer: Answer) -> None:
        take_out_wishes(scope, self._http_path, SSE_PATH)
        path, agent, send = scope["path"], None, answer
        if self._console is not None and (path == CONSOLE_PATH or path.startswith(f"{CONSOLE_PATH}/")):
            scope[CHALLENGE] = partial(self._resources.challenge, scope)
            await self._console.serve(scope, receive, send, self._prefix(scope))
            return
        if self._connect is not None and self._connect.serves(path):
            await self._connect.serve(scope, receive, send, self._prefix(scope))
            return
        frontend = self._frontends.get(path) or self._frontends.get(path.rstrip("/"))
        if frontend is None and path.startswith(f"{self._http_path}/"):
            agent, frontend = path[len(self._http_path) + 1 :], self._frontends.get(self._http_path)
        if frontend is None:
            await self._page(path)(scope, receive, send)
            return
        kind, served = frontend
        begun: DirectPost | None = scope.get(BEGUN)
        # Calls are refused on record, and answers to calls that run may be taken up.
        off_record = (scope["method"] == "GET" and header(scope, LAST_EVENT.encode()) is None) or (
            kind == "v1" and scope["path"].rstrip("/") != V1_CALLS_PATH
        )
        if begun is None and off_record and self._gateway.drain.started:
            await self._close_to(send, kind)
            return
        principal = begun.principal if begun is not None else await self._authenticate(scope, kind, agent)
        if isinstance(principal, Refused):
            await self._refuse(scope, send, principal, kind)
            return
        if principal.token is not None:
            answer.ask_for = partial(self._resources.ask_for, scope)
        going = self._gateway.revocation.add(principal, task.cancel)
        if begun is not None and begun.going.revoked:
            # Its key was refused before a task worked on it; what ends with the key, too, comes second.
            going.revoked = task.cancel()
        try:
            await served(principal, scope, receive, answer)
        except asyncio.CancelledError:
            if not going.revoked:
                raise
            # The key is no longer valid, or requests of this machine now need one. If the host does not read, the
            # response cannot be sent at once, and must not be ended a second time.
            self._gateway.revocation.remove(going)
            task.uncancel()
            again = self._access.authenticate(request_facts(scope, kind, agent))
            if answer.started:
                await answer.end()
            else:
                await self._refuse(scope, send, again if isinstance(again, Refused) else _LET_OUT, kind)
        finally:
            self._gateway.revocation.remove(going)

    def _page(self, path: str) -> App:
        """Return what answers at a path that is no frontend's."""
        if self._resources.serves(path):
            return self._resources.serve
        return self._metrics.serve if self._metrics is not None and path == METRICS_PATH else self._pages

    async def _refuse(self, scope: Scope, send: Send, refused: Refused, kind: FrontendName) -> None:
        challenge = self._resources.challenge(scope, refused)
        await refuse(send, refused, challenge, refusal(refused) if kind == "v1" else None)


def listening_socket(host: str, port: int, setting: str = "--port") -> socket.socket:
    """Return a socket that listens on the address; port 0 takes a free one. `setting` chooses the port.

    Raises:
        OperatorError: the address cannot be used.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.socket(family, kind, protocol)
    except OSError as error:
        raise OperatorError(f"Cannot listen on {host}: {error.strerror or error}.") from error
    try:
        if sys.platform == "win32":
            # There, SO_REUSEADDR lets another program take the port from under us.
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.listen(BACKLOG)
    except OSError as error:
        bound.close()
        hint = f" Another program has that port; choose one with {setting}." if error.errno == errno.EADDRINUSE else ""
        raise OperatorError(f"Cannot listen on {host}:{port}: {error.strerror}.{hint}") from error
    return bound


async def _hand_over(server: Listener, stopped: "asyncio.Task[Any]") -> None:
    """Wait until the hosts have gone to other workers, for a bounded time; `stopped` is done if nothing is awaited.

    The answer to the next request of each says that its connection ends, so that none is lost.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(HAND_OVER_FOR):
            while connections := list(server.server_state.connections):
                for connection in connections:
                    if isinstance(connection, BoundedConnection):
                        connection.is_expected(IDLE_FOR)
                if stopped in (await asyncio.wait([stopped], timeout=_LOOK_AGAIN))[0]:
                    return


# Waits until the time is over in which all is still served and hosts are sent elsewhere; returns whether there was
# such a time.
LeaveRequests = Callable[[], Coroutine[Any, Any, bool]]


async def serve_web(
    web: WebServer,
    bound: socket.socket,
    stopping: asyncio.Event,
    drain: DrainRequests | None = None,
    leave: LeaveRequests | None = None,
    tls: ServerTls | None = None,
    shared: SharedSocket | None = None,
) -> None:
    """Serve until `stopping` is set, then leave and drain. While `drain` runs, new requests are refused.

    Where there was a time to leave, no connection is accepted after it: a proxy that gets none asks elsewhere. One of
    several workers has `shared`: it also ends once it is to hand over, when its hosts have gone to the others.
    """
    acceptor = shared.acceptor if shared is not None else Acceptor(bound, admission=web.connection_admission)
    context = tls.context if tls is not None else None
    server = Listener(web.app, web.connection, _NO_LONGER, tls=context, acceptor=acceptor)
    async with web.running(), Tasks("the web server") as tasks:
        serving = tasks.start(server.serve(sockets=[bound]))
        stopped = tasks.start(stopping.wait())
        ends = {serving, stopped, *([tasks.start(shared.handing_over.wait())] if shared is not None else [])}
        if tls is not None:
            tasks.start(tls.run())
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if not serving.done():
            web.leave(server.server_state.connections)
            if not stopping.is_set():
                server.close_listeners()
                web.close_streams()
                await _hand_over(server, stopped)
            elif leave is not None and await leave():
                await server.accept_no_more(bound)
                await web.answer_arrivals(server.server_state.connections)
        if drain is not None and not serving.done():
            await drain()
        web.close_streams()
        server.should_exit = True
        await web.end_requests(serving, server.server_state.connections)
        await serving
