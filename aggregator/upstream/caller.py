"""A downstream client and its running calls, as far as upstreams have to do with them."""

import asyncio
from collections.abc import Hashable, Mapping
from math import inf
from typing import Any, Protocol

from aggregator.domain.abilities import HostCapabilities
from aggregator.domain.versions import Era


class Caller(Protocol):
    """The host behind a call, as far as an upstream has to do with it.

    `host` is the same for calls of one session or connection, and for nothing else; `agent` is who that acts for,
    `session` is None for hosts that have none. `identity` is equal for all calls of one host: where that has no
    session, for the calls of one principal that name the same program. `era` is that of the revision the host speaks,
    `sent_in` the revision that its call went on in, once it has. `level` is what the host wants logged, if it said so.
    """

    sent_in: str | None

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

    async def ask(self, server: str, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Put a question of this server to the host.

        Raises:
            RpcError: it cannot be put, or the host answered with an error.
        """
        ...

    def hear_log(self, server: str, params: Mapping[str, Any]) -> None:
        """Pass a log line on, if the host wants it."""
        ...

    def hear_completed(self, server: str, elicitation: str, *, running: bool) -> None:
        """A page that the host was sent to is done with; `running`: its call is still under way."""
        ...

    def standing(self) -> "Caller | None":
        """The same host for what belongs to no call; None where it cannot be reached then."""
        ...


class RunningCall:
    """One call under way. Its clock stands still while its host is asked something.

    `latest` is how far progress may put its end off, on the loop's clock. `answered`: the server answered after the
    call was given up, and so no longer works on it.
    """

    __slots__ = ("_clock", "_left", "answered", "asked", "caller", "latest", "questions")

    def __init__(self, caller: Caller | None, clock: asyncio.Timeout) -> None:
        self.caller = caller
        self.questions: set[asyncio.Task[Any]] = set()
        self.asked = 0
        self.answered = False
        self._clock = clock
        self.latest = inf
        self._left = 0.0

    def answer(self) -> None:
        """Note that the server answered, though nobody waits for it any more."""
        self.answered = True

    def extend(self, limit: float) -> None:
        """It made progress: its time starts anew."""
        if self.questions:
            self._left = min(limit, self.latest)
        else:
            now = asyncio.get_running_loop().time()
            self._clock.reschedule(min(now + limit, self.latest))

    def hold(self, question: "asyncio.Task[Any]") -> None:
        """A person is asked: that takes the time it takes."""
        if not self.questions:
            now = asyncio.get_running_loop().time()
            self._left = (self._clock.when() or now) - now
            self.latest -= now
            self._clock.reschedule(None)
        self.questions.add(question)

    def go_on(self, question: "asyncio.Task[Any]") -> None:
        """That question is done with."""
        if question not in self.questions:
            return
        self.questions.discard(question)
        if not self.questions:
            now = asyncio.get_running_loop().time()
            self.latest += now
            self._clock.reschedule(now + self._left)

    def end(self) -> set["asyncio.Task[Any]"]:
        """The call is over; what it was still asking is returned."""
        left, self.questions = self.questions, set()
        return left
