"""Requests with an access token: each gets the one that is good when it is sent.

Law: a request is sent once more only where a response refused it (401, 403), since nothing was run then; and only once.
"""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final

from aggregator.domain.errors import UpstreamUnavailable
from aggregator.upstream.credentials import Credentials, NoTokenNow
from aggregator.upstream.transports.http_clients.port import (
    HttpExchange,
    HttpRequests,
    HttpResponse,
    PreparedRequest,
)

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
