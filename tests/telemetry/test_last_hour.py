"""The last hour, minute by minute, as it is drawn from the counters."""

import pytest

from aggregator.telemetry.last_hour import MINUTES, LastHour, quantile
from aggregator.telemetry.metrics import Metrics
from aggregator.telemetry.series import CALL_BOUNDS, Histogram
from aggregator.telemetry.snapshot import Snapshot
from tests.telemetry.call_records import call


class Clock:
    """A clock that is moved by hand, in minutes."""

    def __init__(self) -> None:
        self.minutes = 1000.0

    def __call__(self) -> float:
        return self.minutes * 60


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(Snapshot)


def test_each_minute_has_its_own_calls(metrics: Metrics, clock: Clock) -> None:
    """E12: a minute's bar counts what ended in it, failed and refused apart."""
    metrics(call("ok"))
    hour = LastHour(metrics, clock)
    for status in ("ok", "ok", "denied", "invalid", "timeout"):
        metrics(call(status))
    clock.minutes += 1
    hour.take()
    metrics(call("error"))
    clock.minutes += 0.5
    counted = hour.hour().minutes
    assert [tuple(one) for one in counted] == [(60000, 5, 1, 2), (60060, 1, 1, 0)]


def test_what_is_kept_is_an_hour(metrics: Metrics, clock: Clock) -> None:
    """Memory is bounded, and an old minute is no longer told."""
    hour = LastHour(metrics, clock)
    for _ in range(3 * MINUTES):
        metrics(call("ok"))
        clock.minutes += 1
        hour.take()
    counted = hour.hour()
    assert len(counted.minutes) == MINUTES
    assert sum(one.calls for one in counted.minutes) == MINUTES - 1
    assert counted.minutes[0].at == (clock.minutes - MINUTES + 1) * 60
    assert counted.slowest[0].calls < MINUTES


def test_what_a_machine_did_before_it_slept_is_not_of_the_last_hour(metrics: Metrics, clock: Clock) -> None:
    for slept in (MINUTES, 5 * MINUTES):
        hour = LastHour(metrics, clock)
        metrics(call("error"))
        began, clock.minutes = clock.minutes, clock.minutes + slept
        found = hour.hour()
        assert [(one.at, one.calls) for one in found.minutes] == [(clock.minutes * 60, 0)]
        assert (found.slowest, found.failing) == ((), ())
        clock.minutes = began + 2 * slept


def test_the_failures_of_a_tool_are_those_of_all_its_agents(metrics: Metrics, clock: Clock) -> None:
    hour = LastHour(metrics, clock)
    for agent in ("one", "other"):
        for status in ("error", "timeout", "timeout", "ok"):
            metrics(call(status, agent_id=agent))
    (tool,) = hour.hour().failing
    assert (tool.calls, tool.failed) == (8, 6)


def test_tools_are_told_by_what_is_wrong_with_them(metrics: Metrics, clock: Clock) -> None:
    """E12: the slowest and those that fail, each with its numbers."""
    hour = LastHour(metrics, clock)
    for _ in range(20):
        metrics(call("ok", tool="crm.quick", duration=0.0015))
        metrics(call("ok", tool="crm.slow", duration=7.0))
    metrics(call("unavailable", tool="crm.quick", duration=0.0015))
    found = hour.hour()
    assert [one.tool for one in found.slowest] == ["crm.slow", "crm.quick"]
    assert [(one.tool, one.calls, one.failed) for one in found.failing] == [("crm.quick", 21, 1)]
    assert found.slowest[0].p50 is not None
    assert 5.0 < found.slowest[0].p50 < 10.0
    assert found.p95 is not None
    assert 5.0 < found.p95 <= 10.0


@pytest.mark.parametrize("part", [0.5, 0.95])
def test_quantiles_stay_in_their_bucket(part: float) -> None:
    """A quantile is as exact as the bounds, and none of nothing."""
    histogram = Histogram(CALL_BOUNDS)
    assert quantile(CALL_BOUNDS, histogram.buckets, part) is None
    for _ in range(10):
        histogram.observe(0.03)
    found = quantile(CALL_BOUNDS, histogram.buckets, part)
    assert found is not None
    assert 0.02 < found <= 0.05
    histogram.observe(1e6)
    assert quantile(CALL_BOUNDS, histogram.buckets, 1.0) == CALL_BOUNDS[-1]
