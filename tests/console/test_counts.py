"""What pages count, and keep for a moment: calls by the minute, rows that no page has read, values that pages share."""

import asyncio
from typing import Any, Final

import pytest

from aggregator.frontends.console.calls import live
from aggregator.frontends.console.calls.live import LiveQuery, OpenPage
from aggregator.frontends.console.calls.rows import MINUTES, MinuteBar, MinuteTable, facets, hour_data, log_bar, why
from aggregator.frontends.console.fresh import Fresh
from aggregator.storage.audit.query import parse
from aggregator.storage.audit.search import SLOW, ArrivedCall, CountedCalls

MINUTE: Final = 1_000_000
NOW: Final = 60.0 * MINUTE + 7


def test_a_call_counts_in_its_minute_for_an_hour() -> None:
    """The minute under way is the last of sixty; calls of an older one are dropped for good."""
    counted = [CountedCalls(MINUTE - MINUTES, "ok", 5, 5), CountedCalls(MINUTE - MINUTES + 1, "error", 2, 1)]
    table = MinuteTable(counted)
    for status in ("ok", "denied", "invalid", "timeout", "pending", "cancelled"):
        table.add(MINUTE, status)
    first, *between, last = table.hour(NOW)
    assert (first, last) == (MinuteBar(2, 2, 0, 0, 1), MinuteBar(6, 1, 2, 1, 0))
    assert between == [MinuteBar()] * 58
    assert table.hour(NOW - 60)[0] == MinuteBar(), "what was dropped does not come back"
    data = hour_data(table, "", NOW, 3)
    assert {name: data[name] for name in ("total", "failed", "refused", "begins", "since")} == {
        "total": 8,
        "failed": 3,
        "refused": 2,
        "begins": (MINUTE - MINUTES + 1) * 60,
        "since": None,
    }
    assert [(bar["at"] // 60, bar["x"], bar["calls"]) for bar in data["bars"]] == [
        (MINUTE - MINUTES + 1, 0, 2),
        (MINUTE, 590, 6),
    ]
    assert {one["name"]: one["count"] for one in data["facets"]} == {
        "All": 8, "Pending": 4, "Refused": 2, "Failed": 3, "Slow": 1
    }  # fmt: skip


@pytest.mark.parametrize(("later", "is_said"), [(0, False), (60, False), (61, True), (1_800, True)])
def test_a_page_says_since_when_it_counts_if_that_is_not_the_whole_hour(later: int, is_said: bool) -> None:
    since = (MINUTE - MINUTES + 1) * 60.0 + later
    assert hour_data(MinuteTable((), since), "", NOW, 0)["since"] == (since if is_said else None)


@pytest.mark.parametrize(
    ("text", "current"),
    [
        ("", "All"),
        ("  agent:a ", "All"),
        ("status:pending", "Pending"),
        ("agent:a status:refused", "Refused"),
        (f"took:>{SLOW:.0f}s", "Slow"),
        ("status:ok", None),
    ],
)
def test_which_facet_a_list_shows(text: str, current: str | None) -> None:
    """Each leads to the list without the facet that it has now."""
    found = facets(MinuteBar(), text)
    assert next((one["name"] for one in found if one["current"]), None) == current
    assert all(one["query"].count("status:") + one["query"].count("took:") <= 1 for one in found)
    assert all(("agent:a" in one["query"]) is ("agent:a" in text) for one in found)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"status": "pending", "approval_id": "x"}, "waits for a person"),
        ({"status": "pending"}, "its host was asked a question"),
        ({"status": "cancelled", "error_message": "x"}, "the host took the call back"),
        ({"status": "denied", "rule": "a", "rule_source": "f:1", "error_message": "x"}, "a · f:1"),
        ({"status": "denied", "rule": "a"}, "a"),
        ({"status": "denied", "error_message": "x"}, "x"),
        ({"status": "error", "error_code": "tool_error"}, "tool_error"),
        ({"status": "error", "error_message": "", "error_code": "c"}, "c"),
        ({"status": "error"}, ""),
        ({"status": "ok", "retries": 0}, ""),
        ({"status": "ok", "retries": 1}, "1 retry"),
        ({"status": "ok", "retries": 2, "approved_by": "a", "answered_by": "b"},
         "approved by a, answered by b, 2 retries"),
    ],
)  # fmt: skip
def test_why_a_call_is_not_plainly_ok(row: dict[str, Any], said: str) -> None:
    assert why(row) == said


@pytest.mark.parametrize(("seconds", "length"), [(0.0, 1), (1e-4, 1), (1.0, 37), (60.0, 56), (9_000.0, 56)])
def test_the_bar_of_a_duration(seconds: float, length: int) -> None:
    assert log_bar(seconds) == length


@pytest.mark.parametrize(("rows", "has_gap"), [(39, False), (40, False), (41, True)])
def test_a_page_has_so_many_unread_rows(rows: int, has_gap: bool) -> None:
    """Beyond that it reads its list again, and neither gets the rows nor is told how many are left out."""
    assert live._UNREAD_ROWS == 40
    page = OpenPage("/console", approves=False, lists=True)
    page.add_rows([], 0)
    assert page.ready.is_set()
    page.take()
    page.add_rows((f"<tr>{number}</tr>" for number in range(rows - 1)), 5)
    page.add_rows(["<tr>last</tr>"], 1)
    events = page.take()
    assert (b"event: gap" in events) is has_gap
    assert (b"<tr>last</tr>" in events) is not has_gap
    assert (b"event: rest\ndata: 6\n" in events) is not has_gap


def arrived(*statuses: str) -> list[ArrivedCall]:
    return [ArrivedCall(at, status, NOW, SLOW) for at, status in enumerate(statuses)]


@pytest.mark.parametrize(
    ("statuses", "shown"),
    [
        ([], []),
        (["ok"] * 8, [4, 5, 6, 7]),
        # More than four a second.
        (["ok"] * 9, []),
        (["error", *["ok"] * 8], [0]),
        (["denied"] * 9, [5, 6, 7, 8]),
    ],
)
def test_what_is_shown_of_calls_that_come_at_once(statuses: list[str], shown: list[int]) -> None:
    nothing = parse("", 0.0)
    query = LiveQuery("", nothing, nothing, MinuteTable(), values=False)
    assert query.choose(arrived(*statuses), NOW) == (shown, len(statuses) - len(shown))
    assert query.rate(NOW + 1.9) == len(statuses) / 2
    assert query.rate(NOW + 2) == 0
    query.changed = False
    query.count(arrived(*statuses))
    assert query.changed is bool(statuses)
    assert query.table.hour(NOW)[-1].slow == 0, "slow is what takes longer than that"


async def test_a_value_is_shared_until_it_is_old_or_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """By pages that come at one time too; a value that is too old is not shown in place of an error."""
    now, reads = [100.0], list[int]()

    async def read() -> int:
        reads.append(len(reads))
        await asyncio.sleep(0)
        if len(reads) in (2, 3):
            raise LookupError
        return len(reads)

    fresh = Fresh(read, 2.0)
    monkeypatch.setattr("aggregator.frontends.console.fresh.time.monotonic", lambda: now[0])
    assert await asyncio.gather(*(fresh.value() for _ in range(5))) == [1] * 5
    now[0] += 2
    assert await fresh.value() == 1
    now[0] += 0.5
    for _ in range(2):
        with pytest.raises(LookupError):
            await fresh.value()
    now[0] -= 2.5
    assert await fresh.value() == 4, "the old one is gone"
