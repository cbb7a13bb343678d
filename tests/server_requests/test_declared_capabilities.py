"""What servers are told of the hosts behind a connection, and who gets a connection of its own."""

import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import pytest

from aggregator.upstream.sessions import isolation as apart
from tests.access.secured_harness import SecuredHarness
from tests.end_to_end.scripted_host import MODERN, ScriptedHost
from tests.end_to_end.server_harness import write_config
from tests.peers.serving import BackgroundLoop, serving
from tests.peers.toolbox import Json, RpcFailure, text_result
from tests.polling import until
from tests.server_requests.asking_server import AskingServer, ClientConnection, Say
from tests.server_requests.asking_server_web import AskingWebServer
from tests.server_requests.conftest import OpenHarness
from tests.server_requests.entries import ABLE, ANSWERS, FORM, stdio_entry
from tests.server_requests.replies import asked, is_question, reply, text_as_json
from tests.server_requests.stdio_harness import StdioHarness

LEGACY: Final = "2025-11-25"


async def seen(host: ScriptedHost, upstream: str = "one") -> Json:
    facts: Json = text_as_json(await host.call(f"{upstream}.seen").result())
    return facts


@pytest.mark.parametrize(("transport", "sessions"), [("http", 2), ("sse", 3)])
async def test_who_can_be_asked_nothing_shares(
    background: BackgroundLoop, open_harness: OpenHarness, transport: str, sessions: int
) -> None:
    """What declared something has a session that is told exactly that: over HTTP one for all that can do the same,
    over SSE, where nothing tells whose a question is, one of its own. One more is for the list alone.
    """
    asking_server = AskingWebServer("legacy")
    base = background.open(serving(asking_server))
    url = f"{base}/mcp" if transport == "http" else f"{base}/sse"
    harness = open_harness({"one": {"type": transport, "url": url}})
    async with (
        harness.host("sse", LEGACY) as plain,
        harness.host("http", MODERN) as modern,
        harness.host("sse", LEGACY, capabilities={"roots": {}}) as rooted,
        harness.host("http", MODERN, capabilities={"roots": {}}) as rooted_too,
    ):
        facts = [await seen(host) for host in (plain, modern, rooted, rooted, rooted_too, rooted_too)]
    assert [fact["declared"] for fact in facts] == [{}, {}, *([{"roots": {}}] * 4)]
    places = [fact["connection"] for fact in facts]
    assert places[0] == places[1]
    assert places[2] == places[3]
    assert places[4] == places[5]
    assert len(set(places)) == sessions
    assert len(asking_server.sessions) == sessions + 1


class SelectiveServer(AskingServer):
    """Offers a tool only to hosts that a person can be asked at, as servers do that look at the handshake."""

    async def _answer(self, connection: ClientConnection, method: str, params: Json, say: Say) -> Json:
        result = await super()._answer(connection, method, params, say)
        if method == "tools/list" and "elicitation" in connection.declared:
            result["tools"].append({"name": "choosy", "inputSchema": {"type": "object"}})
        return result

    async def _call(self, connection: ClientConnection, params: Json, say: Say) -> Json:
        if params["name"] != "choosy":
            return await super()._call(connection, params, say)
        if "elicitation" not in connection.declared:
            raise RpcFailure(-32602, "Tool choosy not found")
        return text_result("chosen")


@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_what_is_for_able_hosts_is_listed_for_all(
    background: BackgroundLoop, open_harness: OpenHarness, transport: str
) -> None:
    """Every host sees one list; who cannot be asked is told by the server itself that the tool is not for it."""
    web = AskingWebServer("legacy")
    web.server = SelectiveServer("legacy")
    base = background.open(serving(web))
    url = f"{base}/mcp" if transport == "http" else f"{base}/sse"
    harness = open_harness({"one": {"type": transport, "url": url}})
    async with AsyncExitStack() as stack:
        for version in (LEGACY, MODERN):
            plain = await stack.enter_async_context(harness.host("http", version))
            able = await stack.enter_async_context(harness.host("http", version, capabilities=ABLE))
            for host in (plain, able):
                assert "one.choosy" in [tool["name"] for tool in await host.list()]
            assert (await plain.call("one.choosy").error())["message"] == "Tool choosy not found"
            assert (await able.call("one.choosy").result())["content"][0]["text"] == "chosen"


async def test_a_server_with_one_session_is_used_all_the_same(
    background: BackgroundLoop, open_harness: OpenHarness
) -> None:
    """It refuses a second one: then nobody behind it can be asked, and its tools work."""
    asking_server = AskingWebServer("legacy", one_session=True)
    harness = open_harness({"one": {"type": "http", "url": f"{background.open(serving(asking_server))}/mcp"}})
    async with harness.host("sse", LEGACY, capabilities=ABLE) as host:
        for _ in range(2):
            assert (await seen(host))["declared"] == {}
    assert len(asking_server.sessions) == 1
    tries = [request for request in asking_server.requests if "mcp-session-id" not in request]
    assert len(tries) <= 4, "it is not tried again and again"


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_isolation_gives_processes_of_their_own(tmp_path: Path, own_background: BackgroundLoop, era: str) -> None:
    """`shared`: one; `per_agent`: one for each agent; `per_session`: one for each host session."""
    servers = {kind: stdio_entry(era, isolation=kind) for kind in ("shared", "per_agent", "per_session")}
    everything = {"allow": ["*.*"]}
    harness = SecuredHarness(
        own_background, tmp_path, servers, {"agents": {"one": everything, "two": everything}}, ("one", "two")
    )
    async with (
        harness.connect_as(("sse", LEGACY), "one") as first,
        harness.connect_as(("http", LEGACY), "one") as second,
        harness.connect_as(("sse", LEGACY), "two") as third,
    ):
        pids = {kind: [(await seen(host, kind))["pid"] for host in (first, second, third, first)] for kind in servers}
    assert len(set(pids["shared"])) == 1
    one, again, two, once_more = pids["per_agent"]
    assert one == again == once_more != two
    one, again, two, once_more = pids["per_session"]
    assert one == once_more
    assert len({one, again, two}) == 3
    base = set(pids["shared"])
    assert not base & set(pids["per_agent"])


async def test_hosts_without_a_session_take_turns(open_harness: OpenHarness, key: str) -> None:
    """`per_session`: no two of their calls use one process at once, and one after the other use the same."""
    harness = open_harness({"one": stdio_entry("legacy", isolation="per_session")})
    async with harness.host("http", MODERN, capabilities=ABLE) as host:
        first = (await seen(host))["pid"]
        assert (await seen(host))["pid"] == first
        params = {"name": "one.ask", "arguments": {"key": key, "rounds": [[FORM]]}}
        interim = await host.ask("tools/call", params).result()
        assert interim["resultType"] == "input_required"
        assert (await seen(host))["pid"] != first
        assert (await host.ask("tools/call", params).result())["resultType"] == "input_required"


async def test_what_nobody_uses_is_closed(open_harness: OpenHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a while; the next call opens it anew."""
    monkeypatch.setattr(apart, "IDLE_LIMIT", 0.2)
    harness = open_harness({"one": stdio_entry("legacy", isolation="per_agent")})
    async with harness.host("sse", LEGACY) as host:
        first = (await seen(host))["pid"]
        upstream = harness.app.upstreams["one"]
        await until(lambda: not upstream._isolated._sides)
        assert (await seen(host))["pid"] != first


async def test_there_are_only_so_many(open_harness: OpenHarness, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    """The one that was not used for longest makes room; where all are in use, that is told."""
    monkeypatch.setattr("aggregator.upstream.sessions.side_connection.AT_MOST", 2)
    harness = open_harness({"one": stdio_entry("legacy", isolation="per_session")})
    async with (
        harness.host("sse", LEGACY) as first,
        harness.host("sse", LEGACY) as second,
        harness.host("sse", LEGACY) as third,
    ):
        held = first.call("one.hold", {"key": key})
        await first.call("one.witness", {"entry": f"started {key}"}).result()
        before = (await seen(second))["pid"]
        assert (await seen(third))["pid"] != before
        both = third.call("one.hold", {"key": key})
        await third.call("one.witness", {"entry": f"started {key}"}).result()
        error = (await second.call("one.seen").result())["_meta"]["aggregator/error"]
        assert error["code"] == "upstream_unavailable"
        assert "all in use" in error["message"]
        for host, call in ((first, held), (third, both)):
            await host.call("one.release", {"key": key}).result()
            await call.result()


async def test_one_agent_leaves_connections_to_others(
    own_background: BackgroundLoop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    """By `per_session` one agent could hold all processes of a server; its share is as large as with `auto`."""
    monkeypatch.setattr(f"{apart.__name__}.OF_ONE_AGENT", 1)
    everything = {"allow": ["*"]}
    servers = {"one": stdio_entry("legacy", isolation="per_session")}
    harness = SecuredHarness(
        own_background, tmp_path, servers, {"agents": {"one": everything, "two": everything}}, ("one", "two")
    )
    async with (
        harness.connect_as(("sse", LEGACY), "one") as first,
        harness.connect_as(("sse", LEGACY), "one") as more,
        harness.connect_as(("sse", LEGACY), "two") as other,
    ):
        held = first.call("one.hold", {"key": key})
        await first.call("one.witness", {"entry": f"started {key}"}).result()
        error = (await more.call("one.seen").result())["_meta"]["aggregator/error"]
        assert error["code"] == "upstream_unavailable"
        assert "1 connections for hosts of one agent, all in use" in error["message"]
        assert (await seen(other))["pid"]
        await first.call("one.release", {"key": key}).result()
        await held.result()
        assert (await seen(more))["pid"], "one that is idle makes room"


async def test_one_that_cannot_be_opened_costs_that_call(tmp_path: Path, open_harness: OpenHarness) -> None:
    """The reason is told; the others are served."""
    gate = tmp_path / "open"
    gate.touch()
    script = (
        f"import os, runpy, sys; os.path.exists({str(gate)!r}) or sys.exit('closed'); "
        "runpy.run_module('tests.server_requests.asking_server_stdio', run_name='__main__')"
    )
    entry = stdio_entry("legacy", isolation="per_agent", protocol="legacy")
    entry["args"] = ["-c", script, "legacy"]
    harness = open_harness({"one": entry})
    gate.unlink()
    async with harness.host("sse", LEGACY) as host:
        error = (await host.call("one.seen").result())["_meta"]["aggregator/error"]
        assert error["code"] == "upstream_unavailable"
        # How it ended, without the words that it chose.
        assert "exit code 1" in error["message"]
        assert "closed" not in error["message"]
        gate.touch()
        assert (await seen(host))["declared"] == {}


@pytest.mark.parametrize("capabilities", [{}, {"roots": {"listChanged": True}}, ABLE])
@pytest.mark.parametrize("version", [LEGACY, MODERN])
async def test_a_program_with_one_host_says_exactly_what_that_can(
    tmp_path: Path, background: BackgroundLoop, own_background: BackgroundLoop, version: str, capabilities: Json
) -> None:
    """`aggregator stdio`: servers are greeted when the host has said what it can; what they ask first is answered."""
    web = background.open(serving(AskingWebServer("legacy")))
    servers = {"one": stdio_entry("legacy", "asks-first"), "web": {"type": "http", "url": f"{web}/mcp"}}
    harness = StdioHarness(own_background, write_config(tmp_path, servers))
    async with harness.host("stdio", version, capabilities=capabilities) as host:
        await host.named("one__seen", "web__seen")
        if version == LEGACY and "roots" in capabilities:
            question = await asked(host)
            assert question["method"] == "roots/list"
            await reply(host, question, ANSWERS["roots"])
            await host.call("one__witness", {"entry": "first answered"}).result()
            await host.wire.notify({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"})
            await host.call("one__witness", {"entry": "heard notifications/roots/list_changed"}).result()
        for upstream in ("one", "web"):
            declared = (await seen(host, upstream))["declared"]
            expected = json.loads(json.dumps(capabilities))
            if version == MODERN and "roots" in expected:
                # Its changes cannot be told in its era.
                expected["roots"] = {}
            assert declared == expected
        assert len([message for message in host.inbox.messages if is_question(message)]) <= 1
