"""Rows, spans and counts of calls that no task works on: those of the same calls in the pipeline."""

from typing import Any, Final

import pytest

from aggregator.gateway.calls import provenance
from tests.access.secured_harness import HOST_KINDS
from tests.direct.direct_harness import child, result, text
from tests.observability.agent_clients import CONVERSATION
from tests.observability.consistency import assert_span_matches_row
from tests.observability.observed_harness import ObservedHarness, counted_in
from tests.peers.serving import BackgroundLoop
from tests.peers.toolbox import Json
from tests.telemetry.receiver import Receiver

# Differ from call to call.
OWN: Final = frozenset(
    {"seq", "call_id", "trace_id", "span_id", "started", "duration", "upstream_seconds", "own_seconds", "steps"}
    | {"previous", "chain", "hash", "digest", "queued", "session_id", "recorded", "bytes", "ended"}
)
WRITES: Final[dict[str, list[str]]] = {
    "a text": [text("a")],
    "an error": [result(isError=True)],
    "a JSON-RPC error": ['{"jsonrpc":"2.0","id":$ID,"error":{"code":-7,"message":"m"}}'],
}


@pytest.fixture(scope="module")
def harness(
    background: BackgroundLoop, receiver: Receiver, tmp_path_factory: pytest.TempPathFactory
) -> ObservedHarness:
    policy = {"agents": {"shop": {"allow": ["*"], "limits": {"*": {"per_minute": 10_000}}}}}
    servers = {"old": child("legacy"), "new": child("modern")}
    folder = tmp_path_factory.mktemp("direct")
    return ObservedHarness(background, folder, receiver, servers, policy, ["shop"], audit={"capture": "full"})


@pytest.mark.parametrize("through", [None, "call_tool"], ids=["by name", "call_tool"])
@pytest.mark.parametrize("host_kind", [kind for kind in HOST_KINDS if kind[0] == "stdio"], ids="-".join)
async def test_the_same_is_kept(
    harness: ObservedHarness, host_kind: tuple[str, str], monkeypatch: pytest.MonkeyPatch, through: str | None
) -> None:
    """Proves: D9, F5. But for times and ids, nothing tells how a call was answered."""
    pipeline, begun = harness.app.gateway._pipeline, []
    call_tool = pipeline.call_tool

    def calling(*given: Any) -> Any:
        begun.append(given)
        return call_tool(*given)

    monkeypatch.setattr(pipeline, "call_tool", calling)
    monkeypatch.setattr(provenance, "_written", lambda second: "then")
    before, conversation = await harness.call_counts(), f"{'-'.join(host_kind)}-{through}-direct"
    async with harness.connect_as(host_kind, "shop") as host:
        for server in ("old", "new"):
            for lines in WRITES.values():
                plain: Json = {"name": f"{server}.any", "arguments": {"writes": [text("plain")]}}
                for params in (plain, {**plain, "arguments": {"writes": lines}}):
                    params = params if through is None else {"name": through, "arguments": params}
                    await host.ask("tools/call", params, {CONVERSATION: conversation}).message()
    await harness.flush()
    rows = harness.rows(conversation)
    assert await harness.call_counts() - before == counted_in(rows)
    assert len(rows) == 4 * len(WRITES)
    spans = {span.span_id: span for span in harness.call_spans(conversation)}
    for row in rows:
        assert_span_matches_row(harness, row, spans[row["span_id"]])
    monkeypatch.setattr(harness.app.gateway.direct, "send_at_once", lambda *given: None)
    directly, begun_before = len(rows) - len(begun), len(begun)
    async with harness.connect_as(host_kind, "shop") as host:
        for server in ("old", "new"):
            for lines in WRITES.values():
                plain = {"name": f"{server}.any", "arguments": {"writes": [text("plain")]}}
                for params in (plain, {**plain, "arguments": {"writes": lines}}):
                    params = params if through is None else {"name": through, "arguments": params}
                    await host.ask("tools/call", params, {CONVERSATION: f"{conversation} in the pipeline"}).message()
    await harness.flush()
    usual = harness.rows(f"{conversation} in the pipeline")
    assert len(begun) - begun_before == len(usual) == len(rows)
    assert directly >= len(rows) // 2
    assert {row.get("via") for row in rows} == {through}
    for row, other in zip(rows, usual, strict=True):
        same = {**row, "conversation_id": other["conversation_id"]}
        assert {name: same[name] for name in same if name not in OWN} == {
            name: other[name] for name in other if name not in OWN
        }
