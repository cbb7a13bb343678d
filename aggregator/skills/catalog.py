"""Skills as servers list them (SEP-2640): which entries can be shown, and which files of a skill are valid.

This file decides; it awaits nothing. Law: an entry is shown unchanged except for its URIs, or not at all.
"""

import re
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any, Final, NamedTuple

from aggregator.domain.schema_walk import deeper_than
from aggregator.domain.text.invisible import unseen
from aggregator.domain.uris.spellings import fault, is_plain
from aggregator.skills.uris import skill_name

# Limits of one skill that hosts have to take (SEP-2640, Limits).
MOST_FILES: Final = 512
MOST_BYTES: Final = 16 * 2**20
# The form of a skill without digests: its files are generated on each read.
DYNAMIC: Final = "dynamic"
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_DEEPEST: Final = 200


class SkillFile(NamedTuple):
    """One file of a skill as its manifest has it: its server's own URI, its digest `sha256:HEX`, its size in bytes."""

    uri: str
    digest: str
    size: int


def skill_fault(entry: Mapping[str, Any], *, keeps_unseen: bool = False) -> str | None:
    """Return the reason not to show a skill, as a sentence without its subject, or None.

    `keeps_unseen`: allow invisible characters.
    """
    uri, frontmatter, resources = entry.get("uri"), entry.get("frontmatter"), entry.get("resources")
    name = skill_name(uri) if isinstance(uri, str) else None
    if not isinstance(uri, str) or name is None:
        return "its uri does not end with /SKILL.md"
    if not isinstance(frontmatter, dict):
        return "it has no frontmatter"
    for field in ("name", "description"):
        if not isinstance(frontmatter.get(field), str) or not frontmatter[field].strip():
            return f"its frontmatter has no {field}"
    last = name.rpartition("/")[2]
    if last != frontmatter["name"]:
        return f"its uri ends with {last!r:.80}, and its frontmatter names it {frontmatter['name']!r:.80}"
    if deeper_than(frontmatter, _DEEPEST):
        return f"its frontmatter is nested more than {_DEEPEST} levels deep"
    wrong = _unfit(frontmatter, keeps_unseen=keeps_unseen)
    if wrong is not None:
        return wrong
    if resources == DYNAMIC:
        return _odd(uri)
    if not isinstance(resources, list):
        return "it has no resources: a list of its files, or `dynamic`"
    return _manifest_fault(uri, resources)


def _manifest_fault(uri: str, resources: list[Any]) -> str | None:
    if len(resources) > MOST_FILES:
        return f"it has {len(resources)} files, and {MOST_FILES} is the most"
    root = uri.removesuffix("SKILL.md")
    seen: set[str] = set()
    size = 0
    for one in resources:
        own = one.get("uri") if isinstance(one, dict) else None
        if not isinstance(own, str):
            return "one of its resources has no uri"
        if not own.startswith(root) or own.endswith("/"):
            return f"{own!r:.120} is no file in its directory"
        if own in seen:
            return f"its resources hold {own!r:.120} twice"
        seen.add(own)
        digest, length = one.get("digest"), one.get("size")
        if not isinstance(digest, str) or _DIGEST.fullmatch(digest) is None:
            return f"{own!r:.120} has no digest of the form sha256: and 64 digits"
        if not isinstance(length, int) or isinstance(length, bool) or length < 0:
            return f"{own!r:.120} has no size in bytes"
        size += length
        odd = _odd(own)
        if odd is not None:
            return odd
    if uri not in seen:
        return "its resources are without its SKILL.md"
    return f"its files have {size} bytes, and {MOST_BYTES} is the most" if size > MOST_BYTES else None


def _odd(uri: str) -> str | None:
    """Return the reason why a URI could pass for that of another file, or None."""
    # A blank, which many servers leave in names of files, is a blank to all who read it.
    wrong = None if is_plain(uri) else fault(uri.replace(" ", "%20"))
    return f"{uri!r:.120} could be taken for another file: {wrong}" if wrong is not None else None


def _unfit(value: Any, *, keeps_unseen: bool) -> str | None:
    """Return the fault of a frontmatter value that hosts would not get unchanged, or that a reader would not see."""
    for one in _values(value):
        if isinstance(one, float) and not isfinite(one):
            return "its frontmatter holds a number that JSON does not have"
        if isinstance(one, str) and not keeps_unseen and (found := unseen(one)) is not None:
            return f"its frontmatter has characters that cannot be seen ({found})"
    return None


def _values(value: Any) -> Iterator[Any]:
    """Yield every text and number in a JSON value, the names of members included."""
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, dict):
            yield from one
            left.extend(one.values())
        elif isinstance(one, list):
            left.extend(one)
        else:
            yield one


def manifest(entry: Mapping[str, Any]) -> Mapping[str, SkillFile] | None:
    """Return the files of a skill that can be shown, by their own URIs, or None for a dynamic skill."""
    resources = entry["resources"]
    if resources == DYNAMIC:
        return None
    return {one["uri"]: SkillFile(one["uri"], one["digest"], one["size"]) for one in resources}


class DirectoryChild(NamedTuple):
    """One entry of a directory: its URI, its name, and whether it is a directory itself."""

    uri: str
    name: str
    is_directory: bool


def children(entry: Mapping[str, Any], directory: str) -> tuple[DirectoryChild, ...]:
    """Return what lies directly in a directory of a skill, by its manifest, in the manifest's order."""
    files = manifest(entry) or {}
    head = f"{directory}/"
    found: dict[str, DirectoryChild] = {}
    for uri in files:
        if uri.startswith(head):
            name, slash, _ = uri.removeprefix(head).partition("/")
            found.setdefault(name, DirectoryChild(head + name, name, bool(slash)))
    return tuple(found.values())
