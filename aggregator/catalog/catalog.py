"""The catalog: a frozen snapshot of every tool there is now, made anew at each change. Look-ups are in dictionaries."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

from aggregator.catalog.listing import Listing
from aggregator.catalog.names import NameLookup, readings
from aggregator.domain.bounds.slices import Steps, at_once
from aggregator.domain.records import ToolRecord

# Parts of fewer tools are put together, so that there are few to look into.
_LARGE: Final = 2_000


class ServerTools:
    """The tools of one server and what each name means, made once for every catalog that has them."""

    def __init__(self) -> None:
        self.tools: tuple[ToolRecord, ...] = ()
        self.listed: tuple[ToolRecord, ...] = ()
        self.spelled: NameLookup[ToolRecord] = NameLookup()
        self.by_server: dict[tuple[str, str], ToolRecord] = {}

    def __repr__(self) -> str:
        return f"<Part of {len(self.tools)} tools>"


def part_steps(tools: Iterable[ToolRecord]) -> Steps[ServerTools]:
    """Make a part of these tools, one in a step."""
    part, known, listed = ServerTools(), tuple(tools), []
    naming = part.spelled.more(known)
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
    """All tools, whoever may see them, and what each name means: those of `parts`, where there are any."""

    def __init__(self, tools: Iterable[ToolRecord] = (), parts: Sequence[ServerTools] | None = None) -> None:
        self.parts = [at_once(part_steps(tools))] if parts is None else parts
        super().__init__(chain.from_iterable(part.tools for part in self.parts))
        listed = tuple(chain.from_iterable(part.listed for part in self.parts))
        # What is listed where nobody is denied anything.
        self.listed: Listing = self if len(listed) == len(self.tools) else Listing(listed)
        self._spelled: list[NameLookup[ToolRecord]] = []
        self._by_server: list[dict[tuple[str, str], ToolRecord]] = []
        together: list[ServerTools] = []
        for part in self.parts:
            if len(part.tools) < _LARGE:
                together.append(part)
            else:
                self._look_into(together)
                self._look_into([part])
                together = []
        self._look_into(together)

    def _look_into(self, parts: Sequence[ServerTools]) -> None:
        """Add these parts to where names are looked up, as one."""
        if len(parts) == 1:
            self._spelled.append(parts[0].spelled)
            self._by_server.append(parts[0].by_server)
        elif parts:
            spelled: NameLookup[ToolRecord] = NameLookup()
            by_server: dict[tuple[str, str], ToolRecord] = {}
            for part in parts:
                spelled.by_own.update(part.spelled.by_own)
                by_server.update(part.by_server)
            for part in reversed(parts):
                spelled.by_name.update(part.spelled.by_name)
            self._spelled.append(spelled)
            self._by_server.append(by_server)

    def readings(self, name: str) -> Iterator[ToolRecord]:
        """The tools a called name may mean, the likeliest first: as listed, then in every other spelling."""
        return readings(self._spelled, name)

    def of_server(self, server: str, own_name: str) -> ToolRecord | None:
        """A server's tool by the server's id and the tool's own name."""
        key = server, own_name
        return next((found for part in reversed(self._by_server) if (found := part.get(key)) is not None), None)
