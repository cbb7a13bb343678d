"""Searching while the index is being built: an answer that says so, never an error, and what is indexed is found."""

import threading
from collections.abc import Iterator
from typing import Final

import pytest

from aggregator.gateway.views import finder
from tests.access.gateway_harness import tool
from tests.meta.conftest import OpenHarness
from tests.polling import until

MANY: Final = 600
TOOLS: Final = {
    "shop": [tool(f"order_{number:04d}", description="Orders pencils and paper.") for number in range(MANY)],
}
SERVERS: Final = {"shop": {"command": "never"}}
# Between two parts of the index, and within one, this often.
PER_PART: Final = finder._FIRST_PART // 4


class Gate:
    """A gate that stops the builder of the index at a given pass until it is opened."""

    def __init__(self) -> None:
        self.stops_at = 1
        self.passes = 0
        self.stopped = threading.Event()
        self.open = threading.Event()

    def __call__(self) -> None:
        self.passes += 1
        if self.passes == self.stops_at:
            self.stopped.set()
            self.open.wait(30)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    made = Gate()
    monkeypatch.setattr(finder, "_rest", made)
    monkeypatch.setattr(finder, "_INDEX_WAIT", 0.01)
    yield made
    made.open.set()


async def test_a_search_before_the_first_part(open_harness: OpenHarness, gate: Gate) -> None:
    """Proves: F5, D11. It says that it is too early; so do the other ways to ask."""
    async with open_harness(tools=TOOLS, servers=SERVERS) as harness:
        await until(gate.stopped.is_set, "the index is being built")
        host = harness.host("local")
        said = await harness.text(host, "search_tools", query="pencils")
        assert f"{MANY} tools are still being indexed" in said
        assert await harness.app.gateway.tools(host.principal, query="pencils") == []
        match = await harness.app.gateway.match_intent(host.principal, "order some pencils")
        assert match is not None
        gate.open.set()
        await until(lambda: not harness.app.gateway._finder.not_indexed, "it is ready")
        assert "still being indexed" not in await harness.text(host, "search_tools", query="pencils")


@pytest.mark.parametrize("level", [1, 2])
async def test_what_is_indexed_is_found_meanwhile(open_harness: OpenHarness, gate: Gate, level: int) -> None:
    """Proves: F5, D11. The answer says how much is missing, in a list and in JSON."""
    gate.stops_at = 2 * PER_PART
    async with open_harness(tools=TOOLS, servers=SERVERS) as harness:
        await until(gate.stopped.is_set, "a part is indexed")
        host = harness.host("local")
        missing = MANY - finder._FIRST_PART
        if level == 1:
            said = await harness.text(host, "search_tools", query="pencils")
            assert "order_" in said
        else:
            answer = await harness.read(host, "search_tools", query="pencils", level=2)
            assert answer["tools"]
            said = answer["note"]
        assert f"{missing} tools are still being indexed" in said
        gate.open.set()


@pytest.mark.parametrize("stops_at", [1, 2 * PER_PART])
async def test_only_the_agents_own_tools_are_counted(open_harness: OpenHarness, gate: Gate, stops_at: int) -> None:
    """Proves: D4, F5. What is missing says nothing of how many tools there are that the agent may not call."""
    gate.stops_at = stops_at
    policies = {"agents": {"a": {"allow": ["shop.order_0001"], "denials": "hidden"}}}
    async with open_harness(policies, tools=TOOLS, servers=SERVERS) as harness:
        await until(gate.stopped.is_set, "the index is being built")
        for query, level in (("pencils", 1), ("pencils", 2), ("zebra", 1)):
            said = await harness.text(harness.host("a"), "search_tools", query=query, level=level)
            assert ("1 tool is still being indexed" in said) == (stops_at == 1)
            assert "still being indexed" not in said.replace("1 tool is still being indexed", "")
        gate.open.set()


async def test_the_event_loop_has_its_turn_after_every_few_tools(open_harness: OpenHarness, gate: Gate) -> None:
    """Proves: D11. Whoever builds the index rests so often that nobody else waits for long."""
    gate.open.set()
    async with open_harness(tools=TOOLS, servers=SERVERS) as harness:
        await until(lambda: not harness.app.gateway._finder.not_indexed, "it is ready")
        assert gate.passes >= MANY / 4
