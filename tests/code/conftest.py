"""A gateway whose agents may run programs."""

from collections.abc import AsyncIterator

import pytest

from aggregator.code.sandbox.sandbox import Sandbox
from tests.meta.conftest import open_harness

__all__ = ["open_harness"]


@pytest.fixture
async def sandbox() -> AsyncIterator[Sandbox]:
    """The processes of programs."""
    async with Sandbox() as opened:
        yield opened
