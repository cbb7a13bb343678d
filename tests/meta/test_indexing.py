"""Searching while the index is being built: an answer that says so, never an error, and what is indexed is found."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from aggregator.catalog.catalog import Catalog
from aggregator.catalog.search import index, relevance
from aggregator.catalog.search.document import Document, document
from aggregator.domain.principal import Principal
from aggregator.domain.records import ToolRecord
from aggregator.gateway.views import finder, tool_index
from tests.access.gateway_harness import tool
from tests.meta.conftest import MetaHarness, OpenHarness
from tests.peers.toolbox import Json
from tests.polling import until

ROOT: Final = Path(__file__).resolve().parents[2]
MANY: Final = 600
TOOLS: Final = {
    "shop": [tool(f"order_{number:04d}", description="Orders pencils and paper.") for number in range(MANY)],
}
SERVERS: Final = {"shop": {"command": "never"}}
# Between two parts of the index, and within one, this often.
PER_PART: Final = tool_index._FIRST_PART // 4


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
    monkeypatch.setattr(tool_index, "_rest", made)
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
        await until(lambda: not harness.app.gateway._finder.index.not_indexed, "it is ready")
        assert "still being indexed" not in await harness.text(host, "search_tools", query="pencils")


@pytest.mark.parametrize("level", [1, 2])
async def test_what_is_indexed_is_found_meanwhile(open_harness: OpenHarness, gate: Gate, level: int) -> None:
    """Proves: F5, D11. The answer says how much is missing, in a list and in JSON."""
    gate.stops_at = 2 * PER_PART
    async with open_harness(tools=TOOLS, servers=SERVERS) as harness:
        await until(gate.stopped.is_set, "a part is indexed")
        host = harness.host("local")
        missing = MANY - tool_index._FIRST_PART
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
        await until(lambda: not harness.app.gateway._finder.index.not_indexed, "it is ready")
        assert gate.passes >= MANY / 4


def lists(harness: MetaHarness, server: str, tools: list[Json]) -> None:
    harness.app.upstreams[server].definitions = tools
    harness.app.updates.rebuild()


def breaks_for(monkeypatch: pytest.MonkeyPatch, broken: set[str]) -> None:
    """Have no tool of these servers be indexed."""

    def made(tool: ToolRecord, text: str) -> Document:
        if tool.server in broken:
            raise RuntimeError("a fault of ours")
        return document(tool, text)

    monkeypatch.setattr(index, "document", made)


PAPER: Final = {
    name: [tool(f"{name}_{number}", description="Orders pencils.") for number in range(size)]
    for name, size in (("first", 3), ("bad", tool_index._FIRST_PART), ("last", 3))
}
OF_PAPER: Final = {name: {"command": "never"} for name in PAPER}


async def test_a_server_that_cannot_be_indexed_costs_its_own_tools(
    open_harness: OpenHarness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Proves: F5. The others are found, also those behind it and of a later part; the answer and the health say so."""
    broken = {"bad"}
    breaks_for(monkeypatch, broken)
    async with open_harness(tools=PAPER, servers=OF_PAPER) as harness:
        host = harness.host("local")
        said = await harness.text(host, "search_tools", query="pencils", limit=100)
        for name in ("first.first_0", "last.last_0"):
            assert name in said
        assert "bad.bad_" not in said
        assert "The tools of bad cannot be found by words now" in said
        assert "The tools of bad" in await harness.text(host, "search_tools", query="zebra")
        assert "cannot be found" not in await harness.text(host, "search_tools", server="bad")
        assert harness.app.gateway._finder.index.unsearchable.keys() == {"bad"}
        assert harness.app.report()[1]["servers"]["bad"]["unsearchable"] == "an error of ours (RuntimeError)"
        assert "unsearchable" not in harness.app.report()[1]["servers"]["last"]
        listed = (await harness.text(host, "list_servers")).splitlines()
        assert [line.partition(" ")[0] for line in listed if "its tools cannot be found by words" in line] == ["bad"]
        assert "cannot be found by words" in await harness.text(host, "list_servers", server="bad")
        assert "cannot be found by words" not in await harness.text(host, "list_servers", server="last")
        seen = await harness.app.gateway.servers(Principal("local"))
        assert {one.name: one.notes for one in seen}["bad"] == ("its tools cannot be found by words",)
        # Another change leaves it as it is, with no further word; its own next list is tried.
        lists(harness, "last", [tool("mend", description="Mends erasers.")])
        assert "last.mend" in await harness.text(host, "search_tools", query="erasers")
        assert sum("cannot be found by words" in one.message for one in caplog.records) == 1
        assert harness.app.gateway._finder.index.unsearchable.keys() == {"bad"}
        broken.clear()
        lists(harness, "bad", [tool("mend", description="Mends erasers.")])
        said = await harness.text(host, "search_tools", query="erasers")
        assert "bad.mend" in said
        assert "cannot be found" not in said
        assert "unsearchable" not in harness.app.report()[1]["servers"]["bad"]


async def test_what_could_not_be_indexed_is_tried_again(
    open_harness: OpenHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proves: F5. A server is indexed once that works, without a change of its list; each attempt is later."""
    monkeypatch.setattr(tool_index, "_AGAIN", 0.001)
    broken = {"bad"}
    breaks_for(monkeypatch, broken)
    async with open_harness(tools=PAPER, servers=OF_PAPER) as harness:
        found, host = harness.app.gateway._finder.index, harness.host("local")
        await harness.text(host, "search_tools", query="pencils")
        await until(lambda: found._failures >= 3, "it was tried again")
        # A change elsewhere puts nothing off.
        lists(harness, "last", [tool("mend", description="Mends erasers.")])
        before = found._failures
        await until(lambda: found._failures > before, "it was tried again")
        broken.clear()
        await until(lambda: not found.unsearchable, "it is indexed")
        said = await harness.text(host, "search_tools", query="pencils", limit=100)
        assert "bad.bad_" in said
        assert "cannot be found" not in said
        assert found._due is None


async def test_tables_are_read_before_the_first_search_and_not_on_the_event_loop(
    open_harness: OpenHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proves: F5. They take some 100 ms."""
    read, main = list[bool](), threading.current_thread()
    monkeypatch.setattr(relevance, "read_tables", lambda: read.append(threading.current_thread() is not main))
    async with open_harness(tools=PAPER, servers=OF_PAPER) as harness:
        await harness.text(harness.host("local"), "search_tools", query="pencils")
    assert read
    assert all(read)


async def test_tables_are_not_read_for_lists_with_all_of_a_few_tools(open_harness: OpenHarness) -> None:
    """Proves: F5. They take memory; the list of an agent that has the meta tools in place of all has them read."""
    policies = {"agents": {"short": {"allow": ["**"], "expose": "search"}, "local": {"allow": ["**"]}}}
    async with open_harness(policies, tools=PAPER, servers=OF_PAPER) as harness:
        gateway = harness.app.gateway
        await gateway._settle()
        assert {"first.first_0", "bad.bad_0"} <= {tool["name"] for tool in await harness.listed(harness.host("local"))}
        assert not gateway._finder.index._begun.is_set()
        await harness.listed(harness.host("short"))
        assert gateway._finder.index._begun.is_set()


@pytest.mark.parametrize(
    ("settings", "expected"),
    [({}, False), ({"expose": "all"}, False), ({"expose": "search"}, True), ({"expose_budget": 10}, True)],
)
async def test_tables_are_read_ahead_where_hosts_will_search(
    open_harness: OpenHarness, settings: Json, expected: bool
) -> None:
    """Proves: F5. Once the servers have come up."""
    async with open_harness(tools=PAPER, servers=OF_PAPER, **settings) as harness:
        await harness.app.gateway._settle()
        assert harness.app.gateway._finder.index._begun.is_set() is expected


def test_meta_tools_are_loaded_without_the_tables_of_search_and_intent() -> None:
    """Proves: F5. A gateway whose hosts never search would keep 20 MiB for nothing."""
    check = (
        "import sys; from aggregator.gateway.meta.registry import load_meta_tools; load_meta_tools();"
        "late = ('catalog.search.index', 'catalog.search.query', 'intent.match.intent');"
        "print(*({f'aggregator.{name}' for name in late} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", check], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr


async def test_an_index_that_failed_whole_is_made_again(
    open_harness: OpenHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proves: F5."""
    monkeypatch.setattr(tool_index, "_AGAIN", 0.001)
    real, failed = tool_index.ToolIndex._reindex, list[bool]()

    def fails(self: tool_index.ToolIndex, catalog: Catalog, again: bool) -> None:
        if len(failed) < 3:
            failed.append(True)
            raise MemoryError
        real(self, catalog, again)

    monkeypatch.setattr(tool_index.ToolIndex, "_reindex", fails)
    async with open_harness(tools=PAPER, servers=OF_PAPER) as harness:
        await harness.text(harness.host("local"), "search_tools", query="pencils")
        await until(lambda: len(failed) == 3 and harness.app.gateway._finder.index.problem is None, "it is made")
        assert "first.first_0" in await harness.text(harness.host("local"), "search_tools", query="pencils", limit=100)


async def test_what_an_agent_may_not_call_is_no_gap(open_harness: OpenHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: D4, F5. An agent hears nothing of a server that it may not use."""
    breaks_for(monkeypatch, {"bad"})
    policies = {"agents": {"a": {"allow": ["first.*"], "denials": "hidden"}}}
    async with open_harness(policies, tools=PAPER, servers=OF_PAPER) as harness:
        for query in ("pencils", "zebra"):
            assert "bad" not in await harness.text(harness.host("a"), "search_tools", query=query)


async def test_an_index_that_breaks_as_a_whole_is_made_again(
    open_harness: OpenHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proves: F5. Searches go on with the index before, the health says it, and the next catalog is indexed."""
    async with open_harness(tools=TOOLS, servers=SERVERS) as harness:
        host = harness.host("local")
        assert "order_" in await harness.text(host, "search_tools", query="pencils")
        without = index.SearchIndex.without
        monkeypatch.setattr(index.SearchIndex, "without", None)
        lists(harness, "shop", [tool("order_0001", description="Orders pencils and paper.")])
        assert "order_0001" in await harness.text(host, "search_tools", query="pencils")
        assert "error of ours" in harness.app.report()[1]["search"]
        monkeypatch.setattr(index.SearchIndex, "without", without)
        lists(harness, "shop", [tool("mend", description="Mends erasers.")])
        assert "shop.mend" in await harness.text(host, "search_tools", query="erasers")
        assert "search" not in harness.app.report()[1]
