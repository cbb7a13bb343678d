"""A request of the other end of a connection that is answered without a task."""

from collections.abc import Callable
from typing import Any, Protocol


class RequestInProgress(Protocol):
    """A request of the other end that is being answered without a task."""

    def take_over(self) -> None:
        """Promote it to a task, started with `Peer.answer_in_task`."""


# Begins to answer a request of the other end without a task, or returns None. The answer is sent with `Peer.finish`,
# later.
BeginRequest = Callable[[str | int, str, dict[str, Any]], RequestInProgress | None]
