"""The same results on the direct way and through the pipeline: each brings the labels that it has.

The rows: labels of the policy, labels that a result says of itself, errors, long results that are cut, and a reload.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from aggregator.gateway.calls.direct import DirectCalls
from tests.access.gateway_harness import tool
from tests.access.recording_toolbox import RecordingToolbox
from tests.access.secured_harness import SecuredHarness
from tests.end_to_end.scripted_host import LEGACY, MODERN, ScriptedHost
from tests.flow.flow_harness import outcome_of
from tests.peers.serving import BackgroundLoop
from tests.peers.toolbox import Json, text_result

PRIVATE: Final[Json] = {"annotations": {"sensitiveHint": "high"}}
UNTRUSTED: Final[Json] = {"ifc": {"integrity": "untrusted"}}
BLOCK: Final[Json] = {"type": "text", "text": "a row"}
LONG: Final = "x" * 200_000
ANSWERS: Final[dict[str, Json]] = {
    "plain": text_result("nothing"),
    "of_policy": text_result("a page"),
    "says_private": {**text_result("a row"), "_meta": PRIVATE},
    "says_untrusted": {**text_result("a mail"), "_meta": UNTRUSTED},
    "block_says": {"content": [{**BLOCK, "_meta": PRIVATE}]},
    "last_of_many_says": {
        "content": [*({"type": "text", "text": "x"} for _ in range(60)), {**BLOCK, "_meta": PRIVATE}]
    },
    "error_says": {**text_result("no such row"), "isError": True, "_meta": PRIVATE},
    "error_of_policy": {**text_result("the page says"), "isError": True},
    "long_says": {**text_result(LONG), "_meta": PRIVATE},
    "long_of_policy": text_result(LONG),
}
# What a call brings, and so whether the next call is made.
BRINGS: Final = {name: name != "plain" for name in ANSWERS}
LABELS: Final[Json] = {"untrusted": ["data.*of_policy"], "outward": ["mail.send"]}
FLOW: Final = [{"after": one, "calls": "outward", "then": "deny"} for one in ("untrusted", "private")]


@pytest.fixture(scope="module")
def background() -> Iterator[BackgroundLoop]:
    with BackgroundLoop() as running:
        yield running


def rules(flow: list[Json], labels: Json = LABELS) -> Json:
    agents = {"ada": {"allow": ["*"], "expose": "all"}}
    return {"agents": agents, "labels": labels, **({"flow": flow} if flow else {})}


def opened(background: BackgroundLoop, folder: Path, policies: Json, **settings: Any) -> SecuredHarness:
    data = RecordingToolbox([tool(name) for name in ANSWERS], ANSWERS)
    servers = {"data": data.config_entry(), "mail": RecordingToolbox([tool("send"), tool("list")]).config_entry()}
    return SecuredHarness(background, folder, servers, policies, ["ada"], **settings)


@pytest.fixture
def direct(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tools of calls that took the direct way."""
    begun: list[str] = []
    begin = DirectCalls.send_at_once

    def seen(self: DirectCalls, known: Any, params: dict[str, Any], answer: Any) -> Any:
        call = begin(self, known, params, answer)
        if call is not None:
            begun.append(call.plan.tool.name)
        return call

    monkeypatch.setattr(DirectCalls, "send_at_once", seen)
    return begun


async def called(host: ScriptedHost, name: str, meta: Json, through: str | None = None) -> str:
    params: Json = {"name": name, "arguments": {}}
    params = params if through is None else {"name": through, "arguments": params}
    return outcome_of(await host.ask("tools/call", params, meta).message())


def trace(number: int) -> Json:
    return {"traceparent": f"00-{number:032x}-b7ad6b7169203331-01"}


@pytest.mark.parametrize("version", [LEGACY[-1], MODERN])
@pytest.mark.parametrize("way", ["direct", "pipeline"])
@pytest.mark.parametrize("through", [None, "call_tool"], ids=["by name", "call_tool"])
async def test_what_a_result_brings(
    background: BackgroundLoop, tmp_path: Path, direct: list[str], way: str, version: str, through: str | None
) -> None:
    harness = opened(background, tmp_path, rules(FLOW))
    if way == "pipeline":
        harness.app.gateway.direct.send_at_once = lambda *_: None  # type: ignore[method-assign]
    async with harness.connect_as(("http", version), "ada") as host:
        for number, _ in enumerate(BRINGS, 1):
            await called(host, "mail.list", trace(number), through)
    for number, (name, brings) in enumerate(BRINGS.items(), 1):
        # A conversation of its own: a session, or a trace that was heard of before anything was read.
        async with harness.connect_as(("http", version), "ada") as host:
            await host.list()
            meta = trace(number) if version == MODERN else {}
            for _ in range(2):
                assert await called(host, "mail.list", meta, through) == "ok"
            assert await called(host, "mail.send", meta, through) == "ok"
            for _ in range(2):
                assert await called(host, f"data.{name}", meta, through) in ("ok", "error")
            assert await called(host, "mail.send", meta, through) == ("flow_denied" if brings else "ok"), name
    assert bool(direct) is (way == "direct")
    if way == "direct":
        assert {f"data.{name}" for name in ANSWERS} <= set(direct)


async def test_a_reload_between_two_readings(background: BackgroundLoop, tmp_path: Path, direct: list[str]) -> None:
    """The next call is decided, and labelled, by the rules of then: new rules count at once, on the direct way too."""
    harness = opened(background, tmp_path, rules([]))
    async with harness.connect_as(("http", LEGACY[-1]), "ada") as host:
        await host.list()
        for _ in range(3):
            assert await called(host, "data.of_policy", {}) == "ok"
            assert await called(host, "mail.send", {}) == "ok"
        assert "data.of_policy" in direct
        for flow, labels, outcome in (
            (FLOW, {"outward": ["mail.send"]}, "ok"),
            (FLOW, LABELS, "flow_denied"),
            ([], LABELS, "ok"),
            (FLOW, LABELS, "flow_denied"),
        ):
            before = harness.revision
            harness.set_policies(rules(flow, labels))
            await harness.wait_for_policies(before)
            assert await called(host, "data.of_policy", {}) == "ok"
            assert await called(host, "mail.send", {}) == outcome, json.dumps([flow, labels])
