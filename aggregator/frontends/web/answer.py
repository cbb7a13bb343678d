"""The state of the answer to one HTTP request."""

from collections.abc import Awaitable
from typing import Final, Protocol

from aggregator.frontends.web.host_guard import Message, Send

_WHOLE: Final[Message] = {"headers": [(b"content-length", b"")]}


class WriteWhole(Protocol):
    """The way to write a whole JSON answer at once: returns False, and writes nothing, where that cannot be done."""

    def __call__(self, status: int, body: bytes, /) -> bool: ...


class Answer:
    """An ASGI `send` that records whether the response has started and whether it is complete."""

    __slots__ = ("_send", "_start", "_write_whole", "complete")

    def __init__(self, send: Send, write_whole: WriteWhole | None = None) -> None:
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
        """Write a JSON answer without further headers at once; return False, and write nothing, if that cannot be."""
        if self._write_whole is None or self._start is not None or not self._write_whole(status, body):
            return False
        self._start, self.complete = _WHOLE, True
        return True

    @property
    def started(self) -> bool:
        """True once the status was sent."""
        return self._start is not None

    async def end(self) -> None:
        """End a response that has started. The server cuts the connection where its length was declared."""
        if self._start is None or self.complete:
            return
        if not any(name == b"content-length" for name, _ in self._start["headers"]):
            await self({"type": "http.response.body", "body": b"", "more_body": False})
