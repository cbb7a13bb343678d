"""Fixtures of every test: the loggers restored afterwards, no worker process left, and empty folders for data and
configuration.
"""

import logging
from collections.abc import Iterator

import pytest

from tests.peers.processes import child_commands


@pytest.fixture(autouse=True)
def _log_as_it_was() -> Iterator[None]:
    loggers = [logging.getLogger(), *(logging.getLogger(name) for name in ("aggregator", "uvicorn.error", "mcp"))]
    before = [(logger, logger.level, logger.handlers[:]) for logger in loggers]
    yield
    for logger, level, handlers in before:
        logger.setLevel(level)
        logger.handlers[:] = handlers


@pytest.fixture(autouse=True)
def _no_worker_process_left() -> Iterator[None]:
    """Fail the test that leaves a worker process: the garbage collector would report it in a later test."""
    before = child_commands()
    yield
    left = [pid for pid, command in child_commands().items() if "schemas.workers" in command and pid not in before]
    assert not left, f"worker processes {left} still run: close the harness, or the `CheckWorkers`, in its event loop"


@pytest.fixture(autouse=True, scope="session")
def _data_of_nobody(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Give the programs that tests start an empty data folder, and no configuration of the user."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        yield
