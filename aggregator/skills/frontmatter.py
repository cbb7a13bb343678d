"""The frontmatter of a SKILL.md, compared with its entry (SEP-2640, Frontmatter Verification).

Rule: kinds of scalars that YAML readers interpret differently (dates, `yes`, `1.0`) count as equal if one of them reads
the entry's value.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

_BLOCK: Final = re.compile(r"\ufeff?---[ \t]*\r?\n(.*?)\r?\n?^(?:---|\.\.\.)[ \t]*\r?$", re.DOTALL | re.MULTILINE)
# Characters: no real frontmatter comes near.
_LONGEST: Final = 256 * 1024
_DEEPEST: Final = 100
_WORDS: Final = {
    **dict.fromkeys(("yes", "on", "y"), True),
    **dict.fromkeys(("no", "off", "n"), False),
}


def frontmatter_fault(raw: bytes, entry: Mapping[str, Any], *, verified: bool) -> str | None:
    """Return why a SKILL.md differs from the frontmatter of its entry; None if it does not, as far as can be read.

    `verified`: the digest of the file matches the entry, so that a file which only our reader rejects is accepted.
    """
    from aggregator.policy.files.yamltree import YamlError, parse

    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return "it is no text"
    found = _BLOCK.match(text[:_LONGEST])
    if found is None:
        return "it begins with no frontmatter"
    try:
        value = parse(found[1]).value
    except YamlError as error:
        return None if verified else f"its frontmatter cannot be read: {error.message:.200}"
    if not isinstance(value, dict):
        return "its frontmatter is no object"
    differing = next((key for key in (*value, *entry) if not _alike(value, entry, key)), None)
    return f"its frontmatter says otherwise of {differing!r:.80}" if differing is not None else None


def _alike(mine: Mapping[str, Any], other: Mapping[str, Any], key: str) -> bool:
    return key in mine and key in other and _same(mine[key], other[key], 0)


def _same(read: Any, said: Any, depth: int) -> bool:
    """Tell whether a value as read may equal the entry's."""
    if depth > _DEEPEST:
        return False
    if isinstance(read, dict):
        return isinstance(said, dict) and all(
            key in read and key in said and _same(read[key], said[key], depth + 1) for key in (*read, *said)
        )
    if isinstance(read, list):
        return (
            isinstance(said, list)
            and len(read) == len(said)
            and all(_same(one, other, depth + 1) for one, other in zip(read, said, strict=True))
        )
    if isinstance(said, dict | list):
        return False
    if isinstance(read, str) and isinstance(said, str):
        # A date may have been written out: `2026-01-02` as `2026-01-02T00:00:00Z`.
        return (
            read == said
            or read.strip() == said.strip()
            or (_DATE.fullmatch(read) is not None and said.startswith(read))
        )
    if isinstance(read, bool | None) or isinstance(said, bool | None):
        return read is said or (isinstance(read, str) and _WORDS.get(read.lower(), read) is said)
    return str(read) == str(said) or _number(read) == _number(said) is not None


_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None
