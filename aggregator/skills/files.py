"""The files of skills as declared in their entries: content is compared before a host gets it.

Law: bytes that differ from the entry are in no answer and no error.
"""

import asyncio
import base64
import binascii
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any, Final, NamedTuple

from aggregator.domain.bounds.lru import LruCache
from aggregator.domain.missing import SkillMismatch
from aggregator.gateway.agent_items import AgentItems
from aggregator.gateway.resolved_item import ResolvedItem
from aggregator.skills.catalog import SkillFile, manifest
from aggregator.skills.frontmatter import frontmatter_fault
from aggregator.skills.uris import SKILL_FILE, directories, skill_name

# Entries of skills that are in no list, and were got by their URI.
_KEPT: Final = 1_000
# Characters that are hashed on the event loop.
_SHORT: Final = 64 * 1024


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
