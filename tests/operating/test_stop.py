"""`aggregator stop`: ends the process that serves a configuration as SIGTERM does, and no other process ever."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from aggregator.cli.commands import app
from aggregator.cli.runtime.running import _announce, announced, find_running, running_folder
from aggregator.domain.errors import OperatorError
from tests.end_to_end.programs import run
from tests.end_to_end.scripted_host import MODERN, over_http
from tests.operating.program_harness import ProgramHarness, server
from tests.polling import until

_NONE: Final = 69


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the files of what runs, of this test alone."""
    for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "LOCALAPPDATA", "APPDATA"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    return running_folder(os.environ)


@pytest.fixture
def stop(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Run the command in this process; return its exit code and what it printed."""

    def act(*args: str) -> tuple[int, str]:
        code = app(["stop", *args], standalone_mode=False) or 0
        return code, capsys.readouterr().out

    return act


async def test_it_drains_and_says_so(harness: ProgramHarness, folder: Path) -> None:
    """A call under way is answered; what comes is refused; nothing is left, and a second stop finds none."""
    harness.write_config({"box": server()}, shutdown_timeout="20s")
    named = ("stop", "--config", str(harness.config))
    async with harness.serving() as served, over_http(served.url, MODERN) as host:
        held = harness.wait(host, "box.wait", "one")
        await held.wait_begun()
        stop = asyncio.create_task(run(*named))
        await harness.wait_for_log("`aggregator stop` asks this process to end")
        await until(lambda: _stopping(harness), "it is stopping")
        late = await run(*named, "--timeout", "100ms")
        assert (late.code, "still runs after 100ms" in late.out) == (1, True), late
        held.release()
        assert not (await held.call.result()).get("isError")
        ended = await stop
        assert (ended.code, f"process {served.process.pid} at {served.url} has ended." in ended.out) == (0, True), ended
        assert await harness.ended() == 0
    assert os.listdir(folder) == []
    assert (await run(*named)).code == _NONE


async def _stopping(harness: ProgramHarness) -> bool:
    return (await harness.ready()).get("stopping") is True


async def test_a_killed_process_leaves_nothing_that_counts(harness: ProgramHarness, folder: Path) -> None:
    harness.write_config({})
    async with harness.serving() as served:
        served.process.kill()
        await served.process.wait()
        assert len(os.listdir(folder)) == 2
        found = await run("stop", "--config", str(harness.config))
        assert (found.code, os.listdir(folder)) == (_NONE, []), found


@pytest.fixture
def no_folder(folder: Path) -> None:
    """A file in the place of the folder."""
    folder.parent.mkdir(parents=True)
    folder.write_text("no folder")


@pytest.mark.usefixtures("no_folder")
async def test_it_serves_where_no_file_can_be_made(harness: ProgramHarness) -> None:
    """The log says that `stop` will not find it."""
    harness.write_config({})
    async with harness.serving():
        await harness.wait_for_log("`aggregator stop` will not find this process")


def test_an_id_that_was_given_out_again(tmp_path: Path, folder: Path, stop: Callable[..., tuple[int, str]]) -> None:
    """A file without a lock is of a process that was killed, whoever has its id now."""
    folder.mkdir(parents=True)
    config = tmp_path / "a.json"
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        facts = {"pid": other.pid, "config": str(config), "address": "http://127.0.0.1:1"}
        (folder / "0011223344556677.json").write_text(json.dumps(facts))
        (folder / "0011223344556677.lock").touch()
        for args in (("--config", str(config)), ("--pid", str(other.pid)), ("--all",)):
            assert stop(*args)[0] == _NONE
        assert other.poll() is None
        assert other.stdin is not None
        other.stdin.write(b"\n")
    assert list(folder.iterdir()) == []


def test_one_that_is_killed_while_it_ends_is_told(
    tmp_path: Path, folder: Path, stop: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its calls were lost: the code says so to what runs the command."""
    config = tmp_path / "a.json"
    _, lock = _announce(folder, config, "http://127.0.0.1:1")
    # It ends without a word between two looks, and leaves its file.
    monkeypatch.setattr("aggregator.cli.stop.time.sleep", lambda _: os.close(lock))
    code, said = stop("--config", str(config))
    assert (code, "was killed before it had ended by itself" in said) == (1, True)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"pid": "x", "config": 1, "address": 2}', "[" * 10_000])
def test_a_file_that_is_none_of_ours(folder: Path, stop: Callable[..., tuple[int, str]], content: str) -> None:
    folder.mkdir(parents=True)
    (folder / "broken.json").write_text(content)
    (folder / "other").touch()
    assert stop("--all")[0] == _NONE
    assert [path.name for path in folder.iterdir()] == ["other"]


@pytest.mark.parametrize("broken", ["", "{", "[]", '{"pid": 1}', "a folder", "a pipe"])
def test_a_file_of_a_running_process_that_cannot_be_read(
    tmp_path: Path, folder: Path, stop: Callable[..., tuple[int, str]], broken: str
) -> None:
    """It runs as long as its lock is held: nothing of it is removed, it is named by its file, and `--all` ends it."""
    with announced(os.environ, tmp_path / "a.json", "") as asked:
        (facts,) = folder.glob("*.json")
        facts.unlink()
        if broken == "a folder":
            facts.mkdir()
        elif broken == "a pipe":
            os.mkfifo(facts)
        else:
            facts.write_text(broken)
        code, said = stop("--config", str(tmp_path / "a.json"))
        assert (code, str(facts) in said, "--all" in said) == (_NONE, True, True)
        assert stop("--pid", str(os.getpid()))[0] == _NONE
        assert facts.with_suffix(".lock").exists()
        assert not asked()
        code, said = stop("--all", "--timeout", "10ms")
        assert (code, asked(), "still runs" in said) == (1, True, True)
        assert facts.exists()
        if facts.is_dir():
            facts.rmdir()


def test_of_several_one_has_to_be_named(tmp_path: Path, stop: Callable[..., tuple[int, str]]) -> None:
    """Two that serve one configuration, and one that serves another: each is asked only if it is meant."""
    one, other = tmp_path / "one.json", tmp_path / "other.json"
    with ExitStack() as running:
        asked = [
            running.enter_context(announced(os.environ, config, f"http://127.0.0.1:{port}"))
            for port, config in enumerate((one, one, other), 1)
        ]
        with pytest.raises(OperatorError, match=r"2 processes serve this .*127\.0\.0\.1:1, .*127\.0\.0\.1:2.*--pid"):
            stop("--config", str(one))
        code, said = stop("--config", str(tmp_path / "none.json"))
        assert (code, said.count("Another one runs")) == (_NONE, 3)
        assert [wish() for wish in asked] == [False, False, False]
        assert stop("--config", str(other), "--timeout", "10ms")[0] == 1
        assert [wish() for wish in asked] == [False, False, True]
        assert stop("--all", "--timeout", "10ms")[0] == 1
        assert [wish() for wish in asked] == [True, True, True]
    assert find_running(running_folder(os.environ)) == []


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--all", "--pid", "1"), "leave --pid and --config out"),
        (("--all", "--config", "a.json"), "leave --pid and --config out"),
        (("--timeout", "soon"), "--timeout: expected"),
    ],
)
def test_options_that_cannot_be_used(stop: Callable[..., tuple[int, str]], args: tuple[str, ...], said: str) -> None:
    with pytest.raises(OperatorError, match=said):
        stop(*args)


def test_only_this_user_can_ask(tmp_path: Path, folder: Path) -> None:
    """The folder takes no file of another user; a user without a home folder has no processes."""
    with announced(os.environ, tmp_path / "a.json", "") as asked:
        assert folder.stat().st_mode & 0o077 == 0
        assert not asked()
    with announced({"HOME": "relative"}, None, "") as asked:
        assert not asked()
