"""A keyring in a file, and a configuration, for each test."""

from pathlib import Path

import pytest

from tests.operating.program_harness import ProgramHarness
from tests.peers import file_keyring


@pytest.fixture
def keyring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a keyring that this process and those it starts use."""
    file = tmp_path / "keyring.json"
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "tests.peers.file_keyring.FileKeyring")
    monkeypatch.setenv("TEST_KEYRING", str(file))
    monkeypatch.setenv("PYTHONPATH", str(Path(file_keyring.__file__).parents[2]))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "own"))
    return file


@pytest.fixture
def harness(tmp_path: Path) -> ProgramHarness:
    return ProgramHarness(tmp_path)
