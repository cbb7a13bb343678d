"""The catalog: a frozen snapshot of every tool there is now, made anew at each change. Look-ups are in dictionaries."""

from collections.abc import Iterable

from aggregator.catalog.listing import Listing
from aggregator.domain.errors import UnknownTool
from aggregator.domain.names import Style, spellings
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

    def look_up(self, name: str) -> ToolRecord | None:
        """The tool a called name means, in any spelling."""
        tool = self._by_name.get(name)
        if tool is not None:
            return tool
        for prefix, own_name in spellings(name):
            tool = self._by_own.get((prefix, own_name))
            if tool is not None:
                return tool
        return None

    def of_server(self, server: str, own_name: str) -> ToolRecord | None:
        """A server's tool by the server's id and the tool's own name."""
        return self._by_server.get((server, own_name))

    def resolve(self, name: str, style: Style = "canonical") -> ToolRecord:
        """The same as `look_up`.

        Raises:
            UnknownTool: none, with the nearest names in `style`.
        """
        tool = self.look_up(name)
        if tool is None:
            raise UnknownTool(name, self.nearest(name, style))
        return tool
