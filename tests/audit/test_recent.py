"""The newest rows about one agent or one server, which a page of the console waits for."""

import pytest

from aggregator.domain.call_record import AuditEvent
from aggregator.storage.audit import recent
from aggregator.storage.audit.recent import calls_of_agent, events_of_server
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
