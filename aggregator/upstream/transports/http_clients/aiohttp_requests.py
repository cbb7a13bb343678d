"""The HTTP requests of a server that is reached over TLS or through a proxy: by way of aiohttp."""

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Final

import aiohttp

from aggregator.config.client_tls import UnusableTlsFile, client_context
from aggregator.config.server_config import ServerConfig
from aggregator.domain.connection_causes import CAUSES, cause_of_status
from aggregator.domain.errors import UpstreamUnavailable
from aggregator.upstream.transports.http_clients.port import (
    KEEP_ALIVE,
    BadAddress,
    HttpExchange,
    HttpFailure,
    HttpRequests,
    HttpResponse,
    PreparedRequest,
    Unreachable,
    reason_of,
)


class AiohttpResponse:
    """A response of aiohttp."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers
        self.content_type = response.content_type

    def parts(self) -> AsyncIterator[bytes]:
        return self._response.content.iter_any()


class AiohttpExchange:
    """An exchange whose request is sent when it is entered: aiohttp sends none without a task."""

    started: Final = None

    def __init__(self, sent: AbstractAsyncContextManager[HttpResponse]) -> None:
        self._sent = sent

    async def __aenter__(self) -> HttpResponse:
        return await self._sent.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        await self._sent.__aexit__(kind, error, trace)


class AiohttpRequests(HttpRequests):
    """Requests that aiohttp sends."""

    def __init__(self, session: aiohttp.ClientSession, proxy: str | None) -> None:
        super().__init__()
        self._session = session
        self._proxy = proxy

    @property
    def closed(self) -> bool:
        return self._session.closed

    def begin(self, request: PreparedRequest, data: bytes | None = None) -> HttpExchange:
        return AiohttpExchange(self._sent(request, data))

    @asynccontextmanager
    async def _sent(self, request: PreparedRequest, data: bytes | None) -> AsyncIterator[HttpResponse]:
        try:
            async with self._session.request(
                request.verb,
                request.url,
                headers=request.headers,
                data=data,
                proxy=self._proxy,
                allow_redirects=False,
            ) as response:
                yield AiohttpResponse(response)
        except aiohttp.ClientError as error:
            raise _failure(error) from error
        except UnicodeError as error:
            # The name of the host does not resolve; aiohttp has no error of its own for it.
            raise Unreachable(reason_of(error)) from error


@asynccontextmanager
async def open_aiohttp(server: ServerConfig) -> AsyncIterator[HttpRequests]:
    """Yield the requests to a server: with the headers of its config, without cookies and the environment.

    Raises:
        UpstreamUnavailable: a file of `tls` cannot be used.
    """
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=server.limits.connect_timeout)
    # In a thread: it reads files.
    try:
        context = await asyncio.to_thread(client_context, server.tls) if server.tls is not None else True
    except UnusableTlsFile as error:
        raise UpstreamUnavailable(server.id, f"{server.id}: {error}.") from error
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE, family=socket.AF_UNSPEC, ssl=context)
    async with aiohttp.ClientSession(
        headers=server.headers,
        timeout=timeout,
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
    ) as session:
        yield AiohttpRequests(session, server.proxy)


def _failure(error: aiohttp.ClientError) -> OSError:
    """Return what an error of aiohttp means, without the address in it."""
    if isinstance(error, aiohttp.InvalidURL):
        return BadAddress("not an address")
    if isinstance(error, aiohttp.ClientHttpProxyError):
        cause = cause_of_status(error.status)
        return Unreachable(f"the proxy answered HTTP {error.status}{f': {cause.words}' if cause else ''}")
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ClientSSLError):
        return Unreachable(reason_of(error))
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return HttpFailure(f"timed out: {CAUSES['silent'].words}")
    if isinstance(error, TimeoutError):
        return HttpFailure("timed out")
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return HttpFailure(CAUSES["ended"].words)
    if isinstance(error, aiohttp.ClientResponseError):
        return HttpFailure(CAUSES["not_http"].words)
    return HttpFailure(reason_of(error))
