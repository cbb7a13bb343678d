"""Requests with an access token: each gets the one that is good when it is sent.

Law: a request is sent once more only where a response refused it (401, 403), since nothing was run then; and only once.
"""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final

from aggregator.domain.errors import UpstreamUnavailable
from aggregator.upstream.credentials import Credentials, NoTokenNow
from aggregator.upstream.transports.http_clients.port import (
    HttpRequests,
    HttpResponse,
    PreparedRequest,
    StartedResponse,
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

    def send_prepared(
        self, request: PreparedRequest, data: bytes | None = None
    ) -> AbstractAsyncContextManager[HttpResponse]:
        return self._sent(request, data)

    def can_begin(self) -> bool:
        return self._requests.can_begin()

    def begin(self, request: PreparedRequest, data: bytes) -> StartedResponse | None:
        header = self._credentials.header
        if header is None:
            return None
        response = self._requests.begin(self._signed(request, header), data)
        return AuthorizedResponse(self, response, request, data, header) if response is not None else None

    @asynccontextmanager
    async def _sent(self, request: PreparedRequest, data: bytes | None) -> AsyncIterator[HttpResponse]:
        await self._ready()
        header = self._credentials.header
        async with self._requests.send_prepared(self._signed(request, header), data) as response:
            if not await self.may_repeat(response, header):
                yield response
                return
        async with self.again(request, data) as response:
            yield response

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

    def again(self, request: PreparedRequest, data: bytes | None) -> AbstractAsyncContextManager[HttpResponse]:
        """Return the context of a request that is sent for the second time."""
        return self._requests.send_prepared(self._signed(request, self._credentials.header), data)

    async def _ready(self) -> None:
        try:
            await self._credentials.ready()
        except UpstreamUnavailable as error:
            raise _no_token(error) from error

    def _signed(self, request: PreparedRequest, header: str | None) -> PreparedRequest:
        assert isinstance(request, UnsignedRequest), "every request here was prepared here"
        signed = request.signed.get(header)
        if signed is None:
            headers = {**request.headers, "authorization": header} if header is not None else request.headers
            signed = self._requests.prepare(request.verb, request.url, headers)
            request.signed.clear()
            request.signed[header] = signed
        return signed


class AuthorizedResponse:
    """A `StartedResponse` with a token. As a context it waits for the head, and for that of the repetition where the
    request was refused.
    """

    __slots__ = ("_authorized", "_data", "_header", "_repeated", "_request", "_started")

    def __init__(
        self,
        authorized: AuthorizedRequests,
        started: StartedResponse,
        request: PreparedRequest,
        data: bytes,
        header: str,
    ) -> None:
        self._authorized = authorized
        self._started = started
        self._request = request
        self._data = data
        self._header = header
        self._repeated: AsyncExitStack | None = None

    @property
    def on_change(self) -> Callable[[], None] | None:
        return self._started.on_change

    @on_change.setter
    def on_change(self, change: Callable[[], None] | None) -> None:
        self._started.on_change = change

    @property
    def status(self) -> int:
        return self._started.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._started.headers

    @property
    def content_type(self) -> str:
        return self._started.content_type

    def parts(self) -> AsyncIterator[bytes]:
        return self._started.parts()

    def whole_json(self, most: int) -> bytes | None:
        return self._started.whole_json(most)

    def may_be_small_json(self, most: int) -> bool:
        return self._started.may_be_small_json(most)

    def release(self) -> None:
        self._started.release()

    async def __aenter__(self) -> HttpResponse:
        response = await self._started.__aenter__()
        try:
            repeats = await self._authorized.may_repeat(response, self._header)
        except BaseException:
            self.release()
            raise
        if not repeats:
            return response
        self.release()
        self._repeated = AsyncExitStack()
        return await self._repeated.enter_async_context(self._authorized.again(self._request, self._data))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._repeated is not None:
            await self._repeated.__aexit__(kind, error, trace)
        self.release()


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
