"""Commands whose standard streams are closed, as under a scheduler or `<&-` in a shell."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.end_to_end.programs import environment
from tests.end_to_end.scripted_host import BOUND


def closed(tmp_path: Path, streams: str, *args: str) -> subprocess.CompletedProcess[str]:
    """The command in a shell that closes streams."""
    homes = {name: str(tmp_path / "home") for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")}
    return subprocess.run(
        ["/bin/sh", "-c", f'exec "$@" {streams}', "sh", sys.executable, "-m", "aggregator", *args],
        cwd=tmp_path,
        env=environment(**homes),
        capture_output=True,
        text=True,
        timeout=BOUND,
    )


@pytest.mark.skipif(os.name == "nt", reason="closes streams with a shell")
@pytest.mark.parametrize("streams", ["<&-", "<&- >&-", "<&- 2>&-", "<&- >&- 2>&-"])
def test_a_command_does_its_work_all_the_same(tmp_path: Path, streams: str) -> None:
    """F8: No stream is taken for a terminal, and no file that is opened takes its place."""
    ended = closed(tmp_path, streams, "add", "box", "--config", "a.json", "--no-connect", "--", "echo", "hi")
    assert "Traceback" not in ended.stdout + ended.stderr
    assert ended.returncode == 0, ended
    assert json.loads((tmp_path / "a.json").read_text()) == {"mcpServers": {"box": {"command": "echo", "args": ["hi"]}}}


@pytest.mark.skipif(os.name == "nt", reason="closes streams with a shell")
@pytest.mark.parametrize("command", ["init", "import --write", "install cursor", "", "stdio", "secrets set x"])
def test_a_question_without_stdin_is_one_sentence(tmp_path: Path, command: str) -> None:
    ended = closed(tmp_path, "<&-", *command.split())
    assert "Traceback" not in ended.stdout + ended.stderr
    assert ended.returncode in (0, 1, 2), ended
    assert ended.stdout + ended.stderr
