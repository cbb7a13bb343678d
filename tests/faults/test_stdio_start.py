"""Upstreams over stdio that do not come up as they should."""

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest

from aggregator.app.build import build_app
from aggregator.config.model import Config
from aggregator.upstream.lifecycle import backoff
from tests.peers.processes import is_alive
from tests.polling import until

from .app_harness import BOUND, code_of, lines_of, raw_stdio, running_app, server_config


async def test_one_that_never_answers_is_marked_and_delays_nobody(tmp_path: Path) -> None:
    """C1, C4, D3: the neighbour answers while the mute one is still being waited for."""
    mute = raw_stdio("mute", "mute", log=tmp_path / "log", limits={"connect_timeout": 1})
    async with running_app(mute, raw_stdio("good")) as harness:
        await harness.check_echo("good.echo")
        assert harness.upstream("mute").state == "unavailable"
        assert "did not answer within 1 s" in harness.upstream("mute").reason
        assert not [name for name in harness.tools() if name.startswith("mute")]
        assert code_of(await harness.call("mute.echo")) == "upstream_unavailable"
    pids = [int(line.split()[1]) for line in lines_of(tmp_path / "log")]
    assert pids
    assert not any(map(is_alive, pids))


async def test_the_reason_holds_the_last_words_on_stderr() -> None:
    """D3, A7: exit at start, message on stderr; operators learn it, callers the exit code."""
    for _ in range(8):
        async with running_app(raw_stdio("complains", "complains")) as harness:
            upstream = harness.upstream("complains")
            assert upstream.state == "unavailable"
            assert "exit code 1" in upstream.reason
            assert "the licence of this server has run out" in upstream.reason_for_operator
            result = await harness.call("complains.echo")
            assert "exit code 1" in result["content"][0]["text"]
            assert "the licence of this server" not in f"{result} {upstream.reason} {harness.app.report()}"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"command": "no-such-program-anywhere"}, "was not found"),
        ({"command": "/dev/null"}, "may not be run"),
        ({"command": "/"}, "may not be run"),
        ({"cwd": "/no/such/folder"}, "'/no/such/folder' does not exist"),
        ({"cwd": "/dev/null"}, "'/dev/null' does not exist"),
        ({"command": "a\0b"}, "could not be started"),
    ],
)
async def test_what_cannot_be_started_says_why(fields: dict[str, Any], words: str) -> None:
    """C4, E4, D3: missing or unfit command, missing folder."""
    async with running_app(raw_stdio("broken", **fields), raw_stdio("good")) as harness:
        assert harness.upstream("broken").state == "unavailable"
        assert words in harness.upstream("broken").reason
        await harness.check_echo("good.echo")


@pytest.mark.parametrize("script", ["", "#!/no/such/interpreter\n", "\x7fELF nonsense"])
async def test_a_file_that_is_no_program(tmp_path: Path, script: str) -> None:
    """C4, E4: the system refuses to run it, or runs it as an empty script that ends at once."""
    file = tmp_path / "program"
    file.write_text(script)
    file.chmod(0o755)
    async with running_app(server_config("broken", type="stdio", command=str(file)), raw_stdio("good")) as harness:
        assert harness.upstream("broken").state == "unavailable"
        assert harness.upstream("broken").reason
        await harness.check_echo("good.echo")


async def test_one_that_dies_of_the_probe_is_reached_as_legacy(tmp_path: Path) -> None:
    """C1, C3: the second start leaves `server/discover` out."""
    async with running_app(raw_stdio("old", "dies_on_discover", log=tmp_path / "log")) as harness:
        await harness.check_echo("old.echo")
        assert [line.split()[0] for line in lines_of(tmp_path / "log")] == ["start", "start", "list"]


async def test_one_that_is_silent_on_the_probe_is_reached_as_legacy(tmp_path: Path) -> None:
    """C1, C3: the same process gets `initialize` once the probe was waited for."""
    async with running_app(raw_stdio("old", "silent_on_discover", log=tmp_path / "log")) as harness:
        await harness.check_echo("old.echo")
        assert [line.split()[0] for line in lines_of(tmp_path / "log")] == ["start", "list"]


async def test_an_unknown_version_is_refused_with_its_name() -> None:
    """D3: what it speaks is told."""
    async with running_app(raw_stdio("future", "version=2031-01-01"), raw_stdio("good")) as harness:
        assert harness.upstream("future").state == "unavailable"
        assert "protocolVersion: 2031-01-01" in harness.upstream("future").reason_for_operator
        await harness.check_echo("good.echo")


@pytest.mark.parametrize("mode", ["crashes", "leaves_after_list"])
async def test_a_crash_loop_backs_off(mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """D3: every attempt waits longer than the one before, as far as the cap; the neighbour notices nothing."""
    waits: list[float] = []
    honest = backoff.delay

    def watched(failures: int, chance: float, *, refused: bool = False) -> float:
        waits.append(honest(failures, 0.5, refused=refused))
        return waits[-1]

    monkeypatch.setattr(backoff, "delay", watched)
    log = tmp_path / "log"
    async with running_app(raw_stdio("flapping", mode, log=log, protocol="legacy"), raw_stdio("good")) as harness:
        await until(lambda: len(waits) >= 5, "it was tried five times")
        await harness.check_echo("good.echo")
        started = [line for line in lines_of(log) if line.startswith("start")]
    assert len(started) <= len(waits) + 1
    assert all(later >= earlier for earlier, later in itertools.pairwise(waits[:5]))
    assert waits[0] < waits[1] < waits[2]


async def test_the_product_can_be_stopped_while_a_server_is_starting(tmp_path: Path) -> None:
    """C3: no process is left of one that was still being greeted."""
    log = tmp_path / "log"
    async with asyncio.timeout(BOUND):
        async with running_app(raw_stdio("good")) as harness:
            pass
        app = build_app(Config(servers=(raw_stdio("mute", "mute", log=log),)))
        async with app.running():
            await until(lambda: lines_of(log), "it started")
    assert harness.upstream("good").state == "stopped"
    assert not any(is_alive(int(line.split()[1])) for line in lines_of(log))


async def test_a_secret_in_the_last_words_is_not_told_to_hosts(tmp_path: Path) -> None:
    """D1: servers print the key they were given; operators read the rest, hosts and the health page none."""
    program = "import os, sys; sys.exit('invalid key ' + os.environ['API_KEY'])"
    leak = raw_stdio("leak", args=("-I", "-S", "-c", program), env={"API_KEY": "sk-of-the-operator-4411"})
    async with running_app(leak) as harness:
        told = f"{await harness.call('leak.echo')} {harness.app.report()}"
        assert "invalid key" not in told
        told = harness.upstream("leak").reason_for_operator
        assert "invalid key" in told
        assert "sk-of-the-operator-4411" not in told
