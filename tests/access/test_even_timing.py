"""What is hidden from an agent is not to be told from what does not exist by the time that the answer takes."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from aggregator.gateway.constant_time import EVEN, evenly
from aggregator.gateway.host import Host
from aggregator.upstream.lifecycle.states import StateAndReason
from tests.access.gateway_harness import LEGACY, MODERN, make_config
from tests.passthrough.test_policies import ResourceHarness
from tests.peers.toolbox import Json
from tests.supervision.virtual_clock import VirtualLoop

POLICIES: Final = {
    "agents": {
        "one": {"allow": ["a.seen", "resource:a.demo://seen", "prompt:a.seen", "a.list*"], "denials": "hidden"},
        "two": {"allow": ["a.seen"]},
    }
}


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Iterator[VirtualLoop]:
    """A loop whose clock stands still, and answers that take their time."""
    monkeypatch.setattr("aggregator.gateway.constant_time.EVEN", EVEN)
    made = VirtualLoop()
    yield made
    made.close()


def asked(name: str) -> list[tuple[str, Json]]:
    """Return every request that names something of `a`, or of another server as `server/name`."""
    server, _, name = name.rpartition("/")
    server = server or "a"
    uri = {"uri": f"demo://{server}/{name}"}
    argument = {"argument": {"name": "x", "value": ""}}
    return [
        ("tools/call", {"name": f"{server}.{name}"}),
        ("tools/call", {"name": "call_tool", "arguments": {"name": f"{server}.{name}"}}),
        ("tools/call", {"name": "describe_tools", "arguments": {"names": [f"{server}.{name}"]}}),
        ("resources/read", uri),
        ("resources/subscribe", uri),
        ("prompts/get", {"name": f"{server}.{name}"}),
        ("completion/complete", {"ref": {"type": "ref/prompt", "name": f"{server}.{name}"}, **argument}),
        ("completion/complete", {"ref": {"type": "ref/resource", **uri}, **argument}),
    ]


@pytest.mark.parametrize("version", [LEGACY, MODERN])
def test_hidden_and_absent_take_the_same_time(loop: VirtualLoop, tmp_path: Path, version: str) -> None:
    """Neither is answered before its time, and both are then; where nothing is hidden, nobody waits."""

    async def made(policies: Any) -> ResourceHarness:
        harness = ResourceHarness(tmp_path, {"a": (["demo://hidden", "demo://seen"], ["hidden", "seen"])}, policies)
        upstream = harness.app.upstreams["a"]
        upstream.definitions = [{"name": name, "inputSchema": {"type": "object"}} for name in ("hidden", "seen")]
        harness.app.updates.rebuild()
        return harness

    harness = loop.run_until_complete(made(POLICIES))
    host, answers = harness.host("one", version), []
    for name in ("hidden", "hiddem"):
        for method, params in asked(name):
            if method == "resources/subscribe" and version == MODERN:
                continue
            answer = loop.create_task(timed(harness, host, method, params))
            loop.settle()
            loop.pass_time(EVEN * 0.9)
            assert not answer.done(), (method, name)
            # A name inside `call_tool` is read first, and looked for then: each waits.
            for _ in range(10):
                loop.pass_time(EVEN * 0.2)
            took, said = answer.result()
            answers.append((took, said.replace(name, "NAME")))
    half = len(answers) // 2
    assert answers[:half] == answers[half:]
    assert harness.sent == []
    free = loop.run_until_complete(made(None))
    missing = loop.create_task(free.ask(free.host("one", version), "tools/call", {"name": "a.hiddem"}))
    loop.settle()
    assert "error" in missing.result()
    seen = loop.create_task(harness.ask(host, "resources/read", {"uri": "demo://a/seen"}))
    loop.settle()
    assert "result" in seen.result()


async def timed(harness: ResourceHarness, host: Host, method: str, params: Json) -> tuple[float, str]:
    """Return how long an answer took, and the answer."""
    began = asyncio.get_running_loop().time()
    answer = await harness.ask(host, method, params)
    return round(asyncio.get_running_loop().time() - began, 3), str(answer)


@pytest.mark.parametrize("version", [LEGACY, MODERN])
@pytest.mark.parametrize("place", ["a/{}", "c/{}", "d/{}"])
def test_hidden_and_absent_wait_alike_for_a_server_that_starts(
    loop: VirtualLoop, tmp_path: Path, version: str, place: str
) -> None:
    """An agent that can make a server start would else find the servers that are hidden from it: here `c`."""

    async def made() -> ResourceHarness:
        world = {name: (["demo://hidden", "demo://seen"], ["hidden", "seen"]) for name in ("a", "c")}
        config = make_config(tmp_path, {name: {"command": "played"} for name in ("a", "b", "c")}, startup_wait=3)
        harness = ResourceHarness(tmp_path, world, POLICIES, config)
        for server in ("a", "c"):
            harness.app.upstreams[server].definitions = [
                {"name": name, "inputSchema": {"type": "object"}} for name in ("hidden", "seen")
            ]
        harness.app.upstreams["b"].lifecycle.current = StateAndReason("starting", since=0.0)
        harness.app.updates.rebuild()
        return harness

    harness = loop.run_until_complete(made())
    host, answers = harness.host("one", version), []
    for name in ("hidden", "hiddem"):
        for method, params in asked(place.format(name)):
            if method == "resources/subscribe" and version == MODERN:
                continue
            answer = loop.create_task(timed(harness, host, method, params))
            loop.settle()
            loop.pass_time(1.0)
            assert not answer.done(), (method, params)
            loop.pass_time(8.0)
            took, said = answer.result()
            answers.append((took, said.replace(name, "NAME")))
    half = len(answers) // 2
    assert answers[:half] == answers[half:]
    assert harness.sent == []


def test_a_wait_that_is_over_is_none(loop: VirtualLoop) -> None:
    """Whoever took longer is answered at once."""
    late = loop.create_task(evenly(loop.time() - 1))
    loop.settle()
    assert late.done()
    assert not asyncio.all_tasks(loop)
