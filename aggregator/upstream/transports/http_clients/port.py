"""The port between the HTTP transports and the clients that send their requests, with what can go wrong.

Rule: no client follows a redirect, with any verb, since our headers and messages would go to a third party. None has
cookies, and none looks at the environment for proxies.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Protocol

from aggregator.domain.connection_causes import cause_of

# Seconds: fewer than the five after which uvicorn and Node close an idle connection, which a call must not race with.
KEEP_ALIVE: Final = 4.0
# Messages without an answer that are on their way at one time: each takes a connection, and a server may ask for any
# number of answers.
_NOTICES: Final = 32


class HttpFailure(OSError):
    """A request without a response that can be read; its text is for an operator and holds no address."""


class Unreachable(HttpFailure):
    """A request without a connection, since connecting failed; nothing was sent."""


class BadAddress(HttpFailure):
    """A request whose address is none."""


def reason_of(error: BaseException) -> str:
    """Return what an error of a connection means, without the address."""
    cause = cause_of(error)
    if cause is not None:
        return cause.words
    return (error.strerror if isinstance(error, OSError) else None) or type(error).__name__


class HttpResponse(Protocol):
    """A response whose head has come. Lookups of headers use lower-case names."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    @property
    def content_type(self) -> str:
        """The media type in lower case, without its parameters."""
        ...

    def parts(self) -> AsyncIterator[bytes]:
        """Yield the body as it comes, decoded; the unread rest stays with the server.

        Raises:
            HttpFailure: the body has not come whole, or cannot be decoded.
        """
        ...


class StartedResponse(HttpResponse, Protocol):
    """The response to a request that was sent at once, before its head has come.

    on_change: called each time that something of the response has come, or that it failed.
    """

    on_change: Callable[[], None] | None

    def whole_json(self, most: int) -> bytes | None:
        """Return the body where all of it has come: JSON with status 200, of at most so many bytes."""
        ...

    def may_be_small_json(self, most: int) -> bool:
        """Return False once it is certain that `whole_json` will never return a body."""
        ...

    def release(self) -> None:
        """Give up the rest of the response, and the connection with it."""
        ...


class HttpExchange(Protocol):
    """A context that yields the response to one request once its head has come. Leaving it gives up the rest."""

    @property
    def started(self) -> StartedResponse | None:
        """The response, if the request was sent already; None if entering the context sends it.

        One that may be small JSON is the response that the context yields; of another one the context decides.
        """
        ...

    async def __aenter__(self) -> HttpResponse:
        """Return the response.

        Raises:
            HttpFailure, OSError: there is no response.
        """
        ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    """The part of a request that is the same each time it is sent; `head` is for the client that made it."""

    verb: str
    url: str
    headers: Mapping[str, str]
    head: bytes = b""


class HttpRequests(ABC):
    """The HTTP requests to one server, with the headers and proxy of its config. The transports send no others."""

    def __init__(self) -> None:
        self._notices = asyncio.Semaphore(_NOTICES)

    @property
    @abstractmethod
    def closed(self) -> bool:
        """True if nothing can be sent any more."""

    def prepare(self, verb: str, url: str, headers: Mapping[str, str]) -> PreparedRequest:
        """Return a request that can be sent any number of times.

        Raises:
            ValueError: a header cannot be sent.
        """
        return PreparedRequest(verb, url, headers)

    @abstractmethod
    def begin(self, request: PreparedRequest, data: bytes | None = None) -> HttpExchange:
        """Return the exchange of one request. A POST is sent at once, if that needs no wait."""

    def send(self, verb: str, url: str, headers: Mapping[str, str], data: bytes | None = None) -> HttpExchange:
        """Prepare a request, and return its exchange."""
        return self.begin(self.prepare(verb, url, headers), data)

    @asynccontextmanager
    async def notice(self, url: str, headers: Mapping[str, str], data: bytes) -> AsyncIterator[HttpResponse]:
        """POST a message without an answer, when its turn comes, and yield the response."""
        async with self._notices, self.send("POST", url, headers, data) as response:
            yield response
