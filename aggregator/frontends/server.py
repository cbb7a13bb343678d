"""The web server: Streamable HTTP, SSE, `/v1`, the console and the health pages behind one guard, at one address."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from typing import Any, Final, Protocol, cast

import uvicorn

from aggregator.config.model import Config
from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.errors import OperatorError
from aggregator.domain.principal import Principal
from aggregator.frontends.console.entry import Console
from aggregator.frontends.console.parts import CONSOLE_PATH
from aggregator.frontends.stdio import DrainRequests
from aggregator.frontends.v1.routes import ROUTES, V1_PATH, V1Frontend, failure, refusal
from aggregator.frontends.web.answer import Answer
from aggregator.frontends.web.body_limits import limits_of
from aggregator.frontends.web.connection_limits import BoundedConnection
from aggregator.frontends.web.credentials import refuse, request_facts
from aggregator.frontends.web.host_guard import (
    WRITE_WHOLE,
    HostGuard,
    Receive,
    Scope,
    Send,
    header,
    respond,
    source_in,
    values,
)
from aggregator.frontends.web.known_posts import BEGUN, DirectPost, KnownPosts
from aggregator.frontends.web.metrics_page import METRICS_PATH, MetricsPage, MetricsText
from aggregator.frontends.web.own_address import OwnAddress
from aggregator.frontends.web.repeated_fields import memory_of
from aggregator.frontends.web.sessions import Sessions
from aggregator.frontends.web.sse import SseFrontend
from aggregator.frontends.web.status_pages import ALIVE_PATH, READY_PATH, StatusPages, StatusReport
from aggregator.frontends.web.streamable_http import StreamableHttpFrontend
from aggregator.gateway.access import Access
from aggregator.gateway.dispatcher import Dispatcher
from aggregator.identity.identify import FrontendName, Refused
from aggregator.wire.responses import error_message

SSE_PATH: Final = "/sse"
MESSAGES_PATH: Final = "/messages"
# Health checks may use any host name here; details are shown on this machine only.
HEALTH_PATHS: Final = frozenset({ALIVE_PATH, READY_PATH})

BACKLOG: Final = 2048
# Seconds for the last answers to be sent once all requests have ended.
LAST_BYTES: Final = 2

# For a request whose principal is let in again before its end.
_LET_OUT: Final = Refused(401, "This request was ended, since its key was not good for a moment; send it again.")


class ServeRequest(Protocol):
    """An ASGI application for requests of an authenticated principal."""

    async def __call__(self, principal: Principal, scope: Scope, receive: Receive, send: Send) -> None: ...


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
    ) -> None:
        http, sse = config.http, config.sse
        self._tasks = Tasks("the web frontends")
        limits = limits_of(http, gateway.admission)
        self._sessions = Sessions(
            gateway.list_changes,
            gateway.revocation,
            self._tasks,
            gateway.admission,
            http.session_idle_timeout,
            limits.unread,
        )
        self._posts = KnownPosts(gateway, access, limits, self._sessions, self._tasks)
        self._http = StreamableHttpFrontend(gateway, http.names, limits, self._sessions, self._posts, self._tasks)
        self.own = OwnAddress(http)
        self._sse = SseFrontend(gateway, sse.names, MESSAGES_PATH, limits, self._prefix)
        self._stall_timeout = http.stall_timeout
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
        self._metrics = MetricsPage(access, metrics) if metrics is not None else None
        base = self.own.public_url or ""
        self._pages = StatusPages(
            report,
            {kind: f"{base}{path}" for kind, path in paths.items() if path is not None},
            CONSOLE_PATH if console is not None else None,
        )
        self._console = console
        self.app = HostGuard(self._route, self.own, HEALTH_PATHS, CONSOLE_PATH)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """End idle sessions inside; on the way out, end all of them."""
        async with self._tasks:
            self._tasks.start(self._sessions.sweep())
            self._tasks.start(self._gateway.revocation.run(self._access.holds))
            try:
                yield
            finally:
                self._sessions.close()
                await self._gateway.close_parked()

    def connection(self, *given: Any, **more: Any) -> BoundedConnection:
        """Return the protocol of one connection, for the HTTP server below."""
        return BoundedConnection(self._stall_timeout, self._gateway.admission.refused, self._posts, *given, **more)

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

    async def _close_to(self, send: Send, kind: FrontendName) -> None:
        """Refuse, during the drain, requests that do not reach the gateway: streams and requests of `/v1`."""
        shut = self._gateway.drain.refusal()
        body = failure(shut.word, shut.message) if kind == "v1" else error_message(None, shut)
        await respond(send, shut.status, body, {b"retry-after": b"%d" % shut.retry_after, b"connection": b"close"})

    def _authenticate(self, scope: Scope, kind: FrontendName, agent: str | None) -> Principal | Refused:
        """Return the principal of a request, or why there is none. A request that repeats the one before on its
        connection is only checked for what may have changed since.
        """
        memory, endpoint = memory_of(scope), (scope["path"], scope["query_string"])
        if memory is not None and memory.authentication is not None and memory.endpoint == endpoint:
            known = self._access.repeated(memory.authentication)
            if known is not None:
                return known
        principal = self._access.authenticate(request_facts(scope, kind, agent))
        if memory is not None and isinstance(principal, Principal):
            memory.endpoint, memory.authentication = endpoint, self._access.authentication(principal)
        return principal

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        path, agent = scope["path"], None
        if self._console is not None and (path == CONSOLE_PATH or path.startswith(f"{CONSOLE_PATH}/")):
            await self._console.serve(scope, receive, send, self._prefix(scope))
            return
        frontend = self._frontends.get(path) or self._frontends.get(path.rstrip("/"))
        if frontend is None and path.startswith(f"{self._http_path}/"):
            agent, frontend = path[len(self._http_path) + 1 :], self._frontends.get(self._http_path)
        if frontend is None:
            page = self._metrics.serve if self._metrics is not None and path == METRICS_PATH else self._pages
            await page(scope, receive, send)
            return
        kind, served = frontend
        begun: DirectPost | None = scope.get(BEGUN)
        if begun is None and self._gateway.drain.started and (kind == "v1" or scope["method"] == "GET"):
            await self._close_to(send, kind)
            return
        principal = begun.principal if begun is not None else self._authenticate(scope, kind, agent)
        if isinstance(principal, Refused):
            await _refuse(send, principal, kind)
            return
        task, answer = asyncio.current_task(), Answer(send, scope.pop(WRITE_WHOLE, None))
        assert task is not None, "a request is served in a task"
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
                await _refuse(send, again if isinstance(again, Refused) else _LET_OUT, kind)
        finally:
            self._gateway.revocation.remove(going)


async def _refuse(send: Send, refused: Refused, kind: FrontendName) -> None:
    await refuse(send, refused, refusal(refused) if kind == "v1" else None)


def listening_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens on the address; port 0 takes a free one.

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
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.listen(BACKLOG)
    except OSError as error:
        bound.close()
        hint = " Another program has that port; choose one with --port." if "in use" in str(error) else ""
        raise OperatorError(f"Cannot listen on {host}:{port}: {error.strerror}.{hint}") from error
    return bound


async def serve_web(
    web: WebServer, bound: socket.socket, stopping: asyncio.Event, drain: DrainRequests | None = None
) -> None:
    """Serve until `stopping` is set, then drain. While `drain` runs, new requests are answered with a refusal."""
    config = uvicorn.Config(
        web.app,
        http=cast("type[asyncio.Protocol]", web.connection),
        lifespan="off",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=LAST_BYTES,
    )
    server = _UvicornServer(config)
    async with web.running(), Tasks("the web server") as tasks:
        serving = tasks.start(server.serve(sockets=[bound]))
        waiting = tasks.start(stopping.wait())
        await asyncio.wait({serving, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if drain is not None and not serving.done():
            await drain()
        web.close_streams()
        server.should_exit = True
        await serving


class _UvicornServer(uvicorn.Server):
    """An HTTP server that leaves signals to the program."""

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
        return nullcontext()
