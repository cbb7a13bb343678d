"""The HTTP/1.1 client for `http://` without a proxy: requests on connections that are kept for the next one.

Law: a request with an effect is written once. Only one without (GET, DELETE) is sent again, on a new connection, where
a kept one ended before anything came; everything else is for the caller to decide.
"""

import asyncio
import ipaddress
import re
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Final

import aiohappyeyeballs
import yarl

from aggregator import __version__
from aggregator.config.server_config import ServerConfig
from aggregator.domain.connection_causes import CAUSES
from aggregator.upstream.transports.http_clients.plain_connection import PlainConnection
from aggregator.upstream.transports.http_clients.plain_response import KnownHeads, PlainResponse
from aggregator.upstream.transports.http_clients.port import (
    KEEP_ALIVE,
    HttpExchange,
    HttpFailure,
    HttpRequests,
    HttpResponse,
    PreparedRequest,
    Unreachable,
    reason_of,
)

# Seconds that the addresses of a name hold good, and until the next of several addresses is tried beside the first.
_ADDRESSES_FOR: Final = 10.0
_NEXT_ADDRESS: Final = 0.25
# Seconds that a TLS handshake may take at a port that ended a connection without TLS.
_HANDSHAKE: Final = 3.0
# Without an effect that counts, however often they are received (RFC 9110, section 9.2.2).
_REPEATABLE: Final = frozenset({"GET", "DELETE"})
_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})
# What a configured header of this name would say about the message is for this client to say.
_FRAMING: Final = frozenset({"content-length", "transfer-encoding", "expect", "upgrade", "te", "trailer"})
_NOT_IN_HEADER: Final = re.compile(r"[\r\n\x00]")
_OWN_HEADERS: Final = {
    "accept": "*/*",
    "accept-encoding": "identity",
    "user-agent": f"aggregator/{__version__}",
}

_Address = tuple[int, int, int, str, tuple[Any, ...]]


def plain_url(server: ServerConfig) -> yarl.URL | None:
    """Return the address of a server that this client can be used for; None for any other."""
    if server.url is None or server.proxy is not None or _FRAMING.intersection(map(str.lower, server.headers)):
        return None
    try:
        url = yarl.URL(server.url)
        plain = url.scheme == "http" and url.raw_host and "%" not in url.raw_host and url.port
        usable = plain and url.user is None and url.password is None
    except ValueError:
        return None
    return url if usable else None


class PlainRequests(HttpRequests):
    """Requests that go over connections of our own."""

    def __init__(self, server: ServerConfig, url: yarl.URL) -> None:
        super().__init__()
        assert url.raw_host is not None
        assert url.port is not None
        self.known_heads = KnownHeads()
        self._loop = asyncio.get_running_loop()
        self._headers = server.headers
        self._origin = url.origin()
        self._host, self._port = url.raw_host, url.port
        self._connect_timeout = server.limits.connect_timeout
        self._closed = False
        # It has answered over HTTP at least once.
        self._answered = False
        self._connections: set[PlainConnection] = set()
        # In the order in which they became idle.
        self._idle: dict[PlainConnection, None] = {}
        self._sweep: asyncio.TimerHandle | None = None
        self._addresses: list[_Address] = []
        self._addresses_until = 0.0
        self._resolving = asyncio.Lock()

    @property
    def closed(self) -> bool:
        return self._closed

    def prepare(self, verb: str, url: str, headers: Mapping[str, str]) -> PreparedRequest:
        target = yarl.URL(url)
        if target.origin() != self._origin:
            raise ValueError("a request to another origin")
        lines = {"host": ("host", target.host_port_subcomponent or "")}
        for named in (_OWN_HEADERS, self._headers, headers):
            lines |= {name.lower(): (name, value) for name, value in named.items()}
        head = [f"{verb} {target.raw_path_qs} HTTP/1.1", *(f"{name}: {value}" for name, value in lines.values())]
        if any(map(_NOT_IN_HEADER.search, head)):
            raise ValueError("a line break, or NUL, in a header")
        return PreparedRequest(verb, url, headers, "".join(f"{line}\r\n" for line in head).encode())

    def begin(self, request: PreparedRequest, data: bytes | None = None) -> HttpExchange:
        if request.verb == "POST":
            connection = self._idle_connection()
            if connection is not None:
                return connection.send(*_message(request, data))
        return _DeferredExchange(self, request, data)

    async def respond(self, request: PreparedRequest, data: bytes | None) -> PlainResponse:
        """Send a request, and return its response once the head is there.

        Raises:
            HttpFailure, OSError: there is no response.
        """
        if self._closed:
            raise HttpFailure("closed")
        head, body = _message(request, data)
        connection = self._idle_connection()
        while True:
            kept = connection is not None
            connection = connection or await self._connect()
            if not connection.usable:
                # It spoke before any request, or ended at once.
                connection.abort()
                raise HttpFailure("the connection ended before the request")
            response = connection.send(head, body)
            try:
                await response.headed()
                self._answered = True
                return response
            except HttpFailure:
                if not kept or response.began or request.verb not in _REPEATABLE:
                    if not self._answered and not response.began and await self._wants_tls():
                        raise Unreachable(CAUSES["plain_on_tls"].words) from None
                    raise
                connection = None
            except BaseException:
                response.release()
                raise

    def close(self) -> None:
        """Close every connection."""
        self._closed = True
        if self._sweep is not None:
            self._sweep.cancel()
        for connection in list(self._connections):
            connection.end()

    # -- connections

    def idle(self, connection: PlainConnection, seconds: float) -> None:
        now = self._loop.time()
        connection.idle_until = now + seconds
        self._idle[connection] = None
        if self._sweep is None and not self._closed:
            self._sweep = self._loop.call_at(now + KEEP_ALIVE, self._sweep_idle)

    def lost(self, connection: PlainConnection) -> None:
        self._idle.pop(connection, None)
        self._connections.discard(connection)

    def _idle_connection(self) -> PlainConnection | None:
        """Return the connection that was used last, since a server closes the others first."""
        while self._idle:
            connection, _ = self._idle.popitem()
            if connection.usable and self._loop.time() < connection.idle_until:
                return connection
            connection.abort()
        return None

    def _sweep_idle(self) -> None:
        """Close the connections that were idle for too long."""
        self._sweep = None
        now = self._loop.time()
        for connection in [one for one in self._idle if one.idle_until <= now]:
            del self._idle[connection]
            connection.abort()
        if self._idle:
            first = min(connection.idle_until for connection in self._idle)
            self._sweep = self._loop.call_at(first, self._sweep_idle)

    async def _connect(self) -> PlainConnection:
        try:
            addresses = await self._resolve()
            async with asyncio.timeout(self._connect_timeout):
                found = await aiohappyeyeballs.start_connection(
                    addresses, happy_eyeballs_delay=_NEXT_ADDRESS, interleave=1, loop=self._loop
                )
            _, connection = await self._loop.create_connection(lambda: PlainConnection(self), sock=found)
        except UnicodeError as error:
            raise Unreachable(reason_of(error)) from error
        except OSError as error:
            self._addresses_until = 0.0
            if isinstance(error, TimeoutError) and error.errno is None:
                raise HttpFailure(f"timed out: {CAUSES['silent'].words}") from None
            raise Unreachable(reason_of(error)) from error
        if self._closed:
            connection.abort()
        if connection.usable:
            self._connections.add(connection)
        return connection

    async def _wants_tls(self) -> bool:
        """Return whether the port takes a TLS handshake; nothing else is sent."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        try:
            async with asyncio.timeout(_HANDSHAKE):
                transport, _ = await self._loop.create_connection(asyncio.Protocol, self._host, self._port, ssl=context)
        except (OSError, ValueError):
            return False
        transport.abort()
        return True

    async def _resolve(self) -> list[_Address]:
        """Return the addresses of the host, looked up in a thread, and once for many connections."""
        try:
            address = ipaddress.ip_address(self._host)
        except ValueError:
            pass
        else:
            family = socket.AF_INET if address.version == 4 else socket.AF_INET6
            place = (self._host, self._port) if address.version == 4 else (self._host, self._port, 0, 0)
            return [(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", place)]
        async with self._resolving:
            if self._loop.time() >= self._addresses_until:
                self._addresses = list(
                    await self._loop.getaddrinfo(
                        self._host, self._port, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG
                    )
                )
                self._addresses_until = self._loop.time() + _ADDRESSES_FOR
            return self._addresses


class _DeferredExchange:
    """An exchange whose request is sent when it is entered, over a new connection if none is idle."""

    __slots__ = ("_data", "_request", "_requests", "_response")
    started: Final = None

    def __init__(self, requests: PlainRequests, request: PreparedRequest, data: bytes | None) -> None:
        self._requests = requests
        self._request = request
        self._data = data
        self._response: PlainResponse | None = None

    async def __aenter__(self) -> HttpResponse:
        self._response = response = await self._requests.respond(self._request, self._data)
        return response

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._response is not None:
            self._response.release()


def _message(request: PreparedRequest, data: bytes | None) -> tuple[bytes, bytes]:
    """Return the head and the body of a request."""
    if data is None and request.verb not in _WITH_BODY:
        return request.head + b"\r\n", b""
    body = data or b""
    return b"%bcontent-length: %d\r\n\r\n" % (request.head, len(body)), body


@asynccontextmanager
async def open_plain(server: ServerConfig, url: yarl.URL) -> AsyncIterator[HttpRequests]:
    """Yield the requests to a server: with the headers of its config."""
    requests = PlainRequests(server, url)
    try:
        yield requests
    finally:
        requests.close()
        # The connections hear of their end in the next turn of the loop.
        await asyncio.sleep(0)
