"""A request of the other end of a connection that is answered without a task."""

from typing import Any, Protocol


class RequestInProgress(Protocol):
    """A request of the other end that is being answered without a task."""

    def take_over(self) -> None:
        """Promote it to a task, started with `Peer.answer_in_task`."""


class BeginRequest(Protocol):
    """A function that begins to answer a request of the other end without a task, or returns None.

    The answer is sent with `Peer.finish`, later.
    """

    def __call__(self, request_id: str | int, method: str, params: dict[str, Any], /) -> RequestInProgress | None: ...
