"""Tasks of several steps by a scripted model: with the five meta tools, and with one program for each.

The script stands for the model, and makes no mistake either way: what is counted is what a task needs at least.
Tokens are estimated, of what the model writes (calls, programs) and of what it reads (results); `context` adds up what
it has read and written before each round, which is sent again with every one. `with a look`: before it writes the
program, the model calls each tool of it once, since few tools say what their results look like.
"""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from aggregator.app.app import App
from aggregator.app.build import build_app
from aggregator.catalog.pages import render
from aggregator.config.load import load
from aggregator.domain.text.tokens import estimate
from aggregator.gateway.host import Host
from benchmarks.code_tasks import TASKS, Call, CodeTask
from benchmarks.fakes import SilentChannel
from benchmarks.messages import LEGACY
from benchmarks.report import Table
from benchmarks.systems import python_server, write_config

_SERVERS: Final = {
    "amap": python_server("-m", "examples.amap", "--stdio"),
    "legal": python_server("-m", "examples.legal"),
    "time": python_server("-m", "mcp_server_time"),
}


def measure(folder: Path) -> Iterator[Table]:
    """Yield a table of all tasks.

    Raises:
        RuntimeError: a program came to another answer than the steps did.
    """
    rows, costs = asyncio.run(_measure(folder))
    heads = ("task", "calls", "rounds", "rounds, calls together", "tokens", "context", *_CODE)
    yield Table("Tasks of several steps: five meta tools, and `run_code`", heads, rows)
    yield Table("What the tools themselves cost in a list, tokens", ("meta tools", "with `run_code`"), [costs])


_CODE: Final = ("code: rounds", "tokens", "context", "with a look: rounds", "tokens", "context")


@dataclass(slots=True)
class _Model:
    """One run of a task, as a model would make it."""

    app: App
    host: Host
    calls: int = 0
    rounds: int = 0
    together: int = 0
    tokens: int = 0
    context: int = 0
    first: dict[str, dict[str, Any]] = field(default_factory=dict)

    async def ask(self, *calls: Call) -> list[Any]:
        """Make the calls of one step with `call_tool`."""
        self.together += 1
        for name, given in calls:
            self.first.setdefault(name, given)
        return [_value(await self.meta("call_tool", {"name": name, "arguments": given})) for name, given in calls]

    async def meta(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Call a meta tool, in a round of its own."""
        params = {"name": name, "arguments": arguments}
        result = dict(await self.app.gateway.answer(self.host, "tools/call", params, SilentChannel()))
        text = "\n".join(block["text"] for block in result["content"])
        if result.get("isError"):
            raise RuntimeError(f"{name}: {text}")
        self.calls += name == "call_tool"
        self.rounds += 1
        self.context += self.tokens
        self.tokens += estimate(json.dumps(params, ensure_ascii=False)) + estimate(text)
        return result

    async def search(self, task: CodeTask) -> None:
        """Find the tools of a task, with their parameters."""
        self.together += 1
        for query in task.queries:
            await self.meta("search_tools", {"query": query, "level": 2})


async def _measure(folder: Path) -> tuple[list[list[str]], list[str]]:
    config = load(write_config(folder, _SERVERS, expose="code"), {}).config
    app = build_app(config, folder / "none")
    rows: list[list[str]] = []
    sums = [0] * 11
    async with app.running():
        await app.supervisor.wait_all_tried(60)
        host = Host("http", "canonical", version=LEGACY, session="one", initialized=True)
        await app.gateway.answer(host, "tools/list", {}, SilentChannel())
        listed = [estimate(render(tool, "canonical").decode()) for tool in _listed(app, host)]
        for task in TASKS:
            stepping, coding, looking = _Model(app, host), _Model(app, host), _Model(app, host)
            await stepping.search(task)
            wanted = await task.steps(stepping.ask)
            await coding.search(task)
            (block,) = (await coding.meta("run_code", {"code": task.code}))["content"]
            await looking.search(task)
            await looking.ask(*stepping.first.items())
            await looking.meta("run_code", {"code": task.code})
            told = wanted if isinstance(wanted, str) else json.dumps(wanted, ensure_ascii=False)
            if block["text"] != told:
                raise RuntimeError(f"{task.title}: {block['text']!r}, not {told!r}")
            figures = [stepping.calls, stepping.rounds, stepping.together, stepping.tokens, stepping.context]
            for model in (coding, looking):
                figures += [model.rounds, model.tokens, model.context]
            sums = [one + other for one, other in zip(sums, figures, strict=True)]
            rows.append([task.title, *map(str, figures)])
    rows.append(["all", *map(str, sums)])
    return rows, [str(sum(listed[:-1])), str(sum(listed))]


def _listed(app: App, host: Host) -> Any:
    return app.gateway._host_lists.tools_for(host)[1].tools


def _value(result: dict[str, Any]) -> Any:
    if result.get("structuredContent") is not None:
        return result["structuredContent"]
    return json.loads(result["content"][0]["text"])
