"""Whether one upstream still answers, and how fast: what its calls tell, and a question of our own when it is quiet.

Law: a server that is busy is not dead. It is asked only when nothing was heard for long, and while something is heard
no silence counts (`circuit`).
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from math import ceil
from random import SystemRandom
from time import monotonic
from typing import Any, Final

from aggregator.config.model import ServerConfig
from aggregator.domain.errors import (
    RpcError,
    UpstreamBadAnswer,
    UpstreamError,
    UpstreamHttpStatus,
    UpstreamRefused,
    UpstreamRpcError,
    UpstreamUnavailable,
)
from aggregator.upstream.connection import SessionExpired
from aggregator.upstream.health.circuit_breaker import CircuitBreaker
from aggregator.upstream.health.latency import WINDOW, LatencyWindow
from aggregator.upstream.lifecycle import backoff
from aggregator.upstream.lifecycle.states import about
from aggregator.upstream.lists.lists import Current, Lose
from aggregator.upstream.sessions.connect import UpstreamSession
from aggregator.wire.peer import OnProgress, PeerGone

log = logging.getLogger(__name__)

# By these whoever stands before a server says that it is not there.
_NOT_ITS_OWN: Final = frozenset({502, 503, 504})
# After so many trials in vain a connection in which nothing is under way is given up for a new one.
TRIALS: Final = 3
# How long it is left alone that waits for a person, until it is looked at again.
PERSON: Final = 1.0


class Health:
    """`begin` and one of `answered` and `failed` go round every request; `keep` asks where nothing is heard.

    `config` is looked up each time, since it may be another one by now; `changed` hears of a circuit that opens or
    closes.
    """

    def __init__(self, config: Callable[[], ServerConfig], changed: Callable[[], None]) -> None:
        self._config = config
        self._changed = changed
        self._worry = asyncio.Event()
        self._chance = 0.0
        self.vitals = LatencyWindow()
        self.circuit = CircuitBreaker(config().health.failures)
        self.ping: float | None = None

    def __repr__(self) -> str:
        return f"<Health {self._config().id} {self.circuit!r}>"

    @property
    def answers(self) -> bool:
        """Whether calls go through to it, as far as it is connected."""
        return self.circuit.position == "closed"

    @property
    def since(self) -> float:
        """Since when there has been no doubt about it (`time.monotonic`)."""
        return self.circuit.unsteady

    def told(self) -> str:
        """What there is to say of it, for people and models; empty while all is well."""
        if not self.answers:
            return f"it does not answer; {self._again(monotonic())}"
        figures = self.vitals.figures(monotonic())
        if figures.slow:
            return f"slow: {figures.failed} of its last {figures.calls} calls were not answered in time"
        return ""

    def lately(self) -> str:
        """How calls went of late, in one line; empty where there were none."""
        figures = self.vitals.figures(monotonic())
        if not figures.calls:
            return ""
        took = ", ".join(f"{name} {_brief(seconds)}" for name, seconds in figures.times)
        unanswered = f"; {figures.failed} were not answered" if figures.failed else ""
        return f"calls of the last {WINDOW / 60:g} minutes: {figures.calls}, {took}{unanswered}"

    def report(self) -> dict[str, Any]:
        """The figures, for programs; seconds."""
        figures = self.vitals.figures(monotonic())
        times = {name: round(seconds, 6) for name, seconds in figures.times}
        ping = round(self.ping, 6) if self.ping is not None else None
        counts = {"calls": figures.calls, "failed": figures.failed}
        return {"circuit": self.circuit.position, "slow": figures.slow, "ping": ping, **counts, **times}

    # -- round every request

    def begin(self, *, alone: bool = False) -> float:
        """When a request begins; `alone`: in a process of its own, of which the others tell nothing.

        Raises:
            UpstreamUnavailable: the server does not answer, so nothing is sent.
        """
        now = monotonic()
        if not alone and self.circuit.position != "closed":
            self._admit(now)
        return now

    def answered(self, began: float, *, alone: bool = False) -> None:
        """It has its answer."""
        now = monotonic()
        self.vitals.took(now, now - began, False)
        if not alone and self.circuit.answer(now):
            self._closed()

    def failed(self, began: float, error: BaseException, *, alone: bool = False) -> None:
        """It ended in an error, the server's or of the way there."""
        now = monotonic()
        silent = is_silence(error)
        if silent is None:
            # Given up by the host, or never sent: it says nothing.
            if not alone:
                self.circuit.leave_trial(began)
            return
        self.vitals.took(now, now - began, silent)
        if not alone:
            self._ended(began, now, silent)

    def hear(self) -> None:
        """The server said something of its own accord."""
        self.circuit.hear(monotonic())

    def hearing(self, on_progress: OnProgress) -> OnProgress:
        """The same, and this too."""

        def heard(params: dict[str, Any]) -> None:
            self.circuit.hear(monotonic())
            on_progress(params)

        return heard

    # -- asking

    async def keep(self, current: Current, lose: Lose, busy: Callable[[], bool]) -> None:
        """Look after one connection until it ends. `busy`: calls are under way in it."""
        self.circuit.begin_anew(monotonic())
        try:
            await self._watch(current, lose, busy)
        finally:
            # What is to be said from now on, the state of the link says.
            self.circuit.begin_anew(monotonic())

    async def _watch(self, current: Current, lose: Lose, busy: Callable[[], bool]) -> None:
        while True:
            await self._until_due()
            session = current()
            if session is None:
                return
            if session.callers.asking:
                # It waits for a person, and some servers do nothing else meanwhile. A trial stays due all that time.
                self.hear()
                await asyncio.sleep(PERSON)
                continue
            await self._ask(session)
            trials = self.circuit.trials
            if trials >= TRIALS and not busy():
                lose(session, f"it did not answer {trials} health checks after it had fallen silent")
                return

    async def _until_due(self) -> None:
        while True:
            self._worry.clear()
            due = self.due
            if due is not None and due <= monotonic():
                return
            with suppress(TimeoutError):
                # Later the config may want it.
                async with asyncio.timeout(due - monotonic() if due is not None else self._config().health.interval):
                    await self._worry.wait()

    @property
    def due(self) -> float | None:
        """When it is asked next (`time.monotonic`), if nothing is heard until then; None where nobody wants that."""
        health, circuit = self._config().health, self.circuit
        if not health.enabled:
            return None
        if circuit.position != "closed":
            return circuit.retry
        if circuit.failures:
            return circuit.unsteady + backoff.delay(circuit.failures, self._chance)
        return circuit.heard + health.interval * (0.75 + self._chance / 2)

    async def _ask(self, session: UpstreamSession) -> None:
        began, modern = monotonic(), session.greeting.era == "modern"
        self._chance = SystemRandom().random()
        if self.circuit.due(began):
            self.circuit.begin_trial(began)
        method, params = ("server/discover", {"_meta": dict(session.envelope)}) if modern else ("ping", {})
        silent: bool | None = False
        try:
            async with asyncio.timeout(self._config().health.timeout):
                await session.connection.request(method, params)
        except asyncio.CancelledError:
            self.circuit.leave_trial(began)
            raise
        except (TimeoutError, PeerGone, SessionExpired, RpcError, UpstreamError) as error:
            silent = is_silence(error)
            log.debug("%s: a health check failed: %r", self._config().id, error)
        now = monotonic()
        if not silent:
            self.ping = now - began
        self._ended(began, now, bool(silent))

    # -- what follows

    def _ended(self, began: float, now: float, silent: bool) -> None:
        if not silent:
            if self.circuit.answer(now):
                self._closed()
            return
        self.circuit.limit = self._config().health.failures
        if self.circuit.fail(began, now, SystemRandom().random()):
            server, failures = self._config().id, self.circuit.failures
            said = "server %s does not answer (%d requests in a row): calls are refused until it does; %s"
            log.warning(said, server, failures, self._again(now))
            self._changed()
        self._worry.set()

    def _closed(self) -> None:
        log.info("server %s answers again", self._config().id)
        self._changed()

    def _admit(self, now: float) -> None:
        """A call is the trial only where nobody else asks."""
        if self.circuit.due(now) and not self._config().health.enabled:
            self.circuit.begin_trial(now)
            return
        server = self._config().id
        raise UpstreamUnavailable(
            server,
            f"{server} does not answer: {self.circuit.limit} requests in a row got no answer; {self._again(now)}.",
            state="silent",
            retry_after=max(1, ceil(self.circuit.retry - now)),
        )

    def _again(self, now: float) -> str:
        if self.circuit.position == "trying" or self.circuit.retry <= now:
            return "it is being tried now" if self._config().health.enabled else "the next call tries it"
        return f"next try in {about(self.circuit.retry - now)}"


def _brief(seconds: float) -> str:
    """A time with two digits that count: `0.34 ms`, `12 ms`, `1.2 s`."""
    unit, size = ("s", 1.0) if seconds >= 1 else ("ms", 1000.0)
    return f"{float(f'{seconds * size:.2g}'):g} {unit}"


def is_silence(error: BaseException) -> bool | None:
    """Whether an error means that the server did not answer; None where it says nothing of the server at all."""
    if isinstance(error, UpstreamRpcError | UpstreamRefused | UpstreamBadAnswer | SessionExpired):
        return False
    if isinstance(error, UpstreamHttpStatus):
        return error.details["status"] in _NOT_ITS_OWN
    if isinstance(error, UpstreamError | PeerGone | TimeoutError):
        return True
    return None
