"""The port between an upstream and its transports: the operations and reports of a connection."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from aggregator.config.server_config import ServerConfig
from aggregator.domain.errors import UpstreamBadAnswer
from aggregator.upstream.caller import RunningCall
from aggregator.upstream.credentials import Credentials
from aggregator.upstream.process.reaper_pipe import Reaper
from aggregator.wire.codec import decode_cut
from aggregator.wire.pending_request import AnswerReceiver, OnProgress, PendingRequest

# Levels to keep of an answer that nests too deeply: more than any listed tool has.
_LEVELS_KEPT: Final = 400


class JsonRpcRequest(NamedTuple):
    """One request to an upstream, for a transport.

    headers: `Mcp-Param-*`, for transports that have headers.
    origin: the call, for transports that can tell which messages of the upstream belong to this request.
    """

    method: str
    params: dict[str, Any]
    on_progress: OnProgress | None = None
    headers: Mapping[str, str] | None = None
    origin: RunningCall | None = None


class Connection(ABC):
    """An open connection to one upstream. Leaving the context that opened it closes all it holds.

    Rule: a transport has one way to send a request, `begin`, which needs no task. A task that sends one awaits it.
    """

    ended: asyncio.Future[str]
    """Done when the connection has ended, with the reason for an operator."""

    @abstractmethod
    def begin(self, request: JsonRpcRequest, receiver: AnswerReceiver | None = None) -> PendingRequest:
        """Send a request at once, or return a `DeferredRequest` if something has to be waited for first.

        receiver: gets the outcome until a task waits for it; never before this method has returned.

        `PendingRequest.wait` may raise the same errors. Nothing was sent if this method raises.

        Raises:
            RpcError: the upstream's error response.
            PeerGone: the connection ended before the answer.
            AnswerTooDeep: the answer cannot be read whole.
            SessionExpired: the upstream does not know our session; nothing was run.
            UpstreamError: the transport failed: refused, unavailable, or not MCP.
            ValueError: the params or the headers cannot be written.
        """

    async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request of our own, and return its result. Raises what `begin` does.

        Cancelling the wait cancels the request upstream, as its era does.
        """
        return await self.begin(JsonRpcRequest(method, params)).wait()

    @abstractmethod
    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification; it is dropped if the connection has ended."""

    @abstractmethod
    def use_version(self, version: str) -> None:
        """Use this revision from now on: HTTP sends it in headers, and cancels by its rules."""


class DeferredRequest:
    """A request that its waiting task sends."""

    __slots__ = ("_send",)
    is_sent: Final = False

    def __init__(self, send: Callable[[], Awaitable[dict[str, Any]]]) -> None:
        self._send = send

    async def wait(self) -> dict[str, Any]:
        """Send the request, and return its result. See `PendingRequest`."""
        return await self._send()


class SessionExpired(Exception):
    """An HTTP 404 for our session id: a new session has to be initialized (L/basic/transports)."""

    def __init__(self) -> None:
        super().__init__("it does not know the session that it opened")


def too_many_values(server: ServerConfig) -> UpstreamBadAnswer:
    """Return the error for a message that holds more values than the server may send."""
    return UpstreamBadAnswer(
        server.id,
        f"{server.id} sent a message of more than {server.limits.max_message_values} values "
        "(`limits.max_message_values` in its config raises the limit).",
    )


def unreadable(server: str, why: str) -> UpstreamBadAnswer:
    """Return the error for an answer that cannot be read; `why` quotes none of it."""
    return UpstreamBadAnswer(server, f"{server} sent an answer that cannot be read: {why}.")


class AnswerTooDeep(UpstreamBadAnswer):
    """An answer that nests deeper than can be read; `readable` returns its result without the deepest levels."""

    def __init__(self, server: str, data: bytes) -> None:
        super().__init__(server, f"{server} sent an answer that is nested too deeply to be read.")
        self._data = data

    def readable(self) -> dict[str, Any]:
        """Return the result, cut; empty if there is none. Takes a second for a large one: call it in a thread."""
        try:
            message = decode_cut(self._data, _LEVELS_KEPT, self.server)
        except ValueError:
            return {}
        result = message.get("result") if isinstance(message, dict) else None
        return result if isinstance(result, dict) else {}


# A function that answers a request of an upstream; `running` is the call that the request belongs to, if known.
RequestHandler = Callable[[str, dict[str, Any], RunningCall | None], Awaitable[dict[str, Any]]]


# A function that takes a notification of an upstream; `running` is the call that it belongs to, if known.
NotificationHandler = Callable[[str, dict[str, Any], RunningCall | None], None]


# A function that takes what was wrong with messages that are used all the same, in words that follow "sends".
FaultHandler = Callable[[str], None]


def _ignored(fault: str, /) -> None:
    """Ignore a fault."""


@dataclass(frozen=True, slots=True)
class InboundHandlers:
    """The handlers for requests, notifications and faulty messages of an upstream."""

    on_request: RequestHandler
    on_notification: NotificationHandler
    on_fault: FaultHandler = _ignored


# A context manager of a transport: its connection is open inside. Those over HTTP take credentials.
OpenTransport = Callable[
    [ServerConfig, InboundHandlers, Reaper, Credentials | None], AbstractAsyncContextManager[Connection]
]
