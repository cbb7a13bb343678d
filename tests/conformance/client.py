"""The aggregator as the client under test: `python -m tests.conformance.client URL`, as the suite starts it.

The suite's server is its only upstream, and a small host plays through it what the scenario waits for. The scenario,
the revision and what else is to be known are in the environment.
"""

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

from tests.conformance.accepting_host import ABLE, sample, settle
from tests.conformance.processes import NAME
from tests.end_to_end.scripted_host import ScriptedHost
from tests.end_to_end.server_harness import ServerHarness, write_config
from tests.peers.serving import BackgroundLoop
from tests.peers.toolbox import Json


def _arguments(tool: Json) -> Json:
    schema = tool["inputSchema"]
    return {name: sample(schema["properties"][name]) for name in schema.get("required", ())}


async def _call(host: ScriptedHost, tool: str, arguments: Json) -> None:
    await settle(host, "tools/call", {"name": tool, "arguments": arguments})


async def _call_all(host: ScriptedHost) -> None:
    for tool in await host.list():
        await _call(host, tool["name"], _arguments(tool))


async def _call_as_told(host: ScriptedHost) -> None:
    """The calls that the suite gives."""
    await host.list()
    for call in json.loads(os.environ["MCP_CONFORMANCE_CONTEXT"])["toolCalls"]:
        await _call(host, f"{NAME}.{call['name']}", call["arguments"])


async def _read_everything(host: ScriptedHost) -> None:
    await _call_all(host)
    for resource in (await host.ask("resources/list").message()).get("result", {}).get("resources", ()):
        await host.ask("resources/read", {"uri": resource["uri"]}).message()
    for prompt in (await host.ask("prompts/list").message()).get("result", {}).get("prompts", ()):
        await host.ask("prompts/get", {"name": prompt["name"]}).message()


async def _echo_schema(host: ScriptedHost) -> None:
    tools = await host.named(f"{NAME}.json_schema_2020_12_tool", f"{NAME}.json_schema_echo")
    schema = tools[f"{NAME}.json_schema_2020_12_tool"]["inputSchema"]
    await _call(host, f"{NAME}.json_schema_echo", {"schema": schema})


async def _list(host: ScriptedHost) -> None:
    await host.list()


async def _list_skills(host: ScriptedHost) -> None:
    """List as a host does on connection: nothing is read ahead of need."""
    skills = (await host.ask("skills/list").result())["skills"]
    for skill in skills:
        await host.ask("skills/get", {"uri": skill["uri"]}).message()


async def _load_skills(host: ScriptedHost) -> None:
    """Load every skill as a host does that compares nothing itself: the rest is read where SKILL.md was given."""
    for skill in (await host.ask("skills/list").result())["skills"]:
        loaded = await host.ask("resources/read", {"uri": skill["uri"]}).message()
        for file in skill["resources"] if "result" in loaded else ():
            await host.ask("resources/read", {"uri": file["uri"]}).message()


# What differs from calling every tool there is.
_SCENARIOS: Final[Mapping[str, Callable[[ScriptedHost], Awaitable[None]]]] = {
    "initialize": _list,
    "request-metadata": _list,
    "json-schema-ref-no-deref": _list,
    "http-custom-headers": _call_as_told,
    "http-standard-headers": _read_everything,
    "json-schema-2020-12-preservation": _echo_schema,
    "sep-2640-client-no-prefetch": _list_skills,
    "sep-2640-client-verify-digest": _load_skills,
    "sep-2640-client-verify-size": _load_skills,
    "sep-2640-client-verify-frontmatter": _load_skills,
}


async def _play(harness: ServerHarness, scenario: str, revision: str) -> None:
    # On stdio a host needs no headers, and requests to it arrive on the same pipe as responses.
    async with harness.host("stdio", revision, capabilities=ABLE) as host:
        await _SCENARIOS.get(scenario, _call_all)(host)


def main(url: str) -> None:
    """Play one scenario to its end."""
    scenario = os.environ["MCP_CONFORMANCE_SCENARIO"]
    revision = os.environ["MCP_CONFORMANCE_PROTOCOL_VERSION"]
    with tempfile.TemporaryDirectory() as folder, BackgroundLoop() as background:
        names = {"names": "canonical"}
        # The suite gives a null for an argument that its schema does not let be null, and may be left out.
        path = write_config(Path(folder), {NAME: {"type": "http", "url": url}}, expose="all", stdio=names)
        harness = ServerHarness(background, path)
        asyncio.run(_play(harness, scenario, revision))


if __name__ == "__main__":
    main(sys.argv[1])
