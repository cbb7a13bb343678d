"""An empty home, and the commands in it."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from aggregator.cli.commands import app
from aggregator.config.files.find import own_file
from tests import with_folders_of_windows
from tests.end_to_end.server_harness import ROOT

# Runs a command in this process: its exit code and what it printed.
Run = Callable[..., tuple[int, str]]
# Runs a command at a terminal of its own, with what is typed there.
AtTerminal = Callable[..., tuple[int, str]]
_SECONDS = 60


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home folder, which is the working folder too."""
    folders = {"XDG_CONFIG_HOME": tmp_path / ".config", "XDG_DATA_HOME": tmp_path / ".local" / "share"}
    named = with_folders_of_windows({name: str(folder) for name, folder in folders.items()})
    for name, folder in {**named, "HOME": str(tmp_path)}.items():
        monkeypatch.setenv(name, folder)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path


@pytest.fixture
def config(home: Path) -> Path:
    """The path of the user's own configuration, which is not there yet."""
    path = own_file(os.environ)
    path.parent.mkdir(parents=True)
    return path


@pytest.fixture
def run(home: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    def command(*words: str) -> tuple[int, str]:
        capsys.readouterr()
        code = app(list(words), standalone_mode=False)
        return code or 0, capsys.readouterr().out

    return command


@pytest.fixture
def at_terminal(home: Path) -> AtTerminal:
    pty = pytest.importorskip("pty", reason="there are no terminals of this kind on Windows")

    def command(
        *words: str, typed: str = "", program: tuple[str, ...] = (sys.executable, "-m", "aggregator")
    ) -> tuple[int, str]:
        ours, theirs = pty.openpty()
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "120", "LINES": "40"}
        process = subprocess.Popen(
            [*program, *words], stdin=theirs, stdout=theirs, stderr=theirs, env=environment, close_fds=True
        )
        os.close(theirs)
        # One that waits for an answer ends all the same.
        patience = threading.Timer(_SECONDS, process.kill)
        patience.start()
        try:
            os.write(ours, typed.encode())
            shown = b"".join(iter(lambda: _read(ours), b""))
            return process.wait(_SECONDS), shown.decode().replace("\r\n", "\n")
        finally:
            patience.cancel()
            if process.poll() is None:
                process.kill()
                process.wait()
            os.close(ours)

    return command


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other end is closed
        return b""
