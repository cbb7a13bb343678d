"""Read a folder of YAML files into checked documents, or into problems: file, line, and how to correct it.

Law: all or nothing. One error anywhere, and there are no documents.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Final, Protocol

from aggregator.domain.problems import Problem
from aggregator.policy.rules import Documents

LARGEST: Final = 2**20
MOST_FILES: Final = 1_000
_ATTEMPTS: Final = 3


class CheckSchema(Protocol):
    """Return the mistake in a JSON Schema, or None."""

    def __call__(self, schema: Mapping[str, Any], /) -> str | None: ...


@dataclass(frozen=True, slots=True)
class PolicySource:
    """One policy file as it was read. `file` is its name in messages."""

    file: str
    text: str


@dataclass(frozen=True, slots=True)
class CheckedPolicies:
    """The result of checking the files. `found`: there is at least one, usable or not."""

    documents: Documents | None
    problems: tuple[Problem, ...]
    found: bool


def read_folder(folder: Path) -> tuple[list[PolicySource], list[Problem]]:
    """Read the `*.yaml` and `*.yml` files right in a folder, as they are at one moment. A missing folder is an empty
    one.
    """
    problems: list[Problem] = []
    sources: list[PolicySource] = []
    for _ in range(_ATTEMPTS):  # again, if an editor was writing meanwhile
        problems.clear()
        before = _listed(folder, problems)
        sources = [source for path in before if (source := _read(path, problems))]
        if _listed(folder, []) == before:
            break
    return sources, problems


def check(
    sources: Iterable[PolicySource], problems: Iterable[Problem] = (), check_schema: CheckSchema | None = None
) -> CheckedPolicies:
    """Check the files together; their order changes nothing."""
    found = list(problems)
    ordered = sorted(sources, key=lambda source: source.file)
    if not ordered:
        return CheckedPolicies(None, tuple(found), bool(found))
    # PyYAML is loaded only when there is a file to read.
    documents: Documents = resolve_name("aggregator.policy.files.checking:documents_of")(ordered, found, check_schema)
    found.sort(key=_by_place)
    broken = any(problem.severity == "error" for problem in found)
    return CheckedPolicies(None if broken else documents, tuple(found), True)


def revision(sources: Iterable[PolicySource]) -> str:
    """Return a digest of the names and contents of the files; their order changes nothing."""
    digest = hashlib.sha256()
    for source in sorted(sources, key=lambda source: source.file):
        for text in (Path(source.file).name, source.text):
            content = text.encode("utf-8", "surrogatepass")
            digest.update(f"{len(content)}:".encode() + content)
    return digest.hexdigest()[:16]


def _listed(folder: Path, problems: list[Problem]) -> dict[Path, tuple[int, int, int]]:
    try:
        paths = sorted(p for p in folder.iterdir() if p.suffix in (".yaml", ".yml") and not p.name.startswith("."))
        if len(paths) > MOST_FILES:
            problems.append(_whole(folder, f"There are more than {MOST_FILES} policy files.", "Put some together."))
            return {}
        return {path: _stamp(path) for path in paths}
    except FileNotFoundError:
        return {}
    except OSError as error:
        problems.append(_whole(folder, f"The folder cannot be read: {error.strerror}.", "Correct its permissions."))
        return {}


def _stamp(path: Path) -> tuple[int, int, int]:
    try:
        stat = path.stat()
    except OSError:
        return (0, 0, 0)
    return (stat.st_mtime_ns, stat.st_size, stat.st_ino)


def _read(path: Path, problems: list[Problem]) -> PolicySource | None:
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
        if len(content) > LARGEST:
            problems.append(_whole(path, "The file is larger than 1 MiB.", "Split it; all files count together."))
            return None
        return PolicySource(str(path), content.decode("utf-8-sig"))
    except OSError as error:
        problems.append(_whole(path, f"The file cannot be read: {error.strerror}.", "Correct its permissions."))
    except ValueError:
        problems.append(_whole(path, "The file is not UTF-8 text.", "Save it as UTF-8."))
    return None


def _whole(path: Path, message: str, fix: str) -> Problem:
    return Problem(str(path), "", message, fix, "error")


def _by_place(problem: Problem) -> tuple[str, int, str]:
    file, _, line = problem.file.rpartition(":")
    return (file, int(line), problem.where) if line.isdigit() else (problem.file, 0, problem.where)
