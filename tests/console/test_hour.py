"""The last hour of the overview, as it follows from rows."""

from typing import Final

from aggregator.frontends.console.calls.hour import hour_of
from aggregator.storage.audit.search import CallTime

NOW: Final = 60.0 * 1_000_000


def row(
    ago: float, status: str = "ok", tool: str | None = "crm.get", took: float = 1.0, theirs: float = 0.5
) -> CallTime:
    """Return a call that began so many seconds ago."""
    return CallTime(NOW - ago, status, "crm" if tool else None, tool, took, theirs)


def test_calls_are_counted_by_the_minute_in_which_they_began() -> None:
    hour = hour_of([row(0), row(59), row(61, "error"), row(3_539, "denied"), row(3_541), row(7_200)], NOW + 1)
    counted = {int((minute.at - NOW) // 60): minute[1:] for minute in hour.minutes if minute.calls}
    assert counted == {0: (1, 0, 0), -1: (1, 0, 0), -2: (1, 1, 0), -59: (1, 0, 1)}
    assert len(hour.minutes) == 60


def test_a_tool_is_as_slow_as_its_server() -> None:
    """Neither a refusal nor the time of a person makes a tool slow, and a call that failed counts."""
    rows = [
        *(row(10, took=9.0, theirs=0.01 * number) for number in range(1, 101)),
        row(10, "denied", "crm.wipe", 5.0, 0.0),
        row(10, "invalid", "crm.put", 5.0, 0.0),
        row(10, "pending", "crm.put", 5.0, 0.0),
        row(10, "cancelled", "crm.put", 5.0, 0.0),
        row(10, "timeout", "erp.get", 30.0, 29.0),
        row(10, "ok", "run_code", 2.0, 0.0),
        row(10, "invalid", None, 1.0, 0.0),
    ]
    hour = hour_of(rows, NOW)
    slowest = [(one.tool, one.calls, one.failed) for one in hour.slowest]
    assert slowest == [("erp.get", 1, 1), ("run_code", 1, 0), ("crm.get", 100, 0)]
    (got,) = (one for one in hour.slowest if one.tool == "crm.get")
    assert got.p50 is not None
    assert got.p95 is not None
    assert (round(got.p50, 6), round(got.p95, 6)) == (0.5, 0.95)
    assert [one.tool for one in hour.failing] == ["erp.get"]


def test_nothing_is_known_of_an_hour_without_calls() -> None:
    hour = hour_of([], NOW)
    assert (hour.p50, hour.p95, hour.slowest, hour.failing) == (None, None, (), ())
