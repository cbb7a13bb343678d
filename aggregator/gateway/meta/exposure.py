"""Exposure: an agent's list holds all its tools, or the meta tools and the pinned tools.

Law: the choice depends on the agent, the frontend and the known tools only, never on earlier calls, nor on which
servers are away: their tools stay in the catalog as long as they are known. Only a list without a tool has
`list_servers`, if that can say why: no server is configured, or one could not be reached yet. Such a server does not
start here, or waits for a sign-in.
"""

from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from aggregator.catalog.listing import Listing
from aggregator.catalog.pages import render
from aggregator.code.programs import RUN_CODE
from aggregator.config.model import Config
from aggregator.config.settings import Expose
from aggregator.domain.bounds.lru import LruCache
from aggregator.domain.bounds.slices import Slices, Steps, at_once
from aggregator.domain.names import canonical
from aggregator.domain.records import ToolRecord
from aggregator.domain.text.tokens import estimate
from aggregator.gateway.meta.registry import MetaToolSet
from aggregator.gateway.meta.tool import SOURCE
from aggregator.gateway.views.views import View
from aggregator.results.meta_tool import RECORD as READ_RESULT_RECORD
from aggregator.tool_reports.book import REPORT_TOOL


def exposed_at(config: Config) -> dict[str, Expose]:
    """Return the `expose` setting of each frontend."""
    return {frontend: getattr(config, frontend).expose or config.expose for frontend in ("http", "sse", "stdio")}


# Bytes of a list that count as a token, in the metric and for `auto`.
_BYTES: Final = 4
# Agents whose short list is cached.
_KEPT: Final = 256
# The meta tool that stands in a list without a tool.
EXPLAINING: Final = "list_servers"
# Up to so many tools are chosen from without slices.
_AT_ONCE: Final = 200


Explains = Callable[[View], bool]
"""True if an agent whose list has no tool should hear about servers."""


class _KeptList(NamedTuple):
    """The list of an agent, with its source tools."""

    agent: str
    whole: Listing
    listed: Listing


class Exposure:
    """The choice of listed tools. The configuration has the patterns of pinned ones and the tokens that `auto` allows a
    list.
    """

    def __init__(self, meta: MetaToolSet, config: Config, explains: Explains) -> None:
        self._meta = meta
        self._pinned = tuple(config.pinned)
        self._budget = config.expose_budget
        # The bounds on results, beyond which there is something to read on.
        self._results = config.results
        self._explains = explains
        self._kept: LruCache[tuple[str, Expose], _KeptList] = LruCache(_KEPT)
        self._instructions: LruCache[str, int] = LruCache(_KEPT)

    def reconfigure(self, config: Config) -> None:
        """Take the pinned patterns, the budget and the bounds on results of a new configuration."""
        self._pinned, self._budget, self._results = tuple(config.pinned), config.expose_budget, config.results
        self._kept.clear()

    @property
    def pins(self) -> bool:
        """True if the configuration pins tools."""
        return bool(self._pinned)

    def listing(self, view: View, whole: Listing, expose: Expose) -> Listing:
        """Return the listed part of `whole`, which holds all tools that the agent may call."""
        if expose == "all" and len(whole) and not self._added(view):
            return whole
        if not len(whole) and expose in ("all", "auto"):
            # Not cached: it depends on states.
            return Listing((self._meta[EXPLAINING].record,)) if self._explains(view) else whole
        kept = self._kept.get((view.key, expose))
        if kept is None or kept.whole is not whole:
            return self._keep(view, whole, expose, at_once(self._listed(view, whole, expose)))
        return kept.listed

    def is_ready(self, view: View, whole: Listing, expose: Expose) -> bool:
        """Return whether `listing` is cached, or `whole` short."""
        if expose == "all" or len(whole) <= _AT_ONCE:
            return True
        kept = self._kept.peek((view.key, expose))
        return kept is not None and kept.whole is whole

    async def prepare(self, view: View, whole: Listing, expose: Expose, slices: Slices) -> None:
        """Work the listed part out ahead, in slices."""
        self._keep(view, whole, expose, await slices.run(self._listed(view, whole, expose)))

    def _keep(self, view: View, whole: Listing, expose: Expose, listed: Listing) -> Listing:
        kept = _KeptList(view.principal.agent_id, whole, listed)
        self._kept.put((view.key, expose), kept)
        return listed

    def costs(self) -> dict[str, tuple[int, int]]:
        """Return by agent the estimated tokens of all its tools and of its list, at four bytes a token; both with those
        of the instructions.
        """
        told = dict(self._instructions.items())
        return {
            kept.agent: (_cost(kept.whole) + told.get(key, 0), _cost(kept.listed) + told.get(key, 0))
            for (key, _), kept in self._kept.items()
        }

    def note_instructions(self, view: View, text: str) -> None:
        """Count the instructions sent to an agent: they are part of the cost of its list."""
        self._instructions.put(view.key, estimate(text))

    def cost_steps(self, listing: Listing) -> Steps[int]:
        """Return the estimated tokens of a list, at four bytes a token, one tool in a step."""
        size = 0
        for tool in listing.tools:
            yield
            size += len(render(tool, "canonical"))
        return size // _BYTES

    def is_too_much(self, tools: Iterable[ToolRecord]) -> Steps[bool]:
        """Return whether a list of these tools costs more than `auto` allows, one tool in a step."""
        size = 0
        for tool in tools:
            yield
            size += len(render(tool, "canonical"))
            if size // _BYTES > self._budget:
                return True
        return False

    def is_short(self, listing: Listing) -> bool:
        """Return whether a list holds the meta tools in place of all tools."""
        return is_short(listing)

    def _reads_on(self, view: View, *, whole: bool) -> bool:
        """Return whether the agent can come by a handle, so that `read_result` is listed.

        `whole`: its list has all tools, so that it calls them by their own names.
        """
        counts = self._results.max_tokens > 0 and (self._results.direct or not whole)
        return self._meta.keeps_results and (counts or view.limits_results)

    def _added(self, view: View) -> tuple[ToolRecord, ...]:
        """Return the meta tools that stand behind all tools in a whole list."""
        reads_on = (READ_RESULT_RECORD,) if self._reads_on(view, whole=True) else ()
        return (*reads_on, self._meta[REPORT_TOOL].record) if REPORT_TOOL in self._meta else reads_on

    def _listed(self, view: View, whole: Listing, expose: Expose) -> Steps[Listing]:
        if expose == "all" or (expose == "auto" and not (yield from self.is_too_much(whole.tools))):
            added = self._added(view)
            return Listing((*whole.tools, *added)) if len(whole) and added else whole
        reads_on = self._reads_on(view, whole=False)
        pinned: list[ToolRecord] = []
        for tool in whole.tools:
            yield
            if self._is_pinned(view, tool):
                pinned.append(tool)
        shown = [record for record in self._meta.records if reads_on or record is not READ_RESULT_RECORD]
        programs = (self._meta[RUN_CODE].record,) if expose == "code" else ()
        return Listing((*shown, *programs, *pinned))

    def _is_pinned(self, view: View, tool: ToolRecord) -> bool:
        if view.ruling(tool).pinned:
            return True
        names = [canonical(tool.prefix, name) for name in tool.names] if self._pinned else ()
        return any(fnmatchcase(name, pattern) for pattern in self._pinned for name in names)


def is_short(listing: Listing) -> bool:
    """Return whether a list holds the meta tools in place of all tools."""
    return any(tool.server == SOURCE for tool in listing.tools[:1]) and listing.tools[0].own_name != EXPLAINING


def _cost(listing: Listing) -> int:
    return sum(len(render(tool, "canonical")) for tool in listing.tools) // _BYTES
