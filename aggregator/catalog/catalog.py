"""The catalog: a frozen snapshot of every tool there is now, made anew at each change. Look-ups are in dictionaries."""

from collections.abc import Iterable, Iterator

from aggregator.catalog.listing import Listing
from aggregator.catalog.spelled import Spelled
from aggregator.domain.records import ToolRecord


class Catalog(Listing):
    """All tools, whoever may see them, and what each name means."""

    def __init__(self, tools: Iterable[ToolRecord] = ()) -> None:
        super().__init__(tools)
        self._spelled = Spelled(self.tools)
        self._by_server = {(tool.server, tool.own_name): tool for tool in self.tools}
        listed = tuple(tool for tool in self.tools if not tool.only_for_apps)
        # What is listed where nobody is denied anything.
        self.listed: Listing = self if len(listed) == len(self.tools) else Listing(listed)

    def readings(self, name: str) -> Iterator[ToolRecord]:
        """The tools a called name may mean, the likeliest first: as listed, then in every other spelling."""
        return self._spelled.readings(name)

    def of_server(self, server: str, own_name: str) -> ToolRecord | None:
        """A server's tool by the server's id and the tool's own name."""
        return self._by_server.get((server, own_name))
