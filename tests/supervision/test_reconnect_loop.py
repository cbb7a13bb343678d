"""The reconnect loop of an upstream against a simple model, on a clock of its own: any events, in any order."""

import asyncio
import logging
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from aggregator.config.server_config import ServerConfig
from aggregator.config.server_parts import LimitsConfig
from aggregator.upstream.current_config import CurrentConfig
from aggregator.upstream.lifecycle import backoff
from aggregator.upstream.lifecycle import state as state_module
from aggregator.upstream.lifecycle.backoff import delay
from aggregator.upstream.lifecycle.failures import Failure
from aggregator.upstream.lifecycle.idle import LAZY_TO, RESTORE_WAIT, IdleStop
from aggregator.upstream.lifecycle.reconnect_loop import ReconnectLoop
from aggregator.upstream.lifecycle.state import UpstreamState
from aggregator.upstream.lifecycle.states import Event, State, StateAndReason
from tests.supervision.virtual_clock import VirtualLoop

PATIENT = True

GRACE = 30.0
# What no pause is longer than, and what none is shorter than.
LONGEST = max(backoff.REFUSED_CAP, backoff.RETRY_AFTER_CAP * 1.1)
SHORTEST = backoff.FIRST / 2


Connection = asyncio.Future[Failure | None]


class _Lines(logging.Handler):
    """The lines that tell of a transition."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if "is still" not in record.getMessage():
            self.lines.append(record.getMessage())


class ReconnectMachine(RuleBasedStateMachine):
    """One upstream: connections that come, fail, break and are idle, and callers that need it."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualLoop()
        self.log_lines = _Lines()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(state_module, "time", self)
        logger = logging.getLogger("aggregator.upstream.lifecycle.state")
        self.patch.setattr(logger, "handlers", [self.log_lines])
        # Not by `patch`: loggers remember which levels they leave out.
        logger.setLevel(logging.INFO)
        self.patch.setattr(logger, "propagate", False)
        self.moves = 0
        self.events: list[Event] = []
        self.state: State = "starting"
        self.current: Connection | None = None
        self.wrong: list[Any] = []
        self.loop.set_exception_handler(lambda loop, context: self.wrong.append(context))
        # The model: when the latest attempt or connection ended, the failures in a row, for how long it asked to
        # be left alone, since when a lost one is being mended, and whether a refusal has hidden it since.
        self.ended: float | None = None
        self.failures = 0
        self.asked = 0.0
        self.lost: float | None = None
        self.hidden = False

    def time(self) -> float:
        """The wall clock of what is tested."""
        return self.loop.time()

    def monotonic(self) -> float:
        """The clock that cannot be set, of what is tested."""
        return self.loop.time()

    def moved(self) -> None:
        self.moves += 1
        assert self.lifecycle.state != self.state, "only what is another state is told"
        self.state = self.lifecycle.state

    async def run_once(self) -> Failure | None:
        assert self.current is None, "never two connections at once"
        if self.ended is not None:
            longest = max(delay(self.failures, 1.0, refused=True), min(self.asked, backoff.RETRY_AFTER_CAP) * 1.1)
            assert SHORTEST <= self.loop.time() - self.ended <= longest, "no attempt too soon, and none too late"
        self.current = self.loop.create_future()
        try:
            return await self.current
        finally:
            self.current = None

    async def close_isolated(self) -> None:
        """Close nothing: there are no isolated sessions."""

    @initialize(start=st.sampled_from(["eager", "on_call", "lazy"]), known=st.booleans(), needed=st.booleans())
    def begin(self, start: Any, known: bool, needed: bool) -> None:
        """Begin the upstream; `needed` calls it before its known tools are looked up."""
        config = CurrentConfig(
            ServerConfig(
                id="s", key="s", prefix="s", type="stdio", command="x", start=start, limits=LimitsConfig(grace=GRACE)
            )
        )
        self.lifecycle = UpstreamState(config, StateAndReason("starting"), self.moved, str)
        self.idle = IdleStop(config)
        self.reconnecting = ReconnectLoop(config, self.lifecycle, self.idle)
        move = self.lifecycle.move

        def recorded(event: Event, reason: str = "", pause: float | None = None) -> None:
            self.events.append(event)
            move(event, reason, pause)

        self.patch.setattr(self.lifecycle, "move", recorded)
        self.known = known

        async def run() -> asyncio.Task[None]:
            if needed:
                self.idle.need()
            self.idle.restored()
            self.lifecycle.known = known
            return asyncio.ensure_future(self.reconnecting.run(self))

        self.task = self.loop.run_until_complete(run())
        self.loop.settle()
        held_back = not needed and (start == "lazy" or (start == "on_call" and known))
        assert self.lifecycle.startable == held_back
        learns = start == "on_call" and not known and not needed
        idling = self.loop.create_task(self.idle.wait_idle(lambda: False))
        self.loop.settle()
        assert idling.done() == learns, "what runs only to tell what it has does not run on"
        idling.cancel()
        if start == "lazy" and held_back:
            self.loop.pass_time(RESTORE_WAIT + LAZY_TO)
            assert not self.lifecycle.startable

    def in_loop(self, work: Any) -> None:
        async def run() -> None:
            work()

        self.loop.run_until_complete(run())

    @rule(well=st.booleans(), flag=st.booleans(), died=st.booleans(), number=st.integers(0, 3))
    def go_on(self, well: bool, flag: bool, died: bool, number: int) -> None:
        """Let the upstream do what it can now."""
        if self.current is None:
            next_try = self.lifecycle.current.next_try
            self.loop.pass_time(next_try - self.loop.time() if next_try is not None else 1.0)
            self.call()
        elif self.lifecycle.state != "ready" and well:
            self.connect()
        elif self.lifecycle.state != "ready":
            self.fail(self.current, flag, died, (None, 0.0, 40.0, 1e9)[number])
        elif well:
            self.become_idle(self.current, flag)
        else:
            self.lose(self.current, (0.0, 0.0, 20.0, 100.0)[number], died, flag)

    def connect(self) -> None:
        self.in_loop(self.reconnecting.connected)
        self.lost, self.hidden, self.known = None, False, True

    def fail(self, current: Connection, lasting: bool, died: bool, retry: float | None) -> None:
        self.hidden |= lasting or self.lifecycle.state == "starting"
        self.failures, self.asked = self.failures + 1, retry or 0.0
        before = len(self.events)
        current.set_result(Failure("it fell", lasting, died, retry_after=retry))
        self.ended = self.loop.time()
        self.loop.settle()
        assert len(self.events) == before + 1, "one failed attempt is one event"

    def lose(self, current: Connection, served: float, died: bool, told: bool) -> None:
        before = len(self.events)
        if told:
            # Reported by a call, before the connection itself has ended.
            self.in_loop(lambda: self.reconnecting.lost("it fell"))
        self.failures, self.asked = 1 if served > backoff.STABLE else self.failures + 1, 0.0
        current.set_result(Failure("it fell", False, died, served))
        self.ended = self.lost = self.loop.time()
        self.loop.settle()
        assert self.events[before:] == ["lost"], "one lost connection is one event"

    def become_idle(self, current: Connection, called: bool) -> None:
        """Stop the idle upstream; `called` calls it in the same moment."""

        def report() -> None:
            self.reconnecting.idle()
            if called:
                self.reconnecting.start()

        self.in_loop(report)
        current.set_result(None)
        self.ended, self.failures = None, 0
        self.loop.settle()
        assert self.lifecycle.startable != called
        assert (self.current is not None) == called

    @rule()
    def call(self) -> None:
        startable = self.lifecycle.startable
        self.in_loop(self.reconnecting.start)
        self.in_loop(self.reconnecting.start)
        self.loop.settle()
        assert not self.lifecycle.startable
        assert not startable or self.current is not None

    @rule(seconds=st.sampled_from([0.1, 1.0, 12.0, 29.0, 31.0, 400.0]))
    def wait(self, seconds: float) -> None:
        self.loop.pass_time(seconds)

    @invariant()
    def is_in_the_state_that_the_model_says(self) -> None:
        if not hasattr(self, "lifecycle"):
            return
        state = self.lifecycle.state
        if self.lost is not None:
            over = self.hidden or self.loop.time() - self.lost >= GRACE
            assert state == ("unavailable" if over else "reconnecting")
        elif self.hidden:
            assert state == "unavailable"
        else:
            assert state in ("starting", "ready", "stopped")
        assert self.lifecycle.listed == self.known

    @invariant()
    def is_always_on_its_way(self) -> None:
        """Either it is stopped, or an attempt or connection is there, or its time is known and near."""
        if not hasattr(self, "lifecycle"):
            return
        now = self.lifecycle.current
        if self.current is None and not self.lifecycle.startable:
            assert now.next_try is not None
            assert self.loop.time() <= now.next_try <= self.loop.time() + LONGEST
        else:
            assert now.next_try is None

    @invariant()
    def says_each_transition_once(self) -> None:
        assert len(self.log_lines.lines) == self.moves

    @invariant()
    def nothing_goes_wrong_unseen(self) -> None:
        assert not self.wrong

    def teardown(self) -> None:
        try:
            if hasattr(self, "task"):
                self.task.cancel()
                self.loop.settle()
                assert self.task.cancelled()
                assert (self.lifecycle.state, self.lifecycle.closed, self.lifecycle.listed) == ("stopped", True, False)
        finally:
            self.patch.undo()
            logging.getLogger("aggregator.upstream.lifecycle.state").setLevel(logging.NOTSET)
            self.loop.close()


TestUpstream = ReconnectMachine.TestCase
