"""`aggregator add` at a terminal: what is asked, that secrets are not shown, and that a no changes nothing."""

import json
import os
import pty
import select
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.adding.bundles import bundle
from tests.end_to_end.programs import environment
from tests.peers.serving import BOUND

CANARY = "sk-canary-8f3a9c1d2e7b"


class Terminal:
    """A program with a terminal of its own; `said` is all that it has printed."""

    def __init__(self, folder: Path, *args: str) -> None:
        self.said = ""
        self._seen = 0
        home = str(folder / "home")
        env = environment(HOME=home, XDG_CONFIG_HOME=home, XDG_DATA_HOME=home, TERM="dumb", COLUMNS="200")
        command = [sys.executable, "-m", "aggregator", "add", "--config", str(folder / "aggregator.json"), *args]
        ours, theirs = pty.openpty()
        self._fd = ours
        try:
            self._process = subprocess.Popen(
                command, cwd=folder, env=env, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
            )
        finally:
            os.close(theirs)

    def until(self, words: str) -> None:
        """Read until these words come, after those that were waited for before."""
        while (at := self.said.find(words, self._seen)) < 0:
            assert self._read(), f"{words!r} never came: {self.said}"
        self._seen = at + len(words)

    def type(self, text: str) -> None:
        os.write(self._fd, f"{text}\n".encode())

    def end(self) -> int:
        """Read to the end and return the exit code."""
        while self._read():
            pass
        return self._process.wait(BOUND)

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(BOUND)
        os.close(self._fd)

    def _read(self) -> bool:
        """Read more; return False at the end. Fails where nothing comes in time."""
        ready, _, _ = select.select([self._fd], [], [], BOUND)
        assert ready, f"nothing more came: {self.said}"
        try:
            piece = os.read(self._fd, 65_536)
        except OSError:
            return False
        self.said += piece.decode("utf-8", "replace")
        return bool(piece)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Terminal]]:
    with ExitStack() as stack:
        yield lambda *args: stack.enter_context(closing(Terminal(tmp_path, *args)))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    user_config = {
        "folders": {"type": "directory", "title": "Folders", "multiple": True, "required": True},
        "word": {"type": "number", "title": "Word", "required": True, "max": 9},
        "key": {"type": "string", "title": "Key", "sensitive": True, "required": True},
    }
    made = tmp_path / "say.mcpb"
    made.write_bytes(bundle(user_config=user_config))
    return made


def test_values_are_asked_and_the_entry_confirmed(tmp_path: Path, file: Path, start: Callable[..., Terminal]) -> None:
    terminal = start("--from", str(file))
    terminal.until("It needs Folders")
    terminal.until("Enter for ${FOLDERS}")
    terminal.type("/a")
    terminal.until("Another, or Enter to go on")
    terminal.type("")
    terminal.until("It needs Word")
    terminal.type("many")
    terminal.until("That does not fit: it is a number.")
    terminal.type("10")
    terminal.until("That does not fit: it is at most 9.")
    terminal.type("7")
    terminal.until("It needs Key")
    terminal.until("Enter for ${KEY}")
    terminal.type(CANARY)
    terminal.until("write the entry? [y/N]")
    terminal.type("y")
    assert terminal.end() == 0, terminal.said
    assert "say-it connected" in terminal.said
    assert CANARY not in terminal.said
    entry = json.loads((tmp_path / "aggregator.json").read_text())["mcpServers"]["say-it"]
    assert entry["args"][1:] == ["/a", "--word=7"]
    assert entry["env"] == {"BUNDLE_WORD": CANARY}


def test_a_no_changes_nothing(tmp_path: Path, file: Path, start: Callable[..., Terminal]) -> None:
    terminal = start("--from", str(file), "--set", "folders=/a", "--set", "word=1", "--set", "key=${K}")
    terminal.until("write the entry? [y/N]")
    terminal.type("")
    assert terminal.end() == 1
    assert "Nothing was started and nothing was written." in terminal.said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["say.mcpb"]
