"""Calls in flight: recorded before they run, and closed by another process if their own was killed."""

import json
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from sqlalchemy import Connection, bindparam, delete, exists, insert, select

from aggregator.storage.audit.chain import BEGUN, CALL, LATE, ChainEntry, entry
from aggregator.storage.audit.inserts import CHAIN, PLACE
from aggregator.storage.tables import audit_events, audit_under_way, mcp_tool_call_log

log = logging.getLogger(__name__)

INTERRUPTED: Final = "interrupted"
_SAID: Final = "The gateway ended before the call did; the call may have taken effect."
_PLACE: Final = ("trace_id", "span_id")
_CALLS: Final = frozenset(mcp_tool_call_log.c.keys()).difference((*PLACE, CHAIN))
# The owner of a call that another process has given its row.
_GIVEN_UP: Final = ""
# Values that every database takes in one statement.
_TOGETHER: Final = 500
_END: Final = delete(audit_under_way).where(*(audit_under_way.c[name] == bindparam(f"of_{name}") for name in _PLACE))


def under_way(connection: Connection, numbers: Iterable[int], entries: Iterable[ChainEntry], begins: bool) -> bool:
    """Note which calls begin or end with these rows, which have these numbers.

    `begins` says that some were begun before; returns the same for the next rows. Without any, this costs nothing.
    """
    begun: dict[tuple[str, str], dict[str, Any]] = {}
    ended: list[tuple[str, str]] = []
    for number, one in zip(numbers, entries, strict=True):
        if one.kind == BEGUN and (details := _details(one.values.get("details"))) is not None:
            place = details["call"]["trace_id"], details["call"]["span_id"]
            begun[place] = {**dict(zip(_PLACE, place, strict=True)), "seq": number, "owner": details["owner"]}
        elif one.kind == CALL and (begins or begun):
            ended.append((one.values["trace_id"], one.values["span_id"]))
    places = [*begun, *ended]
    if places:
        connection.execute(_END, [{"of_trace_id": trace, "of_span_id": span} for trace, span in places])
        for place in ended:
            begun.pop(place, None)
        if begun:
            connection.execute(insert(audit_under_way), list(begun.values()))
    return begins or bool(places)


def owners(connection: Connection) -> frozenset[str]:
    """Return the names of the processes that have calls under way, dead ones among them."""
    names = select(audit_under_way.c.owner).where(audit_under_way.c.owner != _GIVEN_UP).distinct()
    return frozenset(connection.scalars(names))


def settle(connection: Connection, gone: Callable[[str], bool]) -> list[ChainEntry]:
    """Return the rows that close the calls of ended processes; calls closed already are only forgotten.

    Write them with `given_up` after them: a process that only seemed to have ended may still close its call.
    """
    begun = select(audit_under_way).where(audit_under_way.c.owner != _GIVEN_UP).order_by(audit_under_way.c.seq)
    left = [row for row in connection.execute(begun) if gone(row.owner)]
    closed = _closed_since(connection, left[0].seq) if left else frozenset()
    entries = []
    for row in left:
        if (row.trace_id, row.span_id) not in closed and (closing := _interrupted(connection, row.seq)) is not None:
            entries.append(closing)
        connection.execute(_END, {"of_trace_id": row.trace_id, "of_span_id": row.span_id})
    return entries


def given_up(connection: Connection, numbers: Iterable[int], entries: Iterable[ChainEntry]) -> None:
    """Note the rows of `settle`, which have these numbers."""
    rows = [
        {**{name: one.values[name] for name in _PLACE}, "seq": number, "owner": _GIVEN_UP}
        for number, one in zip(numbers, entries, strict=True)
        if one.kind == CALL
    ]
    if rows:
        connection.execute(insert(audit_under_way), rows)


def forget_given_up(connection: Connection, upto: int) -> None:
    """Forget the rows of `settle` up to this number, which are removed for their age."""
    mine = audit_under_way.c
    connection.execute(delete(audit_under_way).where(mine.owner == _GIVEN_UP, mine.seq <= upto))


def with_late_ends(connection: Connection, entries: Sequence[ChainEntry]) -> Sequence[ChainEntry]:
    """Return these rows, with events in place of calls that another process has given up: each has one row."""
    traces = list({one.values["trace_id"] for one in entries if one.kind == CALL})
    known: dict[tuple[str, str], int] = {}
    for first in range(0, len(traces), _TOGETHER):
        some = audit_under_way.c.trace_id.in_(traces[first : first + _TOGETHER])
        rows = connection.execute(select(audit_under_way).where(some, audit_under_way.c.owner == _GIVEN_UP))
        known |= {(row.trace_id, row.span_id): row.seq for row in rows}
    if not known:
        return entries

    def with_late_end(one: ChainEntry) -> ChainEntry:
        seq = known.get((one.values["trace_id"], one.values["span_id"])) if one.kind == CALL else None
        return one if seq is None else _late(one, seq)

    return [with_late_end(one) for one in entries]


def _late(one: ChainEntry, seq: int) -> ChainEntry:
    """Return the event of a call that ended after all, and is on record as interrupted in row `seq`."""
    call = one.values
    name = call.get("tool_name") or call["asked_name"]
    summary = f"The call of {name} by {call['agent_id']}, interrupted in row {seq}, ended after all: {call['status']}."
    about = {name: call[name] for name in ("agent_id", "server_id") if name in call}
    details = json.dumps({"row": seq, "call": dict(call)})
    return entry(LATE, {"at": call["ended"], "summary": summary, "details": details, **about})


def _closed_since(connection: Connection, seq: int) -> frozenset[tuple[str, str]]:
    """Return the calls in flight that have a row after number `seq`; rows are read once."""
    calls, begun = mcp_tool_call_log.c, audit_under_way.c
    same = exists().where(begun.trace_id == calls.trace_id, begun.span_id == calls.span_id)
    query = select(calls.trace_id, calls.span_id).where(calls.seq > seq, same)
    return frozenset((row.trace_id, row.span_id) for row in connection.execute(query))


def _interrupted(connection: Connection, seq: int) -> ChainEntry | None:
    """Return the row of a call with an unknown end; None if its begin event was removed or changed."""
    events = audit_events.c
    details = _details(connection.scalar(select(events.details).where(events.seq == seq, events.kind == BEGUN)))
    if details is None:
        log.error("the audit log does not say which call began in its row %d, so that has no row of its own", seq)
        return None
    known = {name: value for name, value in details["call"].items() if name in _CALLS}
    return entry(CALL, {**known, "status": INTERRUPTED, "error_code": INTERRUPTED, "error_message": _SAID})


def _details(text: str | None) -> dict[str, Any] | None:
    """Return the details of a begin event; None if the gateway did not write it."""
    try:
        details = json.loads(text or "")
        call, owner = details["call"], details["owner"]
        good = all(isinstance(text, str) for text in (owner, *(call[name] for name in _PLACE)))
        plain = all(isinstance(value, str | int | float) for value in call.values())
        return details if good and plain else None
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
