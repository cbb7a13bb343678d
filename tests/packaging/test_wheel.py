"""The wheel and the source distribution as `pip` would get them: what is in them, and what they say of themselves."""

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.message import Message
from email.parser import Parser
from pathlib import Path
from typing import Final

import pytest

import aggregator

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGE: Final = ROOT / "aggregator"
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

# An extra of the distribution, and one under the name of the command, which the index has as another's.
_EXTRA: Final = re.compile(r"\b(aggregator(?:-mcp)?)\[([a-z][a-z0-9,-]*)\]")
_READ: Final = ("*.md", "*.py", "*.json", "*.toml", "*.txt")


def build(kind: str, folder: Path) -> Path:
    """Return the file that the build backend makes, called as build programs call it."""
    code = f"import hatchling.build as backend; print(backend.build_{kind}({str(folder)!r}))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    return folder / done.stdout.split()[-1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as files:
        (name,) = [name for name in files.namelist() if name.endswith(".dist-info/METADATA")]
        return Parser().parsestr(files.read(name).decode())


def test_the_wheel_has_the_package_and_nothing_else(wheel: Path) -> None:
    """Every file of the package that is tracked: modules, types, migrations, pages, schemas, data."""
    tracked = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "aggregator"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    with zipfile.ZipFile(wheel) as files:
        names = files.namelist()
    packed = {name for name in names if not name.startswith("aggregator_mcp-")}
    assert packed == {name for name in tracked if (ROOT / name).is_file()}
    for needed in (
        "py.typed",
        "__init__.pyi",
        "config/aggregator.schema.json",
        "policy/files/policy.schema.json",
        "frontends/console/static/console.js",
        "frontends/console/templates/base.html",
        "storage/migrations/versions/r1001_first_release.py",
        "storage/migrations/versions/r1002_tool_reports.py",
        "storage/migrations/versions/r1003_sent_names.py",
    ):
        assert f"aggregator/{needed}" in packed


def test_the_wheel_is_the_same_each_time(wheel: Path, tmp_path: Path) -> None:
    assert build("wheel", tmp_path).read_bytes() == wheel.read_bytes()


def test_licences_are_packed_and_named(wheel: Path, metadata: Message) -> None:
    """PEP 639: the expression names ours and those of what is bundled, and each text is there."""
    assert metadata["License-Expression"] == "MIT AND 0BSD AND LicenseRef-WordNet-3.0"
    texts = metadata.get_all("License-File")
    assert texts == ["LICENSE", *sorted(str(path.relative_to(ROOT)) for path in PACKAGE.rglob("LICENSES.txt"))]
    with zipfile.ZipFile(wheel) as files:
        assert {name.partition("/licenses/")[2] for name in files.namelist() if "/licenses/" in name} == {*texts}


def test_what_the_wheel_says_of_itself(metadata: Message) -> None:
    assert (metadata["Name"], metadata["Version"]) == (aggregator.DISTRIBUTION, aggregator.__version__)
    assert metadata["Requires-Python"] == ">=3.11"
    kinds = {line.partition(" :: ")[0] for line in metadata.get_all("Classifier") or ()}
    assert kinds >= {
        "Development Status",
        "Environment",
        "Framework",
        "Intended Audience",
        "Operating System",
        "Programming Language",
        "Topic",
        "Typing",
    }
    # PyPI refuses both together.
    assert "License" not in kinds
    assert len(metadata["Keywords"].split(",")) > 5
    assert len(metadata["Summary"]) < 150


def test_the_page_on_the_index_leads_nowhere_that_is_not_there(metadata: Message) -> None:
    """Relative links and pictures of a page in the tree are broken on an index."""
    page = metadata.get_payload()
    assert isinstance(page, str)
    assert "uvx aggregator-mcp" in page
    assert not re.findall(r"\]\((?!https://)[^)]*\)", page)


def test_the_page_on_the_index_names_every_extra(metadata: Message) -> None:
    """All but those for work on the project."""
    listed = re.search(r"^Extras: (.+?), as in", str(metadata.get_payload()), re.MULTILINE | re.DOTALL)
    assert listed is not None
    assert {*re.findall(r"`([\w-]+)`", listed[1])} == {*PROJECT["optional-dependencies"]} - {"dev", "examples"}


def test_both_commands_are_one(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as files:
        (name,) = [name for name in files.namelist() if name.endswith("entry_points.txt")]
        lines = files.read(name).decode().split("\n")
    commands = dict(line.split(" = ") for line in lines if " = " in line)
    assert commands == {"aggregator": "aggregator.cli:main", aggregator.DISTRIBUTION: "aggregator.cli:main"}


def test_the_source_has_what_is_needed_to_work_on_it(tmp_path: Path) -> None:
    """Tests, scripts and pages; nothing that git does not know, and no environment or cache."""
    with tarfile.open(build("sdist", tmp_path)) as files:
        names = {name.partition("/")[2] for name in files.getnames()}
    assert names >= {
        "LICENSE",
        "README.md",
        "CHANGELOG.md",
        "constraints.txt",
        "docs/README.md",
        "scripts/test",
        "tests/conftest.py",
        "aggregator/py.typed",
        "PKG-INFO",
    }
    junk = re.compile(r"(^|/)(\.venv|\.git/|__pycache__|\.conformance)|\.(pyc|db)$")
    assert not [name for name in names if junk.search(name)]


def test_extras_are_named_as_the_index_has_them() -> None:
    """In pages and messages: the distribution's name before the brackets, and an extra that exists in them."""
    extras = {*PROJECT["optional-dependencies"]}
    found = [
        (path.relative_to(ROOT), name, extra)
        for folder in ("aggregator", "docs", "scripts", ".")
        for pattern in _READ
        for path in ((ROOT / folder).rglob(pattern) if folder != "." else ROOT.glob(pattern))
        for name, several in _EXTRA.findall(path.read_text(encoding="utf-8"))
        for extra in several.split(",")
    ]
    assert len(found) > 10
    assert not [each for each in found if each[1] != aggregator.DISTRIBUTION or each[2] not in extras]
