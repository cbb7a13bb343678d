"""Read the policy files of a folder at one moment; `checking` turns them into documents."""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aggregator.domain.ordinary_files import NotOrdinary, read_ordinary
from aggregator.domain.problems import Problem
from aggregator.policy.rules import Documents

LARGEST: Final = 2**20
MOST_FILES: Final = 1_000
_ATTEMPTS: Final = 3
_ENDINGS: Final = (".yaml", ".yml")
# Editors of Windows may add this, and the system does not show it.
_ADDED: Final = ".txt"
_MAKE: Final = "Mount it, correct `policies`, or run `aggregator policy init` for a first file."

# Returns the mistake in a JSON Schema, or None.
CheckSchema = Callable[[Mapping[str, Any]], str | None]


@dataclass(frozen=True, slots=True)
class PolicySource:
    """The content of one policy file. `file` is its name in messages."""

    file: str
    text: str


@dataclass(frozen=True, slots=True)
class CheckedPolicies:
    """The result of checking the files. `found`: there is at least one, usable or not."""

    documents: Documents | None
    problems: tuple[Problem, ...]
    found: bool


def read_folder(folder: Path, *, named: bool = False) -> tuple[list[PolicySource], list[Problem]]:
    """Read the `*.yaml` and `*.yml` files directly in a folder, as of one moment. `named`: an operator chose it.

    A missing folder is an empty one; a problem if it is `named`, or a link that leads nowhere. So is `main.yaml.txt`:
    an error if no file counts, since everything would be allowed then.
    """
    problems: list[Problem] = []
    sources: list[PolicySource] = []
    for _ in range(_ATTEMPTS):  # again, if an editor was writing meanwhile
        problems.clear()
        before = _listed(folder, problems, named=named)
        sources = [source for path in before if (source := _read(path, problems))]
        if _listed(folder, [], named=named) == before:
            break
    return sources, problems


def is_policy_file(path: Path) -> bool:
    """Return whether the name is that of a policy file, in capitals too, as systems that ignore case show it."""
    # Editors leave hidden files beside those they change, which are no policies.
    return path.suffix.lower() in _ENDINGS and not path.name.startswith(".")


def is_misnamed(path: Path) -> bool:
    """Return whether a file would be a policy file without the ending that an editor added to its name."""
    return path.suffix.lower() == _ADDED and is_policy_file(path.with_suffix(""))


def revision(sources: Iterable[PolicySource]) -> str:
    """Return a digest of the names and contents of the files; their order and the kind of line ends change nothing."""
    digest = hashlib.sha256()
    for source in sorted(sources, key=lambda source: source.file):
        # Git gives a checkout on Windows other line ends than the replicas elsewhere have.
        for text in (Path(source.file).name, source.text.replace("\r\n", "\n")):
            content = text.encode("utf-8", "surrogatepass")
            digest.update(f"{len(content)}:".encode() + content)
    return digest.hexdigest()[:16]


def _listed(folder: Path, problems: list[Problem], *, named: bool) -> dict[Path, tuple[int, int, int]]:
    try:
        entries = sorted(folder.iterdir())
        paths = [path for path in entries if is_policy_file(path)]
        problems += [_misnamed(path, alone=not paths) for path in entries if is_misnamed(path)]
        if len(paths) > MOST_FILES:
            problems.append(_whole(folder, f"There are more than {MOST_FILES} policy files.", "Put some together."))
            return {}
        return {path: _stamp(path) for path in paths}
    except FileNotFoundError:
        # There were policies, as on a disk that is not mounted: without them more would be allowed.
        if folder.is_symlink():
            problems.append(
                _whole(folder, "The folder is a link that leads nowhere.", "Correct the link, or remove it.")
            )
        elif named:
            problems.append(_whole(folder, "The folder, which `policies` names, does not exist.", _MAKE))
        return {}
    except NotADirectoryError:
        problems.append(_whole(folder, "It is no folder.", "Name the folder that has the policy files."))
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


def source_of(path: Path, content: bytes, problems: list[Problem]) -> PolicySource | None:
    """Return a file of that content; None and a problem if it is too large, or no text."""
    if len(content) > LARGEST:
        problems.append(_whole(path, "The file is larger than 1 MiB.", "Split it; all files count together."))
        return None
    try:
        return PolicySource(str(path), content.decode("utf-8-sig"))
    except ValueError:
        problems.append(_whole(path, "The file is not UTF-8 text.", "Save it as UTF-8."))
    return None


def _read(path: Path, problems: list[Problem]) -> PolicySource | None:
    try:
        content = read_ordinary(path, LARGEST + 1)
    except NotOrdinary as error:
        said = f"The file cannot be read: {error.strerror}."
        problems.append(_whole(path, said, "Remove it from this folder, or put an ordinary file there."))
        return None
    except OSError as error:
        problems.append(_whole(path, f"The file cannot be read: {error.strerror}.", "Correct its permissions."))
        return None
    return source_of(path, content, problems)


def _misnamed(path: Path, *, alone: bool) -> Problem:
    said = "The file is not read: names of policy files end in .yaml or .yml."
    return Problem(str(path), "", said, f"Rename it to {path.stem}, or remove it.", "error" if alone else "warning")


def _whole(path: Path, message: str, fix: str) -> Problem:
    return Problem(str(path), "", message, fix, "error")
