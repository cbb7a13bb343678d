"""The catalog: a frozen snapshot of all tools, built anew at each change. Look-ups are in dictionaries."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain, groupby
from typing import Final

from aggregator.catalog.listing import Listing
from aggregator.catalog.names import NameLookup, candidates
from aggregator.domain.bounds.slices import Steps, at_once
from aggregator.domain.records import ToolRecord

# Parts of fewer tools are put together, so that there are few to look into.
_LARGE: Final = 2_000


class ServerTools:
    """The tools of one server and the look-ups of their names, built once and shared by every catalog that has them.

    `tools` are all tools in the server's order, `listed` those that hosts are listed, `names` the look-ups by exposed
    name, `by_server` those by server id and own name.
    """

    def __init__(self) -> None:
        self.tools: tuple[ToolRecord, ...] = ()
        self.listed: tuple[ToolRecord, ...] = ()
        self.names: NameLookup[ToolRecord] = NameLookup()
        self.by_server: dict[tuple[str, str], ToolRecord] = {}

    def __repr__(self) -> str:
        return f"<Part of {len(self.tools)} tools>"


def server_tools_steps(tools: Iterable[ToolRecord]) -> Steps[ServerTools]:
    """Build a part of these tools, one tool in a step."""
    part, known, listed = ServerTools(), tuple(tools), []
    naming = part.names.add_steps(known)
    for tool in known:
        yield
        next(naming, None)
        part.by_server[tool.server, tool.own_name] = tool
        if not tool.only_for_apps:
            listed.append(tool)
    at_once(naming)
    part.tools, part.listed = known, tuple(listed) if len(listed) < len(known) else known
    return part


class Catalog(Listing):
    """All tools of all upstreams, whether or not an agent may see them, with the look-ups of their names.

    `parts` are the catalog's parts, one for each server; `listed` holds the tools that hosts list if no rule denies
    any.
    """

    def __init__(self, tools: Iterable[ToolRecord] = (), parts: Sequence[ServerTools] | None = None) -> None:
        self.parts = [at_once(server_tools_steps(tools))] if parts is None else parts
        super().__init__(chain.from_iterable(part.tools for part in self.parts))
        listed = tuple(chain.from_iterable(part.listed for part in self.parts))
        # The tools that hosts list if no rule denies any.
        self.listed: Listing = self if len(listed) == len(self.tools) else Listing(listed)

    @cached_property
    def _lookups(self) -> tuple[list[NameLookup[ToolRecord]], list[dict[tuple[str, str], ToolRecord]]]:
        """The look-ups by name, and those by server. Made for the first call: while servers come up, most catalogs are
        replaced before one.
        """
        names, by_server = [], []
        for large, parts in groupby(self.parts, lambda part: len(part.tools) >= _LARGE):
            for one in parts if large else [_merged(parts)]:
                names.append(one.names)
                by_server.append(one.by_server)
        return names, by_server

    def candidates(self, name: str) -> Iterator[ToolRecord]:
        """Return the tools that a called name may mean, likeliest first: as listed, then in any other spelling."""
        return candidates(self._lookups[0], name)

    def of_server(self, server: str, own_name: str) -> ToolRecord | None:
        """Return a server's tool by the server's id and the tool's own name."""
        key = server, own_name
        return next((found for part in reversed(self._lookups[1]) if (found := part.get(key)) is not None), None)


def _merged(parts: Iterable[ServerTools]) -> ServerTools:
    """Return the look-ups of these parts in one."""
    merged, known = ServerTools(), list(parts)
    if len(known) == 1:
        return known[0]
    for part in known:
        merged.names.by_own.update(part.names.by_own)
        merged.by_server.update(part.by_server)
    for part in reversed(known):
        merged.names.by_name.update(part.names.by_name)
    return merged
