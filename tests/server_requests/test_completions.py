"""Completions come with every key that is pressed: what one agent asks of one server is bounded, and only that."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from aggregator.domain.errors import METHOD_NOT_FOUND, UpstreamRpcError
from aggregator.domain.missing import ItemRefused
from aggregator.domain.principal import Principal
from aggregator.gateway.reads.completion import Completion
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


class Completing:
    """A server that is asked for completions of one prompt: what it answers, and how often it was asked."""

    def __init__(self, can: Json, version: str = MODERN) -> None:
        self.answers: Any = {"completion": {"values": []}}
        self.asked = 0
        self.upstream = SimpleNamespace(config=SimpleNamespace(id="one"), negotiated=None)
        self.connect(can, version)
        read_only: Any = SimpleNamespace(
            view=lambda request: None,
            find=self._done(SimpleNamespace(name="one.ask", own="ask", own_now="ask", upstream=self.upstream)),
            without_asking=self._done(()),
            questions=lambda guards, request: None,
            noted=lambda guards, request, answer: answer,
            read_item=self._read,
        )
        self.completion = Completion(read_only, read_only, read_only, read_only, read_only)

    def connect(self, can: Json, version: str = MODERN) -> None:
        """Have another connection to the server."""
        self.upstream.negotiated = SimpleNamespace(capabilities=can, version=version)

    @staticmethod
    def _done(value: Any) -> Any:
        async def done(*_: Any) -> Any:
            return value

        return done

    async def _read(self, *_: Any, **__: Any) -> Any:
        self.asked += 1
        if isinstance(self.answers, Exception):
            raise self.answers
        return self.answers

    async def complete(self, agent: str = "ann") -> Json:
        """Return what the server completes."""
        ref = {"ref": {"type": "ref/prompt", "name": "one.ask"}, "argument": {"name": "key", "value": "b"}}
        host = SimpleNamespace(principal=Principal(agent))
        request: Any = SimpleNamespace(params=ref, host=host, about=lambda *_: None)
        found: Json = (await self.completion.complete(request))["completion"]
        return found


@pytest.mark.parametrize(
    ("can", "version", "asked"),
    [({"completions": {}}, MODERN, 1), ({"prompts": {}}, MODERN, 0), ({"prompts": {}}, "2024-11-05", 1)],
)
async def test_only_a_server_that_may_complete_is_asked(can: Json, version: str, asked: int) -> None:
    server = Completing(can, version)
    server.answers = {"completion": {"values": ["x"]}}
    assert (await server.complete())["values"] == ["x"] * asked
    assert server.asked == asked


async def test_a_server_that_does_not_know_the_method_is_not_asked_again_on_its_connection() -> None:
    server = Completing({"completions": {}})
    server.answers = UpstreamRpcError("one", METHOD_NOT_FOUND, "no such method", None)
    for _ in range(3):
        assert await server.complete() == {"values": [], "hasMore": False}
    assert server.asked == 1
    server.connect({"completions": {}})
    server.answers = {"completion": {"values": ["x"]}}
    assert (await server.complete())["values"] == ["x"]
    server.answers = UpstreamRpcError("one", -32602, "wrong", None)
    for _ in range(2):
        with pytest.raises(UpstreamRpcError, match="wrong"):
            await server.complete()
    assert server.asked == 4


@pytest.mark.parametrize(
    ("count", "more", "cut"),
    [
        (100, {"total": 100}, {"total": 100}),
        (101, {}, {"total": 101, "hasMore": True}),
        (101, {"total": 7, "hasMore": False}, {"total": 101, "hasMore": True}),
        (101, {"total": 900, "x": 1}, {"total": 900, "hasMore": True, "x": 1}),
        (101, {"total": "many"}, {"total": 101, "hasMore": True}),
    ],
)
async def test_a_host_gets_a_hundred_values_and_how_many_there_are(count: int, more: Json, cut: Json) -> None:
    server = Completing({"completions": {}})
    values = [str(number) for number in range(count)]
    server.answers = {"completion": {"values": values, **more}}
    assert await server.complete() == {"values": values[:100], **cut}


async def test_agents_have_a_bound_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aggregator.gateway.reads.completion.RATE", 1e-9)
    monkeypatch.setattr("aggregator.gateway.reads.completion.BURST", 2.0)
    server = Completing({"completions": {}})
    for agent in ("ann", "bob"):
        for _ in range(2):
            await server.complete(agent)
        with pytest.raises(ItemRefused):
            await server.complete(agent)
    assert server.asked == 4
