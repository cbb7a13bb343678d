"""Programs that are asked for a secret, and behave badly."""

import os
import shlex
import sys
import threading
import time
from pathlib import Path

import pytest

from aggregator.secret_sources.program_run import MOST, ProgramFailed, ProgramRun
from tests.peers.processes import is_alive

# Longer than any of these programs needs, and than a machine under load takes to start Python.
PLENTY = 60.0
# Enough to start Python on a busy machine.
SHORT = 5.0


def python(script: str) -> list[str]:
    return [sys.executable, "-I", "-S", "-c", script]


def output(script: str, limit: float = PLENTY, run: ProgramRun | None = None) -> bytes:
    return (run or ProgramRun()).output(python(script), os.environ, limit)


def pid_in(file: Path) -> int:
    return int(file.read_text())


def test_what_it_prints_is_returned_as_it_is() -> None:
    assert output("print('a\\r\\nb', end='\\r\\n')") == b"a\r\nb\r\n"
    assert output("import sys; sys.stdout.write('x' * 65536)") == b"x" * MOST
    assert output("import sys; print(repr(sys.stdin.read()))") == b"''\n"


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("import sys; sys.exit('hunter2')", "ended with exit code 1"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "was ended by signal 9"),
        ("import sys; sys.stdout.write('x' * 65537)", "printed more than 64 KiB"),
        ("import sys\nwhile True: sys.stdout.write('hunter2' * 9999)", "printed more than 64 KiB"),
    ],
)
def test_why_there_is_no_output(script: str, said: str) -> None:
    """What it printed is in no message."""
    with pytest.raises(ProgramFailed) as caught:
        output(script)
    assert str(caught.value) == said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["/nonexistent/program"], "was not found"),
        (["/"], "may not be run"),
        ([__file__], "may not be run"),
        (["a\0b"], "could not be started"),
    ],
)
def test_what_cannot_be_run(words: list[str], said: str) -> None:
    with pytest.raises(ProgramFailed, match=said):
        ProgramRun().output(words, os.environ, PLENTY)


def test_a_program_that_ignores_signals_and_forks_is_killed_with_its_group(tmp_path: Path) -> None:
    """The time that it takes is bounded, and what it started is gone."""
    own, child = tmp_path / "own", tmp_path / "child"
    script = f"""
import os, pathlib, signal, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
if os.fork() == 0:
    pathlib.Path({str(child)!r}).write_text(str(os.getpid()))
else:
    pathlib.Path({str(own)!r}).write_text(str(os.getpid()))
time.sleep(600)
"""
    with pytest.raises(ProgramFailed, match="took longer than 5 s"):
        output(script, SHORT)
    assert not is_alive(pid_in(own))
    until_gone(pid_in(child))


def until_gone(pid: int) -> None:
    deadline = time.monotonic() + PLENTY
    while is_alive(pid):
        assert time.monotonic() < deadline, "it is still there"
        threading.Event().wait(0.01)


def test_what_it_left_behind_holds_up_nothing(tmp_path: Path) -> None:
    """A process that holds the pipe is not waited for; one of its group is ended, one in a session of its own is not:
    such as the agent of a password manager."""
    in_group, away = tmp_path / "group", tmp_path / "away"
    quoted = shlex.quote(sys.executable)
    script = f"""
import os, pathlib, subprocess, sys
for file, own in (({str(in_group)!r}, False), ({str(away)!r}, True)):
    left = subprocess.Popen([{quoted!r}, "-c", "import time; time.sleep(600)"], start_new_session=own)
    pathlib.Path(file).write_text(str(left.pid))
print("value", flush=True)
os._exit(0)
"""
    try:
        assert output(script) == b"value\n"
        until_gone(pid_in(in_group))
        assert is_alive(pid_in(away))
    finally:
        os.kill(pid_in(away), 9)


def test_a_run_that_is_given_up_ends_its_program(tmp_path: Path) -> None:
    file, run = tmp_path / "pid", ProgramRun()
    failed: list[str] = []

    def ask() -> None:
        try:
            output(
                f"import os, pathlib, time; pathlib.Path({str(file)!r}).write_text(str(os.getpid())); time.sleep(600)",
                run=run,
            )
        except ProgramFailed as error:
            failed.append(str(error))

    thread = threading.Thread(target=ask)
    thread.start()
    while not (file.exists() and file.read_text()):
        threading.Event().wait(0.01)
    run.cancel()
    thread.join(PLENTY)
    assert failed
    until_gone(pid_in(file))
    with pytest.raises(ProgramFailed, match="was not started"):
        output("print(1)", run=run)
