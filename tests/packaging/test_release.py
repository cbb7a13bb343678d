"""`scripts/release`: the texts it changes, and a whole release in a repository of its own."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.releasing.texts import ReleaseFault, check_next, released, version_in, with_version

ROOT: Final = Path(__file__).resolve().parents[2]
_CHANGELOG: Final = "# Changelog\n\nAll.\n\n## Unreleased\n\n- One.\n- Two.\n"
_NUMBERS: Final = st.integers(0, 30)


def test_the_changelog_gets_a_section_and_an_empty_one_for_what_comes() -> None:
    changed, notes = released(_CHANGELOG, "0.1.0", "2026-11-23")
    assert changed == "# Changelog\n\nAll.\n\n## Unreleased\n\n## 0.1.0 - 2026-11-23\n\n- One.\n- Two.\n"
    assert notes == "- One.\n- Two.\n"
    with pytest.raises(ReleaseFault, match="is empty"):
        released(changed, "0.2.0", "2026-11-24")
    later, notes = released(changed.replace("## Unreleased\n", "## Unreleased\n\n- Three.\n"), "0.2.0", "2026-11-24")
    assert notes == "- Three.\n"
    assert later.index("## 0.2.0") < later.index("- Three.") < later.index("## 0.1.0") < later.index("- One.")


def test_a_changelog_without_the_section_is_refused() -> None:
    with pytest.raises(ReleaseFault, match="no section `## Unreleased`"):
        released("# Changelog\n", "0.1.0", "2026-11-23")


def test_the_real_files_can_be_released() -> None:
    """The place of the version, and the section of the changelog, are where they are looked for."""
    text = (ROOT / "aggregator" / "__init__.py").read_text(encoding="utf-8")
    changed = with_version(text, "99.0.0")
    assert version_in(changed) == "99.0.0"
    assert len(set(changed.splitlines()) ^ set(text.splitlines())) == 2
    assert released((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), "99.0.0", "2026-11-23")[1].startswith("- ")


@given(st.tuples(_NUMBERS, _NUMBERS, _NUMBERS), st.tuples(_NUMBERS, _NUMBERS, _NUMBERS))
def test_only_later_versions_are_taken(wanted: tuple[int, int, int], current: tuple[int, int, int]) -> None:
    """By numbers, not by letters: 0.10.0 comes after 0.9.0."""
    new, old = (".".join(map(str, numbers)) for numbers in (wanted, current))
    if wanted > current:
        check_next(new, old, [f"v{old}", "other"])
    else:
        with pytest.raises(ReleaseFault):
            check_next(new, old, [f"v{old}"])


def test_the_first_release_may_be_the_version_that_is_written() -> None:
    check_next("0.1.0", "0.1.0", [])
    check_next("0.1.0", "0.1.0rc1", ["v0.1.0rc1"])
    with pytest.raises(ReleaseFault, match="is before what there is"):
        check_next("0.1.0rc1", "0.1.0", [])


@pytest.mark.parametrize("text", ["1.0", "v1.0.0", "1.0.0-rc1", "", "1.0.0\n", "१.0.0"])
def test_what_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(ReleaseFault, match="is no version"):
        check_next(text, "0.1.0", [])


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with the files that a release reads, and an interpreter that only pretends to build."""
    folder = tmp_path / "repository"
    (folder / "aggregator").mkdir(parents=True)
    (folder / "aggregator" / "__init__.py").write_text('__version__ = "0.1.0"\n')
    for name in ("pyproject.toml", "LICENSE", "constraints.txt"):
        shutil.copy(ROOT / name, folder)
    shutil.copytree(ROOT / "deploy" / "bundle", folder / "deploy" / "bundle")
    (folder / "CHANGELOG.md").write_text(_CHANGELOG)
    (folder / ".gitignore").write_text("dist/\n")
    git(folder, "init", "--quiet", "--initial-branch", "main")
    git(folder, "config", "user.name", "Tester")
    git(folder, "config", "user.email", "tester@example.com")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "Begin")
    builder = tmp_path / "builder"
    # build: -m build --outdir DIST SOURCE; it must find the new version in the clone of the tag.
    builder.write_text(
        "#!/bin/sh\n"
        'echo "$*" >>"$(dirname "$0")/calls"\n'
        '[ "$2" = build ] || exit 0\n'
        'version=$(sed -n \'s/^__version__ = "\\(.*\\)"$/\\1/p\' "$5/aggregator/__init__.py")\n'
        'touch "$4/aggregator_mcp-$version.tar.gz" "$4/aggregator_mcp-$version-py3-none-any.whl"\n'
    )
    builder.chmod(0o755)
    return folder


def release(repository: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environ = os.environ | {"PYTHONPATH": str(ROOT), "RELEASE_PYTHON": str(repository.parent / "builder")}
    command = [sys.executable, "-m", "scripts.releasing", *arguments]
    return subprocess.run(command, cwd=repository, env=environ, capture_output=True, text=True, timeout=60, check=False)


def test_a_release_is_made_and_told(repository: Path) -> None:
    done = release(repository, "0.2.0", "--tested")
    assert (done.returncode, done.stderr) == (0, "")
    assert git(repository, "status", "--porcelain") == ""
    assert git(repository, "tag", "--list").split() == ["v0.2.0"]
    assert "- One." in git(repository, "tag", "--list", "--format=%(contents)", "v0.2.0")
    assert version_in((repository / "aggregator" / "__init__.py").read_text()) == "0.2.0"
    assert "## 0.2.0 - " in (repository / "CHANGELOG.md").read_text()
    made = {file.name for file in (repository / "dist").iterdir()}
    wheel, source = "aggregator_mcp-0.2.0-py3-none-any.whl", "aggregator_mcp-0.2.0.tar.gz"
    assert made == {wheel, source, "aggregator.mcpb", "server.json"}
    assert f"twine upload dist/{wheel} dist/{source}\n" in done.stdout
    calls = (repository.parent / "calls").read_text()
    assert "-m twine check --strict" in calls
    assert "twine upload" in done.stdout
    assert "upload" not in calls
    assert "No public address" in done.stdout


def test_a_dry_run_changes_nothing(repository: Path) -> None:
    done = release(repository, "0.2.0", "--dry-run")
    assert (done.returncode, done.stderr) == (0, "")
    assert "- Two." in done.stdout
    assert git(repository, "status", "--porcelain") == ""
    assert git(repository, "tag", "--list") == ""
    assert not (repository.parent / "calls").exists()


def test_what_is_not_committed_or_not_tested_stops_it(repository: Path) -> None:
    assert "Run `.ci/run` and `scripts/coverage` on this commit" in release(repository, "0.2.0").stderr
    (repository / "pyproject.toml").write_text('[project]\nname = "other"\n')
    for arguments in (("0.2.0", "--tested"), ("0.2.0", "--dry-run")):
        stopped = release(repository, *arguments)
        assert (stopped.returncode, stopped.stderr.count("\n")) == (1, 1)
        assert "pyproject.toml: commit them first" in stopped.stderr
    assert git(repository, "tag", "--list") == ""
