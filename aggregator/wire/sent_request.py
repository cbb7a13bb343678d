"""Requests that are sent without a task: who is told of the answer, and how a task takes one over."""

from typing import Any, Protocol


class AnswerReceiver(Protocol):
    """The receiver of what becomes of a request that was sent without a task.

    One of its methods is called, once, outside of any task; none any more once `SentRequest.wait` was called.
    """

    def take_result(self, result: dict[str, Any], /) -> None:
        """Take the result: an object of at most `SMALL` bytes on the wire."""

    def take_over(self) -> None:
        """Start a task that calls `SentRequest.wait`: something else came, or has to be waited for."""


class SentRequest(Protocol):
    """A request that was sent without a task."""

    async def wait(self) -> dict[str, Any]:
        """Return the result, or raise what became of the request, as if it had been sent by `Connection.request`.

        To be called once at most, in a task. Cancelling the wait cancels the request.
        """
        ...
