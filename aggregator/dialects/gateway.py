"""Lists in the dialect of a host's model API, and the way back of its arguments.

Rule: a bounded cache keeps mended definitions, by definition and dialect: a list costs the work once, and a call none.
A host without a dialect costs nothing.
"""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from aggregator.catalog.describe.compact_schema import compact
from aggregator.catalog.describe.truncate import MARK
from aggregator.catalog.listing import Listing
from aggregator.catalog.pages import Pages
from aggregator.dialects.mend.apis import APIS, ModelApi
from aggregator.dialects.mend.build import CannotMend
from aggregator.dialects.mend.mend import mend
from aggregator.dialects.mend.read_back import Reader
from aggregator.dialects.names import Schemas
from aggregator.domain.bounds.lru import LruCache
from aggregator.domain.records import ToolRecord
from aggregator.gateway.views.views import tightened
from aggregator.policy.rulebook import Tightening
from aggregator.wire.codec import encode

# Definitions and lists of which the mended form is kept.
_DEFINITIONS: Final = 8_192
_LISTS: Final = 16
_NAMED: Final = 5


class MendedTool(NamedTuple):
    """A tool for one model API. definition: None if it is left out, for `reason`. changes: the mends, in words; empty
    if the definition is as the server gave it. reader: the way back of arguments, if there is one.
    """

    definition: Mapping[str, Any] | None
    changes: tuple[str, ...] = ()
    reader: Reader | None = None
    reason: str = ""


class DialectReport(NamedTuple):
    """The effect of a dialect on a list: the changes of each mended tool, and why others are left out, by name.
    `total` tools are there, and the API takes `most`.
    """

    title: str
    most: int | None
    total: int
    mended: Mapping[str, tuple[str, ...]]
    left_out: Mapping[str, str]

    def notes(self) -> tuple[str, ...]:
        """Return sentences about it, in our own words."""
        found = []
        if self.most is not None and self.total > self.most:
            found.append(
                f"{self.title} takes {self.most} tools: of {self.total}, the first are listed; call others by name"
            )
        if self.left_out:
            first = [f"{name} ({why})" for name, why in list(self.left_out.items())[:_NAMED]]
            more = f" and {len(self.left_out) - _NAMED} more" if len(self.left_out) > _NAMED else ""
            found.append(f"not listed to this host, for {self.title}: {', '.join(first)}{more}")
        if self.mended:
            kinds = Counter(change for changes in self.mended.values() for change in changes)
            said = ", ".join(kind for kind, _ in kinds.most_common(_NAMED))
            count = len(self.mended)
            found.append(f"{count} definition{'s' if count > 1 else ''} mended for {self.title}: {said}")
        return tuple(found)


class Dialects:
    """The mended definitions of all tools, made when a host first needs them."""

    def __init__(self) -> None:
        self._by_digest: LruCache[tuple[bytes, Schemas], MendedTool] = LruCache(_DEFINITIONS)
        # For calls, which make no digest. An entry keeps its definition alive, so that no other object gets its id.
        self._by_identity: LruCache[tuple[int | str, ...], tuple[tuple[Any, ...], MendedTool]] = LruCache(_DEFINITIONS)
        self._lists: LruCache[tuple[Pages[Any], Schemas, bool], Listing] = LruCache(_LISTS)

    def of(self, tool: ToolRecord, dialect: Schemas, rules: tuple[Tightening, ...] = ()) -> MendedTool:
        """Return a tool in a dialect; `rules` are those of the policy that its listed schema has too."""
        made_of = (tool.definition, *(rule.schema for rule in rules))
        key = (dialect, *map(id, made_of))
        known = self._by_identity.get(key)
        if known is None:
            whole = tightened(tool, rules) if rules else tool
            digest = _digest(whole)
            found = self._by_digest.get((digest, dialect))
            known = made_of, found if found is not None else in_dialect(whole, APIS[dialect])
            self._keep(key, digest, dialect, known)
        return known[1]

    def _keep(
        self, key: tuple[int | str, ...], digest: bytes, dialect: Schemas, made: tuple[tuple[Any, ...], MendedTool]
    ) -> None:
        self._by_identity.put(key, made)
        self._by_digest.put((digest, dialect), made[1])

    async def _all(self, tools: Sequence[ToolRecord], dialect: Schemas) -> list[MendedTool]:
        """Return these tools in a dialect, made in a thread if they are not known."""
        found = [self._by_identity.get((dialect, id(tool.definition))) for tool in tools]
        missing = [tool for tool, known in zip(tools, found, strict=True) if known is None]
        if not missing:
            return [known[1] for known in found if known is not None]
        known_now = dict(self._by_digest.items())
        made = iter(await asyncio.to_thread(_mended, missing, dialect, known_now))
        all_of_them = []
        for tool, known in zip(tools, found, strict=True):
            if known is None:
                digest, one = next(made)
                known = (tool.definition,), one
                self._keep((dialect, id(tool.definition)), digest, dialect, known)
            all_of_them.append(known[1])
        return all_of_them

    def is_ready(self, tool: ToolRecord, dialect: Schemas, rules: tuple[Tightening, ...]) -> bool:
        """Return whether `reader` has the way back at hand: making it can take long."""
        made_of = (tool.definition, *(rule.schema for rule in rules))
        return dialect not in APIS or self._by_identity.get((dialect, *map(id, made_of))) is not None

    async def make_ready(self, tool: ToolRecord, dialect: Schemas, rules: tuple[Tightening, ...]) -> None:
        """Make the way back for `reader` in a thread, if it is not at hand."""
        if self.is_ready(tool, dialect, rules):
            return
        made_of = (tool.definition, *(rule.schema for rule in rules))
        whole, known_now = tightened(tool, rules) if rules else tool, dict(self._by_digest.items())
        ((digest, one),) = await asyncio.to_thread(_mended, [whole], dialect, known_now)
        self._keep((dialect, *map(id, made_of)), digest, dialect, (made_of, one))

    def reader(self, tool: ToolRecord, dialect: Schemas, rules: tuple[Tightening, ...]) -> Reader | None:
        """Return the way back of the arguments of a tool in a dialect; None if they come as the original has them."""
        return self.of(tool, dialect, rules).reader if dialect in APIS else None

    async def listing(self, listing: Pages[ToolRecord], dialect: Schemas, *, every: bool = False) -> Pages[ToolRecord]:
        """Return a list in a dialect; the same list if that changes nothing.

        every: the list may have more tools than the model API takes in a request.
        """
        if dialect not in APIS:
            return listing
        known = self._lists.get((listing, dialect, every))
        if known is None:
            mended = zip(listing.records, await self._all(listing.records, dialect), strict=True)
            tools = [_shown(tool, one) for tool, one in mended if one.definition is not None]
            known = Listing(tools if every else tools[: APIS[dialect].tools])
            self._lists.put((listing, dialect, every), known)
        return known

    async def report(
        self, tools: Sequence[ToolRecord], dialect: Schemas, *, every: bool = False
    ) -> DialectReport | None:
        """Return the effect of a dialect on these tools, `every` one of which may be listed; None for `original`."""
        if dialect not in APIS:
            return None
        made = list(zip(tools, await self._all(tools, dialect), strict=True))
        mended = {tool.name: one.changes for tool, one in made if one.definition is not None and one.changes}
        left_out = {tool.name: one.reason for tool, one in made if one.definition is None}
        api = APIS[dialect]
        return DialectReport(api.title, None if every else api.tools, len(tools), mended, left_out)


def _shown(tool: ToolRecord, mended: MendedTool) -> ToolRecord:
    assert mended.definition is not None
    return replace(tool, definition=mended.definition, rendered={}) if mended.changes else tool


def _mended(
    tools: Iterable[ToolRecord], dialect: Schemas, known: Mapping[tuple[bytes, Schemas], MendedTool]
) -> list[tuple[bytes, MendedTool]]:
    made = []
    for tool in tools:
        digest = _digest(tool)
        found = known.get((digest, dialect))
        made.append((digest, found if found is not None else in_dialect(tool, APIS[dialect])))
    return made


def _digest(tool: ToolRecord) -> bytes:
    return hashlib.blake2b(encode([tool.own_name, tool.definition]), digest_size=16).digest()


def in_dialect(tool: ToolRecord, api: ModelApi) -> MendedTool:
    """Return a tool as a model API takes it; the definition itself if it breaks no rule."""
    try:
        schema, rules, changes, reader = mend(tool.definition["inputSchema"], api)
        if changes:
            schema, rules, _, reader = mend(compact(tool.definition["inputSchema"], tool.own_name), api)
    except CannotMend as why:
        return MendedTool(None, reason=str(why))
    said = tool.definition.get("description")
    words = described(tool.definition, rules, api.description)
    if words == said or (not words and said is None):
        definition = tool.definition if not changes else {**tool.definition, "inputSchema": schema}
        return MendedTool(definition, changes, reader)
    if len(words) < len(said if isinstance(said, str) else ""):
        changes = (*changes, "a description that is too long")
    elif not changes:
        return MendedTool(tool.definition)
    return MendedTool({**tool.definition, "description": words, "inputSchema": schema}, changes, reader)


def described(definition: Mapping[str, Any], rules: tuple[str, ...], limit: int | None) -> str:
    """Return the description of a tool, or its title, and below it the rules, which are never truncated for it."""
    said = definition.get("description")
    if not isinstance(said, str) or not said.strip():
        title = definition.get("title")
        said = title if isinstance(title, str) else ""
    ruled = "\n".join(rules)
    if limit is not None:
        ruled = _cut(ruled, limit // 2)
        said = _cut(said, limit - len(ruled) - 1)
    return f"{said}\n{ruled}" if said and ruled else said or ruled


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1].rstrip()}{MARK}"
