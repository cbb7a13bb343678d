"""Who answers for whom: decided from plain values, in any order of what can happen."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from aggregator.domain.errors import (
    OverLimit,
    UpstreamBadAnswer,
    UpstreamHttpStatus,
    UpstreamLost,
    UpstreamRefused,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from aggregator.gateway.calls.failover import STABLE, choose, goes_on, together
from aggregator.policy.limits import Limit, LimitKind, Limits, ResultLimit
from tests.laws import examples


class FallbackMachine(RuleBasedStateMachine):
    """A state machine: servers come and go, and the chosen server answers each call."""

    now = 0.0

    @initialize(number=st.integers(1, 4))
    def begin(self, number: int) -> None:
        self.since: list[float | None] = [self.now] * number
        self.current = 0

    @rule(number=st.integers(0, 3))
    def fall(self, number: int) -> None:
        self.since[number % len(self.since)] = None

    @rule(number=st.integers(0, 3))
    def recover(self, number: int) -> None:
        self.since[number % len(self.since)] = self.now

    @rule(seconds=st.sampled_from([0.5, STABLE / 2, STABLE, 10 * STABLE]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def call(self) -> None:
        chosen = choose(self.since, self.current, self.now)
        well = [number for number, since in enumerate(self.since) if since is not None]
        if chosen is None:
            assert not well
            return
        assert chosen in well
        stable = [n for n in well if n < self.current and self.now - (self.since[n] or 0.0) >= STABLE]
        if stable:
            assert chosen == stable[0], "one that is preferred, and has been well for long, is gone back to"
        elif self.current in well:
            assert chosen == self.current, "who answers goes on answering"
        else:
            assert chosen == well[0]
        self.current = chosen


TestLine = FallbackMachine.TestCase
TestLine.settings = settings(max_examples=examples(40), stateful_step_count=30, deadline=None)

ERRORS = {
    "away": UpstreamUnavailable("a", "away"),
    "away after a question": UpstreamUnavailable("a", "away", begun=True),
    "refused": UpstreamRefused("a", "401"),
    "lost": UpstreamLost("a", "gone in the middle"),
    "timeout": UpstreamTimeout("a", "too slow"),
    "502": UpstreamHttpStatus("a", "bad gateway", status=502),
    "500": UpstreamHttpStatus("a", "error", status=500),
    "429": UpstreamHttpStatus("a", "not now", status=429),
    "404": UpstreamHttpStatus("a", "not here", status=404),
    "nonsense": UpstreamBadAnswer("a", "not MCP"),
    "over a limit": OverLimit("a.t", "enough"),
    "bug": RuntimeError("ours"),
}
SURE = {"away", "refused", "429", "404"}
REPEATED = SURE | {"away after a question", "lost", "502"}


@pytest.mark.parametrize("what", ERRORS)
def test_only_what_was_surely_not_run_goes_on(what: str) -> None:
    """Proves: C18. Another server is asked after nothing else, unless the call may be repeated."""
    assert goes_on(ERRORS[what], repeatable=False, first=True) == (what in SURE)
    assert goes_on(ERRORS[what], repeatable=True, first=True) == (what in REPEATED)


def test_a_limit_of_the_one_that_was_named_is_the_end() -> None:
    assert not goes_on(ERRORS["over a limit"], repeatable=True, first=True)
    assert goes_on(ERRORS["over a limit"], repeatable=False, first=False)


KINDS: tuple[LimitKind, ...] = ("per_minute", "per_conversation", "concurrent")
LIMIT = st.builds(
    lambda kind, most, pattern: Limit(kind, most, ("one", kind, "agent one", pattern), "rule", "file:1"),
    st.sampled_from(KINDS),
    st.integers(0, 3),
    st.sampled_from(["*", "a.*", "b.*"]),
)
RESULT = st.none() | st.builds(lambda most: ResultLimit(most, "rule", "file:1"), st.integers(1, 9))
LIMITS = st.builds(
    lambda counted, result: Limits(tuple({limit.counter: limit for limit in counted}.values()), result),
    st.lists(LIMIT, max_size=4),
    RESULT,
)


@given(LIMITS, LIMITS, st.booleans())
def test_no_limit_is_lost_and_none_counts_twice(first: Limits, other: Limits, charged: bool) -> None:
    """Proves: C18. A call that another server answers is charged to the limits of both tools, each of them once."""
    both = together(first, other, charged=charged)
    counters = [limit.counter for limit in both.counted]
    assert len(set(counters)) == len(counters)
    missing = {limit.counter for limit in (*first.counted, *other.counted)} - set(counters)
    paid = {limit.counter for limit in first.counted if limit.kind != "concurrent"}
    assert missing == (paid if charged else set())
    bounds = [limits.result.most for limits in (first, other) if limits.result is not None]
    assert (both.result.most if both.result is not None else None) == min(bounds, default=None)
