"""The journey that workflows take on other systems, and the workflows themselves."""

import re
import sys
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.packaging.stdio_session import main
from tests.packaging.test_wheel import ROOT

_WORKFLOWS: Final = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.slow
def test_the_journey_is_taken_here_too(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--", sys.executable, "-m", "aggregator"]) == 0
    assert "were listed and called" in capfd.readouterr().out


def test_a_program_that_answers_otherwise_ends_it(tmp_path: Path) -> None:
    other = tmp_path / "other.py"
    other.write_text('print(\'{"id": 1, "result": {"serverInfo": {"name": "other"}}}\', flush=True)\ninput()\n')
    with pytest.raises(AssertionError, match="other"):
        main([sys.executable, str(other)])


@pytest.mark.parametrize("path", _WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_is_started_by_hand_alone_and_says_that_it_never_ran(path: Path) -> None:
    """And what it runs is there."""
    text = path.read_text(encoding="utf-8")
    workflow = yaml.safe_load(text)
    # YAML 1.1 reads the word `on` as true.
    assert list(workflow[True]) == ["workflow_dispatch"]
    assert "never ran" in text.partition("name:")[0]
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        assert {"windows-latest", "macos-latest", "ubuntu-latest"} <= set(job["strategy"]["matrix"]["os"])
        assert job["timeout-minutes"]
        for step in job["steps"]:
            for module in re.findall(r"python -m (tests\.[\w.]+|scripts\.[\w.]+)", step.get("run", "")):
                assert (ROOT / f"{module.replace('.', '/')}.py").is_file(), module
            for word in re.findall(r"\b(?:tests|scripts|deploy)/[\w/.]+", step.get("run", "")):
                assert (ROOT / word).exists(), word


def test_there_are_workflows() -> None:
    assert [path.name for path in _WORKFLOWS] == ["platforms.yml"]
