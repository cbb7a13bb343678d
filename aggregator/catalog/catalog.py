"""The catalog: a frozen snapshot of every tool there is now, made anew at each change. Look-ups are in dictionaries."""

from collections.abc import Iterable, Iterator

from aggregator.catalog.listing import Listing
from aggregator.domain.names import spellings
from aggregator.domain.records import ToolRecord


class Catalog(Listing):
    """All tools, whoever may see them, and what each name means."""

    def __init__(self, tools: Iterable[ToolRecord] = ()) -> None:
        super().__init__(tools)
        self._by_name: dict[str, ToolRecord] = {}
        self._by_own: dict[tuple[str, str], ToolRecord] = {}
        self._by_server: dict[tuple[str, str], ToolRecord] = {}
        for tool in self.tools:
            self._by_own[tool.prefix, tool.own_name] = tool
            self._by_server[tool.server, tool.own_name] = tool
            for name in (tool.name, *tool.listed.values()):
                self._by_name.setdefault(name, tool)

    def readings(self, name: str) -> Iterator[ToolRecord]:
        """The tools a called name may mean, the likeliest first: as listed, then in every other spelling."""
        listed = self._by_name.get(name)
        if listed is not None:
            yield listed
        for pair in spellings(name):
            tool = self._by_own.get(pair)
            if tool is not None and tool is not listed:
                yield tool

    def of_server(self, server: str, own_name: str) -> ToolRecord | None:
        """A server's tool by the server's id and the tool's own name."""
        return self._by_server.get((server, own_name))
