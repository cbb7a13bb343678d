"""What both HTTP transports share: how requests are sent, bounded bodies, and what a status means."""

import asyncio
import re
import socket
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from email.utils import parsedate_to_datetime
from typing import Final
from urllib.parse import urlsplit, urlunsplit

import aiohttp

from aggregator.config.model import ServerConfig
from aggregator.domain.bounds.result_memory import SMALL, hold
from aggregator.domain.errors import UpstreamBadAnswer, UpstreamError, UpstreamHttpStatus, UpstreamRefused
from aggregator.upstream.lifecycle.states import about

# Before a broken stream is opened again, when the server named no delay of its own.
RETRY_DELAY: Final = 1.0
# A server that asks for less (`retry: 0`) and closes each stream at once would have us do nothing else.
LEAST_DELAY: Final = 0.1
# Shorter than the five seconds after which uvicorn and Node close an idle connection: a call must not race with that.
KEEP_ALIVE: Final = 4.0
# What needs no answer but the server's word that it has it: a server that keeps that back keeps no connection of ours.
NOTICE_TIMEOUT: Final = 5.0
# So many of these are on their way at once: each is a connection, and the server says how many answers it asks for.
_NOTICES: Final = 32
# What is taken apart in one go: it may be lines of one character each.
_SLICE: Final = 8 * 1024
# The statuses by which a server says that it has too much to do.
_TOO_MUCH: Final = frozenset({429, 503})


class HttpRequests:
    """HTTP requests to one server, with the operator's headers and proxy: the only way the transports have to send any.

    Rule: no redirect is followed, whatever the verb, since our headers and what we say would go to a stranger.
    """

    def __init__(self, session: aiohttp.ClientSession, proxy: str | None) -> None:
        self._session = session
        self._proxy = proxy
        self._notices = asyncio.Semaphore(_NOTICES)

    @property
    def closed(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._session.closed

    @asynccontextmanager
    async def notice(self, url: str, headers: Mapping[str, str], data: bytes) -> AsyncIterator[aiohttp.ClientResponse]:
        """POST what has no answer, when its turn comes; inside is the response."""
        async with self._notices, self.send("POST", url, headers, data) as response:
            yield response

    def send(
        self,
        verb: str,
        url: str,
        headers: Mapping[str, str],
        data: bytes | None = None,
        timeout: aiohttp.ClientTimeout | None = None,
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        """One request; inside is its response. `timeout` is for this one, in place of that of all."""
        return self._session.request(
            verb,
            url,
            headers=headers,
            data=data,
            proxy=self._proxy,
            allow_redirects=False,
            timeout=timeout or self._session.timeout,
        )


@asynccontextmanager
async def requests_to(server: ServerConfig) -> AsyncIterator[HttpRequests]:
    """Requests with the operator's headers; no cookies, no environment (only `proxy` of the config)."""
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=server.connect_timeout)
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE, family=socket.AF_UNSPEC)
    async with aiohttp.ClientSession(
        headers=server.headers,
        timeout=timeout,
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
    ) as session:
        yield HttpRequests(session, server.proxy)


async def read_bounded(response: aiohttp.ClientResponse, server: ServerConfig) -> bytes:
    """The body, if it is not larger than the server may send."""
    limit = server.max_message_bytes
    parts, size, held = [], 0, 0
    async for part in response.content.iter_any():
        size += len(part)
        if size > limit:
            raise UpstreamBadAnswer(
                server.id,
                f"{server.id} sent a message of more than {limit} bytes "
                "(`max_message_bytes` in its config raises the limit).",
            )
        parts.append(part)
        if size - held > SMALL:
            # Counted as it comes: many of them may come at once.
            hold(size - held)
            held = size
    return b"".join(parts)


async def read_slices(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Yield the body as it comes, in parts that are taken apart in a few milliseconds whatever is in them."""
    async for part in response.content.iter_any():
        for start in range(0, len(part), _SLICE):
            yield part[start : start + _SLICE]


def refusal(server: ServerConfig, response: aiohttp.ClientResponse) -> UpstreamError:
    """What a status other than 200 means for the operator."""
    status = response.status
    if status in (401, 403):
        return UpstreamRefused(
            server.id,
            f"{server.id} refused our credentials (HTTP {status}); check `headers` or the key in `url` of its config.",
            status=status,
        )
    if 300 <= status < 400:
        target = without_query(response.headers.get("location", "nowhere"))
        return UpstreamRefused(
            server.id,
            f"{server.id} redirects to {target}; if that is the server meant, put it into `url` of its config.",
            status=status,
        )
    patience = _retry_after(response)
    if patience is None:
        return UpstreamHttpStatus(server.id, f"{server.id} answered HTTP {status}.", status=status)
    asks = f"{server.id} answered HTTP {status} and asks for {about(patience)} of patience."
    return UpstreamHttpStatus(server.id, asks, status=status, retry_after=patience)


def retry_delay(asked: int | None, ordinary: float) -> float:
    """Return the seconds before a stream is opened again, where its `retry` field asked for milliseconds, or for none.

    Source: HTML standard, 9.2.6; MCP 2025-11-25, basic/transports, Sending Messages to the Server.
    """
    return max(asked / 1000, LEAST_DELAY) if asked is not None else ordinary


def asks_for_patience(response: aiohttp.ClientResponse) -> bool:
    """Whether the server says when to come again (RFC 9110, 10.2.3)."""
    return _retry_after(response) is not None


def _retry_after(response: aiohttp.ClientResponse) -> float | None:
    """Seconds; None where it says nothing that can be read, or answers with another status than those meant for it."""
    said = response.headers.get("retry-after", "").strip()
    if response.status not in _TOO_MUCH or not said:
        return None
    if re.fullmatch(r"[0-9]{1,9}", said):
        return float(said)
    try:
        return max(0.0, parsedate_to_datetime(said).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def without_query(url: str) -> str:
    """The address with its query, fragment and user info left out: keys travel in those."""
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        return urlunsplit((parts.scheme, host, parts.path, "", ""))
    except ValueError:
        return "an address that cannot be read"


def describe(error: BaseException) -> str:
    """An exception of the HTTP library in words, without the address it was for."""
    if isinstance(error, aiohttp.ClientConnectorError) and isinstance(error.os_error, ConnectionRefusedError):
        return "nothing listens there (is the server running?)"
    if isinstance(error, aiohttp.ClientConnectorError):
        return error.os_error.strerror or str(error.os_error) or type(error.os_error).__name__
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, TimeoutError):
        return "timed out"
    return type(error).__name__
