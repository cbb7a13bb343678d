"""Holds the scripts and the packaging to each other: which Pythons are promised, found and tested."""

import os
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Final

from tests.lanes import LONG, WINDOWS

ROOT: Final = Path(__file__).resolve().parents[1]
PYTHONS: Final = ROOT / "scripts" / "pythons"
COVERAGE: Final = ROOT / "scripts" / "coverage"
CI: Final = (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def looked_for() -> list[str]:
    found = re.search(r'^versions="(.+)"$', PYTHONS.read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None
    return found[1].split()


def own() -> str:
    """The version that `scripts/test` runs on, which is not run twice."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    python = ROOT / ".venv" / "bin" / "python"
    if not python.exists():
        return ""
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_no_version_is_promised_that_is_not_tested() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    prefix = "Programming Language :: Python :: "
    told = [line.removeprefix(prefix) for line in project["classifiers"] if line.startswith(prefix + "3.")]
    assert project["requires-python"] == f">={told[0]}"
    assert set(told) <= set(looked_for())


def test_ci_runs_what_the_readme_says_and_every_python() -> None:
    called = re.findall(r"^sh (scripts/\w+)", CI, re.MULTILINE)
    assert called == [*["scripts/test"] * 4, "scripts/lint", "scripts/pythons", "scripts/conformance"]
    assert "sh scripts/test --lane long ||" in CI
    assert "sh scripts/test --lane full ||" in CI
    assert "sh scripts/test --lane windows ||" in CI
    assert "\nsh scripts/test\n" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_long_lane_names_files_that_are_there() -> None:
    tests = ROOT / "tests"
    assert not {
        path for path in LONG if not ((tests / path).is_dir() if path.endswith("/") else (tests / path).is_file())
    }


def test_the_lane_of_windows_names_files_that_are_there() -> None:
    tests = ROOT / "tests"
    assert not {
        path for path in WINDOWS if not ((tests / path).is_dir() if path.endswith("/") else (tests / path).is_file())
    }


def program(path: Path, *lines: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(("#!/bin/sh", *lines, "")))
    path.chmod(0o755)


def found(folder: Path, *arguments: str, code: int = 0) -> str:
    """Return what `scripts/pythons` finds where only these programs are."""
    path = os.pathsep.join((str(folder / "bin"), os.defpath))
    environ = {"PATH": path, "PYENV_ROOT": str(folder / "pyenv"), "FIND_ONLY": "1"}
    command: list[str | Path] = ["sh", PYTHONS, *arguments]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=30)
    assert (done.returncode, done.stderr) == (code, "")
    return done.stdout


def test_pythons_are_found_behind_shims_that_fail(tmp_path: Path) -> None:
    """A shim of pyenv stands on PATH for each version, and fails for those that are not selected."""
    for version in looked_for():
        program(tmp_path / "bin" / f"python{version}", "exit 127")
        program(tmp_path / "pyenv" / "versions" / f"{version}.7" / "bin" / "python", f"echo CPython {version}")
    told = found(tmp_path)
    for version in {*looked_for()} - {own()}:
        assert f"CPython {version} is {tmp_path}/pyenv/versions/{version}.7/bin/python\n" in told


def test_what_is_not_found_is_told(tmp_path: Path) -> None:
    """Neither another implementation nor another version than it is called counts."""
    for version in looked_for():
        program(tmp_path / "bin" / f"python{version}", f"echo PyPy {version}")
        program(tmp_path / "pyenv" / "versions" / f"{version}.0" / "bin" / "python", "echo CPython 3.5")
    told = found(tmp_path)
    for version in {*looked_for()} - {own()}:
        assert f"CPython {version} is not here" in told


def test_one_version_can_be_asked_for(tmp_path: Path) -> None:
    """Also the one that the other scripts run on; it is an error where it is not found."""
    for version in looked_for():
        program(tmp_path / "bin" / f"python{version}", f"echo CPython {version}")
        assert found(tmp_path, version) == f"pythons: CPython {version} is python{version}\n"
        program(tmp_path / "bin" / f"python{version}", f"echo PyPy {version}")
        assert "is not here" in found(tmp_path, version, code=1)


def test_every_other_python_imports_all_and_runs_a_part_of_what_is_measured() -> None:
    """`scripts/pythons` runs no test that `scripts/coverage` leaves out, and each is there."""
    part, measured = folders(PYTHONS), folders(COVERAGE)
    assert part
    assert part < measured
    assert all((ROOT / path).exists() for path in measured)
    assert "run --collect-only --quiet >" in PYTHONS.read_text(encoding="utf-8")


def folders(script: Path) -> set[str]:
    """Return the tests that a script names."""
    lines = re.findall(r'^tests="(.+)"$', script.read_text(encoding="utf-8"), re.MULTILINE)
    return {word for line in lines for word in line.split() if word.startswith("tests/")}


def test_coverage_has_a_floor() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["coverage"]
    assert settings["run"]["source"] == ["aggregator"]
    assert settings["report"]["fail_under"] >= 82
    assert 'coverage" report' in COVERAGE.read_text(encoding="utf-8")


def test_coverage_is_measured_on_a_python_that_costs_nothing_to_measure(tmp_path: Path) -> None:
    """None before 3.12 is asked, and without one it fails."""
    for version in looked_for():
        program(tmp_path / "bin" / f"python{version}", "echo CPython 3.11")
    environ = {"PATH": os.pathsep.join((str(tmp_path / "bin"), os.defpath)), "PYENV_ROOT": str(tmp_path)}
    done = subprocess.run(["sh", COVERAGE], env=environ, capture_output=True, text=True, check=False, timeout=30)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "coverage: none of CPython 3.12 3.13 3.14 is here\n"
