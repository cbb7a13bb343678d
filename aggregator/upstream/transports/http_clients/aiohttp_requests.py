"""The HTTP requests of a server that is reached over TLS or through a proxy: by way of aiohttp."""

import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import aiohttp

from aggregator.config.server_config import ServerConfig
from aggregator.upstream.transports.http_clients.port import (
    KEEP_ALIVE,
    BadAddress,
    HttpFailure,
    HttpRequests,
    HttpResponse,
    PreparedRequest,
    Unreachable,
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


class AiohttpRequests(HttpRequests):
    """Requests that aiohttp sends."""

    def __init__(self, session: aiohttp.ClientSession, proxy: str | None) -> None:
        super().__init__()
        self._session = session
        self._proxy = proxy

    @property
    def closed(self) -> bool:
        return self._session.closed

    def send_prepared(
        self, request: PreparedRequest, data: bytes | None = None
    ) -> AbstractAsyncContextManager[HttpResponse]:
        return self._sent(request, data)

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


@asynccontextmanager
async def open_aiohttp(server: ServerConfig) -> AsyncIterator[HttpRequests]:
    """Yield the requests to a server: with the headers of its config, without cookies and the environment."""
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=server.connect_timeout)
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE, family=socket.AF_UNSPEC)
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
    cause: Any = error
    if isinstance(error, aiohttp.ClientConnectorError):
        cause = error.os_error
        if isinstance(cause, ConnectionRefusedError):
            return Unreachable("nothing listens there (is the server running?)")
        return Unreachable(cause.strerror or str(cause) or type(cause).__name__)
    if isinstance(error, aiohttp.InvalidURL):
        return BadAddress("not an address")
    if isinstance(error, OSError) and error.strerror:
        return HttpFailure(error.strerror)
    if isinstance(error, TimeoutError):
        return HttpFailure("timed out")
    return HttpFailure(type(error).__name__)
