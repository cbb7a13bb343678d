"""The port between a link and whatever carries its messages."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Final, Protocol

from aggregator.config.model import ServerConfig
from aggregator.domain.errors import UpstreamBadAnswer
from aggregator.upstream.caller import RunningCall
from aggregator.upstream.process.process import Reaper
from aggregator.wire.codec import decode_cut
from aggregator.wire.peer import OnProgress

# Deeper than any tool that is shown: what is cut here is left out there.
_LEVELS_KEPT: Final = 400


class Connection(Protocol):
    """An open way to one upstream. Leaving the context that opened it closes everything it holds."""

    ended: asyncio.Future[str]
    """Done when the connection is over, with the reason in words an operator understands."""

    async def request(
        self,
        method: str,
        params: dict[str, Any],
        on_progress: OnProgress | None = None,
        headers: Mapping[str, str] | None = None,
        origin: RunningCall | None = None,
    ) -> dict[str, Any]:
        """One request and its result; cancelling the wait cancels it upstream in the way of the era.

        `headers` are for transports that have some (`Mcp-Param-*`), `origin` for those that can tell what the upstream
        says on account of this request.

        Raises:
            RpcError: the upstream's error response.
            PeerGone: the connection ended before an answer.
            AnswerTooDeep: the answer cannot be read whole.
            SessionExpired: the upstream forgot our session; nothing was run.
            UpstreamError: the transport's own verdict (refused, unavailable, not MCP).
        """
        ...

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Say something that has no answer; a connection that is gone swallows it."""
        ...

    def speak(self, version: str) -> None:
        """From now on the connection speaks this revision (HTTP puts it in headers and cancels by its rules)."""
        ...


class SessionExpired(Exception):
    """HTTP 404 for our session id: a new session has to be initialized (L/basic/transports)."""


def too_many_values(server: ServerConfig) -> UpstreamBadAnswer:
    """Return the error for a message that holds more values than the server may send."""
    return UpstreamBadAnswer(
        server.id,
        f"{server.id} sent a message of more than {server.max_message_values} values "
        "(`max_message_values` in its config raises the limit).",
    )


class AnswerTooDeep(UpstreamBadAnswer):
    """An answer that nests deeper than can be read; `readable` is what is left of its result without the depths."""

    def __init__(self, server: str, data: bytes) -> None:
        super().__init__(server, f"{server} sent an answer that is nested too deeply to be read.")
        self._data = data

    def readable(self) -> dict[str, Any]:
        """The result, cut; empty when there is none. Takes a second for a large one: call it in a thread."""
        try:
            message = decode_cut(self._data, _LEVELS_KEPT, self.server)
        except ValueError:
            return {}
        result = message.get("result") if isinstance(message, dict) else None
        return result if isinstance(result, dict) else {}


@dataclass(frozen=True, slots=True)
class Inbound:
    """What is done with what an upstream says on its own account: method, params, and the `origin` it belongs to where
    the transport can tell."""

    on_request: Callable[[str, dict[str, Any], RunningCall | None], Awaitable[dict[str, Any]]]
    on_notification: Callable[[str, dict[str, Any], RunningCall | None], None]


Open = Callable[[ServerConfig, Inbound, Reaper], AbstractAsyncContextManager[Connection]]
