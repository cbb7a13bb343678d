"""One request in flight to an upstream: counted, and its end reported to the health of the connection that it uses."""

from types import TracebackType
from typing import Protocol

from aggregator.upstream.health.health import Health, is_silence
from aggregator.upstream.sessions.direct_request import DirectRequest
from aggregator.upstream.sessions.isolation import IsolatedSessions
from aggregator.upstream.sessions.session import UpstreamSession


class CallCounts(Protocol):
    """The number of calls that an upstream was sent, and of those that are running."""

    calls: int
    in_flight: int


class InFlight:
    """A context manager around one request. One that was `begun` was counted already.

    alone: the session is one host's own, and takes a process: the health of the shared connection does not cover it.
    """

    __slots__ = ("_alone", "_began", "_begun", "_counts", "_health", "_isolated", "_session")

    def __init__(
        self,
        counts: CallCounts,
        health: Health,
        isolated: IsolatedSessions,
        session: UpstreamSession,
        *,
        alone: bool,
        begun: DirectRequest | None,
    ) -> None:
        self._counts = counts
        self._health = health
        self._isolated = isolated
        self._session = session
        self._alone = alone
        self._begun = begun
        self._began = 0.0

    def __enter__(self) -> None:
        if self._begun is not None:
            self._began = self._begun.began
            return
        self._began = self._health.begin(alone=self._alone)
        self._counts.calls += 1
        self._counts.in_flight += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._counts.in_flight -= 1
        if error is None:
            self._health.answered(self._began, alone=self._alone)
            if self._alone:
                self._isolated.answered(self._session)
        else:
            self._health.failed(self._began, error, alone=self._alone)
            if self._alone and is_silence(error):
                self._isolated.unanswered(self._session)
