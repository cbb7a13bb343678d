"""Search in an agent's tools: by words, by name, by server or by the intent of a message. Nothing is called here.

Law: every answer comes from the agent's own list, so that a search finds only callable tools.

The engines of search and intent are imported at their first use: their tables take a while to load, and no start waits
for them. `tool_index` keeps the index that is searched.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from aggregator.catalog.listing import Listing
from aggregator.config.model import Config
from aggregator.config.server_config import LeftOutEntry, ServerConfig
from aggregator.config.servers.names import source_of
from aggregator.domain.bounds.lru import LruCache
from aggregator.domain.bounds.slices import Slices
from aggregator.domain.names import Style
from aggregator.domain.records import ToolRecord
from aggregator.gateway.views.current import CurrentCatalog
from aggregator.gateway.views.embeddings import Similarity, ToolEmbeddings
from aggregator.gateway.views.known_servers import FailoverStatus, KnownServers
from aggregator.gateway.views.server_seen import ServerSeen
from aggregator.gateway.views.tool_index import ToolIndex
from aggregator.gateway.views.views import View, Views
from aggregator.pins.gateway.book import PinBook
from aggregator.skills.finder import SkillFinder
from aggregator.upstream.upstreams import Upstreams

if TYPE_CHECKING:
    from aggregator.catalog.search.explain import HitReasons
    from aggregator.catalog.search.index import SearchIndex
    from aggregator.catalog.search.relevance import Relevance
    from aggregator.catalog.search.semantic.merge import QueryMeaning
    from aggregator.catalog.search.visible import VisibleTools
    from aggregator.intent.match.intent import IntentMatch, IntentMatcher

log = logging.getLogger(__name__)

# Seconds that a search waits for the index of a changed catalog before it uses the older one.
_INDEX_WAIT: Final = 5.0
_VIEWS_KEPT: Final = 64
# Answers kept for each of these views, and the characters of a query whose answer is kept.
_ANSWERS_KEPT: Final = 16
_LONGEST_KEPT: Final = 500
# The most tools that one search returns.
MOST_FOUND: Final = 200
# Above this number of tools, a search runs in a thread: it takes some milliseconds for each 10,000 matching ones.
_AT_ONCE: Final = 10_000


@dataclass(slots=True)
class _KeptAnswer:
    """The answer to a query by keywords alone: the best `most` tools, and how well they fit, once computed."""

    most: int
    tools: list[ToolRecord]
    relevance: "Relevance | None" = None


@dataclass(frozen=True, slots=True)
class _SearchableView:
    """The part of the search index that one agent may see, and the last answers from it by query."""

    index: "SearchIndex"
    listing: Listing
    searchable: "VisibleTools"
    by_name: Mapping[str, ToolRecord]
    answers: LruCache[str, _KeptAnswer] = field(default_factory=lambda: LruCache(_ANSWERS_KEPT))


class Finder:
    """The search over the current catalog; `index` is the index of its tools, `meanings` their embeddings."""

    def __init__(
        self,
        config: Config,
        upstreams: Upstreams,
        views: Views,
        current: CurrentCatalog,
        failover: FailoverStatus,
        slices: Slices,
        meanings: ToolEmbeddings | None = None,
        pins: PinBook | None = None,
    ) -> None:
        self._known_servers = KnownServers(upstreams, views, current, failover, pins)
        self.meanings = meanings if meanings is not None else ToolEmbeddings()
        self.index = ToolIndex(config, current, self.meanings)
        self.skills = SkillFinder(views, current, slices)
        self._config = config
        self._upstreams = upstreams
        self._views = views
        self._slices = slices
        self._current = current
        # By the rules of an agent, and the server that it searches, if it is one alone.
        self._visible_of: LruCache[tuple[str, str | None], _SearchableView] = LruCache(_VIEWS_KEPT)
        self._intents: IntentMatcher | None = None
        check_search(config)

    @property
    def configured(self) -> bool:
        """True if the configuration has a server, or an entry for one that cannot be used."""
        return bool(self._config.servers or self._config.left_out)

    @property
    def made_of(self) -> tuple[object, ...]:
        """The snapshots behind the answers of a search and of the tools' descriptions; each is replaced as a whole."""
        current = self._current
        return (
            current.tools,
            current.resources,
            current.held,
            self._config,
            self.index.searchable,
            self.index.unsearchable,
            self.meanings.tools,
        )

    @property
    def settled(self) -> bool:
        """True if a search finds by keywords alone, in an index of all current tools and skills: then it finds the same
        until one of `made_of` is replaced.
        """
        index = self.index
        return index.fresh.is_set() and self.meanings.tools is None and self.skills.settled and not index.unsearchable

    def explains(self, view: View) -> bool:
        """Return whether no server is configured, or one that the agent may know of could not be reached yet, or is
        left out.
        """
        return not self.configured or any(seen.is_unreached for seen in self.servers(view)) or bool(self.left_out(view))

    def reconfigure(self, config: Config) -> None:
        """Take the servers and search settings of a new configuration."""
        self._config = config
        self._intents = None
        self.index.reconfigure(config)

    def tools(self, view: View) -> tuple[ToolRecord, ...]:
        """Return all tools that the agent may call, with the schemas in force for it."""
        return self._views.listing(view, self._current.tools).tools

    def of_server(self, view: View, server: str) -> list[ToolRecord]:
        """Return the agent's tools of one server, by its id or prefix."""
        return list(self._views.listing(view, self._current.tools).tools_of(server))

    async def search(self, view: View, query: str, limit: int, server: str | None = None) -> list[ToolRecord]:
        """Return the best `limit` tools for a query, best first."""
        visible = await self._visible(view, server)
        if visible is None:
            return []
        return await self._found(visible, query, limit, await self.meanings.similarities_to(query))

    async def search_and_judge(
        self, view: View, query: str, limit: int, server: str | None = None
    ) -> "tuple[list[ToolRecord], Relevance | None]":
        """Return what `search` finds, and how many of these tools fit, and whether even the best hardly does; None if
        nothing was found.
        """
        visible = await self._visible(view, server)
        if visible is None:
            return [], None
        similarities = await self.meanings.similarities_to(query)
        if similarities is not None:
            return await asyncio.to_thread(_ranked_and_judged, visible, query, limit, similarities)
        found = await self._found(visible, query, limit, None)
        if not found:
            return found, None
        kept = visible.answers.get(query)
        if kept is not None and kept.relevance is not None and kept.most == limit:
            return found, kept.relevance
        names = [tool.name for tool in found]
        if len(visible.by_name) > _AT_ONCE:
            judged = await asyncio.to_thread(_judged, visible.searchable, query, names)
        else:
            judged = _judged(visible.searchable, query, names)
        if kept is not None and kept.most == limit:
            kept.relevance = judged
        return found, judged

    async def _found(
        self, visible: _SearchableView, query: str, limit: int, similarities: Similarity | None
    ) -> list[ToolRecord]:
        if similarities is not None:
            return await asyncio.to_thread(_ranked_by_all, visible, query, limit, similarities)
        kept = visible.answers.get(query)
        if kept is not None and kept.most >= limit:
            return kept.tools[:limit]
        if len(visible.by_name) > _AT_ONCE:
            found = await asyncio.to_thread(_ranked, visible, visible.searchable, query, limit)
        else:
            found = _ranked(visible, visible.searchable, query, limit)
        if limit <= MOST_FOUND and len(query) <= _LONGEST_KEPT:
            visible.answers.put(query, _KeptAnswer(limit, [*found]))
        return found

    async def reasons(
        self, view: View, query: str, tools: Iterable[ToolRecord], server: str | None = None
    ) -> "Mapping[str, HitReasons]":
        """Return by canonical name why `search` found these tools; nothing for those that only their meaning found."""
        visible = await self._visible(view, server)
        if visible is None:
            return {}
        from aggregator.catalog.search.explain import reasons

        names, texts = {tool.name for tool in tools}, self.index.texts()
        return await asyncio.to_thread(reasons, visible.searchable, query, names, texts)

    async def match(self, view: View, message: str, limit: int) -> "IntentMatch":
        """Return the tools that a chat message asks for (`catalog.intent`)."""
        if self._intents is None:
            self._intents = await asyncio.to_thread(self._read_intents)
        visible = await self._visible(view)

        def rank(query: str, tools: tuple[ToolRecord, ...]) -> list[ToolRecord]:
            if visible is None:
                return list(tools)
            searchable = visible.index.visible_to({tool.name for tool in tools})
            best = _ranked(visible, searchable, query, len(tools))
            return [*best, *(tool for tool in tools if tool not in best)]

        return self._intents.match(message, self.tools(view), limit, rank=rank)

    async def nearest(self, view: View, name: str, style: Style = "canonical") -> list[str]:
        """Return up to three names of the agent's list that look like this one."""
        listing = await self._views.prepare_listing(view, self._current.tools, self._slices)
        return await self._slices.run(listing.nearest_steps(name, style))

    async def tools_by_name(self, view: View) -> Mapping[str, ToolRecord]:
        """Return the agent's tools by name, with the schemas in force for it."""
        return await self._slices.run(
            (await self._views.prepare_listing(view, self._current.tools, self._slices)).name_steps()
        )

    async def tools_spelled(self, view: View, name: str) -> Sequence[ToolRecord]:
        """Return the agent's tools that a name may stand for which is not written as any tool's; all of them."""
        listing = await self._views.prepare_listing(view, self._current.tools, self._slices)
        return (await self._slices.run(listing.spelling_steps())).tools(name)

    def tools_spelled_now(self, view: View, name: str) -> Sequence[ToolRecord] | None:
        """Return what `tools_spelled` does; None if that takes a while the first time."""
        tools = self._current.tools
        if not self._views.is_ready(view, tools, self._current.resources):
            return None
        spelled = self._views.listing(view, tools).spelled
        return spelled.tools(name) if spelled is not None else None

    def servers(self, view: View) -> list[ServerSeen]:
        """Return the servers that the agent may know of."""
        seen = self._known_servers.all(view)
        return [self._searched(one) for one in seen] if self.index.unsearchable else seen

    def switched_off(self, view: View) -> list[str]:
        """Return the names of the servers that the agent could use if they were switched on in the configuration."""
        return self._known_servers.switched_off(view)

    def left_out(self, view: View) -> list[LeftOutEntry]:
        """Return the entries that cannot be used, of those that the agent may know of."""
        return [entry for entry in self._config.left_out if view.might_use_entry(entry.name)]

    def unreachable(self, tools: Iterable[ToolRecord]) -> list[str]:
        """Return the names of the servers of these tools to which no call can go now."""
        return self._known_servers.unreachable(tools)

    def server_named(self, view: View, name: str) -> ServerSeen | None:
        """Return the server of that id or prefix; else the only one that it fits but for case and signs."""
        seen = self._known_servers.named(view, name)
        return self._searched(seen) if seen is not None and self.index.unsearchable else seen

    def _searched(self, seen: ServerSeen) -> ServerSeen:
        """Return a server, with the note that its tools cannot be found by words if that is so."""
        return replace(seen, unsearchable=True) if seen.tools and seen.config.id in self.index.unsearchable else seen

    def annotations(self, view: View, tool: ToolRecord) -> Mapping[str, Any]:
        """Return the annotations of a tool that count: the operator's and a trusted server's."""
        said = tool.definition.get("annotations") if self._config_of(tool).trusted else None
        counted = {key: value for key, value in said.items() if key.endswith("Hint")} if isinstance(said, dict) else {}
        return {**counted, "readOnlyHint": True} if view.read_only(tool) else counted

    def source(self, tool: ToolRecord) -> Literal["local", "mcp"]:
        """Return the kind of server that the tool is from."""
        return source_of(self._config_of(tool).type)

    def _config_of(self, tool: ToolRecord) -> ServerConfig:
        return self._upstreams[tool.server].config

    def unsearchable_of(self, view: View) -> list[str]:
        """Return the servers of an agent's tools that cannot be found by words, by the names that it knows."""
        return [seen.name for seen in self.servers(view) if seen.unsearchable] if self.index.unsearchable else []

    def not_indexed_of(self, view: View) -> int:
        """Return how many of an agent's own tools its last search could not find, since they were not indexed."""
        if self.index.fresh.is_set():
            return 0
        known = self._visible_of.get((view.key, None))
        return len(known.by_name) - known.searchable.count if known is not None else len(self.tools(view))

    async def _visible(self, view: View, server: str | None = None) -> _SearchableView | None:
        """Return the agent's part of the index, or what of it is of one server, by its id or prefix.

        None before the first part of the first index is there.
        """
        if not self.index.fresh.is_set():
            try:
                async with asyncio.timeout(_INDEX_WAIT):
                    await self.index.wait_indexed()
            except TimeoutError:
                log.warning("a search uses an index that is older than the catalog: the new one is not ready yet")
        if self.index.searchable is None:
            return None
        listing = await self._views.prepare_listing(view, self._current.tools, self._slices)
        key = view.key, server
        known = self._visible_of.get(key)
        if known is None or known.index is not self.index.searchable or known.listing is not listing:
            by_name = await self._slices.run(listing.name_steps())
            if server is not None:
                by_name = {tool.name: tool for tool in listing.tools_of(server)}
            index = self.index.searchable
            known = _SearchableView(index, listing, index.visible_to(by_name), by_name)
            self._visible_of.put(key, known)
        return known

    def _read_intents(self) -> "IntentMatcher":
        """Return the matcher of intents. Runs in a thread: the tables are slow to import."""
        from aggregator.intent.match.intent import IntentMatcher, ServerWords

        return IntentMatcher(
            ServerWords(server.id, server.prefix, server.description, server.trigger_keywords)
            for server in self._config.servers
        )


def check_search(config: Config) -> None:
    """Check that the configured search can be used.

    Raises:
        OperatorError: semantic search is configured, and numpy or every model is missing.
    """
    if config.search.semantic:
        from aggregator.catalog.search.semantic.installed import installed_models

        installed_models()


def _ranked(visible: _SearchableView, searchable: "VisibleTools", query: str, limit: int) -> list[ToolRecord]:
    """Return the hits, with the schemas in force for the agent."""
    from aggregator.catalog.search.destructive import LOOKED_AT, harmless_first
    from aggregator.catalog.search.index import search

    found = [visible.by_name[hit.tool.name] for hit in search(searchable, query, max(limit, LOOKED_AT))]
    return harmless_first(searchable, query, found, None)[:limit]


def _judged(searchable: "VisibleTools", query: str, names: Sequence[str]) -> "Relevance":
    from aggregator.catalog.search.relevance import check_relevance

    return check_relevance(searchable, query, names)


def _ranked_by_all(visible: _SearchableView, query: str, limit: int, similarities: Similarity) -> list[ToolRecord]:
    """Return the hits by keywords and by meaning, with the schemas in force for the agent."""
    return _merged(visible, query, limit, similarities(visible.by_name))[0]


def _ranked_and_judged(
    visible: _SearchableView, query: str, limit: int, similarities: Similarity
) -> "tuple[list[ToolRecord], Relevance | None]":
    """Return what `_ranked_by_all` does, and how well it fits; None if nothing was found."""
    from aggregator.catalog.search.relevance import check_relevance

    meaning = similarities(visible.by_name)
    found, scores = _merged(visible, query, limit, meaning)
    if not found:
        return found, None
    names = [tool.name for tool in found]
    return found, check_relevance(visible.searchable, query, names, meaning.judge, scores)


def _merged(
    visible: _SearchableView, query: str, limit: int, meaning: "QueryMeaning"
) -> tuple[list[ToolRecord], dict[str, float]]:
    """Return the hits by keywords and by meaning, and their scores by canonical name."""
    from aggregator.catalog.search.destructive import LOOKED_AT, harmless_first
    from aggregator.catalog.search.index import search
    from aggregator.catalog.search.semantic.merge import CANDIDATES, merge_hits

    hits = search(visible.searchable, query, max(limit, CANDIDATES))
    merged = merge_hits(hits, meaning, visible.by_name, max(limit, LOOKED_AT))
    found = harmless_first(visible.searchable, query, [hit.tool for hit in merged], meaning.judge)
    return found[:limit], {hit.tool.name: hit.score for hit in merged}
