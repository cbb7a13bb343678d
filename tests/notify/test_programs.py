"""Programs that are run for a notice: what they get, and how they end."""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from aggregator.notify.app import NoticePrograms
from aggregator.notify.config import ReceiverConfig
from aggregator.notify.send.delivery import DeliveryAnswer
from aggregator.notify.send.formats import message
from aggregator.upstream.process import process
from aggregator.upstream.process.reaper_pipe import Reaper
from tests.end_to_end.programs import until_ended
from tests.notify.hook_server import build
from tests.polling import until


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "TERM_GRACE", 0.2)


def program(source: str, *args: str, **fields: object) -> ReceiverConfig:
    given = {"name": "me", "command": sys.executable, "args": ["-c", source, *args], **fields}
    return ReceiverConfig.model_validate(given)


async def run(config: ReceiverConfig) -> DeliveryAnswer:
    """Run it for one notice."""
    reaper = Reaper()
    try:
        return await NoticePrograms(reaper)(config, message(build().writer.trial("me"), "json") + b"\n")
    finally:
        await reaper.close()


async def test_it_reads_json_and_sees_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """E5, C7: no shell, a line on stdin, and of our environment what every server gets."""
    monkeypatch.setenv("CANARY_TOKEN", "canary")
    kept = tmp_path / "kept.json"
    source = (
        "import json, os, sys\njson.dump([sys.stdin.read(), sys.argv[2:], dict(os.environ)], open(sys.argv[1], 'w'))"
    )
    answer = await run(program(source, str(kept), "$(id)", "; exit 3", env={"MINE": "yes"}))
    assert answer == DeliveryAnswer(True, "exit code 0")
    given, args, environ = json.loads(kept.read_text())
    assert json.loads(given)["type"] == "notice.trial"
    assert given.endswith("\n")
    assert args == ["$(id)", "; exit 3"]
    assert environ["MINE"] == "yes"
    assert "CANARY_TOKEN" not in environ


async def test_a_failure_may_be_tried_again_and_a_missing_program_not() -> None:
    assert await run(program("import sys; sys.exit(3)")) == DeliveryAnswer(False, "exit code 3", again=True)
    # It reads nothing, and is gone before it could.
    assert await run(program("import os; os.close(0)")) == DeliveryAnswer(True, "exit code 0")
    missing = await run(ReceiverConfig(name="me", command="no-such-program"))
    assert (missing.accepted, missing.again) == (False, False)
    assert "'no-such-program' was not found" in missing.said


async def test_its_whole_group_ends_with_its_time(tmp_path: Path) -> None:
    """A program that ignores SIGTERM, and what it started, are killed."""
    pids = tmp_path / "pids"
    source = (
        "import os, signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "open(sys.argv[1] + '.new', 'w').write(f'{os.getpid()} {child.pid}')\n"
        "os.rename(sys.argv[1] + '.new', sys.argv[1])\n"
        "time.sleep(600)"
    )
    answer = await run(program(source, str(pids), timeout="2s"))
    assert answer == DeliveryAnswer(False, "it took more than 2 s and was ended", again=True)
    await until_ended(*map(int, pids.read_text().split()))


async def test_it_ends_with_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of the aggregator does not wait for a program that hangs, and leaves none behind."""
    monkeypatch.setattr("aggregator.notify.send.notifier.LAST_MOMENT", 0.05)
    pid = tmp_path / "pid"
    source = (
        "import os, sys, time\n"
        "open(sys.argv[1] + '.new', 'w').write(str(os.getpid()))\n"
        "os.rename(sys.argv[1] + '.new', sys.argv[1])\n"
        "time.sleep(600)"
    )
    reaper = Reaper()
    notifier = build(program(source, str(pid), events=["tools.changed"]), reaper=reaper)
    try:
        async with asyncio.timeout(20), notifier.running(asyncio.Event()):
            notifier.announce("tools.changed", None, "crm", lambda: notifier.writer.tools_changed("crm", ["a"], [], []))
            await until(lambda: os.path.exists(pid))
    finally:
        await reaper.close()
    await until_ended(int(pid.read_text()))
