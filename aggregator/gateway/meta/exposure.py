"""How much of what an agent may call is listed: everything, or the meta tools and what is pinned.

Law: it depends on the agent, the door and the catalog only, never on what was called before.
"""

from collections import OrderedDict
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Final

from aggregator.catalog.describe.tokens import estimate
from aggregator.catalog.listing import Listing
from aggregator.catalog.pages import rendered
from aggregator.config.model import Config
from aggregator.config.settings import Expose
from aggregator.domain.bounds.slices import Slices, Steps, at_once
from aggregator.domain.records import ToolRecord
from aggregator.gateway.meta.registry import MetaTools
from aggregator.gateway.meta.tool import SOURCE
from aggregator.gateway.views.views import View


def exposed_at(config: Config) -> dict[str, Expose]:
    """How much is listed at each door."""
    return {door: getattr(config, door).expose or config.expose for door in ("http", "sse", "stdio")}


# Agents whose short list is kept ready; others' are made when they ask.
_KEPT: Final = 256
# Of so many tools it is worked out in one go what is listed.
_AT_ONCE: Final = 200


class Exposure:
    """`pinned` are patterns over canonical names, `budget` the tokens that `auto` lets a whole list cost."""

    def __init__(self, meta: MetaTools, pinned: Iterable[str], budget: int) -> None:
        self._meta = meta
        self._pinned = tuple(pinned)
        self._budget = budget
        self._kept: OrderedDict[tuple[str, Expose], tuple[Listing, Listing]] = OrderedDict()

    def reconfigure(self, pinned: Iterable[str], budget: int) -> None:
        """What is listed may be another part of it from now on."""
        self._pinned, self._budget = tuple(pinned), budget
        self._kept.clear()

    def of(self, view: View, whole: Listing, expose: Expose) -> Listing:
        """What is listed of `whole`, which is all that the agent may call."""
        if expose == "all":
            return whole
        key = view.principal.agent_id, expose
        kept = self._kept.get(key)
        if kept is None or kept[0] is not whole:
            return self._keep(key, whole, at_once(self._listed(view, whole, expose)))
        self._kept.move_to_end(key)
        return kept[1]

    def knows(self, view: View, whole: Listing, expose: Expose) -> bool:
        """Whether `of` takes but a moment."""
        kept = self._kept.get((view.principal.agent_id, expose))
        return expose == "all" or len(whole) <= _AT_ONCE or (kept is not None and kept[0] is whole)

    async def choose(self, view: View, whole: Listing, expose: Expose, slices: Slices) -> None:
        """Work it out ahead, in pieces."""
        listed = await slices.run(self._listed(view, whole, expose))
        self._keep((view.principal.agent_id, expose), whole, listed)

    def _keep(self, key: tuple[str, Expose], whole: Listing, listed: Listing) -> Listing:
        self._kept[key] = whole, listed
        self._kept.move_to_end(key)
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return listed

    def costs(self) -> dict[str, tuple[int, int]]:
        """By agent: the tokens of all that it may call, and of what it is shown, at four bytes each."""
        return {agent: (_cost(whole), _cost(listed)) for (agent, _), (whole, listed) in self._kept.items()}

    def is_short(self, listing: Listing) -> bool:
        """Whether the meta tools are on this list, and others are not."""
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
            cost += estimate(rendered(tool, "canonical").decode("utf-8", "replace"))
            if cost > self._budget:
                return True
        return False


def _cost(listing: Listing) -> int:
    return sum(len(rendered(tool, "canonical")) for tool in listing.tools) // 4
