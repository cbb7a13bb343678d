"""A list of tools in the order they are shown. Frozen: another list is another object."""

from collections.abc import Iterable, Mapping

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

    def name_steps(self) -> Steps[Mapping[str, ToolRecord]]:
        """Return the tools by their canonical names, one in a step; built at the first use and kept."""
        if self._by_name is None:
            by_name = {}
            for tool in self.records:
                yield
                by_name[tool.name] = tool
            self._by_name = by_name
        return self._by_name

    def spelling_steps(self) -> Steps[SpellingLookup]:
        """Return the tools by what models write for their names, one in a step; built at the first use and kept."""
        if self._by_spelling is None:
            by_spelling = SpellingLookup()
            for tool in self.records:
                yield
                by_spelling.add(tool)
            self._by_spelling = by_spelling
        return self._by_spelling
