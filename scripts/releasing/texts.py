"""The texts that a release changes, as functions from text to text."""

import re
from typing import Final

# X.Y.Z, with a pre-release as PyPI spells it.
_VERSION: Final = re.compile(r"(\d+)\.(\d+)\.(\d+)(?:(a|b|rc)(\d+))?", re.ASCII)
_LINE: Final = re.compile(r'^__version__ = "([^"]*)"$', re.MULTILINE)
_UNRELEASED: Final = "## Unreleased\n"
_SEMANTIC: Final = {"a": "alpha", "b": "beta", "rc": "rc"}
_PLACES: Final = {"a": 0, "b": 1, "rc": 2, None: 3}


class ReleaseFault(Exception):
    """Something is in the way of the release; the text says what, and what to do."""


def version_in(text: str) -> str:
    """Return the version that the package's `__init__` has.

    Raises:
        ReleaseFault: it has none.
    """
    found = _LINE.search(text)
    if found is None:
        raise ReleaseFault('aggregator/__init__.py has no line `__version__ = "..."`.')
    return found[1]


def with_version(text: str, version: str) -> str:
    """Return the text of the package's `__init__` with another version."""
    return _LINE.sub(f'__version__ = "{version}"', text, count=1)


def check_next(version: str, current: str, tags: list[str]) -> None:
    """Refuse a version that is no version, or not after those that there are; the current one may be as yet untagged.

    Raises:
        ReleaseFault: it is not.
    """
    wanted = _sortable(version)
    if tag(version) in tags:
        raise ReleaseFault(f"The tag {tag(version)} is there already: take a later version.")
    released = [known for known in tags if _VERSION.fullmatch(known.removeprefix("v"))]
    newest = max((_sortable(known.removeprefix("v")) for known in released), default=None)
    if wanted < _sortable(current) or (newest is not None and wanted < newest):
        raise ReleaseFault(f"{version} is before what there is: take a later version than {current}.")


def semantic_version(version: str) -> str:
    """Return a version as semver.org has it, which spells pre-releases in another way: 1.2.3rc1 is 1.2.3-rc.1.

    Raises:
        ReleaseFault: it is no version.
    """
    found = _VERSION.fullmatch(version)
    if found is None:
        raise ReleaseFault(f"{version!r} is no version: write it as 1.2.3, or 1.2.3rc1 for one before it.")
    plain = ".".join(found.groups()[:3])
    return f"{plain}-{_SEMANTIC[found[4]]}.{found[5]}" if found[4] else plain


def tag(version: str) -> str:
    """Return the name of a version's tag."""
    return f"v{version}"


def released(changelog: str, version: str, date: str) -> tuple[str, str]:
    """Return the changelog with `Unreleased` under the version and date, and the notes of this release.

    Raises:
        ReleaseFault: there is no such section, or it is empty.
    """
    before, heading, rest = changelog.partition(_UNRELEASED)
    if not heading:
        raise ReleaseFault("CHANGELOG.md has no section `## Unreleased`.")
    own, mark, older = rest.partition("\n## ")
    notes = own.strip("\n")
    if not notes:
        raise ReleaseFault("`## Unreleased` in CHANGELOG.md is empty: there is nothing to release.")
    return f"{before}{heading}\n## {version} - {date}\n\n{notes}\n{mark}{older}", f"{notes}\n"


def _sortable(version: str) -> tuple[int, ...]:
    found = _VERSION.fullmatch(version)
    if found is None:
        raise ReleaseFault(f"{version!r} is no version: write it as 1.2.3, or 1.2.3rc1 for one before it.")
    numbers = (int(part) for part in found.groups()[:3])
    return (*numbers, _PLACES[found[4]], int(found[5] or 0))
