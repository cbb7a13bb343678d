"""What every test is given: a log as it was before the test, also after one that ran a command in this process."""

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _log_as_it_was() -> Iterator[None]:
    loggers = [logging.getLogger(), *(logging.getLogger(name) for name in ("aggregator", "uvicorn.error", "mcp"))]
    before = [(logger, logger.level, logger.handlers[:]) for logger in loggers]
    yield
    for logger, level, handlers in before:
        logger.setLevel(level)
        logger.handlers[:] = handlers
