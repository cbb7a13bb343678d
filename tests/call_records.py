"""Records of calls whose fields, also those of their parts, are given by name."""

from typing import Any, Final

from aggregator.domain.call_record import (
    CalledItem,
    CallRecord,
    RecordedCaller,
    RecordedDecision,
    RecordedOutcome,
    RecordedSending,
)

_PARTS: Final[dict[str, type[Any]]] = {
    "caller": RecordedCaller,
    "called": CalledItem,
    "decision": RecordedDecision,
    "sending": RecordedSending,
    "outcome": RecordedOutcome,
}


def record_of(**fields: Any) -> CallRecord:
    """Return a record with these fields: each is one of `CallRecord`, or of one of its parts."""
    parts = {
        part: kind(**{name: fields.pop(name) for name in kind._fields if name in fields})
        for part, kind in _PARTS.items()
    }
    return CallRecord(**fields, **parts)
