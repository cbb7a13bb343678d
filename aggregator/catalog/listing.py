"""Tools in the order they are shown. A listing is frozen: another list is another listing."""

from collections.abc import Iterable

from aggregator.catalog.pages import Pages
from aggregator.domain.records import ToolRecord


class Listing(Pages[ToolRecord]):
    """The tools of one agent, or of all."""

    def __init__(self, tools: Iterable[ToolRecord] = ()) -> None:
        super().__init__(tools)

    @property
    def tools(self) -> tuple[ToolRecord, ...]:
        """In config order of servers, then in each server's own order."""
        return self.records
