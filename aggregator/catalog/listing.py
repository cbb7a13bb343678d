"""A list of tools in the order they are shown. Frozen: another list is another object."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from aggregator.catalog.names import SpellingLookup
from aggregator.catalog.pages import Pages
from aggregator.domain.bounds.slices import Steps
from aggregator.domain.records import ToolRecord


class Listing(Pages[ToolRecord]):
    """The tools of one agent, or of all."""

    def __init__(self, tools: Iterable[ToolRecord] = ()) -> None:
        super().__init__(tools)
        self._by_name: Mapping[str, ToolRecord] | None = None
        self._by_spelling: SpellingLookup | None = None

    @property
    def tools(self) -> tuple[ToolRecord, ...]:
        """The tools in config order of servers, then in each server's own order."""
        return self.records

    @cached_property
    def _of_servers(self) -> Mapping[str, Sequence[ToolRecord]]:
        """The tools by the ids and the prefixes of their servers."""
        found: dict[str, list[ToolRecord]] = {}
        for tool in self.records:
            for name in {tool.server, tool.prefix}:
                found.setdefault(name, []).append(tool)
        return found

    def tools_of(self, server: str) -> Sequence[ToolRecord]:
        """Return the tools of one server, by its id or prefix."""
        return self._of_servers.get(server, ())

    def name_steps(self) -> Steps[Mapping[str, ToolRecord]]:
        """Return the tools by their canonical names, one in a step; built at the first use and kept."""
        if self._by_name is None:
            by_name = {}
            for tool in self.records:
                yield
                by_name[tool.name] = tool
            self._by_name = by_name
        return self._by_name

    @property
    def spelled(self) -> SpellingLookup | None:
        """The result of `spelling_steps`; None before it is built."""
        return self._by_spelling

    def spelling_steps(self) -> Steps[SpellingLookup]:
        """Return the tools by what models write for their names, one in a step; built at the first use and kept."""
        if self._by_spelling is None:
            by_spelling = SpellingLookup()
            for tool in self.records:
                yield
                by_spelling.add(tool)
            self._by_spelling = by_spelling
        return self._by_spelling
