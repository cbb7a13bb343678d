"""The audit events besides calls: page by page, of one kind or of all."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, get_args
from urllib.parse import urlencode

from aggregator.domain.call_record import EventKind
from aggregator.frontends.console.foreign_words import event_details, event_summary
from aggregator.frontends.console.parts import ConsoleParts
from aggregator.frontends.console.view import BadInput, ConsoleRequest, PageRoute, PageView
from aggregator.storage.audit.events import EventRow, find_events

ROWS: Final = 50
KINDS: Final[tuple[str, ...]] = get_args(EventKind)
_NAME: Final = 200
_LARGEST: Final = 2**62

_SCHEMA: Final = {
    "type": "object",
    "required": ["events", "before"],
    "properties": {
        "events": {"type": "array", "description": "newest first"},
        "before": {"type": ["integer", "null"], "description": "the number to go on below; null where the log begins"},
    },
}


class EventsPage:
    """The list of events."""

    def __init__(self, parts: ConsoleParts) -> None:
        self._parts = parts

    def routes(self) -> Sequence[PageRoute]:
        """Return the ways to it."""
        fields = {"kind": f"only events of this kind: {', '.join(KINDS)}", "before": "only events below this number"}
        said = "Audit events besides calls, newest first"
        return [PageRoute("GET", "/events", "viewer", self.show, said, schema=_SCHEMA, fields=fields)]

    async def show(self, request: ConsoleRequest) -> PageView:
        """Return one page of them."""
        kind, before = _kind(request), _before(request)
        database = await self._parts.opened()
        found = await find_events(database.engine, (kind,) if kind else (), before, ROWS)
        around = {"kind": kind} if kind else {}
        data = {
            "kind": kind,
            "kinds": KINDS,
            "events": [_event(row, values=request.person.may("approver")) for row in found.rows],
            "before": found.before,
            "looked_to": found.looked_to,
            "older": _link({**around, "before": str(found.before)}) if found.before is not None else None,
            "newest": _link(around) if before is not None else None,
        }
        return PageView("events.html", "Events", data)


def _kind(request: ConsoleRequest) -> str:
    kind = request.query.get("kind", "")
    if kind and kind not in KINDS:
        raise BadInput("kind", f"There are no events of the kind {kind[:40]!r}. Take one of {', '.join(KINDS)}.")
    return kind


def _before(request: ConsoleRequest) -> int | None:
    text = request.query.get("before", "")
    if not text:
        return None
    if not (text.isascii() and text.isdecimal()) or not 0 < int(text[:20]) < _LARGEST:
        raise BadInput("before", "`before` is the number of an event.")
    return int(text[:20])


def _link(query: Mapping[str, str]) -> str:
    return f"/events?{urlencode(query)}" if query else "/events"


def _event(row: EventRow, *, values: bool) -> dict[str, Any]:
    return {
        "seq": row.seq,
        "at": row.at,
        "kind": row.kind,
        "summary": event_summary(row.kind, row.summary, values=values),
        "agent": row.agent[:_NAME] if row.agent is not None else None,
        "server": row.server[:_NAME] if row.server is not None else None,
        "details": _details(row.kind, row.details, values=values),
    }


def _details(kind: str, text: str | None, *, values: bool) -> str:
    """Return the details for display: JSON on several lines, or, with `values`, the beginning of the raw text."""
    if not text or text == "{}":
        return ""
    try:
        told = json.loads(text)
        if isinstance(told, dict):
            told = event_details(kind, told, values=values)
        return json.dumps(told, ensure_ascii=False, indent=2) if told else ""
    except (ValueError, RecursionError):
        return text if values else ""
