"""The files of skills as declared in their entries: content is compared before a host gets it.

Law: bytes that differ from the entry are in no answer and no error. Rule: the frontmatter of a SKILL.md is compared
with its entry (SEP-2640, Frontmatter Verification); kinds of scalars that YAML readers interpret differently (dates,
`yes`, `1.0`) count as equal if one of them reads the entry's value.
"""

import asyncio
import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any, Final, NamedTuple

from aggregator.domain.bounds.lru import LruCache
from aggregator.domain.missing import SkillMismatch
from aggregator.gateway.agent_items import AgentItems
from aggregator.gateway.resolved_item import ResolvedItem
from aggregator.skills.catalog import SkillFile, manifest
from aggregator.skills.uris import SKILL_FILE, directories, skill_name

# Entries of skills that are in no list, and were got by their URI.
_KEPT: Final = 1_000
# Characters that are hashed on the event loop.
_SHORT: Final = 64 * 1024
_BLOCK: Final = re.compile(r"\ufeff?---[ \t]*\r?\n(.*?)\r?\n?^(?:---|\.\.\.)[ \t]*\r?$", re.DOTALL | re.MULTILINE)
# Characters: no real frontmatter comes near.
_LONGEST: Final = 256 * 1024
_DEEPEST: Final = 100
_WORDS: Final = {
    **dict.fromkeys(("yes", "on", "y"), True),
    **dict.fromkeys(("no", "off", "n"), False),
}
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)


class _Held(NamedTuple):
    """The entry that a file is compared with, and the name of its skill."""

    name: str
    entry: Mapping[str, Any]


class SkillFiles:
    """The comparison of read contents with the entries of their skills."""

    def __init__(self, agent_items: AgentItems) -> None:
        self._agent_items = agent_items
        self._got: LruCache[tuple[str, str], Mapping[str, Any]] = LruCache(_KEPT)

    def remember(self, server: str, entry: Mapping[str, Any]) -> None:
        """Take the entry of a skill that is in no list."""
        name = skill_name(entry["uri"])
        assert name is not None, "no other entry can be shown"
        self._got.put((server, name), entry)

    async def verify(self, found: ResolvedItem, result: Mapping[str, Any]) -> None:
        """Compare contents with every entry that has the file; request the list again if they differ.

        Raises:
            SkillMismatch: they differ.
        """
        for held in self._held(found):
            why = await self._difference(held, found.own, result["contents"])
            if why is not None:
                config = found.upstream.config
                found.upstream.lists.read_kind_again("skill")
                file = found.own.removeprefix(held.entry["uri"].removesuffix(SKILL_FILE))
                skill = f"{config.prefix or config.id}.{held.name}"
                said = f"{file:.200} of skill {skill:.200} is not used, since it is not as {config.id} lists it: {why}."
                raise SkillMismatch(config.id, said, skill=skill, file=file)

    def _held(self, found: ResolvedItem) -> Iterator[_Held]:
        server, items = found.upstream.config.id, self._agent_items.all
        for name in directories(found.own):
            record = items.skill_named(server, name)
            entry = record.definition if record is not None else self._got.get((server, name))
            if entry is not None:
                yield _Held(name, entry)

    async def _difference(self, held: _Held, own: str, contents: list[Any]) -> str | None:
        """Return how contents differ from an entry; None if they do not, or if the entry lacks the file."""
        files = manifest(held.entry)
        file = files.get(own) if files is not None else None
        is_root = own == held.entry["uri"]
        if file is None and not is_root:
            return None
        text = _text(contents)
        if text is None:
            return "it was answered with other contents than those of one file"
        if file is not None and _long_enough(text, file.size):
            # A text of this size never matches: it is not worth decoding.
            return f"it has more than {file.size} bytes"
        if len(text.content) <= _SHORT and not is_root:
            return _compared(text, file, None)
        return await asyncio.to_thread(_compared, text, file, held.entry if is_root else None)


class _FileText(NamedTuple):
    """The content of one file as it came: as text, or in base64."""

    content: str
    encoded: bool


def _text(contents: list[Any]) -> _FileText | None:
    """Return the content of a file; None if there is not one content alone."""
    one = contents[0] if len(contents) == 1 else None
    if not isinstance(one, dict):
        return None
    text, blob = one.get("text"), one.get("blob")
    if isinstance(text, str) and blob is None:
        return _FileText(text, encoded=False)
    return _FileText(blob, encoded=True) if isinstance(blob, str) and text is None else None


def _long_enough(text: _FileText, size: int) -> bool:
    """Return whether a content is surely longer than so many bytes: each character is one at least, and in base64,
    with line breaks, less.
    """
    return len(text.content) > (3 * size + 64 if text.encoded else size)


def _compared(text: _FileText, expected: SkillFile | None, entry: Mapping[str, Any] | None) -> str | None:
    """Return how the bytes of a file differ from its size and digest, and a SKILL.md from its entry."""
    try:
        raw = base64.b64decode(text.content) if text.encoded else text.content.encode()
    except (binascii.Error, ValueError):
        return "its content cannot be decoded"
    if expected is not None:
        if len(raw) != expected.size:
            return f"it has {len(raw)} bytes, not {expected.size}"
        if f"sha256:{sha256(raw).hexdigest()}" != expected.digest:
            return "its digest is another"
    return frontmatter_fault(raw, entry["frontmatter"], verified=expected is not None) if entry is not None else None


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


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None
