"""Holds what is said where no Chromium is: nothing is left out in silence."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.console.browser.chromium import NAMES, NOT_RUN, ChromiumMissing, find_chromium
from tests.end_to_end.server_harness import ROOT


def program(folder: Path, name: str) -> Path:
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_the_first_on_path_is_taken_unless_one_is_named(tmp_path: Path) -> None:
    chrome, other = program(tmp_path, NAMES[-1]), program(tmp_path, "other")
    assert find_chromium({"PATH": str(tmp_path)}) == chrome
    assert find_chromium({"PATH": str(tmp_path), "CHROMIUM": str(other)}) == other
    assert find_chromium({"PATH": str(tmp_path / "nothing")}) is None
    with pytest.raises(ChromiumMissing, match="no program"):
        find_chromium({"PATH": str(tmp_path), "CHROMIUM": str(tmp_path / "missing")})


def test_a_missing_browser_is_told_once_and_loudly(tmp_path: Path) -> None:
    """A run of the tests without a browser ends well, and says what it did not do."""
    environ = {key: value for key, value in os.environ.items() if key != "CHROMIUM" and "PYTEST" not in key}
    test = "tests/console/browser/test_tasks.py::test_sign_in_by_link"
    # Only the plugins that the settings of the project name: the others take longer to load than all of this.
    environ |= {"PATH": str(tmp_path), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    plugins = ["-p", "pytest_asyncio.plugin", "-p", "pytest_timeout", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *plugins, "-r", "N", test]
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count(NOT_RUN) == 1
    assert "NOT RUN =" in done.stdout
