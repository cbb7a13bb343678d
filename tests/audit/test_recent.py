"""The newest rows about one agent or one server, which a page of the console waits for."""

import pytest

from aggregator.domain.call_record import AuditEvent
from aggregator.storage.audit import recent, refusals
from aggregator.storage.audit.recent import calls_of_agent, events_of_server
from aggregator.storage.audit.refusals import refusals_by_rule
from aggregator.storage.opening import Database
from tests.audit.logs import AT, all_written, make_call, running_log


async def test_only_the_newest_rows_are_looked_at(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: E13. The rows that are read are bounded, of calls and of events, and the newest come first."""
    monkeypatch.setattr(recent, "LOOKED_AT", 5)
    async with running_log(database) as log:
        for number in range(1, 6):
            log.record(make_call(number, agent_id="shop" if number != 4 else "desk"))
            log.event(AuditEvent("tools_changed", AT + number, f"change {number}", server="crm"))
        log.event(AuditEvent("tools_changed", AT, "of another", server="erp"))
        await all_written(log)
    assert [call.started - AT for call in await calls_of_agent(database.engine, "shop", 10)] == [5, 3]
    assert [event.summary for event in await events_of_server(database.engine, "crm", 10)] == ["change 5", "change 4"]
    assert len(await calls_of_agent(database.engine, "shop", 1)) == 1


async def test_refusals_are_counted_by_rule_and_those_of_limits_apart(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E13: as many of each as are wanted; a call that no rule refused is none."""
    refused = [
        *[("deny a", "tool_not_allowed")] * 3,
        *[("limits b", "limit_reached")] * 2,
        ("limits c", "limit_reached"),
        *[("deny d", "tool_not_allowed")] * 2,
        (None, "not_confirmed"),
    ]
    async with running_log(database) as log:
        for number, (rule, code) in enumerate(refused):
            source = "a.yaml:3" if rule is not None else None
            agent = "shop" if number else "desk"
            log.record(
                make_call(number, status="denied", error_code=code, rule=rule, rule_source=source, agent_id=agent)
            )
        log.record(make_call(99, status="error", error_code="tool_error"))
        await all_written(log)
    found = await refusals_by_rule(database.engine, AT, 10)
    assert [(one.rule, one.is_limit, one.times) for one in found] == [
        ("deny a", False, 3),
        ("deny d", False, 2),
        ("limits b", True, 2),
        ("limits c", True, 1),
    ]
    assert (found[0].agents, found[1].agents) == (2, 1)
    assert [one.rule for one in await refusals_by_rule(database.engine, AT, 1)] == ["deny a", "limits b"]
    assert await refusals_by_rule(database.engine, AT + len(refused), 10) == []
    monkeypatch.setattr(refusals, "LOOKED_AT", 3)
    assert [(one.rule, one.times) for one in await refusals_by_rule(database.engine, AT, 10)] == [("deny d", 1)]
