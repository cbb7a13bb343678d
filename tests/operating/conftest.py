"""A place of its own for each test."""

from pathlib import Path

import pytest

from tests.operating.program_harness import ProgramHarness


@pytest.fixture
def harness(tmp_path: Path) -> ProgramHarness:
    return ProgramHarness(tmp_path)
