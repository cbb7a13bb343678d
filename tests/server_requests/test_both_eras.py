"""Servers that speak both eras, with nothing configured: each host is served in its own."""

import sys
from contextlib import AsyncExitStack
from typing import Any, Final

import pytest

from aggregator.domain.versions import LATEST_LEGACY
from tests.end_to_end.scripted_host import MODERN, HttpWire, ScriptedHost
from tests.end_to_end.server_harness import ROOT, ServerHarness, write_config
from tests.peers.serving import BackgroundLoop, serving
from tests.peers.toolbox import Json
from tests.polling import until
from tests.server_requests.both_eras_server import build
from tests.server_requests.conftest import OpenHarness
from tests.server_requests.entries import ABLE, ANSWERS
from tests.server_requests.replies import asked, is_question, reply, resume
from tests.server_requests.stdio_harness import StdioHarness

LEGACY: Final = LATEST_LEGACY
ANSWER: Final[Json] = {"action": "accept", "content": {"answer": "this"}}
CHANGED: Final = "notifications/tools/list_changed"


def program() -> Json:
    """The server as a child process."""
    return {"command": sys.executable, "args": ["-m", "tests.server_requests.both_eras_server"], "cwd": str(ROOT)}


def here(**fields: Any) -> Json:
    """The server in this process, which is like a child process but quick to start: one server for each connection."""
    return {"target": "tests.server_requests.both_eras_server:build", **fields}


@pytest.fixture(scope="module")
def both(background: BackgroundLoop, tmp_path_factory: pytest.TempPathFactory) -> ServerHarness:
    """The server over every transport that it has in both eras."""
    url = f"{background.open(serving(build().streamable_http_app()))}/mcp"
    servers = {
        "stdio": program(),
        "http": {"type": "http", "url": url},
        "local": here(),
    }
    return ServerHarness(background, write_config(tmp_path_factory.mktemp("both"), servers))


async def said(host: ScriptedHost, tool: str, /, **arguments: Any) -> str:
    """The text of a tool's result."""
    result = await host.call(tool, arguments).result()
    assert not result.get("isError"), result
    text: str = result["content"][0]["text"]
    return text


every_upstream = pytest.mark.parametrize("upstream", ["stdio", "http", "local"])


@every_upstream
@pytest.mark.parametrize("version", ["2025-06-18", LEGACY])
async def test_a_question_reaches_a_host_of_the_handshake_eras(
    both: ServerHarness, upstream: str, version: str
) -> None:
    """Elicitation and sampling, by servers that only know how to ask with a request."""
    negotiated = both.app.upstreams[upstream].negotiated
    assert negotiated is not None
    assert negotiated.version == MODERN
    async with both.host("http", version, capabilities=ABLE) as host:
        call = host.call(f"{upstream}.elicits")
        await reply(host, await asked(host), ANSWER)
        assert (await call.result())["content"][0]["text"] == "this"
        call = host.call(f"{upstream}.samples")
        await reply(host, await asked(host, 2), ANSWERS["sample"])
        assert (await call.result())["content"][0]["text"] == "it"
        assert (await said(host, f"{upstream}.where")).split()[0] == LEGACY


@every_upstream
async def test_a_question_reaches_a_host_of_2026(both: ServerHarness, upstream: str) -> None:
    """By the result of its call; and the call goes over the connection of its own era."""
    params = {"name": f"{upstream}.requires"}
    async with both.host("http", MODERN, capabilities=ABLE) as host:
        interim = await host.ask("tools/call", params).result()
        result = await resume(host, "tools/call", params, interim, [ANSWER]).result()
        assert result["content"][0]["text"] == "this"
        assert (await said(host, f"{upstream}.where")).split()[0] == MODERN


@pytest.mark.parametrize("field", [{}, {"protocol": "modern"}])
async def test_who_cannot_be_asked_costs_no_second_connection(open_harness: OpenHarness, field: Json) -> None:
    """Nor does anybody where the configuration names the era: calls are translated then."""
    harness = open_harness({"one": here(**field)})
    capabilities = ABLE if field else {}
    async with harness.host("http", LEGACY, capabilities=capabilities) as host:
        assert (await said(host, "one.where")).split()[0] == MODERN
    assert not harness.app.upstreams["one"]._isolated._sides


async def test_the_second_process_is_shared_and_comes_back(open_harness: OpenHarness) -> None:
    """One for all hosts of its era; what it was doing when it died is told, and the next call starts another."""
    harness = open_harness({"one": program()})
    async with (
        harness.host("http", LEGACY, capabilities=ABLE) as host,
        harness.host("sse", LEGACY, capabilities=ABLE) as other,
        harness.host("http", MODERN) as modern,
    ):
        first = await said(host, "one.where")
        assert await said(other, "one.where") == first
        assert await said(modern, "one.where") != first
        error = (await host.call("one.die").result())["_meta"]["aggregator/error"]
        assert error["code"] == "outcome_unknown"
        second = await said(host, "one.where")
        assert second != first
        assert await said(other, "one.where") == second
        assert harness.app.upstreams["one"].state == "ready"


async def test_what_one_of_the_processes_adds_is_listed(open_harness: OpenHarness) -> None:
    """A call of a handshake host adds a tool in its process: hosts are told, list it and call it."""
    harness = open_harness({"one": program()})
    async with harness.host("http", LEGACY, capabilities=ABLE) as host:
        assert isinstance(host.wire, HttpWire)
        host.wire.stand()
        await host.inbox.named("standing")
        assert await said(host, "one.grow", name="more") == "done"
        await host.inbox.named(CHANGED)
        assert "one.more" in [tool["name"] for tool in await host.list()]
        assert await said(host, "one.more") == "grown"
        # With the process goes what it had.
        await host.call("one.die").result()
        await host.inbox.named(CHANGED, 2)
        assert "one.more" not in [tool["name"] for tool in await host.list()]


async def test_two_hosts_that_are_asked_at_once_get_two_processes(open_harness: OpenHarness) -> None:
    """Over pipes nothing tells whose a question is: a server that is known to ask is started once more."""
    harness = open_harness({"one": here()})
    async with AsyncExitStack() as stack:
        hosts = [await stack.enter_async_context(harness.host("http", LEGACY, capabilities=ABLE)) for _ in range(3)]
        call = hosts[0].call("one.elicits")
        await reply(hosts[0], await asked(hosts[0]), ANSWER)
        await call.result()
        calls = [host.call("one.elicits") for host in hosts]
        for number, host in enumerate(hosts):
            answer = {"action": "accept", "content": {"answer": f"host {number}"}}
            await reply(host, await asked(host, 2 if host is hosts[0] else 1), answer)
        for number, call in enumerate(calls):
            assert (await call.result())["content"][0]["text"] == f"host {number}"


async def test_a_second_process_that_falls_silent_is_given_up(open_harness: OpenHarness) -> None:
    """The circuit is of the first; three calls in a row without an answer, and the next one finds another process."""
    harness = open_harness({"one": here(tools={"timeout": {"hold": "50ms"}})})
    async with harness.host("http", LEGACY, capabilities=ABLE) as host:
        first = await said(host, "one.where")
        for _ in range(2):
            for _ in range(2):
                assert (await host.call("one.hold").result())["isError"] is True
            assert await said(host, "one.where") == first
        for _ in range(3):
            assert (await host.call("one.hold").result())["isError"] is True
        assert await said(host, "one.where") != first


async def test_a_refused_handshake_is_not_asked_for_again(
    background: BackgroundLoop, open_harness: OpenHarness
) -> None:
    """A server that speaks 2026-07-28 only is asked once; its hosts of other eras are translated."""
    tried = 0
    served = build().streamable_http_app()

    async def modern_only(scope: Any, receive: Any, send: Any) -> None:
        nonlocal tried
        version = dict(scope.get("headers", ())).get(b"mcp-protocol-version")
        if scope["type"] == "http" and version != MODERN.encode():
            tried += 1
            await send({"type": "http.response.start", "status": 400, "headers": []})
            await send({"type": "http.response.body", "body": b"no"})
        else:
            await served(scope, receive, send)

    harness = open_harness({"one": {"type": "http", "url": f"{background.open(serving(modern_only))}/mcp"}})
    async with harness.host("http", LEGACY, capabilities=ABLE) as host:
        for _ in range(3):
            assert (await said(host, "one.where")).split()[0] == MODERN
        call = host.call("one.requires")
        await reply(host, await asked(host), ANSWER)
        assert (await call.result())["content"][0]["text"] == "this"
    assert tried == 1


async def test_a_connection_that_cannot_be_had_now_is_tried_later(
    open_harness: OpenHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call does not wait for it for long, and the next ones not at all for a while."""
    monkeypatch.setattr("aggregator.upstream.sessions.isolation.OTHER_ERA_WAIT", 0.0)
    harness = open_harness({"one": here()})
    apart = harness.app.upstreams["one"]._isolated
    async with harness.host("http", LEGACY, capabilities=ABLE) as host:
        assert (await said(host, "one.where")).split()[0] == MODERN
        # It came up in the end: from now on it is used.
        await until(lambda: any(side.session is not None for side in apart._sides))
        assert (await said(host, "one.where")).split()[0] == LEGACY


@pytest.mark.parametrize("version", [LEGACY, MODERN])
async def test_a_program_with_one_host_serves_it_in_its_era(
    tmp_path: Any, own_background: BackgroundLoop, version: str
) -> None:
    """`aggregator stdio`: what the server asks reaches its only host."""
    harness = StdioHarness(own_background, write_config(tmp_path, {"one": here()}))
    async with harness.host("stdio", version, capabilities=ABLE) as host:
        await host.named("one__where")
        assert (await said(host, "one__where")).split()[0] == version
        if version == LEGACY:
            call = host.call("one__elicits")
            await reply(host, await asked(host), ANSWER)
            assert (await call.result())["content"][0]["text"] == "this"


@pytest.mark.parametrize("leaves", ["cancelled", "timed out"])
async def test_a_call_given_up_does_not_burden_the_next_host(open_harness: OpenHarness, leaves: str) -> None:
    """A server on pipes that all share answers what was cancelled: it works on it no more, and may ask the next."""
    limits = {"timeout": {"hold": "300ms"}} if leaves == "timed out" else {}
    harness = open_harness({"one": here(protocol="legacy", tools=limits)})
    async with (
        harness.host("http", MODERN, capabilities=ABLE) as gone,
        harness.host("http", LEGACY, capabilities=ABLE) as after,
    ):
        call = gone.call("one.hold", progressToken=1)
        await gone.inbox.named("notifications/progress")
        if leaves == "cancelled":
            await gone.wire.cancel(call)
            call.drop()
        else:
            assert (await call.result())["isError"] is True
        session = harness.app.upstreams["one"].shared.session
        assert session is not None
        await until(lambda: not session.back_channel.busy and not session.back_channel.unsettled)
        call = after.call("one.elicits")
        await reply(after, await asked(after), ANSWER)
        assert (await call.result())["content"][0]["text"] == "this"
        assert not [message for message in gone.inbox.messages if is_question(message)]


@pytest.mark.parametrize("version", [LEGACY, MODERN])
async def test_a_host_with_two_calls_is_asked(open_harness: OpenHarness, version: str) -> None:
    """Its own questions reach it while it has another call under way. Without a session it might be another host: the
    first question is refused, and the same call has a connection of its own.
    """
    harness = open_harness({"one": here(protocol="legacy")})
    params = {"name": "one.elicits"}
    async with harness.host("http", version, capabilities=ABLE) as host:
        held = host.call("one.hold", progressToken=1)
        await host.inbox.named("notifications/progress")
        call = host.ask("tools/call", params)
        if version == MODERN:
            with pytest.raises(AssertionError, match="make the same call again"):
                await call.result()
            interim = await host.ask("tools/call", params).result()
            call = resume(host, "tools/call", params, interim, [ANSWER])
        else:
            await reply(host, await asked(host), ANSWER)
        assert (await call.result())["content"][0]["text"] == "this"
        await host.wire.cancel(held)
        held.drop()
