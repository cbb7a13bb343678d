"""One call as a row of a list, and the counts above the list: facets, and a bar for each minute of the last hour.

This file decides: it turns rows of the audit into plain data, and knows neither HTML nor the database.
"""

from collections.abc import Iterable, Mapping
from math import log10
from typing import Any, Final, NamedTuple

from aggregator.frontends.console.foreign_words import error_text
from aggregator.storage.audit.past_times import moment_text
from aggregator.storage.audit.query import GROUPS, with_term
from aggregator.storage.audit.search import SLOW, CountedCalls

MINUTES: Final = 60
# What the drawing of the bars measures.
BAR_STEP: Final = 10
BAR_HEIGHT: Final = 32
# Characters of the reason in a row.
_WHY: Final = 300
# Of the bar below a duration, by its logarithm: a tenth of a millisecond has 1, a minute 56.
_LOG_WIDTH: Final = 56
_LOG_STEP: Final = 10.6
_LOG_ONE_SECOND: Final = 36.7
# By its digest a guess at a short value can be proved.
_DIGESTS: Final = ("arguments_digest", "result_digest")
_FAILED: Final = frozenset(GROUPS["failed"])
_REFUSED: Final = frozenset(GROUPS["refused"])


class MinuteBar(NamedTuple):
    """The calls that began in one minute."""

    calls: int = 0
    failed: int = 0
    refused: int = 0
    pending: int = 0
    slow: int = 0


class MinuteTable:
    """The calls of the last hour by minute, counted as they arrive; none is counted before `since`."""

    def __init__(self, counted: Iterable[CountedCalls] = (), since: float | None = None) -> None:
        self.since = since
        self._minutes: dict[int, list[int]] = {}
        for one in counted:
            self.add(one.minute, one.status, one.calls, one.slow)

    def add(self, minute: int, status: str, calls: int = 1, slow: int = 0) -> None:
        """Count calls that began in a minute (its number since 1970) and ended so."""
        row = self._minutes.setdefault(minute, [0, 0, 0, 0, 0])
        row[0] += calls
        row[1] += calls if status in _FAILED else 0
        row[2] += calls if status in _REFUSED else 0
        row[3] += calls if status == "pending" else 0
        row[4] += slow

    def hour(self, now: float) -> list[MinuteBar]:
        """Return the last hour, oldest minute first; older minutes are dropped."""
        last = int(now // 60)
        for old in [minute for minute in self._minutes if minute <= last - MINUTES]:
            del self._minutes[old]
        return [MinuteBar(*self._minutes.get(minute, ())) for minute in range(last - MINUTES + 1, last + 1)]


def listed(row: Mapping[str, Any], *, values: bool) -> dict[str, Any]:
    """Return a row of the list: the non-empty columns of the audit, with derived texts. Without `values`, digests and
    servers' texts are omitted.

    `name` is the tool's, or the requested one; `why` explains a call that is not plainly ok; `log` is the length of the
    bar below the duration.
    """
    hidden = ("digest", "previous") if values else ("digest", "previous", *_DIGESTS)
    data = {name: value for name, value in row.items() if name not in hidden}
    data["name"] = row.get("tool_name") or row["asked_name"]
    said = error_text(row["status"], row.get("error_code"), row.get("error_message"), values=values)
    if said is not None:
        data["error_message"] = said
    data["why"] = why(data)[:_WHY]
    data["log"] = log_bar(row["duration"])
    return data


def why(row: Mapping[str, Any]) -> str:
    """Return an explanation of a call that is not plainly ok; empty for one that is."""
    status = row["status"]
    if status == "pending":
        return "waits for a person" if "approval_id" in row else "its host was asked a question"
    if status == "cancelled":
        return "the host took the call back"
    if status == "denied" and "rule" in row:
        return " · ".join(row[name] for name in ("rule", "rule_source") if name in row)
    if status != "ok":
        return str(row.get("error_message") or row.get("error_code", ""))
    said = [f"approved by {row['approved_by']}"] if "approved_by" in row else []
    if "answered_by" in row:
        said.append(f"answered by {row['answered_by']}")
    if row["retries"]:
        said.append(f"{row['retries']} {'retry' if row['retries'] == 1 else 'retries'}")
    return ", ".join(said)


def log_bar(seconds: float) -> int:
    """Return the length of the bar below a duration, from 1 to 56."""
    return max(1, min(_LOG_WIDTH, round(_LOG_STEP * log10(max(seconds, 1e-6)) + _LOG_ONE_SECOND)))


def counted_text(text: str) -> str:
    """Return the query for the counts above the list of another query: without its facets."""
    return with_term(with_term(text, "status", None), "took", None)


def hour_data(table: MinuteTable, text: str, now: float, waiting: int) -> dict[str, Any]:
    """Return the counts above a list: `bars`, `facets`, `total`, when the hour `begins` and since when is counted.

    waiting: the calls under way that wait for a person. They are in the list of the pending ones.
    """
    bars = table.hour(now)
    whole = MinuteBar(*(sum(column) for column in zip(*bars, strict=True)))
    first = (int(now // 60) - MINUTES + 1) * 60
    most = max((bar.calls for bar in bars), default=0) or 1
    return {
        "bars": [_drawn(number, bar, first + 60 * number, most, text) for number, bar in enumerate(bars) if bar.calls],
        "facets": facets(whole._replace(pending=whole.pending + waiting), text),
        "total": whole.calls,
        "failed": whole.failed,
        "refused": whole.refused,
        "begins": first,
        "since": table.since if table.since is not None and table.since > first + 60 else None,
    }


def facets(whole: MinuteBar, text: str) -> list[dict[str, Any]]:
    """Return the links that narrow a list, each with its count and the query it leads to."""
    plain = counted_text(text)
    slow = f"took:>{SLOW:.0f}s"
    given = (
        ("All", None, whole.calls, plain),
        ("Pending", "pending", whole.pending, with_term(plain, "status", "pending")),
        ("Refused", "denied", whole.refused, with_term(plain, "status", "refused")),
        ("Failed", "error", whole.failed, with_term(plain, "status", "failed")),
        ("Slow", None, whole.slow, f"{plain} {slow}".strip()),
    )
    now = " ".join(text.split())
    return [
        {"name": name, "icon": icon, "count": count, "query": query, "current": now == query}
        for name, icon, count, query in given
    ]


def _drawn(number: int, bar: MinuteBar, at: int, most: int, text: str) -> dict[str, Any]:
    """Return one bar: refused and failed calls stand at its foot, each at least one line high."""
    height = max(2, round(bar.calls / most * (BAR_HEIGHT - 2)))
    failed = max(1, round(bar.failed / most * (BAR_HEIGHT - 2))) if bar.failed else 0
    refused = max(1, round(bar.refused / most * (BAR_HEIGHT - 2))) if bar.refused else 0
    query = with_term(with_term(text, "since", _minute(at)), "until", _minute(at + 60))
    return {
        "at": at,
        "x": number * BAR_STEP,
        "height": height,
        "failed_height": failed,
        "refused_height": refused,
        "query": query,
        **bar._asdict(),
    }


def _minute(at: int) -> str:
    return f"{moment_text(at)[:16]}Z"
