"""Calls in flight whose process has ended: which of them get a row, and which have ended after all."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Connection, Table, create_engine, insert

from aggregator.storage.audit.begun import INTERRUPTED, given_up, settle, under_way, with_late_ends
from aggregator.storage.audit.chain import BEGUN, CALL, LATE, ChainEntry, entry
from aggregator.storage.tables import audit_events, audit_under_way, mcp_tool_call_log


@pytest.fixture
def connection() -> Iterator[Connection]:
    engine = create_engine("sqlite://")
    with engine.connect() as found:
        for table in (audit_events, audit_under_way, mcp_tool_call_log):
            table.create(found)
        yield found
    engine.dispose()


def required(table: Table) -> dict[str, Any]:
    """Return a value of each column that needs one; which it is does not matter here."""
    return {one.name: "" if issubclass(one.type.python_type, str) else 1 for one in table.columns if not one.nullable}


def call(number: int) -> ChainEntry:
    values: dict[str, Any] = {name: f"{number:032x}" for name in ("trace_id", "span_id")}
    return entry(CALL, {**values, "agent_id": "shop", "asked_name": "crm.x", "status": "ok", "ended": 2.0})


def begun(number: int, owner: str) -> ChainEntry:
    details = {"owner": owner, "call": {name: f"{number:032x}" for name in ("trace_id", "span_id")}}
    return entry(BEGUN, {"at": 1.0, "summary": "A call.", "details": json.dumps(details)})


def begin(connection: Connection, *calls: tuple[int, int, str]) -> None:
    """Put calls in flight on record, each by its number, the number of its row, and its process."""
    for number, seq, owner in calls:
        one = begun(number, owner)
        connection.execute(insert(audit_events), [{**required(audit_events), **one.values, "kind": BEGUN, "seq": seq}])
        under_way(connection, [seq], [one], begins=False)


def left(entries: list[ChainEntry]) -> list[int]:
    assert all(one.values["status"] == INTERRUPTED for one in entries)
    return [int(one.values["trace_id"], 16) for one in entries]


def test_each_call_of_an_ended_process_gets_a_row_unless_it_has_one(connection: Connection) -> None:
    """The row of a call may stand before the beginning of another one."""
    begin(connection, (1, 1, "gone"), (2, 3, "gone"), (3, 4, "here"), (4, 5, "gone"))
    closed = {**required(mcp_tool_call_log), **call(1).values, "seq": 2}
    connection.execute(insert(mcp_tool_call_log), [closed])
    assert left(settle(connection, lambda owner: owner == "gone")) == [2, 4]
    assert left(settle(connection, lambda owner: owner == "gone")) == []
    assert left(settle(connection, lambda owner: True)) == [3]


def test_a_late_end_is_found_among_any_number_of_rows(connection: Connection) -> None:
    """A statement takes 500 traces: each call that was given up becomes an event, and no other."""
    late = {0, 499, 500, 999, 1000, 1200}
    begin(connection, *((number, number + 1, "gone") for number in sorted(late)))
    closing = settle(connection, lambda owner: True)
    assert left(closing) == sorted(late)
    given_up(connection, range(2000, 2000 + len(closing)), closing)
    entries = [call(number) for number in range(1201)]
    found = with_late_ends(connection, entries)
    assert {number for number, one in enumerate(found) if one.kind == LATE} == late
    assert [one for one in found if one.kind == CALL] == [entries[one] for one in range(1201) if one not in late]
