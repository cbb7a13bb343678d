"""The host of a running call, and the running call, for upstreams."""

import asyncio
from collections.abc import Hashable, Mapping
from math import inf
from typing import Any, Protocol

from aggregator.domain.abilities import HostCapabilities
from aggregator.domain.grant_owner import GrantOwner, Per
from aggregator.domain.versions import Era


class Caller(Protocol):
    """The host of a call, for an upstream.

    host: equal for the calls of one session or connection, and for no others.
    agent: the agent that the host acts for.
    session: the session of the host; None for a host without one.
    identity: equal for calls that a question may be put in alike: those of one session of a handshake era. A call of
        2026-07-28 has one of its own, since the question is part of its answer.
    era: the era of the host's revision.
    abilities: the requests that the host declared it can answer.
    level: the lowest log level that the host wants; None if it has set none.
    sent_in: the revision of the request to the upstream; None until it is sent.
    sent_as: the id of that request, once it has ended; None if it was not sent.
    sent_over: the isolated connection of the last request of the call, which gets the next one; None if it was shared.
    """

    sent_in: str | None
    sent_as: int | None
    sent_over: str | None

    @property
    def host(self) -> Hashable: ...

    @property
    def identity(self) -> Hashable: ...

    @property
    def era(self) -> Era: ...

    @property
    def agent(self) -> Hashable: ...

    @property
    def session(self) -> Hashable | None: ...

    @property
    def abilities(self) -> HostCapabilities: ...

    @property
    def level(self) -> str | None: ...

    def account(self, per: Per) -> GrantOwner:
        """Return the owner of the call's account, if accounts are per user or agent."""
        ...

    async def ask(self, server: str, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request of this server to the host, and return the result.

        Raises:
            RpcError: the host cannot answer questions, or answered with an error.
        """
        ...

    def on_log(self, server: str, params: Mapping[str, Any]) -> None:
        """Pass on a log message of this server, if the host wants it."""
        ...

    def on_elicitation_complete(self, server: str, elicitation: str, *, running: bool) -> None:
        """Report that an elicitation by URL is complete; `running`: its call has not ended."""
        ...

    def for_session(self) -> "Caller | None":
        """Return the caller for messages outside of this call; None if the host cannot be reached then."""
        ...


class CallClock(Protocol):
    """The time limit of a running call: that of `asyncio.timeout` or `TimeLimits.limit`."""

    def when(self) -> float | None:
        """Return the time of the event loop at which the limit ends; None while it is suspended."""
        ...

    def reschedule(self, when: float | None, /) -> None:
        """Move the end of the limit; None suspends it."""
        ...


class RunningCall:
    """One running call. Its time limit is suspended while its host has a question to answer.

    caller: the host; None for a request of our own.
    questions: the requests of the server to the host that wait for an answer.
    request_count: the number of all such requests.
    latest: the time of the event loop beyond which progress does not extend the limit.
    extended: progress has started the limit anew.
    answered: the server has answered after the call was abandoned, so it no longer works on the call.
    sent_as: the id of its request on the connection; None until that is sent.
    """

    __slots__ = (
        "_caller", "_clock", "_left", "answered", "extended", "latest", "questions", "request_count", "sent_as",
    )  # fmt: skip

    def __init__(self, caller: Caller | None, clock: CallClock | None) -> None:
        self._caller = caller
        self.questions: set[asyncio.Task[Any]] = set()
        self.request_count = 0
        self.sent_as: int | None = None
        self.answered = False
        self.extended = False
        self._clock = clock
        self.latest = inf
        self._left = 0.0

    @property
    def caller(self) -> Caller | None:
        return self._caller

    def timed_by(self, clock: CallClock) -> None:
        """Replace the clock of the time limit; the new one has as much time left."""
        self._clock = clock

    def _limit(self) -> CallClock:
        assert self._clock is not None
        return self._clock

    def answer(self) -> None:
        """Record that the server answered after the call was abandoned."""
        self.answered = True

    def extend(self, limit: float) -> None:
        """Restart the time limit: the call made progress."""
        self.extended = True
        if self.questions:
            self._left = min(limit, self.latest)
        else:
            now = asyncio.get_running_loop().time()
            self._limit().reschedule(min(now + limit, self.latest))

    def hold(self, question: "asyncio.Task[Any]") -> None:
        """Suspend the time limit while a request waits for the host."""
        if not self.questions:
            now = asyncio.get_running_loop().time()
            clock = self._limit()
            self._left = (clock.when() or now) - now
            self.latest -= now
            clock.reschedule(None)
        self.questions.add(question)

    def go_on(self, question: "asyncio.Task[Any]") -> None:
        """Resume the time limit, if this was the last request that waited for the host."""
        if question not in self.questions:
            return
        self.questions.discard(question)
        if not self.questions:
            now = asyncio.get_running_loop().time()
            self.latest += now
            self._limit().reschedule(now + self._left)

    def forget_host(self) -> None:
        """Drop the host: an abandoned call is remembered for longer than its host may exist."""
        self._caller = None

    def end(self) -> set["asyncio.Task[Any]"]:
        """End the call, and return the requests that still wait for the host."""
        left, self.questions = self.questions, set()
        return left
