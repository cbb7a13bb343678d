"""Who answers for whom: decided from plain values, in any order of what can happen."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from aggregator.domain.errors import (
    OverLimit,
    StaleState,
    UpstreamBadAnswer,
    UpstreamHttpStatus,
    UpstreamLost,
    UpstreamRefused,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from aggregator.domain.records import ToolRecord
from aggregator.gateway.calls.failover import STABLE, Failover, choose, goes_on, together
from aggregator.policy.limits import OF_RESULTS, Limit, LimitKind, Limits, ResultLimit
from tests.faults.app_harness import server_config
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
    lambda counted, result, tokens: Limits(tuple({limit.counter: limit for limit in counted}.values()), result, tokens),
    st.lists(LIMIT, max_size=4),
    RESULT,
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
    for name in OF_RESULTS:
        ours, *theirs = (_most(limits, name) for limits in (both, first, other))
        assert ours == min((most for most in theirs if most is not None), default=None), "the strictest counts"


def _most(limits: Limits, name: str) -> int | None:
    bound = limits.result if name == "result_bytes" else limits.tokens
    return bound.most if bound is not None else None


def named(server: str) -> ToolRecord:
    return ToolRecord(server, server, "get", {"name": "get", "inputSchema": {}}, {}, 1.0)


STALE = StaleState("it is another server's")
AWAY = UpstreamUnavailable("a", "It is away.")


@pytest.mark.parametrize(
    ("error", "number", "usually", "after_a_question"),
    [
        (AWAY, 0, True, False),
        (AWAY, 1, True, False),
        (ERRORS["over a limit"], 0, False, False),
        (ERRORS["over a limit"], 1, True, False),
        (STALE, 0, False, True),
        (STALE, 1, False, True),
        (ERRORS["bug"], 1, False, False),
    ],
)
def test_a_call_that_asked_something_goes_on_to_no_other_server(
    error: Exception, number: int, usually: bool, after_a_question: bool
) -> None:
    """Proves: C18. One of them knows the question, and the call may have run there; which one, a stale state tells."""
    line = [named("a"), named("b")]
    for resumed, goes_on_now in ((False, usually), (True, after_a_question)):
        failover = Failover({})
        attempts = failover.attempts(line, cast(Any, None), resumed=resumed)
        assert attempts.goes_on_after(line[number], error, repeatable=True) is goes_on_now
        passed_over = {line[number].server} if goes_on_now and error is AWAY else set()
        assert failover._passed_over.keys() == passed_over


@pytest.mark.parametrize(
    ("facts", "well"),
    [
        ({}, True),
        ({"answers": False}, False),
        ({"state": "starting"}, False),
        ({"state": "starting", "connect_seconds": 0.1}, True),
        ({"state": "starting", "connect_seconds": 0.1, "answers": False}, False),
        ({"state": "unavailable"}, False),
        ({"state": "unavailable", "connect_seconds": 0.1}, False),
        ({"state": "stopped", "startable": True}, True),
    ],
)
def test_which_servers_are_tried(facts: Any, well: bool) -> None:
    """One that starts again is waited for; one that never came up is tried only if no other is well."""
    upstreams: Any = {"a": server("a", **facts), "b": server("b")}
    line = [named("a"), named("b")]
    order = [(tool.server, others_left) for tool, others_left in Failover(upstreams).order(line)]
    assert order == ([("a", True), ("b", False)] if well else [("b", False), ("a", False)])


def server(name: str, *, answers: bool = True, startable: bool = False, **facts: Any) -> Any:
    given = {
        "state": "ready",
        "connect_seconds": None,
        "config": server_config(name, type="stdio", command="x"),
        **facts,
    }
    health, lifecycle = SimpleNamespace(answers=answers, since=0.0), SimpleNamespace(startable=startable)
    return SimpleNamespace(**given, health=health, lifecycle=lifecycle)


def test_a_server_that_was_passed_over_is_remembered_while_it_is_there() -> None:
    """It counts as well from then on only; of one that is gone nothing is left."""
    upstreams: Any = {"a": server("a"), "b": server("b")}
    failover = Failover(upstreams)
    failover.note_passed_over("a")
    failover.rebuild(lambda upstream: ())
    assert failover._passed_over.keys() == {"a"}
    del upstreams["a"]
    failover.rebuild(lambda upstream: ())
    assert failover._passed_over == {}
