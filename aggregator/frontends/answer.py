"""The answer to one request, as far as it has gone."""

from collections.abc import Awaitable

from aggregator.frontends.web.host_guard import Message, Send


class Answer:
    """A `send` of ASGI that knows whether the answer has begun and whether all of it was sent."""

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
        """Whether its status was sent."""
        return self._start is not None

    async def end(self) -> None:
        """Send nothing more of an answer that has begun; one that declared its length is cut off by the server."""
        if self._start is None or self.complete:
            return
        if not any(name == b"content-length" for name, _ in self._start["headers"]):
            await self({"type": "http.response.body", "body": b"", "more_body": False})
