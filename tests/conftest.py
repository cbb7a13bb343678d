"""Fixtures of every test: the loggers restored afterwards, no helper process left, and empty folders for data and
configuration. At the end of a run without a browser, what was not tried is told.
"""

import logging
from collections.abc import Iterator
from typing import Final

import pytest
from hypothesis import settings

from tests.console.browser.chromium import NOT_RUN
from tests.peers.processes import child_commands

# How long an example takes depends on what else the machine does; a test that hangs has the time limit of pytest.
settings.register_profile("aggregator", deadline=None)
settings.load_profile("aggregator")

_HELPERS: Final = ("schemas.workers", "process/reaper.py")


@pytest.fixture(autouse=True)
def _log_as_it_was() -> Iterator[None]:
    loggers = [logging.getLogger(), *(logging.getLogger(name) for name in ("aggregator", "uvicorn.error", "mcp"))]
    before = [(logger, logger.level, logger.handlers[:]) for logger in loggers]
    yield
    for logger, level, handlers in before:
        logger.setLevel(level)
        logger.handlers[:] = handlers


@pytest.fixture(autouse=True)
def _no_helper_process_left() -> Iterator[None]:
    """Fail the test that leaves a worker or a reaper: the garbage collector would report it in a later test."""
    before = child_commands()
    yield
    left = [
        command
        for pid, command in child_commands().items()
        if pid not in before and any(helper in command for helper in _HELPERS)
    ]
    assert not left, f"{left} still run: close the harness, the `CheckWorkers` or the `Reaper` in its event loop"


@pytest.fixture(autouse=True, scope="session")
def _data_of_nobody(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Give the programs that tests start an empty data folder, and no configuration of the user."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        yield


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say loudly that the tests in a browser did not run: a line among other skipped tests would be missed."""
    if any(NOT_RUN in str(report.longrepr) for report in terminalreporter.stats.get("skipped", ())):
        terminalreporter.write_sep("=", "NOT RUN", red=True, bold=True)
        terminalreporter.write_line(NOT_RUN, red=True)
