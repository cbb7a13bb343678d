"""Upstreams that go away and come back: how soon they are tried again, what is told of them, and what that costs."""

import asyncio
import sys
import time
from collections.abc import Callable, Mapping
from email.utils import formatdate
from functools import partial
from pathlib import Path

import pytest

from aggregator.config.server_config import ServerConfig
from aggregator.domain.connection_causes import CAUSES
from aggregator.upstream.lifecycle import backoff
from aggregator.upstream.sessions.negotiate import Negotiated
from tests.faults.app_harness import AppHarness, Json, code_of, lines_of, raw_stdio, running_app, server_config
from tests.faults.raw_http import RawHttpServer, ReceivedRequest, ReplyWriter, raw_http, raw_sse
from tests.polling import until

FAILS = "import sys; sys.exit('no such database')"


async def servers_of(harness: AppHarness) -> str:
    """Return what an agent is told of its servers."""
    answer = await harness.ask("tools/call", {"name": "list_servers", "arguments": {}})
    return str(answer["content"][0]["text"])


def transitions(caplog: pytest.LogCaptureFixture, name: str) -> list[str]:
    """The lines about one server, without the reasons."""
    said = [line.message for line in caplog.records if line.name == "aggregator.upstream.lifecycle.state"]
    return [line.split(":")[0].removeprefix(f"server {name} is ") for line in said if f"server {name} is" in line]


async def test_each_transition_is_one_line(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    """Proves: D3, C4. The way down and back up, however many attempts it takes: with the reason, and what it means."""
    caplog.set_level("INFO", "aggregator.upstream.lifecycle.state")
    async with (
        raw_http() as raw,
        running_app(
            server_config("web", type="http", url=raw.url, limits={"grace": 0.05, "reconnect_wait": 0.01})
        ) as harness,
    ):
        await raw.stop()
        await harness.call("web.echo")
        await until(lambda: harness.upstream("web").state == "unavailable", "its grace is over")
        failures = len(raw.seen)
        await raw.start()
        await until(lambda: harness.upstream("web").state == "ready", "it is back")
        assert len(raw.seen) > failures
    assert transitions(caplog, "web") == ["ready", "reconnecting", "unavailable", "ready", "stopped"]
    lost, gone = (line.message for line in caplog.records if line.levelname == "WARNING")
    assert lost.endswith(f"{CAUSES['refused'].words}; calls wait for it, for 50ms at most")
    assert gone.endswith("; its tools stay listed")


async def test_a_crash_loop_is_named_with_the_last_words(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    """Proves: D3, C4. In the reason, where it is a program that answers on stdio; the neighbour notices nothing."""
    log = tmp_path / "log"
    async with running_app(raw_stdio("sick", "complains", log=log, protocol="legacy"), raw_stdio("well")) as harness:
        await until(lambda: "crash loop" in harness.upstream("sick").reason, "it is recognised")
        reason = harness.upstream("sick").reason
        assert "ended soon after each of its last 3 starts" in reason
        assert "exit code 1; next try in " in reason
        told = harness.upstream("sick").reason_for_operator
        assert "exit code 1; it last said: fatal: the licence of this server has run out; next try in " in told
        assert len(lines_of(log)) == backoff.CRASHES
        told = await servers_of(harness)
        assert "licence" not in told
        assert "sick (unavailable for 1s, 0 tools)" in told
        assert f"[{reason.split(';')[0]}" in told
        assert harness.app.report()[1]["servers"]["sick"]["reason"].startswith("it is in a crash loop")
        await harness.check_echo("well.echo")


async def test_a_crash_loop_of_one_that_comes_up_each_time(tmp_path: Path) -> None:
    """Proves: D3. It answers, lists, and dies: that is no life either."""
    log = tmp_path / "log"
    async with running_app(raw_stdio("frail", "leaves_after_list", log=log, protocol="legacy")) as harness:
        await until(lambda: "crash loop" in harness.upstream("frail").reason, "it is recognised")
        starts = len([line for line in lines_of(log) if line.startswith("start")])
        assert starts == backoff.CRASHES


async def test_a_launched_program_that_dies_is_named_too() -> None:
    """Proves: D3, C4. Though what is talked to is an address."""
    launch = {"command": sys.executable, "args": ("-I", "-S", "-c", FAILS)}
    async with running_app(
        server_config("web", type="http", url="http://127.0.0.1:{port}/mcp", launch=launch)
    ) as harness:
        await until(lambda: "crash loop" in harness.upstream("web").reason, "it is recognised")
        assert (
            "the program it is served by is gone: its process ended with exit code 1" in harness.upstream("web").reason
        )
        assert "it last said: no such database" in harness.upstream("web").reason_for_operator
        assert "no such database" not in harness.upstream("web").reason


def refusing(status: int, **headers: str) -> Callable[[ReceivedRequest, ReplyWriter], object]:
    async def refuse(seen: ReceivedRequest, reply: ReplyWriter) -> None:
        await reply.send(status, **headers)

    return refuse


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_what_an_operator_has_to_mend_is_tried_slowly(status: int) -> None:
    """Proves: D3. The reason says so at once, though the grace of a connection that worked lasts; the tools stay."""
    async with (
        raw_http() as raw,
        running_app(server_config("web", type="http", url=raw.url, limits={"reconnect_wait": 0.01})) as harness,
    ):
        upstream = harness.upstream("web")
        await raw.stop()
        raw.on.update(dict.fromkeys(("server/discover", "initialize"), refusing(status)))  # type: ignore[arg-type]
        code_of(await harness.call("web.echo"))
        assert upstream.state == "reconnecting"
        assert harness.tools()
        await raw.start()
        await until(lambda: upstream.state == "unavailable", "it refused us")
        assert harness.tools()
        assert f"HTTP {status}" in upstream.reason
        condition = upstream.lifecycle.current
        assert condition.next_try is not None
        assert condition.next_try - time.time() > backoff.REFUSED_FIRST / 2 - 1
        text = (await harness.call("web.echo"))["content"][0]["text"]
        assert "next try in" in text
        assert text.endswith("use another tool, or try again once it is back.")


async def test_a_missing_command_is_tried_slowly() -> None:
    """Proves: D3, E9"""
    async with running_app(raw_stdio("none", command="no-such-program-anywhere")) as harness:
        condition = harness.upstream("none").lifecycle.current
        assert condition.next_try is not None
        assert condition.next_try - time.time() > backoff.REFUSED_FIRST / 2 - 1


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("form", ["seconds", "date"])
async def test_retry_after_is_obeyed(status: int, form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: D3. In either form, and nothing more is sent until then."""
    async with raw_http() as raw:
        said = "120" if form == "seconds" else formatdate(time.time() + 120, usegmt=True)
        busy: Json = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32000, "message": "busy"}}

        async def refuse(seen: ReceivedRequest, reply: ReplyWriter) -> None:
            await reply.send(status, busy, retry_after=said)

        raw.on["server/discover"] = raw.on["initialize"] = refuse
        async with running_app(server_config("web", type="http", url=raw.url)) as harness:
            upstream = harness.upstream("web")
            assert f"HTTP {status}" in upstream.reason
            condition = upstream.lifecycle.current
            assert condition.next_try is not None
            assert 110 < condition.next_try - time.time() < 140
            assert [seen.method for seen in raw.seen] == ["server/discover"]
            assert (await harness.call("web.echo"))["_meta"]["aggregator/error"]["retry_after"] > 110
            # The pause is what it was, though the clock is set to another time.
            for leap in (-1e6, 1e6):
                set_to = time.time() + leap
                monkeypatch.setattr("aggregator.upstream.lifecycle.state.time.time", lambda at=set_to: at)
                refused = (await harness.call("web.echo"))["_meta"]["aggregator/error"]
                assert 110 < refused["retry_after"] < 140
                assert "next try in 2m" in refused["message"]
                monkeypatch.undo()


@pytest.mark.parametrize("said", ["soon", "-5", "Tue, 99 Foo", "1" * 400, ""])
async def test_nonsense_in_retry_after_is_none(said: str) -> None:
    """Proves: D3"""
    async with raw_http() as raw:
        raw.on["server/discover"] = raw.on["initialize"] = refusing(503, retry_after=said)  # type: ignore[assignment]
        async with running_app(server_config("web", type="http", url=raw.url)) as harness:
            raw.on.clear()
            await until(lambda: harness.upstream("web").state == "ready", "it is tried again soon")


async def test_retry_after_is_obeyed_over_sse() -> None:
    """Proves: D3, C2"""
    async with raw_sse() as raw:
        raw.on["GET"] = refusing(503, retry_after="200")  # type: ignore[assignment]
        async with running_app(server_config("old", type="sse", url=raw.url)) as harness:
            condition = harness.upstream("old").lifecycle.current
            assert condition.next_try is not None
            assert condition.next_try - time.time() > 190


async def test_a_call_that_is_refused_for_a_while_says_for_how_long() -> None:
    """Proves: D3, D7. Of a server that is there otherwise."""
    async with raw_http() as raw, running_app(server_config("web", type="http", url=raw.url)) as harness:
        raw.on["tools/call"] = refusing(429, retry_after="7")  # type: ignore[assignment]
        result = await harness.call("web.echo")
        assert code_of(result) == "upstream_http_error"
        assert result["_meta"]["aggregator/error"]["retry_after"] == 7
        assert "asks for 7s of patience" in result["content"][0]["text"]
        assert harness.upstream("web").state == "ready"
        # A time that is over already is no pause, and no negative one.
        past = formatdate(time.time() - 120, usegmt=True)
        raw.on["tools/call"] = refusing(429, retry_after=past)  # type: ignore[assignment]
        result = await harness.call("web.echo")
        assert result["_meta"]["aggregator/error"]["retry_after"] == 0


async def test_era_and_session_are_found_anew() -> None:
    """Proves: C11, C4. What comes back may speak another revision than what went."""
    async with (
        raw_http() as raw,
        running_app(server_config("web", type="http", url=raw.url, limits={"reconnect_wait": 0.01})) as harness,
    ):
        upstream = harness.upstream("web")

        def back(before: Negotiated | None) -> bool:
            return upstream.state == "ready" and upstream.negotiated is not before

        for modern in (True, False, True):
            before = upstream.negotiated
            await raw.stop()
            await harness.call("web.echo", say="x")
            raw.modern = modern
            await raw.start()
            await until(partial(back, before), "it is back")
            assert upstream.negotiated is not None
            assert upstream.negotiated.era == ("modern" if modern else "legacy")
            await harness.check_echo("web.echo")


async def test_a_call_that_finds_the_connection_gone_waits_for_the_next(tmp_path: Path) -> None:
    """Proves: C11. Nothing was sent, so nothing is lost: not even an error is seen."""
    async with (
        raw_http() as raw,
        running_app(server_config("web", type="http", url=raw.url, limits={"reconnect_wait": 5})) as harness,
    ):
        await raw.stop()
        call = asyncio.create_task(harness.call("web.echo", say="once"))
        await until(lambda: harness.upstream("web").state == "reconnecting", "it shows")
        await raw.start()
        result = await call
        assert result["content"][0]["text"] == "once"
        assert raw.count("tools/call") == 1


def dead(raw: RawHttpServer, number: int) -> Mapping[str, ServerConfig]:
    """Return `number` server configurations, with every kind of fault among them."""
    kinds = [
        lambda name: server_config(name, type="http", url="http://127.0.0.1:9/mcp"),
        lambda name: server_config(name, type="sse", url=f"{raw.url}/nothing"),
        lambda name: raw_stdio(name, command="no-such-program-anywhere"),
        lambda name: server_config(name, type="http", url=raw.url),
    ]
    return {f"d{at}": kinds[at % len(kinds)](f"d{at}") for at in range(number)}


async def test_a_hundred_dead_ones_cost_a_timer_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: D11, D3. Between two attempts: one sleeping task each, no connection, no process, nothing that polls."""
    monkeypatch.setattr(backoff, "FIRST", 600.0)
    monkeypatch.setattr(backoff, "CAP", 600.0)
    async with raw_http() as raw:
        for method in ("server/discover", "initialize", "GET"):
            raw.on[method] = refusing(401)  # type: ignore[assignment]
        async with running_app(raw_stdio("well")) as alone:
            tasks = len(asyncio.all_tasks())
            await alone.check_echo("well.echo")
        async with running_app(raw_stdio("well"), *dead(raw, 100).values()) as harness:
            await until(lambda: len(asyncio.all_tasks()) <= tasks + 100, "one task each is left")
            states = [upstream.state for upstream in harness.app.upstreams.values()]
            assert states == ["ready", *["unavailable"] * 100]
            seen, conditions = (
                len(raw.seen),
                [upstream.lifecycle.current for upstream in harness.app.upstreams.values()],
            )
            for _ in range(50):
                await harness.check_echo("well.echo")
            assert len(raw.seen) == seen
            assert [upstream.lifecycle.current for upstream in harness.app.upstreams.values()] == conditions
