"""Upstreams over stdio that do not want to go."""

import asyncio
from pathlib import Path

import pytest

from aggregator.upstream.process import reaper_pipe
from tests.peers.processes import is_alive
from tests.polling import until

from .app_harness import BOUND, lines_of, raw_stdio, running_app, text_of


def pids(log: Path) -> list[int]:
    return [int(line.split()[1]) for line in lines_of(log) if line.startswith("start")]


async def test_one_that_ignores_its_stdin_and_sigterm_is_killed(tmp_path: Path) -> None:
    """C3: three stubborn ones side by side take no longer than one, and none is left, not even as a zombie."""
    log = tmp_path / "log"
    async with running_app(*(raw_stdio(f"s{number}", "stubborn", log=log) for number in range(3))) as harness:
        await harness.check_echo("s0.echo")
        assert all(map(is_alive, pids(log)))
    assert len(pids(log)) == 3
    assert not any(map(is_alive, pids(log)))


async def test_all_are_told_to_leave_before_any_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """C3: servers that leave only together do so, the connection of one host alone among them."""
    monkeypatch.setattr(reaper_pipe, "END_CLOSE_GRACE", BOUND)
    monkeypatch.setattr(reaper_pipe, "END_WITHIN", BOUND)
    log = tmp_path / "log"
    names = ("a", "b", "c")
    servers = (raw_stdio(name, "leaves_with_others", log=log, isolation="per_agent") for name in names)
    async with running_app(*servers) as harness:
        for name in names:
            await harness.check_echo(f"{name}.echo")
        assert len(pids(log)) == 2 * len(names)
    assert lines_of(log).count("left") == 2 * len(names)
    assert not any(map(is_alive, pids(log)))


async def test_what_it_started_goes_with_it() -> None:
    """C3: a grandchild in the same group is gone after the stop."""
    async with running_app(raw_stdio("parent")) as harness:
        child = int(text_of(await harness.call("parent.breed")))
        assert is_alive(child)
    await until(lambda: not is_alive(child), "the grandchild is gone")


async def test_what_it_started_goes_also_when_it_left_by_itself() -> None:
    """C3: the leader exits in a call, its child holds the pipes: the call ends, the child does too."""
    async with running_app(raw_stdio("parent", timeout=3)) as harness:
        child = int(text_of(await harness.call("parent.breed")))
        result = await harness.call("parent.leave")
        assert result["_meta"]["aggregator/error"]["code"] == "outcome_unknown"
        await until(lambda: not is_alive(child), "the grandchild is gone")
        await until(lambda: harness.upstream("parent").state == "ready", "it is back")
        await harness.check_echo("parent.echo")


async def test_calls_that_run_at_the_end_are_answered(tmp_path: Path) -> None:
    """A7: stopping the product leaves no call without an end."""
    async with running_app(raw_stdio("slow", timeout=60)) as harness:
        calls = [asyncio.create_task(harness.call("slow.hang")) for _ in range(10)]
        await until(lambda: harness.upstream("slow").in_flight == 10, "ten calls run")
    results = await asyncio.gather(*calls)
    assert {result["_meta"]["aggregator/error"]["code"] for result in results} == {"outcome_unknown"}


async def test_a_cancelled_call_leaves_nothing(tmp_path: Path) -> None:
    """A8: a host that goes away in the middle: the server is told, and the next answer finds its own call."""
    async with running_app(raw_stdio("slow")) as harness:
        calls = [asyncio.create_task(harness.call("slow.hang")) for _ in range(10)]
        await until(lambda: harness.upstream("slow").in_flight == 10, "ten calls run")
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        assert harness.upstream("slow").in_flight == 0
        await harness.check_echo("slow.echo")
