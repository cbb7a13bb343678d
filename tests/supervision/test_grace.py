"""While a lost connection is mended: what stays listed, who waits for how long, and what calls under way are told."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from aggregator.upstream.process import process
from tests.faults.app_harness import AppHarness, code_of, lines_of, raw_stdio, running_app, server_config
from tests.faults.raw_http import ReceivedRequest, ReplyWriter, raw_http
from tests.faults.test_cached_catalog import GatedServer, notified_methods
from tests.peers.processes import is_alive
from tests.polling import until


@pytest.fixture
def gated(tmp_path: Path) -> GatedServer:
    """A server that starts when it is told."""
    made = GatedServer(tmp_path)
    made.has("echo", "hang", "leave")
    return made


def error_of(result: Any) -> Any:
    return result["_meta"]["aggregator/error"]


async def lost(harness: AppHarness, gated: GatedServer) -> None:
    """End the server, which cannot come back before its gate opens."""
    gated.close()
    assert code_of(await harness.call("shop.leave")) == "outcome_unknown"
    # Not `reconnecting`: a short grace may have passed by the time anybody looks.
    await until(lambda: harness.upstream("shop").state != "ready", "it is gone")


async def test_tools_stay_and_calls_wait(gated: GatedServer) -> None:
    """Proves: C11. The host hears of nothing, and its call is answered as if nothing had been."""
    gated.open()
    async with running_app(gated.config(limits={"reconnect_wait": 600, "grace": 600})) as harness:
        heard = notified_methods(harness)
        listed = harness.tools()
        await lost(harness, gated)
        calls = [asyncio.create_task(harness.call("shop.echo", say=str(number))) for number in range(5)]
        await asyncio.sleep(0)
        assert harness.tools() == listed == ["shop.echo", "shop.hang", "shop.leave"]
        gated.open()
        answers = await asyncio.gather(*calls)
        assert [answer["content"][0]["text"] for answer in answers] == ["0", "1", "2", "3", "4"]
        assert heard == []


async def test_a_call_waits_no_longer_than_it_may(gated: GatedServer) -> None:
    """Proves: C11, D7. Then it is told the state, the reason, and what to do; the tools are there all the same."""
    gated.open()
    async with running_app(gated.config(limits={"reconnect_wait": 0.02, "grace": 600})) as harness:
        await lost(harness, gated)
        answer = await harness.call("shop.echo", say="x")
        error = error_of(answer)
        assert (error["code"], error["state"], error["retryable"]) == ("upstream_unavailable", "reconnecting", True)
        assert error["since"] == harness.upstream("shop").since
        text = answer["content"][0]["text"]
        assert text.startswith("shop is reconnecting: its process ended with exit code 3")
        assert text.endswith("Nothing was sent to it; try again in a moment.")
        assert "shop.echo" in harness.tools()


async def test_after_its_grace_the_tools_stay(gated: GatedServer) -> None:
    """Proves: C11, D3. Calls are answered at once with the reason, and no host is told of a change."""
    gated.open()
    async with running_app(gated.config(limits={"reconnect_wait": 0.01, "grace": 0.03})) as harness:
        heard = notified_methods(harness)
        await lost(harness, gated)
        await until(lambda: harness.upstream("shop").state == "unavailable", "its grace is over")
        listed = harness.tools()
        answer = await harness.call("shop.echo")
        assert code_of(answer) == "upstream_unavailable"
        assert answer["content"][0]["text"].startswith("shop is unavailable: its process ended with exit code 3")
        found = (await harness.call("search_tools", query="echo"))["content"][0]["text"]
        assert found.splitlines()[0].startswith("shop.echo")
        assert "shop is away: calls of its tools are refused until it is back." in found
        gated.open()
        await until(lambda: harness.upstream("shop").state == "ready", "it is back")
        assert listed == harness.tools() == ["shop.echo", "shop.hang", "shop.leave"]
        assert "is away" not in (await harness.call("search_tools", query="echo"))["content"][0]["text"]
        assert heard == []


async def test_calls_under_way_end_at_once(tmp_path: Path) -> None:
    """Proves: A7, C11. On stdio: nobody waits for the time-out of a call that can have no answer."""
    async with running_app(
        raw_stdio("frail", log=tmp_path / "log", timeout=600, limits={"reconnect_wait": 600})
    ) as harness:
        calls = [asyncio.create_task(harness.call("frail.hang")) for _ in range(10)]
        await until(lambda: lines_of(tmp_path / "log").count("hang") == 10, "all are under way")
        last = asyncio.create_task(harness.call("frail.leave"))
        answers = await asyncio.gather(*calls, last)
        assert {code_of(answer) for answer in answers} == {"outcome_unknown"}
        assert all("frail ended during the call" in answer["content"][0]["text"] for answer in answers)


async def test_calls_under_way_over_http_end_at_once() -> None:
    """Proves: A7, C11. Also those whose own stream is open still, once the connection counts as lost."""
    async with raw_http() as raw, running_app(server_config("web", type="http", url=raw.url, timeout=600)) as harness:

        async def hang(seen: ReceivedRequest, reply: ReplyWriter) -> None:
            await reply.stream()
            await asyncio.Event().wait()

        raw.on["tools/call"] = hang
        call = asyncio.create_task(harness.call("web.echo"))
        await until(lambda: raw.count("tools/call") == 1, "it is under way")
        upstream = harness.upstream("web")
        assert upstream.shared.session is not None
        upstream.shared.lose(upstream.shared.session, "it does not answer")
        assert code_of(await call) == "outcome_unknown"
        await until(lambda: upstream.state == "ready", "it is back")


async def test_the_process_that_was_lost_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: C3, C11. There is one process of a server at a time, whatever became of the one before."""
    monkeypatch.setattr(process, "_SILENCE", 0.01)
    log = tmp_path / "log"
    async with running_app(raw_stdio("frail", log=log)) as harness:
        for _ in range(3):
            await harness.call("frail.close_stdout")
            await harness.check_echo("frail.echo")
            pids = [int(line.split()[1]) for line in lines_of(log) if line.startswith("start")]
            assert [is_alive(pid) for pid in pids] == [*[False] * (len(pids) - 1), True]
