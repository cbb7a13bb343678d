"""Completions come with every key that is pressed: what one agent asks of one server is bounded, and only that."""

import asyncio
from pathlib import Path
from typing import Final

import pytest

from tests.access.secured_harness import SecuredHarness
from tests.end_to_end.scripted_host import LEGACY, MODERN, ScriptedHost
from tests.peers.serving import BackgroundLoop, serving
from tests.peers.toolbox import Json
from tests.server_requests.asking_server_web import AskingWebServer

VERSION: Final = LEGACY[-1]


def asked(host: ScriptedHost, server: str) -> Json:
    return {"ref": {"type": "ref/prompt", "name": f"{server}.ask"}, "argument": {"name": "key", "value": "b"}}


@pytest.mark.parametrize(("frontend", "version"), [("stdio", VERSION), ("sse", VERSION), ("http", MODERN)])
async def test_a_flood_of_completions(
    own_background: BackgroundLoop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, frontend: str, version: str
) -> None:
    """So many at once; the next are refused before the server hears of them. Others, and calls, are not hindered."""
    monkeypatch.setattr("aggregator.gateway.reads.completion.RATE", 1e-9)
    monkeypatch.setattr("aggregator.gateway.reads.completion.BURST", 5.0)
    asking_servers = {name: AskingWebServer("modern") for name in ("one", "two")}
    servers = {
        name: {"type": "http", "url": f"{own_background.open(serving(asking_server))}/mcp"}
        for name, asking_server in asking_servers.items()
    }
    policies = {"agents": {agent: {"allow": ["server:one", "server:two"]} for agent in ("ann", "bob")}}
    harness = SecuredHarness(own_background, tmp_path, servers, policies, ("ann", "bob"))
    async with (
        harness.connect_as((frontend, version), "ann") as ann,
        harness.connect_as((frontend, version), "bob") as bob,
    ):
        calls = [ann.ask("completion/complete", asked(ann, "one")) for _ in range(12)]
        messages = await asyncio.gather(*(call.message() for call in calls))
        refused = [message["error"] for message in messages if "error" in message]
        assert len(refused) == 7
        assert {error["data"]["code"] for error in refused} == {"limit_reached"}
        assert refused[0]["data"]["retry_after"] == 1
        assert asking_servers["one"].server.begun["completions"] == 5
        for host, server in ((ann, "two"), (bob, "one")):
            done = await host.ask("completion/complete", asked(host, server)).result()
            assert done["completion"]["values"] == ["b"]
        assert "isError" not in await ann.call("one.seen").result()
