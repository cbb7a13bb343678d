"""A request to an upstream that was sent without a task.

Rule: it ends with a plain result (`Upstream.answered`), or a task takes it over (`Upstream.call`) and does the rest.
"""

from typing import Any

from aggregator.upstream.caller import CallClock, RunningCall
from aggregator.upstream.sessions.session import UpstreamSession
from aggregator.wire.pending_request import PendingRequest


class DirectRequest(RunningCall):
    """A running call that no task waits for yet. Until one does, it is the clock of its own time limit.

    session, sent: the session that it was sent in, and the request in its connection.
    began: when it was sent, by `time.monotonic`.
    deadline: the time of the event loop at which its time limit ends; None while that is suspended.
    result: the result, if it came before the task that takes the request over.
    """

    __slots__ = ("began", "deadline", "result", "sent", "session")

    session: UpstreamSession
    sent: PendingRequest
    began: float

    def __init__(self, deadline: float) -> None:
        super().__init__(None, None)
        self.deadline: float | None = deadline
        self.result: dict[str, Any] | None = None

    def _limit(self) -> CallClock:
        return self if self._clock is None else self._clock

    def when(self) -> float | None:
        """See `CallClock`."""
        return self.deadline

    def reschedule(self, when: float | None, /) -> None:
        """See `CallClock`."""
        self.deadline = when

    def take_result(self, result: dict[str, Any], /) -> None:
        """See `AnswerReceiver`."""
        raise NotImplementedError

    def take_over(self) -> None:
        """See `AnswerReceiver`."""
        raise NotImplementedError

    async def wait(self) -> dict[str, Any]:
        """Return the result, or raise what became of the request. See `PendingRequest`."""
        return self.result if self.result is not None else await self.sent.wait()
