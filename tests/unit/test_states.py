"""The state table of an upstream, walked to the last pair, and the time between attempts."""

from itertools import pairwise
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from aggregator.upstream import backoff
from aggregator.upstream.backoff import delay
from aggregator.upstream.states import SHOWN, TABLE, Event, State, after

STATES: tuple[State, ...] = get_args(State)
EVENTS: tuple[Event, ...] = get_args(Event)


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("event", EVENTS)
def test_every_pair_is_in_the_table_or_refused(state: State, event: Event) -> None:
    if (state, event) in TABLE:
        assert after(state, event) in STATES
    else:
        with pytest.raises(ValueError, match=f"'{event}' cannot happen to a server that is '{state}'"):
            after(state, event)


@pytest.mark.parametrize("state", STATES)
def test_a_server_can_be_stopped_in_every_state(state: State) -> None:
    assert after(state, "stop") in ("stopped", "disabled")


@pytest.mark.parametrize("state", ["starting", "reconnecting", "unavailable"])
def test_a_server_that_is_away_may_fail_again_or_come_back(state: State) -> None:
    """Proves: C4, E4"""
    assert after(state, "connected") == "ready"
    assert after(state, "failed") in ("reconnecting", "unavailable")


def test_every_state_can_be_reached() -> None:
    assert {"starting", "disabled", *TABLE.values()} == set(STATES)


def test_tools_stay_listed_only_while_they_may_be_called() -> None:
    assert frozenset({"ready", "reconnecting"}) == SHOWN


class Life(RuleBasedStateMachine):
    """What a link does with the table: connect, lose, fail, give up, stop, in any order that can happen."""

    state: State
    was_ready = False
    stopped = False

    @initialize(enabled=st.booleans())
    def begin(self, enabled: bool) -> None:
        self.state = "starting" if enabled else "disabled"

    @rule(event=st.sampled_from(EVENTS))
    def happen(self, event: Event) -> None:
        if (self.state, event) in TABLE:
            self.state = after(self.state, event)
            self.was_ready |= self.state == "ready"
            self.stopped |= self.state == "stopped"

    @invariant()
    def is_shown_only_after_it_was_ready(self) -> None:
        assert self.was_ready or self.state not in SHOWN

    @invariant()
    def stays_stopped(self) -> None:
        assert not self.stopped or self.state == "stopped"


TestLife = Life.TestCase


@given(st.integers(1, 10_000), st.floats(0, 1, exclude_max=True), st.booleans())
def test_a_delay_is_bounded_and_never_nothing(failures: int, chance: float, refused: bool) -> None:
    first, cap = (backoff.REFUSED_FIRST, backoff.REFUSED_CAP) if refused else (backoff.FIRST, backoff.CAP)
    assert first / 2 <= delay(failures, chance, refused=refused) <= cap


@given(st.floats(0, 1, exclude_max=True), st.booleans())
def test_delays_grow_up_to_the_cap(chance: float, refused: bool) -> None:
    delays = [delay(failures, chance, refused=refused) for failures in range(1, 40)]
    assert all(earlier <= later for earlier, later in pairwise(delays))
    assert delays[0] < delays[3]
    assert delays[-1] == (backoff.REFUSED_CAP if refused else backoff.CAP) * (0.5 + chance / 2)


@given(st.integers(1, 50), st.floats(0, 1, exclude_max=True))
def test_a_refusal_waits_longer(failures: int, chance: float) -> None:
    assert delay(failures, chance, refused=True) > delay(failures, chance)
