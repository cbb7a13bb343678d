"""Times as people write them for `--since` and `--until`."""

from contextlib import suppress
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.domain.errors import OperatorError
from aggregator.storage.audit.past_times import past

NOW = datetime(2026, 3, 1, 10, 20, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("now", "2026-03-01T10:20:30"),
        ("30m", "2026-03-01T09:50:30"),
        ("45s", "2026-03-01T10:19:45"),
        ("2w", "2026-02-15T10:20:30"),
        ("2h ago", "2026-03-01T08:20:30"),
        ("3 Days ago", "2026-02-26T10:20:30"),
        ("1 hour", "2026-03-01T09:20:30"),
        ("10 minutes ago", "2026-03-01T10:10:30"),
        ("today", "2026-03-01T00:00:00"),
        (" Yesterday ", "2026-02-28T00:00:00"),
        ("yesterday 14:30", "2026-02-28T14:30:00"),
        ("today 9:05:07", "2026-03-01T09:05:07"),
        ("14:30", "2026-03-01T14:30:00"),
        ("2026-02-27", "2026-02-27T00:00:00"),
        ("2026-02-27 08:00", "2026-02-27T08:00:00"),
        ("2026-02-27T08:00:00+02:00", "2026-02-27T06:00:00"),
    ],
)
def test_a_time_that_has_passed(text: str, at: str) -> None:
    """Proves: E13."""
    assert past(text, NOW.timestamp()) == datetime.fromisoformat(f"{at}+00:00").timestamp()


@pytest.mark.parametrize(
    "text", ["", " ", "soon", "never", "tomorrow", "25:00", "today 10:61", "30", "m", "yesterday14"]
)
def test_no_time(text: str) -> None:
    with pytest.raises(OperatorError, match="is no time"):
        past(text, NOW.timestamp())


@given(st.text(max_size=30) | st.from_regex(r"[0-9]{1,9}[smhdw]|(today|yesterday) ?[0-9:]{0,9}", fullmatch=True))
def test_any_text_is_a_time_or_none(text: str) -> None:
    """E13: Whatever is written, an operator gets a sentence and no traceback."""
    with suppress(OperatorError):
        assert past(text, NOW.timestamp()) < 1e12
