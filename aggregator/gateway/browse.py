"""The tools of the catalog for a user: one agent's view of them, or all; found, described, and with their cost."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from aggregator.catalog.listing import Listing
from aggregator.catalog.pages import render
from aggregator.code.programs import RUN_CODE
from aggregator.domain.bounds.slices import Slices, Steps
from aggregator.domain.decision import Decision
from aggregator.domain.principal import LOCAL, Principal
from aggregator.domain.records import ToolRecord
from aggregator.domain.text.tokens import estimate
from aggregator.gateway.host import Host
from aggregator.gateway.host_lists import HostLists
from aggregator.gateway.meta.exposure import is_short
from aggregator.gateway.meta.registry import MetaToolSet
from aggregator.gateway.views.current import CurrentCatalog
from aggregator.gateway.views.embeddings import MeaningProgress
from aggregator.gateway.views.finder import MOST_FOUND, Finder
from aggregator.gateway.views.instructions import instructions_about
from aggregator.gateway.views.views import View, Views
from aggregator.pins.gateway.state import HeldItem

if TYPE_CHECKING:
    from aggregator.catalog.search.explain import HitReasons

# Bytes of a definition that is still written out at every level.
LARGEST: Final = 2**20
# Characters of a text whose tokens are estimated in pieces; the rest is extrapolated.
_ESTIMATED: Final = 100_000
# Characters of a held tool's name and text that are searched.
_SEARCHED: Final = 4_000
# The principal of a user who views all tools; no agent can have this name.
_EVERYTHING: Final = Principal("")

Level = Literal[1, 2, 3]
LEVELS: Final[tuple[Level, ...]] = (1, 2, 3)


@dataclass(frozen=True, slots=True)
class LevelText:
    """The text of a tool for a model at one level; `text` is None if it is too large to write."""

    level: Level
    text: str | None
    tokens: int


@dataclass(frozen=True, slots=True)
class MayCall:
    """The decision about one tool for one agent."""

    agent: str
    decision: Decision


class HeldTool(NamedTuple):
    """A tool that waits for an approval: it is in no list and cannot be called. `why` says what keeps it."""

    tool: ToolRecord
    why: HeldItem


@dataclass(frozen=True, slots=True)
class ListCost:
    """The tools an agent may call and those it is shown in its list, with estimated tokens of both, the instructions
    included.
    """

    tools: int
    tokens: int
    shown_tools: int
    shown_tokens: int


class ToolBrowser:
    """The catalog for users."""

    def __init__(
        self,
        views: Views,
        current: CurrentCatalog,
        finder: Finder,
        host_lists: HostLists,
        meta_tools: MetaToolSet,
        slices: Slices,
    ) -> None:
        self._meta_tools = meta_tools
        self._views = views
        self._current = current
        self._finder = finder
        self._host_lists = host_lists
        self._slices = slices

    def agents(self) -> tuple[str, ...]:
        """Return the agents by name: those of the policies, or the single one without policies."""
        rulebook = self._views.rulebook
        return tuple(rulebook.agents) if rulebook is not None else (LOCAL.agent_id,)

    def principal(self, agent: str) -> Principal | None:
        """Return the principal that an agent is; None if there is no such agent."""
        rulebook = self._views.rulebook
        if rulebook is None:
            return LOCAL if agent == LOCAL.agent_id else None
        rules = rulebook.for_agent(agent)
        return Principal(agent, rules.tenant, rules.roles) if rules is not None else None

    def view(self, principal: Principal | None) -> View:
        """Return an agent's view; for None, the view of everything."""
        if principal is None:
            return View(_EVERYTHING, None, self._views.trusted)
        return self._views.of(principal)

    async def tools(self, view: View, server: str | None = None) -> Sequence[ToolRecord]:
        """Return the tools in list order, or those of one server, named by its id or prefix."""
        await self._prepared(view)
        return self._finder.tools(view) if server is None else self._finder.of_server(view, server)

    async def find(self, view: View, name: str) -> ToolRecord | None:
        """Return the tool of that canonical name with the schema in force for the agent, or None."""
        return (await self._finder.tools_by_name(view)).get(name)

    def held(self, name: str) -> HeldTool | None:
        """Return the held tool of a name in any spelling; None if there is none."""
        held = self._current.held
        for tool in held.tools.candidates(name) if held else ():
            why = held.tool(tool)
            if why is not None:
                return HeldTool(tool, why)
        return None

    def held_of(self, server: str, own_name: str) -> HeldTool | None:
        """Return the held tool of a server by its own name; None if it is not held."""
        held = self._current.held
        tool = held.tools.of_server(server, own_name) if held else None
        why = held.tool(tool) if tool is not None else None
        return HeldTool(tool, why) if tool is not None and why is not None else None

    async def held_tools(self, view: View, words: str = "", server: str | None = None) -> list[HeldTool]:
        """Return the held tools that would be in a view once approved, with all the words in their names or texts, of
        one server if it is named by its id or prefix.
        """
        return await self._slices.run(self._held_steps(view, words.lower().split(), server))

    def _held_steps(self, view: View, words: Sequence[str], server: str | None) -> Steps[list[HeldTool]]:
        held, found = self._current.held, []
        for tool in held.tools.tools if held else ():
            yield
            why = held.tool(tool)
            if why is None or (server is not None and server not in (tool.server, tool.prefix)):
                continue
            said = f"{tool.name} {tool.definition.get('description', '')}"[:_SEARCHED].lower()
            if all(word in said for word in words) and view.ruling(tool).decision.visible:
                found.append(HeldTool(tool, why))
        return found

    def meta_tool(self, name: str) -> ToolRecord | None:
        """Return the aggregator's own tool of that name; None if it has none."""
        found = self._meta_tools[name] if name == RUN_CODE else self._meta_tools.get(name)
        return found.record if found is not None else None

    async def search(self, view: View, query: str, server: str | None = None) -> list[ToolRecord]:
        """Return what `search_tools` finds, best first."""
        return await self._finder.search(view, query, MOST_FOUND, server)

    async def reasons(
        self, view: View, query: str, tools: Iterable[ToolRecord], server: str | None = None
    ) -> "Mapping[str, HitReasons]":
        """Return by name why a search found these tools."""
        return await self._finder.reasons(view, query, tools, server)

    async def nearest(self, view: View, name: str) -> list[str]:
        """Return a few names of tools that look like this one."""
        return await self._finder.nearest(view, name)

    @property
    def unsearchable(self) -> Mapping[str, str]:
        """The servers whose tools cannot be found by words, each with the reason."""
        return self._finder.index.unsearchable

    @property
    def not_indexed(self) -> int:
        """The number of tools that a search cannot find yet."""
        return self._finder.index.not_indexed

    @property
    def meaning_progress(self) -> MeaningProgress | None:
        """How many tools are found by their meaning so far; None once all are, or none is to be."""
        return self._finder.meanings.progress

    def source(self, tool: ToolRecord) -> str:
        """Return `local` or `mcp`: the kind of server that a tool is from."""
        return self._finder.source(tool)

    def annotations(self, view: View, tool: ToolRecord) -> Mapping[str, Any]:
        """Return the annotations that count for this agent."""
        return self._finder.annotations(view, tool)

    async def described(self, view: View, tools: Sequence[ToolRecord], level: Level) -> list[LevelText]:
        """Return the tools as `search_tools` and `describe_tools` write them at a level for this agent."""

        def work() -> list[LevelText]:
            from aggregator.gateway.meta.rendering import rendered

            write = rendered(self._finder, view, level)
            return [_text(tool, level, write(tool) if _size(tool) <= LARGEST else None) for tool in tools]

        return await asyncio.to_thread(work)

    async def who_may(self, tool: ToolRecord) -> list[MayCall]:
        """Return the decision about a tool for each agent, by the agent's name."""
        return await self._slices.run(self._who_may(tool))

    def _who_may(self, tool: ToolRecord) -> Steps[list[MayCall]]:
        found = []
        for agent in self.agents():
            yield
            principal = self.principal(agent)
            if principal is not None:
                found.append(MayCall(agent, self._views.of(principal).ruling(tool).decision))
        return found

    async def cost(self, principal: Principal) -> ListCost:
        """Return the cost of an agent's list over Streamable HTTP, with all its tools and in its listed form."""
        host = Host("http", "canonical", principal)
        whole = await self._prepared(self._views.of(principal))
        await self._host_lists.prepare(host)
        shown = self._host_lists.tools_for(host)[1]
        view = self._views.of(principal)
        servers, off, left_out = (
            self._finder.servers(view),
            self._finder.switched_off(view),
            self._finder.left_out(view),
        )
        both = []
        for listing in (whole, shown):
            # A model pays for the instructions too.
            text = instructions_about(servers, short=is_short(listing), off=off, left_out=left_out)
            both.append(await self._slices.run(_tokens(listing)) + estimate(text))
        return ListCost(len(whole), both[0], len(shown), both[1])

    async def _prepared(self, view: View) -> Listing:
        return await self._views.prepare_listing(view, self._current.tools, self._slices)


def _tokens(listing: Listing) -> Steps[int]:
    """Return the estimated tokens of a list, at four bytes a token."""
    size = 0
    for tool in listing.tools:
        yield
        size += _size(tool)
    return size // 4


def _size(tool: ToolRecord) -> int:
    return len(render(tool, "canonical"))


def _text(tool: ToolRecord, level: Level, text: str | None) -> LevelText:
    if text is None:
        return LevelText(level, None, _size(tool) // 4)
    tokens = estimate(text[:_ESTIMATED])
    return LevelText(level, text, tokens if len(text) <= _ESTIMATED else tokens * len(text) // _ESTIMATED)
