"""What is hidden from an agent is not to be told from what does not exist by the time that the answer takes."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from aggregator.gateway.evenly import EVEN, evenly
from tests.access.desk import LEGACY, MODERN
from tests.passing.test_policies import Counter
from tests.peers.toolbox import Json
from tests.supervision.virtual import VirtualLoop

POLICIES: Final = {
    "agents": {
        "one": {"allow": ["a.seen", "resource:a.demo://seen", "prompt:a.seen", "a.list*"], "denials": "hidden"},
        "two": {"allow": ["a.seen"]},
    }
}


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Iterator[VirtualLoop]:
    """A loop whose clock stands still, and answers that take their time."""
    monkeypatch.setattr("aggregator.gateway.evenly.EVEN", EVEN)
    made = VirtualLoop()
    yield made
    made.close()


def asked(name: str) -> list[tuple[str, Json]]:
    """Everything that can be asked for by a name."""
    uri = {"uri": f"demo://a/{name}"}
    argument = {"argument": {"name": "x", "value": ""}}
    return [
        ("tools/call", {"name": f"a.{name}"}),
        ("tools/call", {"name": "call_tool", "arguments": {"name": f"a.{name}"}}),
        ("tools/call", {"name": "describe_tools", "arguments": {"names": [f"a.{name}"]}}),
        ("resources/read", uri),
        ("resources/subscribe", uri),
        ("prompts/get", {"name": f"a.{name}"}),
        ("completion/complete", {"ref": {"type": "ref/prompt", "name": f"a.{name}"}, **argument}),
        ("completion/complete", {"ref": {"type": "ref/resource", **uri}, **argument}),
    ]


@pytest.mark.parametrize("version", [LEGACY, MODERN])
def test_hidden_and_absent_take_the_same_time(loop: VirtualLoop, tmp_path: Path, version: str) -> None:
    """Neither is answered before its time, and both are then; where nothing is hidden, nobody waits."""

    async def made(policies: Any) -> Counter:
        counter = Counter(tmp_path, {"a": (["demo://hidden", "demo://seen"], ["hidden", "seen"])}, policies)
        link = counter.app.links["a"]
        link.definitions = [{"name": name, "inputSchema": {"type": "object"}} for name in ("hidden", "seen")]
        counter.app.gateway.restock()
        return counter

    counter = loop.run_until_complete(made(POLICIES))
    host, answers = counter.host("one", version), []
    for name in ("hidden", "hiddem"):
        for method, params in asked(name):
            if method == "resources/subscribe" and version == MODERN:
                continue
            answer = loop.create_task(counter.ask(host, method, params))
            loop.settle()
            loop.pass_time(EVEN * 0.9)
            assert not answer.done(), (method, name)
            loop.pass_time(EVEN * 0.2)
            answers.append(str(answer.result()).replace(name, "NAME"))
    half = len(answers) // 2
    assert answers[:half] == answers[half:]
    assert counter.sent == []
    free = loop.run_until_complete(made(None))
    missing = loop.create_task(free.ask(free.host("one", version), "tools/call", {"name": "a.hiddem"}))
    loop.settle()
    assert "error" in missing.result()
    seen = loop.create_task(counter.ask(host, "resources/read", {"uri": "demo://a/seen"}))
    loop.settle()
    assert "result" in seen.result()


def test_a_wait_that_is_over_is_none(loop: VirtualLoop) -> None:
    """Whoever took longer is answered at once."""
    late = loop.create_task(evenly(loop.time() - 1))
    loop.settle()
    assert late.done()
    assert not asyncio.all_tasks(loop)
