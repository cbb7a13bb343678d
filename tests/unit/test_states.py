"""The state table of an upstream, walked to the last pair, and the time between attempts."""

from itertools import pairwise
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from aggregator.upstream.lifecycle import backoff
from aggregator.upstream.lifecycle.backoff import Attempts, delay
from aggregator.upstream.lifecycle.failures import Failure
from aggregator.upstream.lifecycle.states import (
    EVENT_MEANING,
    LISTED,
    LISTED_IF_KNOWN,
    STATE_MEANING,
    TABLE,
    Event,
    State,
    StateAndReason,
    next_state,
    round_duration,
)

STATES: tuple[State, ...] = get_args(State)
EVENTS: tuple[Event, ...] = get_args(Event)


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("event", EVENTS)
def test_every_pair_is_in_the_table_or_refused(state: State, event: Event) -> None:
    if (state, event) in TABLE:
        assert next_state(state, event) in STATES
    else:
        with pytest.raises(ValueError, match=f"'{event}' cannot happen to a server that is '{state}'"):
            next_state(state, event)


@pytest.mark.parametrize("state", STATES)
def test_a_server_can_be_stopped_in_every_state(state: State) -> None:
    assert next_state(state, "stop") in ("stopped", "disabled")


@pytest.mark.parametrize("state", ["starting", "reconnecting", "unavailable"])
def test_a_server_that_is_away_may_fail_again_or_come_back(state: State) -> None:
    """Proves: C4, E4"""
    assert next_state(state, "connected") == "ready"
    assert next_state(state, "failed") in ("reconnecting", "unavailable")


def test_every_state_can_be_reached() -> None:
    assert {"starting", "disabled", *TABLE.values()} == set(STATES)


def test_tools_stay_listed_only_while_they_may_be_called() -> None:
    assert frozenset({"ready", "reconnecting"}) == LISTED
    assert frozenset({"starting", "stopped", "unavailable"}) == LISTED_IF_KNOWN


def test_every_word_of_the_table_is_explained() -> None:
    assert set(STATE_MEANING) == set(STATES)
    assert set(EVENT_MEANING) == set(EVENTS)


class StateMachine(RuleBasedStateMachine):
    """A state machine of everything that the table allows, in any order."""

    state: State
    was_ready = False

    @initialize(enabled=st.booleans())
    def begin(self, enabled: bool) -> None:
        self.state = "starting" if enabled else "disabled"

    @rule(event=st.sampled_from(EVENTS))
    def happen(self, event: Event) -> None:
        if (self.state, event) in TABLE:
            before, self.state = self.state, next_state(self.state, event)
            self.was_ready |= self.state == "ready"
            assert before != "disabled" or self.state == "disabled"
            assert before != "stopped" or self.state in ("stopped", "starting")

    @invariant()
    def is_shown_only_after_it_was_ready(self) -> None:
        assert self.was_ready or self.state not in LISTED

    @invariant()
    def can_always_end(self) -> None:
        assert next_state(self.state, "stop") in ("stopped", "disabled")


TestStateMachine = StateMachine.TestCase


@given(st.integers(1, 10_000), st.floats(0, 1, exclude_max=True), st.booleans())
def test_a_delay_is_bounded_and_never_nothing(failures: int, chance: float, refused: bool) -> None:
    """Proves: D3"""
    first, cap = (backoff.REFUSED_FIRST, backoff.REFUSED_CAP) if refused else (backoff.FIRST, backoff.CAP)
    assert first / 2 <= delay(failures, chance, refused=refused) <= cap


@given(st.floats(0.01, 1, exclude_max=True), st.booleans())
def test_delays_grow_up_to_the_cap(chance: float, refused: bool) -> None:
    """Proves: D3"""
    first, cap = (backoff.REFUSED_FIRST, backoff.REFUSED_CAP) if refused else (backoff.FIRST, backoff.CAP)
    delays = [delay(failures, chance, refused=refused) for failures in range(1, 40)]
    assert all(earlier <= later for earlier, later in pairwise(delays))
    assert delays[0] < delays[3]
    assert delays[-1] == pytest.approx(first / 2 + chance * (cap - first / 2))


@given(st.integers(1, 50), st.floats(0, 1, exclude_max=True))
def test_a_refusal_waits_longer(failures: int, chance: float) -> None:
    """Proves: D3"""
    assert delay(failures, chance, refused=True) > delay(failures, chance)


def test_the_jitter_is_full() -> None:
    """Proves: D3. A hundred servers that went together do not come back together: everything down to the floor."""
    assert delay(20, 0.0) == backoff.FIRST / 2
    assert delay(20, 0.999) > backoff.CAP * 0.99


@given(st.integers(0, 200_000), st.floats(0, 1, exclude_max=True), st.booleans())
def test_what_a_server_asks_for_is_obeyed(seconds: int, chance: float, lasting: bool) -> None:
    """Proves: D3. Up to a bound, and never sooner than without."""
    setback = Failure("busy", lasting, retry_after=float(seconds))
    tries = Attempts().after(setback)
    pause = tries.pause(setback, chance)
    assert pause >= min(seconds, backoff.RETRY_AFTER_CAP)
    assert pause >= tries.pause(Failure("busy", lasting), chance)
    assert pause <= max(backoff.RETRY_AFTER_CAP * 1.1, backoff.REFUSED_CAP)


class FailureMachine(RuleBasedStateMachine):
    """Setbacks in a row, counted in the simplest way there is."""

    def __init__(self) -> None:
        super().__init__()
        self.tries = Attempts()
        self.seen: list[Failure] = []

    @rule(served=st.floats(0, 100), died=st.booleans(), lasting=st.booleans())
    def fail(self, served: float, died: bool, lasting: bool) -> None:
        setback = Failure("it fell", lasting, died, served)
        self.tries = self.tries.after(setback)
        self.seen.append(setback)

    @rule()
    def rest(self) -> None:
        self.tries, self.seen = Attempts(), []

    @invariant()
    def counts(self) -> None:
        failures = deaths = 0
        for one in self.seen:
            failures = 1 if one.served > backoff.STABLE else failures + 1
            deaths = deaths + 1 if one.died and one.served < backoff.MOMENT else 0
        assert (self.tries.failures, self.tries.deaths) == (failures, deaths)
        assert self.tries.crash_loop == (deaths >= backoff.CRASHES)

    @invariant()
    def is_patient(self) -> None:
        if self.seen:
            last = self.seen[-1]
            slow = last.lasting or self.tries.crash_loop
            assert self.tries.pause(last, 0.5) == delay(self.tries.failures, 0.5, refused=slow)
            assert (f"each of its last {self.tries.deaths} starts" in self.tries.reason(last)) == self.tries.crash_loop
            assert self.tries.reason(last).endswith("it fell")


TestRow = FailureMachine.TestCase


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.0, "1s"), (0.4, "1s"), (12.4, "12s"), (99.4, "1m39s"), (150, "2m"), (3_660, "1h1m"), (100_000, "1d4h")],
)
def test_how_long_is_said_as_people_say_it(seconds: float, words: str) -> None:
    assert round_duration(seconds) == words


def test_the_text_of_a_state() -> None:
    assert StateAndReason("ready", "", 5.0).text(7.0) == ""
    assert StateAndReason("unavailable", "it fell", 5.0, 20.0).text(8.0) == "it fell; next try in 12s"
    assert StateAndReason("unavailable", "it fell", 5.0, 20.0).text(30.0) == "it fell; next try in 1s"
    assert StateAndReason("reconnecting", "", 5.0, 20.0).text(8.0) == "next try in 12s"
