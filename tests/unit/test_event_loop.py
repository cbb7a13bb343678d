"""The event loop of a command: the faster one if it is installed, and Python's own otherwise."""

import asyncio
import sys

import pytest

from aggregator.cli.runtime.event_loop import run_loop


async def loop_of_a_command() -> str:
    await asyncio.sleep(0)
    return type(asyncio.get_running_loop()).__module__


@pytest.mark.parametrize("installed", [True, False])
def test_a_command_runs_to_its_end(monkeypatch: pytest.MonkeyPatch, installed: bool) -> None:
    if installed:
        pytest.importorskip("uvloop")
    else:
        monkeypatch.setitem(sys.modules, "uvloop", None)
    assert run_loop(loop_of_a_command()).startswith("uvloop" if installed else "asyncio.")
