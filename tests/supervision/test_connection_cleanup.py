"""While what is left of a connection is cleared away: nobody takes it for ready, and nothing of it stays behind."""

import asyncio
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from aggregator.domain.errors import ERROR_META_KEY, UpstreamUnavailable
from aggregator.upstream.process import process
from aggregator.upstream.process.process import run_child
from aggregator.upstream.process.reaper_pipe import Reaper
from aggregator.upstream.sessions.request import UpstreamRequest
from tests.faults.app_harness import BOUND, lines_of, raw_stdio, running_app, server_config
from tests.faults.raw_http import ReceivedRequest, ReplyWriter, raw_http
from tests.peers.processes import is_alive
from tests.polling import until

STUBBORN: Final = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
time.sleep(600)
"""


def pid(log: Path) -> int:
    return int([line for line in lines_of(log) if line.startswith("start")][-1].split()[1])


async def test_a_program_that_does_not_go_is_not_ready_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proves: C11, D3, D7. It has closed its stdout and ignores what ends others: a call is told what is the matter."""
    monkeypatch.setattr(process, "_SILENCE", 0.01)
    log = tmp_path / "log"
    async with running_app(raw_stdio("frail", "stubborn", log=log, limits={"reconnect_wait": 0.01})) as harness:
        before = pid(log)
        await harness.call("frail.close_stdout")
        await until(lambda: harness.upstream("frail").shared.session is None, "it is being ended")
        answer = await harness.call("frail.echo", say="x")
        assert is_alive(before), "it is still being ended"
        assert answer["_meta"][ERROR_META_KEY]["state"] == "reconnecting"
        assert "frail is reconnecting: it closed its stdout" in answer["content"][0]["text"]
        harness.app.hurry.set()


async def test_what_is_taken_out_is_not_ready_while_it_ends(tmp_path: Path) -> None:
    """Proves: D11, D7. A call that comes then is answered at once, however long the program takes to go."""
    log = tmp_path / "log"
    async with running_app(raw_stdio("frail", "stubborn", log=log, limits={"reconnect_wait": 600})) as harness:
        upstream = harness.upstream("frail")
        stopping = asyncio.create_task(harness.app.supervisor.stop())
        await until(lambda: upstream.shared.session is None, "it is being ended")
        with pytest.raises(UpstreamUnavailable) as caught:
            async with asyncio.timeout(BOUND):
                await upstream.call(UpstreamRequest("tools/call", {"name": "echo"}, 600))
        assert is_alive(pid(log)), "it is still being ended"
        assert caught.value.details["state"] == "stopped"
        harness.app.hurry.set()
        await stopping
    assert not is_alive(pid(log))


async def test_no_number_of_cancellations_leaves_a_program_behind() -> None:
    """Proves: C3, D11. At the end of the program several who own a server end it, one after the other."""
    reaper, up = Reaper(), asyncio.Event()
    child_pid: list[int] = []

    async def live() -> None:
        async with run_child("x", sys.executable, ("-c", STUBBORN), {}, None, lambda _: up.set(), reaper) as child:
            child_pid.append(child.pid)
            await asyncio.Event().wait()

    owner = asyncio.create_task(live())
    async with asyncio.timeout(BOUND):
        await up.wait()
        for _ in range(4):
            owner.cancel()
            for _ in range(5):
                await asyncio.sleep(0)
        assert not owner.done()
        assert is_alive(child_pid[0])
        reaper.hurry.set()
        await asyncio.wait([owner])
    assert owner.cancelled()
    assert not is_alive(child_pid[0])
    await reaper.close()


async def test_a_session_that_was_lost_does_not_come_back() -> None:
    """Proves: A7, C11. The connection is given up while a call has its session renewed: it is made on the next one."""
    async with raw_http() as raw, running_app(server_config("web", type="http", url=raw.url)) as harness:
        upstream = harness.upstream("web")
        raw.sessions.clear()

        async def renewing(seen: ReceivedRequest, reply: ReplyWriter) -> None:
            del raw.on["initialize"]
            assert upstream.shared.session is not None
            upstream.shared.lose(upstream.shared.session, "it no longer knows our session")
            await raw.ordinary(seen, reply)

        raw.on["initialize"] = renewing
        await harness.check_echo("web.echo", "once")
        assert upstream.state == "ready"
        assert upstream.reconnects == 1


async def test_a_start_that_is_given_up_leaves_no_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: C4, D11. Whoever wanted it is cancelled in the very turn in which it has come up."""
    loop, reaper = asyncio.get_running_loop(), Reaper()
    mark = await reaper.mark()
    spawn, pids = loop.subprocess_exec, []

    async def given_up(*args: Any, **options: Any) -> Any:
        made = await spawn(*args, **options)
        pids.append(made[0].get_pid())
        starting.cancel()
        return made

    async def start() -> None:
        async with run_child("s", sys.executable, ("-c", "input()"), mark, None, None, reaper, 0.01):
            await asyncio.sleep(BOUND)

    monkeypatch.setattr(loop, "subprocess_exec", given_up)
    starting = asyncio.create_task(start())
    await asyncio.wait([starting], timeout=BOUND)
    assert starting.cancelled()
    assert [is_alive(one) for one in pids] == [False]
    await reaper.close()


async def test_a_reaper_that_cannot_be_started_costs_a_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A limit of processes, or our own Python that may not be run: no traceback, and no program without its end."""
    monkeypatch.setattr("sys.executable", str(tmp_path / "none"))
    reaper = Reaper()
    with pytest.raises(UpstreamUnavailable, match="x: what ends 'python' with the aggregator could not be started"):
        async with run_child("x", "python", (), {}, None, None, reaper):
            raise AssertionError("nothing was started")
    await reaper.close()
