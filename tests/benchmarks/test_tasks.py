"""The scripted agent of `benchmarks tasks`, and the requests that the benchmarks have of their own."""

import json
from types import SimpleNamespace
from typing import Any, Final

import pytest

from benchmarks.systems import ROOT
from benchmarks.tasks import AskedGateway, TriedTask, _carry_out_one

DATA: Final = ROOT / "benchmarks" / "data"
LINES: Final = "maps.route: From here to there\nmaps.weather: The weather of a city\nweak matches: no tool has 'today'"
SCHEMA: Final = {"type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]}
TASK: Final = {
    "query": "weather today",
    "tool": ["maps.weather", "other.weather"],
    "arguments": {"city": "Oslo"},
    "arguments_for": "maps.weather",
}


class TaskHarness(AskedGateway):
    """Answers as the gateway does before a replayed server, which changes the arguments if it is told to."""

    def __init__(self, **changes: str) -> None:
        self.changes = changes
        self.sent: list[dict[str, Any]] = []

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> Any:
        if name == "search_tools":
            said = LINES
        elif name == "describe_tools":
            said = json.dumps({"tools": [{"name": arguments["names"][0], "inputSchema": SCHEMA}]})
        else:
            self.sent.append(arguments)
            server, _, tool = arguments["name"].partition(".")
            said = json.dumps({"server": server, "tool": tool, "arguments": arguments["arguments"] | self.changes})
        return SimpleNamespace(is_error=False, content=[SimpleNamespace(type="text", text=said)])


async def _tried(gateway: TaskHarness, **more: Any) -> TriedTask:
    return await _carry_out_one(gateway, {**TASK, **more})


async def test_a_task_is_searched_read_and_called() -> None:
    gateway = TaskHarness()
    tried = await _tried(gateway)
    assert (tried.place, tried.rounds, tried.outcome, tried.weak) == (2, 3, "done", True)
    assert 0 < tried.written < tried.read
    assert gateway.sent == [{"name": "maps.weather", "arguments": {"city": "Oslo"}}]


async def test_another_tool_that_will_do_has_arguments_of_its_schema() -> None:
    gateway = TaskHarness()
    assert (await _tried(gateway, arguments_for="other.weather")).outcome == "done"
    assert gateway.sent == [{"name": "maps.weather", "arguments": {"town": "x"}}]


async def test_what_is_not_found_or_not_answered_as_sent_is_said() -> None:
    assert (await _tried(TaskHarness(city="Bergen"))).outcome == "other arguments arrived"
    missed = await _tried(TaskHarness(), tool=["maps.elevation"])
    assert (missed.place, missed.rounds) == (0, 1)


@pytest.mark.parametrize(("name", "least"), [("requests", 400), ("hopeless", 200), ("tasks", 40)])
def test_the_requests_are_whole(name: str, least: int) -> None:
    held = json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))
    assert len(held) >= least
    assert len({one["id"] for one in held}) == len({one["query"] for one in held}) == len(held)
    for one in held:
        tools = one["tool" if name == "tasks" else "tools"]
        assert bool(tools) is (name != "hopeless")
        assert all("." in tool for tool in tools)
