"""Times in the past as users write them: `30m`, `2 hours ago`, `yesterday 14:30`, `2026-11-20`; all in UTC."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from aggregator.domain.errors import OperatorError

_SECONDS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}
_SPAN: Final = re.compile(r"(\d{1,6}) ?(s|m|h|d|w|sec(?:ond)?s?|min(?:ute)?s?|hours?|days?|weeks?)(?: ago)?", re.ASCII)
_DAY: Final = re.compile(r"(?:(today|yesterday)(?:[ t]|$))?(?:(\d{1,2}):(\d{2})(?::(\d{2}))?)?", re.ASCII)
_KNOWN: Final = "30m, 12h, 7d, now, today, yesterday, 'yesterday 14:30', 14:30 and 2027-01-31 are"


def past(text: str, now: float) -> float:
    """Return the time that `text` names; it and `now` are seconds since 1970.

    Raises:
        OperatorError: the text names no time.
    """
    plain = " ".join(text.lower().split())
    if plain == "now":
        return now
    if span := _SPAN.fullmatch(plain):
        return now - int(span[1]) * _SECONDS[span[2][0]]
    try:
        at = _of_day(plain, now) or datetime.fromisoformat(text.strip())
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise OperatorError(f"{text!r:.60} is no time; {_KNOWN} (UTC).") from None


def moment_text(at: float) -> str:
    """Return a time in the form used after `since:`, to the second."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _of_day(plain: str, now: float) -> datetime | None:
    """Return a time of today or yesterday; without a time of day, the beginning of the day."""
    found = _DAY.fullmatch(plain)
    if not plain or found is None:
        return None
    day, hour, minute, second = found.groups()
    began = datetime.fromtimestamp(now, UTC).replace(
        hour=int(hour or 0), minute=int(minute or 0), second=int(second or 0), microsecond=0
    )
    return began - timedelta(days=1) if day == "yesterday" else began
