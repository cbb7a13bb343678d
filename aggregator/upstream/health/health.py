"""The health of one upstream: whether it answers and how fast, from its calls, and by a ping when it is silent.

Law 1: a busy server is not a dead one. It is pinged only when it was silent for long, and no request counts as
unanswered while other messages come (`circuit_breaker`). Law 2: the latency of calls is bounded in memory and costs one
append for each; the figures are computed on reading.
"""

import asyncio
import logging
from collections import deque
from contextlib import suppress
from math import ceil
from random import SystemRandom
from time import monotonic
from typing import Any, Final, NamedTuple

from aggregator.domain.errors import (
    RpcError,
    UpstreamBadAnswer,
    UpstreamError,
    UpstreamHttpStatus,
    UpstreamRefused,
    UpstreamRpcError,
    UpstreamUnavailable,
)
from aggregator.domain.missing import LoginRequired
from aggregator.upstream.connection import SessionExpired
from aggregator.upstream.credentials import NoTokenNow
from aggregator.upstream.current_config import CurrentConfig
from aggregator.upstream.health.circuit_breaker import CircuitBreaker
from aggregator.upstream.lifecycle import backoff
from aggregator.upstream.lifecycle.state import OnChange
from aggregator.upstream.lifecycle.states import round_duration
from aggregator.upstream.sessions.session import SessionHolder, UpstreamSession
from aggregator.wire.peer import PeerGone

log = logging.getLogger(__name__)

# Statuses by which a proxy says that its upstream server is not there.
_NOT_ITS_OWN: Final = frozenset({502, 503, 504})
# After so many trials without an answer, a connection without calls under way is replaced.
TRIALS: Final = 3
# Statuses by which a server refuses the credentials of a request.
_CREDENTIALS: Final = frozenset({401, 403})
# Seconds between two looks at a server that waits for the answer of a person.
PERSON: Final = 1.0
KEPT: Final = 512
# Seconds after which a call no longer counts.
WINDOW: Final = 300.0
# An upstream is slow if this share of its calls had no answer; fewer calls than `ENOUGH` prove nothing.
ENOUGH: Final = 5
SLOW: Final = 0.2
QUANTILES: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


class CallFigures(NamedTuple):
    """The figures of the calls that ended within `WINDOW`.

    calls, failed: how many ended, and how many of these had no answer.
    times: seconds until the end by the name of the quantile, calls without an answer included; empty without calls.
    """

    calls: int
    failed: int
    times: tuple[tuple[str, float], ...]

    @property
    def slow(self) -> bool:
        """True if too many calls were not answered in time by a server that answers others."""
        return self.calls >= ENOUGH and self.failed >= SLOW * self.calls


class LatencyWindow:
    """The ends of the last calls of one upstream; `now` is of one clock, in seconds."""

    def __init__(self) -> None:
        self._ends: deque[tuple[float, float, bool]] = deque(maxlen=KEPT)

    def add(self, now: float, seconds: float, failed: bool) -> None:
        """Add a call that has ended after `seconds`."""
        self._ends.append((now, seconds, failed))

    def figures(self, now: float) -> CallFigures:
        """Return the figures of the calls that count now."""
        recent = [(seconds, failed) for at, seconds, failed in self._ends if now - at <= WINDOW]
        times = sorted(seconds for seconds, _ in recent)
        last = len(times) - 1
        quantiles = tuple((name, times[round(last * part)]) for name, part in QUANTILES.items() if times)
        return CallFigures(len(times), sum(failed for _, failed in recent), quantiles)


class Health:
    """The health of one upstream. `begin` and one of `answered` and `failed` surround every request.

    latency: the times of the last calls.
    circuit: the circuit breaker of the current connection.
    ping: seconds that the last health check took; None before the first.
    refused: set when the server refuses the credentials of a request.
    """

    def __init__(self, config: CurrentConfig, on_change: OnChange) -> None:
        self._config = config
        self._on_change = on_change
        self._recheck = asyncio.Event()
        self._chance = 0.0
        self.latency = LatencyWindow()
        self.circuit = CircuitBreaker(config.value.health.failures)
        self.ping: float | None = None
        self.refused = asyncio.Event()

    def __repr__(self) -> str:
        return f"<Health {self._config.value.id} {self.circuit!r}>"

    @property
    def answers(self) -> bool:
        """True if calls are sent to the upstream, once it is connected."""
        return self.circuit.position == "closed"

    @property
    def since(self) -> float:
        """The time of the last doubt about its health (`time.monotonic`)."""
        return self.circuit.unsteady

    def problem(self) -> str:
        """Return the problems of the health, for users and models; empty if there are none."""
        if not self.answers:
            return f"it does not answer; {self._again(monotonic())}"
        figures = self.latency.figures(monotonic())
        if figures.slow:
            return f"slow: {figures.failed} of its last {figures.calls} calls were not answered in time"
        return ""

    def summary(self) -> str:
        """Return the figures of the latest calls, in one line; empty if there were none."""
        figures = self.latency.figures(monotonic())
        if not figures.calls:
            return ""
        took = ", ".join(f"{name} {_brief(seconds)}" for name, seconds in figures.times)
        unanswered = f"; {figures.failed} were not answered" if figures.failed else ""
        return f"calls of the last {WINDOW / 60:g} minutes: {figures.calls}, {took}{unanswered}"

    def report(self) -> dict[str, Any]:
        """Return the figures for programs; times are in seconds."""
        figures = self.latency.figures(monotonic())
        times = {name: round(seconds, 6) for name, seconds in figures.times}
        ping = round(self.ping, 6) if self.ping is not None else None
        counts = {"calls": figures.calls, "failed": figures.failed}
        return {"circuit": self.circuit.position, "slow": figures.slow, "ping": ping, **counts, **times}

    # -- around every request

    def begin(self, *, alone: bool = False) -> float:
        """Admit a request, and return when it begins (`time.monotonic`).

        alone: the request goes over an isolated connection, of which the others say nothing.

        Raises:
            UpstreamUnavailable: the server does not answer, so nothing is sent.
        """
        now = monotonic()
        if not alone and self.circuit.position != "closed":
            self._admit(now)
        return now

    def answered(self, began: float, *, alone: bool = False) -> None:
        """Take note of the answer to a request."""
        now = monotonic()
        self.latency.add(now, now - began, False)
        if not alone and self.circuit.answer(now):
            self._closed()

    def failed(self, began: float, error: BaseException, *, alone: bool = False) -> None:
        """Take note of a request that ended in an error, of the server or of the connection."""
        if isinstance(error, UpstreamRefused) and error.details.get("status") in _CREDENTIALS:
            self.refused.set()
        now = monotonic()
        silent = is_silence(error)
        if silent is None:
            # Cancelled by the host, or never sent: no evidence.
            if not alone:
                self.circuit.leave_trial(began)
            return
        self.latency.add(now, now - began, silent)
        if not alone:
            self._ended(began, now, silent)

    def on_message(self) -> None:
        """Take note of a notification or request of the server."""
        self.circuit.on_message(monotonic())

    # -- health checks

    async def keep(self, sessions: SessionHolder) -> None:
        """Check the health of one connection until it ends."""
        self.circuit.reset(monotonic())
        try:
            await self._watch(sessions)
        finally:
            # Without a connection, the state of the upstream says what is wrong.
            self.circuit.reset(monotonic())

    async def _watch(self, sessions: SessionHolder) -> None:
        while True:
            await self._until_due()
            session = sessions.session
            if session is None:
                return
            if session.back_channel.asking:
                # It waits for a person, and some servers answer nothing meanwhile. A trial stays due all that time.
                self.on_message()
                await asyncio.sleep(PERSON)
                continue
            await self._ask(session)
            trials = self.circuit.trials
            if trials >= TRIALS and not sessions.busy:
                sessions.lose(session, f"it did not answer {trials} health checks after it had fallen silent")
                return

    async def _until_due(self) -> None:
        while True:
            self._recheck.clear()
            due = self.due
            if due is not None and due <= monotonic():
                return
            with suppress(TimeoutError):
                # A reload may switch health checks on.
                async with asyncio.timeout(
                    due - monotonic() if due is not None else self._config.value.health.interval
                ):
                    await self._recheck.wait()

    @property
    def due(self) -> float | None:
        """The time of the next health check (`time.monotonic`) if no message comes; None if switched off."""
        health, circuit = self._config.value.health, self.circuit
        if not health.enabled:
            return None
        if circuit.position != "closed":
            return circuit.retry
        if circuit.failures:
            return circuit.unsteady + backoff.delay(circuit.failures, self._chance)
        return circuit.last_message + health.interval * (0.75 + self._chance / 2)

    async def _ask(self, session: UpstreamSession) -> None:
        began, modern = monotonic(), session.negotiated.era == "modern"
        self._chance = SystemRandom().random()
        if self.circuit.due(began):
            self.circuit.begin_trial(began)
        method, params = ("server/discover", {"_meta": dict(session.envelope)}) if modern else ("ping", {})
        silent: bool | None = False
        try:
            async with asyncio.timeout(self._config.value.health.timeout):
                await session.connection.request(method, params)
        except asyncio.CancelledError:
            self.circuit.leave_trial(began)
            raise
        except (TimeoutError, PeerGone, SessionExpired, RpcError, UpstreamError) as error:
            silent = is_silence(error)
            log.debug("%s: a health check failed: %r", self._config.value.id, error)
        now = monotonic()
        if not silent:
            self.ping = now - began
        self._ended(began, now, bool(silent))

    # -- the circuit breaker

    def _ended(self, began: float, now: float, silent: bool) -> None:
        if not silent:
            if self.circuit.answer(now):
                self._closed()
            return
        self.circuit.limit = self._config.value.health.failures
        if self.circuit.fail(began, now, SystemRandom().random()):
            server, failures = self._config.value.id, self.circuit.failures
            said = "server %s does not answer (%d requests in a row): calls are refused until it does; %s"
            log.warning(said, server, failures, self._again(now))
            self._on_change()
        self._recheck.set()

    def _closed(self) -> None:
        log.info("server %s answers again", self._config.value.id)
        self._on_change()

    def _admit(self, now: float) -> None:
        """Refuse a call, or make it the trial where health checks are switched off."""
        if self.circuit.due(now) and not self._config.value.health.enabled:
            self.circuit.begin_trial(now)
            return
        server = self._config.value.id
        raise UpstreamUnavailable(
            server,
            f"{server} does not answer: {self.circuit.limit} requests in a row got no answer; {self._again(now)}.",
            state="silent",
            retry_after=max(1, ceil(self.circuit.retry - now)),
        )

    def _again(self, now: float) -> str:
        if self.circuit.position == "trying" or self.circuit.retry <= now:
            return "it is being tried now" if self._config.value.health.enabled else "the next call tries it"
        return f"next try in {round_duration(self.circuit.retry - now)}"


def _brief(seconds: float) -> str:
    """Return a time with two significant digits: `0.34 ms`, `12 ms`, `1.2 s`."""
    unit, size = ("s", 1.0) if seconds >= 1 else ("ms", 1000.0)
    return f"{float(f'{seconds * size:.2g}'):g} {unit}"


def is_silence(error: BaseException) -> bool | None:
    """Return True if an error means that the server did not answer; None if it says nothing about the server."""
    if isinstance(error, LoginRequired | NoTokenNow):
        return None
    if isinstance(error, UpstreamRpcError | UpstreamRefused | UpstreamBadAnswer | SessionExpired):
        return False
    if isinstance(error, UpstreamHttpStatus):
        return error.details["status"] in _NOT_ITS_OWN
    if isinstance(error, UpstreamError | PeerGone | TimeoutError):
        return True
    return None
