"""A gateway in this process with the servers of the tasks, an agent for each task, and the policy that is measured."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp

from aggregator.app.app import App
from aggregator.app.build import build_app
from aggregator.config.load import load
from aggregator.config.model import Config
from aggregator.frontends.server import WebServer, listening_socket, serve_web
from aggregator.identity.keys import new_key, policy_line
from benchmarks.flow_corpus.definitions import SERVERS, TOOLBOX, TOOLBOX_PROMPTS, TOOLBOX_TOOLS
from benchmarks.flow_corpus.servers import SPECS

CONFIG: Final = "aggregator.json"
_EVERYONE: Final = "everyone"
# Little, so that a text of some hundred lines is a large result.
_MAX_TOKENS: Final = 2_000
_PATIENCE: Final = 60.0


Tasks = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class TaskGateway:
    """A running gateway: where it is over HTTP, and the API key of each agent."""

    app: App
    config: Config
    url: str
    keys: Mapping[str, str]
    client: aiohttp.ClientSession


@asynccontextmanager
async def open_gateway(
    folder: Path, tasks: Sequence[Mapping[str, Any]], policy: str | None
) -> AsyncIterator[TaskGateway]:
    """Run a gateway whose policy files are the agents of the tasks and, as one more file, `policy`.

    Raises:
        ValueError: the configuration or the policy has an error.
    """
    keys = _written(folder, tasks, policy)
    loaded = load(folder / CONFIG, {})
    if loaded.problems:
        raise ValueError(str(loaded.problems))
    storage = f"sqlite+aiosqlite:///{folder / 'aggregator.db'}"
    app = build_app(loaded.config, folder / "policies", storage, keeps_records=True)
    if app.live is not None and app.live.broken:
        raise ValueError("\n".join(str(problem) for problem in app.live.problems))
    await app.load_keys()
    web, stopping = WebServer(app.gateway, loaded.config, app.access, app.report), asyncio.Event()
    with listening_socket("127.0.0.1", 0) as bound:
        async with app.running(), aiohttp.ClientSession() as client:
            serving = asyncio.create_task(serve_web(web, bound, stopping))
            await app.supervisor.wait_all_tried(_PATIENCE)
            url = f"http://127.0.0.1:{bound.getsockname()[1]}/mcp"
            try:
                yield TaskGateway(app, loaded.config, url, keys, client)
            finally:
                stopping.set()
                await serving


def _written(folder: Path, tasks: Tasks, policy: str | None) -> dict[str, str]:
    """Write the configuration and the policy files; return the API key of each agent."""
    policies = folder / "policies"
    policies.mkdir(parents=True)
    made = {agent_of(task): new_key(agent_of(task), now=time.time()) for task in tasks}
    agents = {agent_of(task): _agent(task, policy_line(made[agent_of(task)].record)) for task in tasks}
    roles = {_EVERYONE: {"allow": _allowed()}}
    (policies / "agents.yaml").write_text(json.dumps({"roles": roles, "agents": agents}))
    if policy is not None:
        (policies / "flow.yaml").write_text(policy)
    servers = {name: {"target": f"benchmarks.flow_corpus.servers:{name}"} for name in SPECS}
    config = {"mcpServers": servers, "results": {"max_tokens": _MAX_TOKENS}}
    (folder / CONFIG).write_text(json.dumps(config))
    return {name: key.text for name, key in made.items()}


def agent_of(task: Mapping[str, Any]) -> str:
    """Return the agent of a task: each has its own, so that what is known of one does not count for another."""
    return str(task.get("agent", task["id"]))


def _allowed() -> list[str]:
    tools = [f"{TOOLBOX}.{tool['name']}" for tool in TOOLBOX_TOOLS]
    prompts = [f"prompt:{TOOLBOX}.{prompt['name']}" for prompt in TOOLBOX_PROMPTS]
    return [*(f"server:{name}" for name in SERVERS), *tools, *prompts]


def _agent(task: Mapping[str, Any], key: str) -> dict[str, Any]:
    listed = task.get("listed", {})
    allow = [f"{TOOLBOX}.{tool['name']}" for tool in listed.get("tools", ())]
    allow += [f"prompt:{TOOLBOX}.{prompt['name']}" for prompt in listed.get("prompts", ())]
    allow += [f"resource:{TOOLBOX}.{resource['uri']}" for resource in listed.get("resources", ())]
    allow += [f"server:{server['name']}" for server in listed.get("servers", ())]
    given = {"roles": [_EVERYONE], "keys": [key], "allow": allow, **task.get("rules", {})}
    return {**given, "expose": task.get("expose", "all")}
