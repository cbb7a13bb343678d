"""Fixtures of the tests of hosts."""

from pathlib import Path

import pytest

from tests.hosts.person import Person


@pytest.fixture
def person(tmp_path: Path) -> Person:
    (tmp_path / "home").mkdir()
    (tmp_path / "folder").mkdir()
    return Person(tmp_path / "home", tmp_path / "folder")
