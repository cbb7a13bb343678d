"""Ways round: kept results that are read on, tools that stand in, scopes that are forgotten, and audits that fail."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

from aggregator.domain.call_record import CallRecord
from aggregator.flow.decide.decide_flow import LabelSource
from aggregator.flow.gateway.scopes import ScopeKey, ScopeOwner, Scopes
from aggregator.flow.storage import FlowClear, FlowLabels
from aggregator.storage.errors import StorageBusy
from aggregator.upstream.lifecycle.states import StateAndReason
from tests.access.gateway_harness import LEGACY, MODERN, GatewayHarness, make_config, tool
from tests.flow.flow_harness import POLICIES, FlowHarness, MovedClock, flow_of, outcome_of, policies
from tests.kept_results.conftest import LONG, handle_of
from tests.peers.toolbox import Json, text

OWNER: Final = ScopeOwner("ada", None, None)


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock()


@pytest.fixture
async def kept(tmp_path: Path, clock: MovedClock) -> AsyncIterator[FlowHarness]:
    """A gateway that keeps large results in a database."""
    storage = f"sqlite+aiosqlite:///{tmp_path}/kept.db"
    results = {"direct": True}
    async with FlowHarness(tmp_path, clock, storage=storage, results=results) as harness, harness.app.database:

        async def answer(params: Json) -> Json:
            return {"content": [text(LONG)]}

        harness.fake_upstreams["web"].answer = answer
        yield harness


@pytest.mark.parametrize("by", ["read_result", "resource"])
async def test_who_reads_a_kept_result_on_has_read_it(kept: FlowHarness, by: str) -> None:
    """In another session, by the tool or by the link, it brings the labels of its tool."""
    answer = await kept.call(kept.legacy(session="one"), "web.fetch")
    await kept.call(kept.legacy(session="one"), "mail.list")
    handle, reader = handle_of(answer["result"]), kept.legacy(session="two")
    assert await kept.outcome(reader, "mail.send") == "ok"
    if by == "read_result":
        assert await kept.outcome(reader, "read_result", arguments={"handle": handle}) == "ok"
    else:
        read = await kept.ask(reader, "resources/read", {"uri": f"aggregator://results/{handle}"})
        assert outcome_of(read) == "ok"
    assert await kept.outcome(reader, "mail.send") == "not_confirmed"


async def test_a_kept_result_keeps_what_it_said_of_itself(kept: FlowHarness) -> None:
    """The labels that its server gave it are read on with it, though its tool has none."""

    async def answer(params: Json) -> Json:
        return {"content": [text(LONG)], "_meta": {"annotations": {"openWorldHint": True}}}

    kept.fake_upstreams["web"].answer = answer
    handle = handle_of((await kept.call(kept.legacy(session="one"), "web.plain"))["result"])
    reader = kept.legacy(session="two")
    assert await kept.outcome(reader, "read_result", arguments={"handle": handle}) == "ok"
    assert await kept.outcome(reader, "mail.send") == "not_confirmed"


@pytest.mark.parametrize("code", ["call_tool('web.fetch', {})", "call_tool('web.fetch', {})\n1 / 0"])
async def test_what_a_program_printed_keeps_what_it_has_read(kept: FlowHarness, code: str) -> None:
    """And so do the results of the calls of one that failed."""
    agents = {"ada": {"allow": ["*"], "expose": "code"}}
    kept.set_policies(policies(agents=agents))
    handle = handle_of((await kept.call(kept.legacy(session="one"), "run_code", {"code": code}))["result"])
    for _ in range(2):
        await kept.call(kept.legacy(session="one"), "mail.list")
    reader = kept.legacy(session="two")
    assert await kept.outcome(reader, "mail.send") == "ok"
    assert await kept.outcome(reader, "read_result", arguments={"handle": handle}) == "ok"
    assert await kept.outcome(reader, "mail.send") == "not_confirmed"


async def _failing_over(folder: Path, labels: Json) -> GatewayHarness:
    servers: dict[str, Json] = {
        "crm": {"command": "x", "fallbacks": ["spare"]},
        "spare": {"command": "x"},
        "web": {"command": "x"},
    }
    tools = {"crm": [tool("get")], "spare": [tool("get")], "web": [tool("fetch")]}
    flow = [{"after": "untrusted", "calls": "outward", "then": "confirm"}]
    rules = {"labels": labels, "flow": flow, "agents": {"ada": {"allow": ["*"]}}}
    return GatewayHarness(make_config(folder, servers), tools, rules, down={"crm": "unavailable"})


async def test_what_stands_in_has_its_own_rules(tmp_path: Path) -> None:
    """A tool that a person would have to agree to by now stands in for none."""
    async with await _failing_over(tmp_path, {"untrusted": ["web.*"], "outward": ["spare.*"]}) as harness:
        host = harness.host("ada", LEGACY)
        assert outcome_of(await harness.call(host, "crm.get")) == "ok"
        await harness.call(host, "web.fetch")
        assert outcome_of(await harness.call(host, "crm.get")) == "upstream_unavailable"


async def test_the_labels_of_both_are_brought(tmp_path: Path) -> None:
    """Of the tool that was called, and of the one that answered."""
    async with await _failing_over(
        tmp_path, {"untrusted": ["spare.*"], "private": ["crm.*"], "outward": ["x.*"]}
    ) as at:
        records: list[CallRecord] = []
        at.app.telemetry.observers.sinks = (records.append,)
        assert outcome_of(await at.call(at.host("ada", LEGACY), "crm.get")) == "ok"
        assert records[-1].flow == "+private +untrusted"
        at.app.upstreams["crm"].lifecycle.current = StateAndReason("unavailable", since=0.0)


async def test_strict_audits_withhold_what_cannot_be_noted(kept: FlowHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `durability: strict` no answer is given whose label could be lost; it is still in memory."""

    async def away(*_: object, **__: object) -> None:
        raise StorageBusy("away")

    async def written(record: CallRecord) -> None:
        """Every row is kept."""

    kept.app.telemetry.observers.written = written
    monkeypatch.setattr(FlowLabels, "note", away)
    host = kept.legacy()
    answer = await kept.call(host, "web.fetch")
    assert outcome_of(answer) == "audit_unavailable"
    assert LONG[:40] not in json.dumps(answer)
    assert await kept.outcome(host, "mail.send") == "not_confirmed"


async def test_a_call_that_is_cancelled_while_it_is_noted(kept: FlowHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its label is in memory, and is written later."""
    reached = asyncio.Event()

    async def slow(*_: object, **__: object) -> None:
        reached.set()
        await asyncio.Event().wait()

    host = kept.legacy()
    assert await kept.outcome(host, "mail.list") == "ok"
    with monkeypatch.context() as patched:
        patched.setattr(FlowLabels, "note", slow)
        calling = asyncio.ensure_future(kept.call(host, "web.fetch"))
        await reached.wait()
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
    await flow_of(kept.app).write_rest()
    database = await kept.app.database.open()
    assert database is not None
    assert {row.kind for row in await database.flow.show("ada", now=0.0)} == {"session", "key"}
    assert await kept.outcome(host, "mail.send") == "not_confirmed"


def test_a_forgotten_scope_leaves_its_labels_to_its_owner() -> None:
    """Without a database, whatever is let go counts in every later scope of the same key, and of no other."""
    scopes = Scopes(stored=False, most=4)
    read = ScopeKey(OWNER, "session", "read")
    scopes.bring(read, {"untrusted"}, LabelSource("web.fetch", 100.0, None), 60.0)
    for number in range(10):
        scopes.open(ScopeKey(ScopeOwner("bob", None, None), "session", str(number)), 101.0)
    assert len(scopes) <= 5
    for key in (read, ScopeKey(OWNER, "session", "new"), ScopeKey(OWNER, "trace", "t")):
        scopes.open(key, 10_000.0)
        assert set(scopes.state(key, 10_000.0)) == {"untrusted"}
    other = ScopeKey(ScopeOwner("bob", None, None), "session", "11")
    scopes.open(other, 10_000.0)
    assert scopes.state(other, 10_000.0) == {}


def test_what_cannot_be_written_is_bounded_too() -> None:
    """While the database takes nothing, a trace for each request fills no memory; what is let go is left to the owner
    until it is cleared.
    """
    scopes, other = Scopes(stored=True, most=120), ScopeOwner("bob", None, None)
    scopes.bring(ScopeKey(other, "session", "kept"), {"private"}, LabelSource("files.read", 90.0, None), 60.0)
    for number in range(300):
        scopes.bring(ScopeKey(OWNER, "trace", str(number)), {"untrusted"}, LabelSource("web.fetch", 100.0, None), 60.0)
    assert len(scopes) <= 122
    assert len(scopes.unwritten) <= 122
    assert ScopeKey(OWNER, "key") in scopes.unwritten
    for later in (ScopeKey(OWNER, "trace", "0"), ScopeKey(OWNER, "session", "new")):
        scopes.open(later, 1_000.0)
        assert set(scopes.state(later, 1_000.0)) == {"untrusted"}
    scopes.clear(FlowClear(1, "bob", 2_000.0))
    scopes.open(ScopeKey(OWNER, "trace", "still"), 2_001.0)
    assert scopes.state(ScopeKey(OWNER, "trace", "still"), 2_001.0)
    scopes.clear(FlowClear(2, "ada", 2_000.0))
    scopes.open(ScopeKey(OWNER, "trace", "after"), 2_001.0)
    assert scopes.state(ScopeKey(OWNER, "trace", "after"), 2_001.0) == {}


async def test_many_traces_cost_no_more_than_their_bound(tmp_path: Path, clock: MovedClock) -> None:
    """A host that begins a trace for each request fills no memory, and carries what it read over to each."""
    async with FlowHarness(tmp_path, clock) as harness:
        flow_of(harness.app).scopes._most = 20
        host = harness.host("ada", MODERN)
        for number in range(1, 100):
            clock.time += 1.0
            meta = {"traceparent": f"00-{number:032x}-b7ad6b7169203331-01"}
            name = "web.fetch" if number == 50 else "mail.send"
            outcome = await harness.outcome(host, name, _meta=meta)
            assert outcome == ("ok" if number <= 50 else "not_confirmed")
        assert len(flow_of(harness.app).scopes) <= 22
    assert POLICIES["flow"]
