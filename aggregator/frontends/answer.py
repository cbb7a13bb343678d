"""The state of the answer to one HTTP request."""

from collections.abc import Awaitable

from aggregator.frontends.web.host_guard import Message, Send


class Answer:
    """An ASGI `send` that records whether the response has started and whether it is complete."""

    __slots__ = ("_send", "_start", "complete")

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Message | None = None
        self.complete = False

    def __call__(self, message: Message) -> Awaitable[None]:
        if self._start is None:
            self._start = message
        elif not message.get("more_body", False):
            self.complete = True
        return self._send(message)

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
