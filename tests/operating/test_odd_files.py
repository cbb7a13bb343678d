"""Named pipes, devices, sockets and folders where files of settings are wanted, and looks that take long."""

import asyncio
import json
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from aggregator.app.reload import file_look
from aggregator.app.reload.file_look import FileLook
from aggregator.app.reload.policy_reload import report
from aggregator.config.client_tls import ServerTlsConfig, UnusableTlsFile, client_context
from aggregator.config.errors import ConfigError
from aggregator.config.files.jsonfile import read_bytes
from aggregator.domain.errors import OperatorError
from aggregator.domain.ordinary_files import NotOrdinary, read_ordinary
from aggregator.editing.errors import EditError
from aggregator.editing.replace import read_file
from aggregator.frontends.console.pages.conditions import problems_of
from aggregator.pins.app.locked import LockWatch
from aggregator.policy.files.folder import read_folder
from aggregator.secret_sources.file_text import file_text
from aggregator.secret_sources.reference import SecretUnavailable
from tests.end_to_end.programs import run
from tests.end_to_end.server_harness import raw_stdio_entry, write_config
from tests.polling import until


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        here = os.getcwd()
        # The path of a socket has a short limit.
        os.chdir(path.parent)
        try:
            listener.bind(path.name)
        finally:
            os.chdir(here)


KINDS: dict[str, Callable[[Path], None]] = {"fifo": _fifo, "device": _device, "socket": _socket, "folder": Path.mkdir}


@pytest.fixture(params=KINDS)
def odd(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A path of each kind that is no ordinary file."""
    path = tmp_path / "odd.yaml"
    KINDS[request.param](path)
    return path


def test_every_reader_of_settings_refuses_what_is_no_ordinary_file(odd: Path) -> None:
    """C7: none waits for another process, or reads without end; the file is named."""
    with pytest.raises(NotOrdinary, match="an ordinary file is wanted"):
        read_ordinary(odd)
    with pytest.raises(ConfigError, match=r"odd\.yaml cannot be read: it is a .*Name the file itself"):
        read_bytes(odd)
    with pytest.raises(SecretUnavailable, match="is not an ordinary file"):
        file_text(odd, str(odd))
    with pytest.raises(EditError, match="is not a file"):
        read_file(odd)
    with pytest.raises(UnusableTlsFile, match=r"`tls\.ca`: .*odd\.yaml cannot be read"):
        client_context(ServerTlsConfig(ca=str(odd)))
    locked = LockWatch(odd)
    locked.read()
    assert "an ordinary file is wanted" in str(locked.problem)


def test_a_policy_folder_names_the_file_and_reads_the_others(odd: Path) -> None:
    (odd.parent / "good.yaml").write_text("agents: {}\n")
    sources, problems = read_folder(odd.parent)
    assert [Path(source.file).name for source in sources] == ["good.yaml"]
    (problem,) = problems
    assert (problem.severity, problem.file) == ("error", str(odd))
    assert "Remove it from this folder" in problem.fix


def test_a_file_is_read_whole_or_to_its_limit(tmp_path: Path) -> None:
    path, content = tmp_path / "a", os.urandom(3 * 2**20)
    path.write_bytes(content)
    link = tmp_path / "link"
    link.symlink_to(path)
    assert read_ordinary(link) == content
    assert read_ordinary(path, 2**20 + 1) == content[: 2**20 + 1]
    assert read_ordinary(path, 0) == b""
    with pytest.raises(FileNotFoundError):
        read_ordinary(tmp_path / "none")


async def test_policy_check_names_a_named_pipe_and_ends(tmp_path: Path) -> None:
    """C7: with a good file beside it; a configuration and a secret that are pipes too."""
    config = write_config(tmp_path, {"box": raw_stdio_entry()})
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "good.yaml").write_text("agents:\n  local:\n    allow: ['*']\n")
    os.mkfifo(tmp_path / "policies" / "odd.yaml")
    ended = await run("policy", "check", "--config", str(config))
    assert ended.code == 1
    assert "odd.yaml" in ended.out + ended.err
    assert "named pipe" in ended.out + ended.err
    os.mkfifo(tmp_path / "pipe.json")
    ended = await run("check", "--config", str(tmp_path / "pipe.json"))
    assert ended.code != 0
    assert "named pipe" in ended.err
    config.write_text(json.dumps({"mcpServers": {"box": raw_stdio_entry(env={"K": "${file:pipe.json}"})}}))
    ended = await run("check", "--config", str(config))
    assert "pipe.json is not an ordinary file" in ended.out + ended.err


async def test_a_look_that_takes_long_is_told_until_it_ends(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """D7: a mount that does not answer: one line in the log, and a condition in health, gone once it answers."""
    caplog.set_level("INFO")
    answers = threading.Event()
    look = FileLook("policy files", "/mnt/policies")
    assert await look.take(str.upper, "a") == "A"
    assert look.problem is None
    # After the first look, which a busy machine may let wait for longer.
    monkeypatch.setattr(file_look, "LONG", 0.05)

    def slow(text: str) -> str:
        assert answers.wait(10)
        return text

    looking = asyncio.ensure_future(look.take(slow, "b"))
    try:
        await until(lambda: look.problem is not None)
        assert "/mnt/policies" in str(look.problem)
        (condition,) = problems_of({"policies": report(None, look.problem)}, values=True)
        assert condition == {"area": "policies", "text": look.problem}
        assert (
            problems_of({"config": {"broken": False, "problems": [look.problem]}}, values=True)[0]["area"]
            == "configuration"
        )
    finally:
        answers.set()
    assert await looking == "b"
    assert look.problem is None
    assert [record.levelname for record in caplog.records if record.name == file_look.__name__] == ["WARNING", "INFO"]


async def test_a_look_that_fails_fails_as_its_function_does() -> None:
    def broken() -> None:
        raise OperatorError("no")

    with pytest.raises(OperatorError):
        await FileLook("configuration", "/a").take(broken)
