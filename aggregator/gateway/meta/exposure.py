"""Exposure: an agent's list holds all its tools, or the meta tools and the pinned tools.

Law: the choice depends on the agent, the frontend and the catalog only, never on earlier calls.
"""

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Final

from aggregator.catalog.describe.tokens import estimate
from aggregator.catalog.listing import Listing
from aggregator.catalog.pages import render
from aggregator.config.model import Config
from aggregator.config.settings import Expose
from aggregator.domain.bounds.lru import LruCache
from aggregator.domain.bounds.slices import Slices, Steps, at_once
from aggregator.domain.records import ToolRecord
from aggregator.gateway.meta.registry import MetaToolSet
from aggregator.gateway.meta.tool import SOURCE
from aggregator.gateway.views.views import View


def exposed_at(config: Config) -> dict[str, Expose]:
    """Return the `expose` setting of each frontend."""
    return {frontend: getattr(config, frontend).expose or config.expose for frontend in ("http", "sse", "stdio")}


# Agents whose short list is cached.
_KEPT: Final = 256
# Up to so many tools are chosen from without slices.
_AT_ONCE: Final = 200


class Exposure:
    """The choice of listed tools. `pinned` are patterns over canonical names, `budget` the tokens that `auto` allows a
    list.
    """

    def __init__(self, meta: MetaToolSet, pinned: Iterable[str], budget: int) -> None:
        self._meta = meta
        self._pinned = tuple(pinned)
        self._budget = budget
        self._kept: LruCache[tuple[str, Expose], tuple[Listing, Listing]] = LruCache(_KEPT)
        self._instructions: LruCache[str, int] = LruCache(_KEPT)

    def reconfigure(self, pinned: Iterable[str], budget: int) -> None:
        """Take the pinned patterns and the budget of a new configuration."""
        self._pinned, self._budget = tuple(pinned), budget
        self._kept.clear()

    @property
    def pins(self) -> bool:
        """True if the configuration pins tools."""
        return bool(self._pinned)

    def listing(self, view: View, whole: Listing, expose: Expose) -> Listing:
        """Return the listed part of `whole`, which holds all tools that the agent may call."""
        if expose == "all":
            return whole
        key = view.key, expose
        kept = self._kept.get(key)
        if kept is None or kept[0] is not whole:
            return self._keep(key, whole, at_once(self._listed(view, whole, expose)))
        return kept[1]

    def is_ready(self, view: View, whole: Listing, expose: Expose) -> bool:
        """Return whether `listing` is cached, or `whole` short."""
        kept = self._kept.peek((view.principal.agent_id, expose))
        return expose == "all" or len(whole) <= _AT_ONCE or (kept is not None and kept[0] is whole)

    async def prepare(self, view: View, whole: Listing, expose: Expose, slices: Slices) -> None:
        """Work the listed part out ahead, in slices."""
        listed = await slices.run(self._listed(view, whole, expose))
        self._keep((view.principal.agent_id, expose), whole, listed)

    def _keep(self, key: tuple[str, Expose], whole: Listing, listed: Listing) -> Listing:
        self._kept.put(key, (whole, listed))
        return listed

    def costs(self) -> dict[str, tuple[int, int]]:
        """Return by agent the estimated tokens of all its tools and of its list, at four bytes a token; both with those
        of the instructions.
        """
        told = dict(self._instructions.items())
        return {
            agent: (_cost(whole) + told.get(agent, 0), _cost(listed) + told.get(agent, 0))
            for (agent, _), (whole, listed) in self._kept.items()
        }

    def note_instructions(self, view: View, text: str) -> None:
        """Count the instructions that an agent was given: they are part of what its list costs."""
        self._instructions.put(view.key, estimate(text))

    def cost_steps(self, listing: Listing) -> Steps[int]:
        """Return the estimated tokens of a list, at four bytes a token, one tool in a step."""
        size = 0
        for tool in listing.tools:
            yield
            size += len(render(tool, "canonical"))
        return size // 4

    def is_short(self, listing: Listing) -> bool:
        """Return whether a list holds the meta tools in place of all tools."""
        return any(tool.server == SOURCE for tool in listing.tools[:1])

    def _listed(self, view: View, whole: Listing, expose: Expose) -> Steps[Listing]:
        if expose == "auto" and not (yield from self._too_much(whole)):
            return whole
        pinned: list[ToolRecord] = []
        for tool in whole.tools:
            yield
            if self._is_pinned(view, tool):
                pinned.append(tool)
        return Listing((*self._meta.records, *pinned))

    def _is_pinned(self, view: View, tool: ToolRecord) -> bool:
        return view.ruling(tool).pinned or any(fnmatchcase(tool.name, pattern) for pattern in self._pinned)

    def _too_much(self, whole: Listing) -> Steps[bool]:
        cost = 0
        for tool in whole.tools:
            yield
            cost += estimate(render(tool, "canonical").decode("utf-8", "replace"))
            if cost > self._budget:
                return True
        return False


def _cost(listing: Listing) -> int:
    return sum(len(render(tool, "canonical")) for tool in listing.tools) // 4
