"""The circuit of an upstream, walked with everything that can happen to it, in any order."""

from math import inf

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from aggregator.upstream.health.circuit_breaker import CircuitBreaker
from aggregator.upstream.lifecycle import backoff
from tests.laws import examples

CHANCE = st.floats(0, 1, exclude_max=True)
PASSED = st.sampled_from([0.0, 0.001, 0.5, 3.0, 40.0, 1000.0])


class CircuitMachine(RuleBasedStateMachine):
    """Requests begin, are answered, or are not; beside them a model that remembers everything."""

    now = 0.0

    @initialize(limit=st.integers(1, 4))
    def begin(self, limit: int) -> None:
        self.limit = limit
        self.circuit = CircuitBreaker(limit)
        self.running: list[float] = []
        self.received = self.answered = -inf
        self.silences: list[tuple[float, float]] = []
        self.trial: float | None = None
        self.was_open = False

    @rule(seconds=PASSED)
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @precondition(lambda self: self.circuit.position == "closed" and len(self.running) < 6)
    @rule()
    def send(self) -> None:
        self.running.append(self.now)

    @precondition(lambda self: self.running)
    @rule(number=st.integers(0, 5))
    def answer(self, number: int) -> None:
        self.running.pop(number % len(self.running))
        closes = self.circuit.answer(self.now)
        assert closes == self.was_open
        self.received = self.answered = self.now
        self.silences.clear()
        self.trial = None

    @precondition(lambda self: self.running)
    @rule(number=st.integers(0, 5), chance=CHANCE)
    def stay_silent(self, number: int, chance: float) -> None:
        began = self.running.pop(number % len(self.running))
        opens = self.circuit.fail(began, self.now, chance)
        if self.received <= began:
            self.silences.append((began, self.now))
        assert opens == (not self.was_open and self.circuit.position == "open")
        if opens:
            assert self.circuit.opened == self.now
            assert self.now < self.circuit.retry <= self.now + backoff.CAP

    @rule()
    def say_something(self) -> None:
        self.circuit.on_message(self.now)
        self.received = self.now
        if not self.was_open:
            self.silences.clear()

    @precondition(lambda self: self.circuit.due(self.now))
    @rule()
    def try_it(self) -> None:
        self.circuit.begin_trial(self.now)
        self.trial = self.now
        assert self.circuit.position == "trying"

    @precondition(lambda self: self.trial is not None)
    @rule()
    def the_trial_is_answered(self) -> None:
        assert self.circuit.answer(self.now)
        self.received = self.answered = self.now
        self.silences.clear()
        self.trial = None

    @precondition(lambda self: self.trial is not None)
    @rule(chance=CHANCE)
    def the_trial_is_not(self, chance: float) -> None:
        assert self.trial is not None
        before = self.circuit.trials
        assert not self.circuit.fail(self.trial, self.now, chance)
        assert self.circuit.position == "open"
        assert self.circuit.retry > self.now
        assert self.circuit.trials == before + (self.received <= self.trial)
        self.trial = None

    @precondition(lambda self: self.trial is not None)
    @rule()
    def the_trial_is_given_up(self) -> None:
        assert self.trial is not None
        self.circuit.leave_trial(self.trial)
        assert self.circuit.due(self.now)
        self.trial = None

    @rule()
    def connect_anew(self) -> None:
        self.circuit.reset(self.now)
        self.running.clear()
        self.silences.clear()
        self.received = self.now
        self.trial = None

    @invariant()
    def opens_only_after_enough_silences_one_after_the_other(self) -> None:
        if self.circuit.position != "closed" and not self.was_open:
            apart, end = 0, -inf
            for began, ended in sorted(self.silences, key=lambda one: one[1]):
                if began >= end:
                    apart, end = apart + 1, ended
            assert apart >= self.limit
        self.was_open = self.circuit.position != "closed"

    @invariant()
    def is_tried_by_one_request_at_a_time(self) -> None:
        assert (self.circuit.position == "trying") == (self.trial is not None)


TestCircuit = CircuitMachine.TestCase
TestCircuit.settings = settings(max_examples=examples(40), stateful_step_count=40, deadline=None)


def silent(circuit: CircuitBreaker, began: float, ended: float) -> bool:
    return circuit.fail(began, ended, 0.5)


def test_silences_in_a_row_open_it_and_one_answer_closes_it() -> None:
    """Proves: C18. And the pauses between trials grow."""
    circuit = CircuitBreaker(3)
    assert [silent(circuit, began, began + 10) for began in (0, 10, 20)] == [False, False, True]
    pauses = []
    now = circuit.retry
    for _ in range(4):
        circuit.begin_trial(now)
        silent(circuit, now, now + 10)
        pauses.append(circuit.retry - now - 10)
        now = circuit.retry
    assert pauses == sorted(pauses)
    assert pauses[-1] > 4 * pauses[0]
    circuit.begin_trial(now)
    assert circuit.answer(now)
    assert circuit.position == "closed"


def test_one_silence_of_many_calls_is_one() -> None:
    """Proves: C18. A moment in which a hundred calls were lost is no sustained failure."""
    circuit = CircuitBreaker(3)
    assert not any(silent(circuit, began / 100, 5 + began / 100) for began in range(100))
    assert circuit.failures == 1


def test_silence_while_something_is_heard_does_not_count() -> None:
    """Proves: C18. A busy upstream is not a dead one."""
    circuit = CircuitBreaker(1)
    circuit.on_message(3)
    assert not silent(circuit, 0, 10)
    assert circuit.position == "closed"
    assert silent(circuit, 10, 20)


def test_a_trial_that_was_half_heard_is_made_again() -> None:
    circuit = CircuitBreaker(1)
    silent(circuit, 0, 10)
    now = circuit.retry
    circuit.begin_trial(now)
    circuit.on_message(now + 1)
    silent(circuit, now, now + 10)
    assert circuit.trials == 0
    assert circuit.position == "open"


def test_what_was_sent_before_it_opened_says_nothing_of_the_trial() -> None:
    circuit = CircuitBreaker(1)
    silent(circuit, 0, 10)
    circuit.begin_trial(circuit.retry)
    assert not silent(circuit, 1, circuit.retry + 1)
    assert circuit.position == "trying"


def test_a_short_pause_again_after_a_long_time_of_health() -> None:
    circuit = CircuitBreaker(1)
    silent(circuit, 0, 10)
    first = circuit.retry - 10
    circuit.begin_trial(circuit.retry)
    now = circuit.retry
    circuit.answer(now)
    silent(circuit, now + 1, now + 5)
    assert circuit.retry - now - 5 > first
    circuit.begin_trial(circuit.retry)
    now = circuit.retry
    circuit.answer(now)
    silent(circuit, now + 100, now + 105)
    assert circuit.retry - now - 105 == first
