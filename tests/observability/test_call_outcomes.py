"""Every outcome through every frontend: the row, the spans and the counters of a call agree, and are true."""

import asyncio
import itertools
from collections import Counter
from hashlib import sha256
from typing import Final

import pytest

from aggregator.domain.call_record import CallRecord
from aggregator.domain.errors import NotRecorded
from aggregator.domain.versions import META_SERVER_INFO
from aggregator.storage.digest import argument_digest
from aggregator.wire.codec import encode
from tests.end_to_end.scripted_host import BOUND, LEGACY, MODERN
from tests.observability.agent_clients import CLIENT_KINDS, IN_PROCESS, V1, AgentClient, agent_client
from tests.observability.cases import CASES, POLICY, Case, Crm, meta_for, servers, trace_of
from tests.observability.consistency import assert_span_matches_row
from tests.observability.observed_harness import ObservedHarness, counted_in
from tests.peers.serving import BackgroundLoop
from tests.peers.toolbox import REFUSAL_CODE, Json
from tests.telemetry.receiver import ReceivedSpan, Receiver

# Every call has one of its own.
NUMBERS: Final = itertools.count(1)
CRM: Final = Crm()
# Every frontend by itself; and through a meta tool, where that makes a difference.
PATHS: Final = [
    *((host_kind, "") for host_kind in CLIENT_KINDS),
    *((host_kind, "call_tool") for host_kind in (CLIENT_KINDS[0], ("http", MODERN), V1)),
]


@pytest.fixture(scope="module")
def harness(
    background: BackgroundLoop, receiver: Receiver, tmp_path_factory: pytest.TempPathFactory
) -> ObservedHarness:
    folder = tmp_path_factory.mktemp("scene")
    return ObservedHarness(background, folder, receiver, servers(CRM, folder), POLICY, ["shop"])


async def test_nothing_is_sent_that_is_not_on_record_as_begun(
    harness: ObservedHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proves: D9. Whatever reaches a server is told first, and is not sent where that cannot be written."""
    begun: list[CallRecord] = []

    async def begins(record: CallRecord) -> None:
        begun.append(record)
        raise NotRecorded(record.asked_name, "It was not called.")

    monkeypatch.setattr(harness.app.telemetry.observers, "begun", begins)
    sent = {name: case for name, case in CASES.items() if case.sent}
    async with agent_client(harness, ("http", MODERN), "shop") as client:
        for name, case in sent.items():
            await client.call(case.called, dict(case.arguments), meta_for(f"begun {name}", next(NUMBERS)))
    await harness.flush()
    assert [one.called.tool for one in begun] == [case.called for case in sent.values()]
    for name in sent:
        (row,) = harness.rows(f"begun {name}")
        assert (row["error_code"], row["upstream_seconds"]) == ("audit_unavailable", 0), name


@pytest.mark.parametrize(
    ("host_kind", "through"), PATHS, ids=lambda one: one if isinstance(one, str) else "-".join(one)
)
async def test_every_way_out_leaves_one_trace(
    harness: ObservedHarness, host_kind: tuple[str, str], through: str
) -> None:
    """Proves: D5, D6, D9, E5, E13. One row, one closed span and one count, alike in every field they share."""
    before = await harness.call_counts()
    numbers = {name: next(NUMBERS) for name in CASES}
    conversations = {name: f"{'-'.join(host_kind)}-{through}-{name}" for name in CASES}
    async with agent_client(harness, host_kind, "shop", "acme") as client:

        async def make(name: str, case: Case) -> Json | None:
            arguments = {**case.arguments, "key": conversations[name]} if name == "cancelled" else dict(case.arguments)
            called, given = case.called, arguments
            if through:
                called, given = through, {"name": case.called, "arguments": arguments}
            meta = meta_for(conversations[name], numbers[name])
            if name != "cancelled":
                return await client.call(called, given, meta)
            started = client.start(called, given, meta)
            async with asyncio.timeout(BOUND):
                await harness.background.elsewhere(CRM.event_log.until(f"started {conversations[name]}"))
                await started.give_up()
                await harness.background.elsewhere(CRM.event_log.until(f"cancelled {conversations[name]}"))
            return None

        answers = dict(zip(CASES, await asyncio.gather(*(make(n, c) for n, c in CASES.items())), strict=True))
    await harness.flush()
    rows = []
    for name, case in CASES.items():
        found, wholes = harness.rows(conversations[name]), harness.call_spans(conversations[name])
        assert (len(found), len(wholes)) == (1, 1), name
        (row,), (whole,) = found, wholes
        rows.append(row)
        row_says_what_is_true(harness, row, case, through, client)
        if client.carries_identity:
            trace_id, span_id = trace_of(numbers[name])
            told = row["trace_id"], row["parent_id"], row["user_id"], row["session_id"]
            assert told == (trace_id, span_id, f"user {numbers[name]}", f"session {numbers[name]}"), name
            upstream_hangs_below(harness, row, whole)
        assert_span_matches_row(harness, row, whole)
        if case.status == "ok" and host_kind[1]:
            assert (row["result_bytes"], row["result_digest"]) == measured(answers[name], host_kind)
        if name != "cancelled":
            assert row["arguments_digest"] == argument_digest(case.arguments), name
    assert Counter(await harness.call_counts()) - before == counted_in(rows)


def row_says_what_is_true(harness: ObservedHarness, row: Json, case: Case, through: str, client: AgentClient) -> None:
    assert {name: row.get(name) for name in client.fixed} == client.fixed
    assert row["asked_name"] == case.called
    assert row.get("via", "") == through
    assert (row["status"], row.get("error_code")) == (case.status, case.code)
    assert row["server_id"] == case.server if case.called != "crm.nothing" else "server_id" not in row
    assert row["retries"] == 0
    assert row["arguments_bytes"] >= 2
    assert 0 <= row["upstream_seconds"] <= row["duration"]
    assert (row["upstream_seconds"] > 0) is case.sent
    assert row.get("upstream_version") == (LEGACY[-1] if case.sent else None)
    record = harness.app.gateway.catalog.of_server(case.server, case.called.partition(".")[2]) if case.known else None
    if record is not None:
        named = row["tool_name"], row["own_name"], row["schema_version"]
        assert named == (record.name, record.own_name, record.version)
    else:
        assert not {"tool_name", "own_name", "schema_version"} & row.keys()
    if case.blamed is None:
        assert not {"rule", "rule_source"} & row.keys()
    else:
        line = next(at for at, text in enumerate(POLICY.splitlines(), 1) if case.blamed in text)
        assert row["rule_source"].endswith(f"main.yaml:{line}")
        assert row["rule"]


def upstream_hangs_below(harness: ObservedHarness, row: Json, whole: ReceivedSpan) -> None:
    """Check that the request which reached the server carries the id of its client span."""
    carried = [call["_meta"]["traceparent"] for call in CRM.calls if row["trace_id"] in call["_meta"]["traceparent"]]
    clients = [span for span in harness.child_spans(whole) if span.kind == "client"]
    if row.get("server_id") == "crm" and row.get("error_code") != str(REFUSAL_CODE):
        assert carried == [f"00-{whole.trace_id}-{span.span_id}-01" for span in clients]


def measured(answer: Json | None, host_kind: tuple[str, str]) -> tuple[int, str]:
    """The result as it was before it took the shape of its era."""
    assert answer is not None
    result = dict(answer["result"])
    if host_kind == IN_PROCESS or host_kind[1] == MODERN:
        assert result.pop("resultType") == "complete"
        result["_meta"] = {key: value for key, value in result["_meta"].items() if key != META_SERVER_INFO}
    text = encode(result)
    return len(text), sha256(text).hexdigest()
