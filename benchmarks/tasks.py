"""Tasks by a scripted agent over real servers' catalogs: search, read, call, through a running gateway.

No model takes part. The script knows which tools will do: of the first page of `search_tools` it takes the best line
that names one of them, reads that tool and calls it. So what is counted is whether the right tool is among what a model
is shown, and what the way to it costs at least. The tasks are a JSON list:
`{"id": text, "task": text, "query": text, "tool": [canonical names that will do], "arguments": {...},
"arguments_for": the tool of these arguments, "lang": code}`. Any other tool that will do is called with arguments made
from its schema. Tokens are estimated, of what the agent writes and of what it reads.
"""

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.error import HTTPError
from urllib.request import urlopen

from aggregator.catalog.pages import render
from aggregator.domain.text.tokens import estimate
from benchmarks.catalogs import replay_script
from benchmarks.report import Table
from benchmarks.sample import arguments
from benchmarks.systems import aggregator_over_http, python_server, write_config
from benchmarks.tokens import read_tools

_PATIENCE: Final = 120.0
_PAUSE: Final = 0.2


class AskedGateway(Protocol):
    """The client of the MCP SDK, as far as it is used here."""

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> Any: ...


@dataclass(slots=True)
class TriedTask:
    """One task: `place` of the first right line, 0 for none; `outcome` says how the call went."""

    place: int = 0
    rounds: int = 0
    written: int = 0
    read: int = 0
    weak: bool = False
    outcome: str = "no line names a right tool"

    @property
    def tokens(self) -> int:
        return self.written + self.read


def measure(folder: Path, tasks: Path, catalogs: Path) -> str:
    """The tasks, and what they cost beside a list of every tool, as Markdown.

    Raises:
        RuntimeError: the folder of catalogs has not exactly one script, or the servers do not start.
    """
    asked: list[dict[str, Any]] = json.loads(tasks.read_text(encoding="utf-8"))
    script = str(replay_script(catalogs))
    servers = {path.stem: python_server("-S", "-E", script, path.stem) for path in sorted(catalogs.glob("*.json"))}
    config = write_config(folder, servers, expose="search")
    with aggregator_over_http(config, folder / "aggregator.log") as (url, _):
        _wait_until_ready(url)
        fixed, tried = asyncio.run(_carry_out(url, asked))
    whole = sum(estimate(render(tool, "canonical").decode()) for tool in read_tools(catalogs))
    return f"{_summary(tried, fixed, whole)}\n{_each(asked, tried)}"


async def _carry_out(url: str, asked: Sequence[dict[str, Any]]) -> tuple[tuple[int, int], list[TriedTask]]:
    """Return the tokens of the list and of the instructions, and what came of each task."""
    # Only this measurement needs the SDK.
    from mcp.client.client import Client

    async with Client(url) as client:
        listed = (await client.list_tools()).tools
        tokens = sum(estimate(tool.model_dump_json(by_alias=True, exclude_none=True)) for tool in listed)
        fixed = tokens, estimate(client.instructions or "")
        # A search waits for the index, some seconds at most.
        while "being indexed" in _text(await client.call_tool("search_tools", {"query": "anything"})):
            pass
        return fixed, [await _carry_out_one(client, one) for one in asked]


async def _carry_out_one(client: AskedGateway, task: dict[str, Any]) -> TriedTask:
    tried = TriedTask()
    _, said = await _ask(client, tried, "search_tools", {"query": task["query"]})
    lines = [line.partition(": ")[0] for line in said.splitlines()]
    tried.weak = "weak matches" in said
    tried.place = next((place for place, name in enumerate(lines, 1) if name in task["tool"]), 0)
    if not tried.place:
        return tried
    name = lines[tried.place - 1]
    _, said = await _ask(client, tried, "describe_tools", {"names": [name], "level": 3})
    schema = json.loads(said)["tools"][0]["inputSchema"]
    given = task["arguments"] if name == task["arguments_for"] else arguments(schema)
    failed, said = await _ask(client, tried, "call_tool", {"name": name, "arguments": given})
    tried.outcome = _outcome(failed, said, name, given)
    return tried


async def _ask(client: AskedGateway, tried: TriedTask, name: str, given: dict[str, Any]) -> tuple[bool, str]:
    result = await client.call_tool(name, given)
    said = _text(result)
    tried.rounds += 1
    tried.written += estimate(json.dumps({"name": name, "arguments": given}, ensure_ascii=False))
    tried.read += estimate(said)
    return bool(result.is_error), said


def _text(result: Any) -> str:
    return "\n".join(block.text for block in result.content if block.type == "text")


def _outcome(failed: bool, said: str, name: str, given: dict[str, Any]) -> str:
    """Return how a call went: the replayed server says who it is and what it was sent."""
    if failed:
        return f"refused: {said[:80]}"
    answer = json.loads(said)
    if f"{answer['server']}.{answer['tool']}" != name:
        return "another tool answered"
    return "done" if answer["arguments"] == given else "other arguments arrived"


def _wait_until_ready(url: str) -> None:
    ends = time.monotonic() + _PATIENCE
    while time.monotonic() < ends:
        try:
            with urlopen(url.replace("/mcp", "/readyz"), timeout=10):  # noqa: S310
                return
        except HTTPError:
            time.sleep(_PAUSE)
    raise RuntimeError("the replayed servers did not start in time")


def _summary(tried: Sequence[TriedTask], fixed: tuple[int, int], whole: int) -> Table:
    found = [one for one in tried if one.place]
    done = [one for one in found if one.outcome == "done"]
    listed, instructions = fixed

    def mean(figures: Sequence[int]) -> str:
        return f"{sum(figures) / max(1, len(figures)):,.1f}"

    rows = [
        ["right tool on the first page", str(len(found))],
        ["right tool in the first line", str(sum(one.place == 1 for one in tried))],
        ["right tool in the first three lines", str(sum(0 < one.place <= 3 for one in tried))],
        ["call answered by that tool, arguments as sent", str(len(done))],
        ["first page called weak though the right tool is on it", str(sum(one.weak for one in found))],
        ["rounds a task, mean of those done", mean([one.rounds for one in done])],
        ["tokens a task, mean of those done", mean([one.tokens for one in done])],
        ["of these written", mean([one.written for one in done])],
        ["tokens a task, largest", f"{max((one.tokens for one in done), default=0):,}"],
        ["tokens of the short list, and of the instructions", f"{listed:,} + {instructions:,}"],
        ["tokens of a list of every tool", f"{whole:,}"],
        ["short list, instructions and one task, of that", f"{_share(done, sum(fixed), whole):.2%}"],
    ]
    return Table(f"{len(tried)} tasks by a scripted agent", ("what", "count"), rows)


def _share(done: Sequence[TriedTask], fixed: int, whole: int) -> float:
    return (fixed + sum(one.tokens for one in done) / max(1, len(done))) / max(1, whole)


def _each(asked: Sequence[dict[str, Any]], tried: Sequence[TriedTask]) -> Table:
    rows = [
        [task["id"], task["lang"], str(one.place or "-"), str(one.rounds), f"{one.tokens:,}", one.outcome]
        for task, one in zip(asked, tried, strict=True)
    ]
    return Table("Each task", ("task", "language", "line", "rounds", "tokens", "call"), rows)
