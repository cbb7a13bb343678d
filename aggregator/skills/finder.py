"""Search in an agent's skills, by words and by name, for models whose hosts do not support skills.

Law: like a search for tools, every answer comes from the agent's own view.
"""

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from aggregator.catalog.resources import ItemCatalog
from aggregator.domain.bounds.lru import LruCache
from aggregator.domain.bounds.slices import Slices
from aggregator.domain.records import ItemRecord, ToolRecord
from aggregator.gateway.views.current import CurrentCatalog
from aggregator.gateway.views.views import View, Views
from aggregator.skills.uris import skill_name

if TYPE_CHECKING:
    from aggregator.catalog.search.index import SearchIndex
    from aggregator.catalog.search.visible import VisibleTools

log = logging.getLogger(__name__)

# What the name of a skill begins with, where names of tools stand too.
SKILL: Final = "skill:"
# The argument of a read that names a file of the skill.
FILE: Final = "file"
# Seconds that a search waits for the index of changed skills before it uses the older one.
_INDEX_WAIT: Final = 5.0
_VIEWS_KEPT: Final = 64
# Seconds to sleep after every few skills, so that the event loop gets the interpreter.
_PAUSE: Final = 50e-6
_SCHEMA: Final = {"type": "object", "properties": {FILE: {"type": "string"}}}


class _SkillIndex(NamedTuple):
    """The index of one snapshot."""

    items: ItemCatalog
    tools: "SearchIndex"


class SkillFinder:
    """The search over the skills of the current snapshot. They are indexed when the first search wants them."""

    def __init__(self, views: Views, current: CurrentCatalog, slices: Slices) -> None:
        self._views = views
        self._current = current
        self._slices = slices
        self._known: _SkillIndex | None = None
        self._wanted = asyncio.Event()
        self._fresh = asyncio.Event()
        self._visible: LruCache[str, tuple[_SkillIndex, ItemCatalog, VisibleTools]] = LruCache(_VIEWS_KEPT)

    async def run(self) -> None:
        """Index the skills of the current snapshot whenever a search wants them, until cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            items = self._current.resources
            try:
                self._known = await asyncio.to_thread(_indexed, items)
            except Exception as error:  # the index before goes on, and the next skills are indexed
                log.error("the skills cannot be indexed for search", exc_info=error)
            if items is self._current.resources:
                self._fresh.set()

    @property
    def settled(self) -> bool:
        """True if there are no skills, or all of the current snapshot are indexed."""
        items = self._current.resources
        return not items.skills.records or (self._known is not None and self._known.items is items)

    async def named(self, view: View, name: str) -> ItemRecord | None:
        """Return the agent's skill of a name like `skill:docs.git-workflow`, or None."""
        if not name.startswith(SKILL):
            return None
        items = await self._views.prepare_resources(view, self._current.resources, self._slices)
        return items.skill_called(name.removeprefix(SKILL))

    def held(self, view: View, name: str) -> ItemRecord | None:
        """Return the skill of a name that waits for an approval, if the agent could have it; its files are refused."""
        if not name.startswith(SKILL) or not self._current.held:
            return None
        record = self._current.held.items.skill_called(name.removeprefix(SKILL))
        return record if record is not None and view.shows(record) else None

    async def nearest(self, view: View, name: str) -> list[str]:
        """Return names of the agent's skills that end like this one, the first few."""
        items = await self._views.prepare_resources(view, self._current.resources, self._slices)
        last = name.rpartition("/")[2].rpartition(".")[2].removeprefix(SKILL)
        alike = (one for one in items.skills.records if one.own_name.endswith(f"/{last}/SKILL.md"))
        return [full_name(one) for one, _ in zip(alike, range(3), strict=False)]

    async def search(
        self, view: View, query: str, limit: int, server: str | None = None
    ) -> tuple[list[ToolRecord], int]:
        """Return the first `limit` skills that fit a query, best first, or without one all, in order, and how many are
        left out. `server`: of this one alone, by its id.
        """
        if not self._current.resources.skills.records:
            return [], 0
        items = await self._views.prepare_resources(view, self._current.resources, self._slices)
        if not items.skills.records:
            return [], 0
        if not query:
            mine = [one for one in items.skills.records if server in (None, one.server)]
            return [as_tool(one) for one in mine[:limit]], max(0, len(mine) - limit)
        visible = await self._searchable(view, items)
        if visible is None:
            return [], 0
        found = await asyncio.to_thread(_fitting, visible, query, limit, server)
        return found, 0

    async def _searchable(self, view: View, items: ItemCatalog) -> "VisibleTools | None":
        """Return the agent's part of the index; None before there is one."""
        if self._known is None or self._known.items is not self._current.resources:
            self._fresh.clear()
            self._wanted.set()
            try:
                async with asyncio.timeout(_INDEX_WAIT):
                    await self._fresh.wait()
            except TimeoutError:
                log.warning("a search uses an index of skills that is older than they are: the new one is not ready")
        known = self._known
        if known is None:
            return None
        kept = self._visible.get(view.key)
        if kept is None or kept[0] is not known or kept[1] is not items:
            names = frozenset(full_name(one) for one in items.skills.records)
            kept = known, items, await asyncio.to_thread(known.tools.visible_to, names)
            self._visible.put(view.key, kept)
        return kept[2]


def full_name(record: ItemRecord) -> str:
    """Return the name of a skill as policies and models write it: `skill:docs.git-workflow`."""
    return f"{SKILL}{record.prefix or record.server}.{skill_name(record.own_name)}"


def as_tool(record: ItemRecord) -> ToolRecord:
    """Return a skill as search looks at it: under its full name, with the description of its frontmatter."""
    name = full_name(record)
    definition: dict[str, Any] = {
        "name": name,
        "description": record.definition["frontmatter"]["description"],
        "inputSchema": _SCHEMA,
    }
    return ToolRecord(record.server, "", name, definition, {"canonical": name, "compatible": name}, 0.0)


def _indexed(items: ItemCatalog) -> _SkillIndex:
    """Index the skills of a snapshot. Runs in a thread."""
    # The tables of search are slow to import: no start waits for them.
    from aggregator.catalog.search.index import SearchIndex

    servers: dict[str, list[ToolRecord]] = {}
    for record in items.skills.records:
        servers.setdefault(record.server, []).append(as_tool(record))
    index = SearchIndex().with_each({server: (server, skills) for server, skills in servers.items()}, _rest, {})
    return _SkillIndex(items, index)


def _fitting(visible: "VisibleTools", query: str, limit: int, server: str | None) -> list[ToolRecord]:
    """Return the skills that fit a query; none where even the best hardly does."""
    from aggregator.catalog.search.index import search
    from aggregator.catalog.search.relevance import check_relevance

    hits = [hit.tool for hit in search(visible, query, _MOST) if server in (None, hit.tool.server)]
    if not hits:
        return []
    judged = check_relevance(visible, query, [tool.name for tool in hits])
    return [] if judged.weak else hits[: min(limit, judged.fitting)]


# Hits that are filtered by server.
_MOST: Final = 200


def _rest() -> None:
    time.sleep(_PAUSE)
