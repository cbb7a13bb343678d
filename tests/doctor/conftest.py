"""Fixtures of the tests of the doctor."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.doctor.place import Place


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    """A machine with nothing on it."""
    async with AsyncExitStack() as stack:
        yield Place(tmp_path, stack)
