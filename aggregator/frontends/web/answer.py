"""The answer to one HTTP request: its state, and its bytes on the connection."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from aggregator.domain.errors import ERROR_META_KEY, NotServed
from aggregator.domain.missing import InsufficientScope
from aggregator.frontends.uvicorn_parts import STATUS_LINE
from aggregator.frontends.web.host_guard import Message, Send

# The start of an answer; a part of a body with the same start is only written a little later.
_STATUS_LINE: Final = b"HTTP/1.1 "
_WHOLE: Final[Message] = {"headers": [(b"content-length", b"")]}

# Writes a whole JSON answer at once; returns False, and writes nothing, if that is impossible.
WriteWhole = Callable[[int, bytes], bool]
# The value of `WWW-Authenticate` that asks for a token with these scopes.
AskForScopes = Callable[[Sequence[str]], bytes]


class Answer:
    """An ASGI `send` that records whether the response has started and whether it is complete.

    ask_for: the refusal of a request whose token lacks scopes; None for a request without a token.
    """

    __slots__ = ("_send", "_start", "_write_whole", "ask_for", "complete")

    def __init__(self, send: Send, write_whole: WriteWhole | None = None, ask_for: AskForScopes | None = None) -> None:
        self.ask_for = ask_for
        self._send = send
        self._write_whole = write_whole
        self._start: Message | None = None
        self.complete = False

    def __call__(self, message: Message) -> Awaitable[None]:
        if self._start is None:
            self._start = message
        elif not message.get("more_body", False):
            self.complete = True
        return self._send(message)

    def write_whole(self, status: int, body: bytes) -> bool:
        """Write a JSON answer without further headers at once; return False, and write nothing, if it cannot be."""
        if self._write_whole is None or self._start is not None or not self._write_whole(status, body):
            return False
        self._start, self.complete = _WHOLE, True
        return True

    @property
    def started(self) -> bool:
        """True once the status is sent."""
        return self._start is not None

    async def end(self) -> None:
        """End a response that has started. The server cuts the connection if its length was declared."""
        if self._start is None or self.complete:
            return
        if not any(name == b"content-length" for name, _ in self._start["headers"]):
            await self({"type": "http.response.body", "body": b"", "more_body": False})


def lacking_scopes(result: Mapping[str, Any]) -> Sequence[str] | None:
    """Return the scopes that the token of a refused call lacks; None for other results.

    An upstream cannot cause that: we remove its values under our key.
    """
    if result.get("isError") is not True:
        return None
    error = (result.get("_meta") or {}).get(ERROR_META_KEY) or {}
    return error["scopes"] if error.get("code") == InsufficientScope.code else None


def scopes_refused(error: Exception) -> Sequence[str] | None:
    """Return the scopes that the token of a refused read lacks; None for other errors."""
    if isinstance(error, NotServed) and error.word == InsufficientScope.code:
        scopes: Sequence[str] = error.data["scopes"]
        return scopes
    return error.scopes if isinstance(error, InsufficientScope) else None


class AnswerWriter:
    """The transport of one connection for answers: a head leaves together with the part after it.

    The server below writes the head and the body of an answer apart, each at once: two system calls, and two wake-ups
    of the host. A head without a part after it leaves in the next turn of the event loop.
    """

    __slots__ = ("_head", "_lines", "_loop", "_transport", "_written_lines")

    def __init__(self, loop: asyncio.AbstractEventLoop, transport: asyncio.Transport) -> None:
        self._loop = loop
        self._transport = transport
        self._head = b""
        self._lines: list[tuple[bytes, bytes]] = []
        self._written_lines = b""

    def write(self, data: bytes) -> None:
        """Write a head or a part of a body."""
        if self._head:
            data, self._head = self._head + data, b""
        elif data.startswith(_STATUS_LINE):
            self._head = data
            self._loop.call_soon(self._flush)
            return
        self._transport.write(data)

    def write_json(self, status: int, lines: list[tuple[bytes, bytes]], body: bytes) -> None:
        """Write a whole answer whose body is JSON; `lines` are the header fields of every answer, such as the date."""
        if self._head:
            self._flush()
        if lines is not self._lines:
            self._lines = lines
            self._written_lines = b"".join([b"%b: %b\r\n" % line for line in lines])
        self._transport.write(
            b"%b%bcontent-length: %d\r\ncontent-type: application/json\r\n\r\n%b"
            % (STATUS_LINE[status], self._written_lines, len(body), body)
        )

    def close(self) -> None:
        """Close the connection once everything written has left."""
        self._flush()
        self._transport.close()

    def is_closing(self) -> bool:
        """Return whether the connection is closing or closed."""
        return self._transport.is_closing()

    def _flush(self) -> None:
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head)
