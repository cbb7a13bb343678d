"""The common part of both HTTP transports: the client for a server, its access tokens, bounded bodies, the meaning of a
status.

Law: a request with a token is sent again only if a response refused it (401, 403), since nothing was run then; and only
once.
"""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from pkgutil import resolve_name
from types import TracebackType
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from aggregator.config.server_config import ServerConfig
from aggregator.domain.bounds.result_memory import SMALL, hold
from aggregator.domain.connection_causes import CAUSES, ConnectionCause, cause_of_status
from aggregator.domain.errors import (
    UpstreamBadAnswer,
    UpstreamError,
    UpstreamHttpStatus,
    UpstreamRefused,
    UpstreamUnavailable,
)
from aggregator.domain.text.error_text import error_text
from aggregator.upstream.credentials import Credentials, NoTokenNow
from aggregator.upstream.lifecycle.states import round_duration
from aggregator.upstream.transports.http_clients.plain_requests import open_plain, plain_url
from aggregator.upstream.transports.http_clients.port import (
    HttpExchange,
    HttpFailure,
    HttpRequests,
    HttpResponse,
    PreparedRequest,
    reason_of,
)
from aggregator.wire.mending import MARK

# Seconds before a broken stream is opened again, if the server names no delay.
RETRY_DELAY: Final = 1.0
# A server that asks for less (`retry: 0`) and closes each stream at once would keep us busy.
LEAST_DELAY: Final = 0.1
# Seconds that a server may take to accept a message without an answer, before its connection is closed.
NOTICE_TIMEOUT: Final = 5.0
# Bytes that are parsed in one turn of the loop: they may be lines of one character each.
_SLICE: Final = 8 * 1024
_AIOHTTP: Final = "aggregator.upstream.transports.http_clients.aiohttp_requests:open_aiohttp"
# The parameter of a challenge by which a server says where its authorization server is named (RFC 9728, 5.1).
_OFFERS_OAUTH: Final = re.compile(r"(?i)\bresource_metadata\s*=")
# The words for such a server in the reason why it is not ready.
OFFERS_LOGIN: Final = "It offers OAuth"
_PAGES: Final = frozenset({"text/html", "application/xhtml+xml"})
# Statuses by which a server says that it is overloaded.
_TOO_MUCH: Final = frozenset({429, 503})
_REFUSED: Final = frozenset({401, 403})
_CHALLENGE: Final = "www-authenticate"


@dataclass(frozen=True, slots=True)
class UnsignedRequest(PreparedRequest):
    """A request without its token; `signed` is what the client prepared for the token that was used last."""

    signed: dict[str | None, PreparedRequest] = field(default_factory=dict, repr=False)


class AuthorizedRequests(HttpRequests):
    """The requests to one server on behalf of one owner."""

    def __init__(self, requests: HttpRequests, credentials: Credentials) -> None:
        super().__init__()
        self._requests = requests
        self._credentials = credentials

    def __repr__(self) -> str:
        return f"<AuthorizedRequests by {type(self._requests).__name__}>"

    @property
    def closed(self) -> bool:
        return self._requests.closed

    def prepare(self, verb: str, url: str, headers: Mapping[str, str]) -> PreparedRequest:
        # What cannot be sent shows now, as it does without a token.
        return UnsignedRequest(verb, url, headers, signed={None: self._requests.prepare(verb, url, headers)})

    def begin(self, request: PreparedRequest, data: bytes | None = None) -> HttpExchange:
        return AuthorizedExchange(self, request, data)

    async def ready(self) -> None:
        """Wait until the token is good, or known not to be needed.

        Raises:
            LoginRequired, NoTokenNow: there is none.
        """
        try:
            await self._credentials.ready()
        except UpstreamUnavailable as error:
            raise _no_token(error) from error

    @property
    def header(self) -> str | None:
        """The value of `Authorization` for a request that is sent now; None if that needs a wait."""
        return self._credentials.header

    def signed(self, request: PreparedRequest, data: bytes | None, header: str | None) -> HttpExchange:
        """Return the exchange of a request with this token."""
        assert isinstance(request, UnsignedRequest), "every request here was prepared here"
        signed = request.signed.get(header)
        if signed is None:
            headers = {**request.headers, "authorization": header} if header is not None else request.headers
            signed = self._requests.prepare(request.verb, request.url, headers)
            request.signed.clear()
            request.signed[header] = signed
        return self._requests.begin(signed, data)

    async def may_repeat(self, response: HttpResponse, sent: str | None) -> bool:
        """Return True if the response refused its request, which may be sent once more.

        Raises:
            LoginRequired, UpstreamUnavailable: see `Credentials.refused`.
        """
        if response.status not in _REFUSED:
            return False
        try:
            return await self._credentials.refused(sent, response.status, challenges_of(response))
        except UpstreamUnavailable as error:
            raise _no_token(error) from error


class AuthorizedExchange:
    """The exchange of a request with a token, and of its repetition if the token was refused."""

    __slots__ = ("_authorized", "_begun", "_data", "_entered", "_header", "_request", "started")

    def __init__(self, authorized: AuthorizedRequests, request: PreparedRequest, data: bytes | None) -> None:
        self._authorized = authorized
        self._request = request
        self._data = data
        self._header = header = authorized.header
        self._begun = authorized.signed(request, data, header) if header is not None else None
        self._entered: HttpExchange | None = None
        self.started = self._begun.started if self._begun is not None else None

    async def __aenter__(self) -> HttpResponse:
        authorized, exchange = self._authorized, self._begun
        if exchange is None or self.started is None:
            await authorized.ready()
            self._header = authorized.header
            exchange = authorized.signed(self._request, self._data, self._header)
        async with AsyncExitStack() as refused:
            response = await refused.enter_async_context(exchange)
            if not await authorized.may_repeat(response, self._header):
                refused.pop_all()
                self._entered = exchange
                return response
        self._entered = authorized.signed(self._request, self._data, authorized.header)
        return await self._entered.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        assert self._entered is not None
        await self._entered.__aexit__(kind, error, trace)


def challenges_of(response: HttpResponse) -> list[str]:
    """Return the values of the `WWW-Authenticate` fields of a response, in order."""
    headers = response.headers
    every = getattr(headers, "getall", None)
    if every is not None:
        return [str(value) for value in every(_CHALLENGE, ())]
    said = headers.get(_CHALLENGE)
    return [said] if said is not None else []


def _no_token(error: UpstreamUnavailable) -> NoTokenNow:
    made = NoTokenNow(error.server, error.message, said=error.said, **error.details)
    made.retryable, made.advice = error.retryable, error.advice
    return made


@asynccontextmanager
async def requests_to(server: ServerConfig, credentials: Credentials | None = None) -> AsyncIterator[HttpRequests]:
    """Yield the requests to a server, by the client that can reach it, with these credentials if there are any."""
    url = plain_url(server)
    opened: AbstractAsyncContextManager[HttpRequests]
    if url is not None:
        opened = open_plain(server, url)
    else:
        # In a thread, and only if it is needed: 95 ms and 11 MiB.
        open_aiohttp = await asyncio.to_thread(resolve_name, _AIOHTTP)
        opened = open_aiohttp(server)
    async with opened as requests:
        yield AuthorizedRequests(requests, credentials) if credentials is not None else requests


async def read_bounded(response: HttpResponse, server: ServerConfig, *, only_json: bool = False) -> bytes:
    """Return the body, up to `limits.max_message_bytes`; `only_json`: no more than its beginning if that is not JSON.

    Raises:
        UpstreamBadAnswer: the body is larger.
    """
    limit = server.limits.max_message_bytes
    parts, size, held = [], 0, 0
    async for part in response.parts():
        size += len(part)
        if size > limit:
            raise UpstreamBadAnswer(
                server.id,
                f"{server.id} sent a message of more than {limit} bytes "
                "(`limits.max_message_bytes` in its config raises the limit).",
            )
        parts.append(part)
        if only_json and size == len(part) and part.removeprefix(MARK).lstrip()[:1] not in (b"{", b"["):
            break
        if size - held > SMALL:
            # Counted as it comes, since many bodies may come at one time.
            hold(size - held)
            held = size
    return b"".join(parts)


async def read_slices(response: HttpResponse) -> AsyncIterator[bytes]:
    """Yield the body as it comes, in parts that are parsed in a few milliseconds with any content."""
    async for part in response.parts():
        for start in range(0, len(part), _SLICE):
            yield part[start : start + _SLICE]


def refusal(server: ServerConfig, response: HttpResponse, events: bool = False) -> UpstreamError:
    """Return the error for a status other than 200, for the operator; `events`: the request was for an event stream."""
    status = response.status
    if status in (401, 403):
        return UpstreamRefused(server.id, _refused_credentials(server, response), status=status)
    if 300 <= status < 400:
        moved = f"{server.id} redirects (HTTP {status}); if another address is meant, put it into `url` of its config."
        target = without_query(response.headers.get("location", "nowhere"))
        return UpstreamRefused(server.id, moved, said=f"go to {target}", status=status)
    patience = _retry_after(response)
    if patience is None:
        cause = cause_of_status(status, events)
        why = f": {cause.words}" if cause is not None else ""
        return UpstreamHttpStatus(server.id, f"{server.id} answered HTTP {status}{why}.", status=status)
    asks = f"{server.id} answered HTTP {status} and asks for {round_duration(patience)} of patience."
    return UpstreamHttpStatus(server.id, asks, status=status, retry_after=patience)


def _refused_credentials(server: ServerConfig, response: HttpResponse) -> str:
    """Return what to do about a 401 or 403."""
    said = f"{server.id} refused our credentials (HTTP {response.status})"
    if server.auth is not None:
        return f"{said}, and the account that is connected does not change that."
    offered = any(_OFFERS_OAUTH.search(challenge) for challenge in challenges_of(response))
    hint = f' {OFFERS_LOGIN}: add `"auth": {{"per": "shared"}}` to its config.' if offered else ""
    return f"{said}; check `headers` or the key in `url` of its config.{hint}"


def retry_delay(requested: int | None, ordinary: float) -> float:
    """Return the seconds before a stream is opened again, if its `retry` field asked for milliseconds, or for none.

    Source: HTML standard, 9.2.6; MCP 2025-11-25, basic/transports, Sending Messages to the Server.
    """
    return max(requested / 1000, LEAST_DELAY) if requested is not None else ordinary


def asks_for_patience(response: HttpResponse) -> bool:
    """Return True if the server says when to try again (RFC 9110, 10.2.3)."""
    return _retry_after(response) is not None


def _retry_after(response: HttpResponse) -> float | None:
    """Return the seconds of `Retry-After`; None without a readable one, or with a status that it is not meant for."""
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
    """Return the address without its query, fragment and user info, which may hold keys."""
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        return urlunsplit((parts.scheme, host, parts.path, "", ""))
    except ValueError:
        return "an address that cannot be read"


def describe(error: BaseException) -> str:
    """Return the text of a failed request, without the address."""
    if isinstance(error, HttpFailure):
        return error_text(error)
    if isinstance(error, TimeoutError) and not error.strerror:
        return "timed out"
    return reason_of(error)


def not_mcp(kind: str) -> ConnectionCause:
    """Return the cause that an answer of this media type, which is none of MCP, tells of."""
    return CAUSES["web_page" if kind in _PAGES else "not_mcp"]
