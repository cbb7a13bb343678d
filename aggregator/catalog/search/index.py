"""Keyword search over the tools there are: an index that is the same for all, asked with what one agent may see.

Law 1: what the agent may not see has no part in its answer: neither as a hit, nor in how rare a term is.
Law 2: the answer depends on the tools and the question only, not on the order in which servers came and went.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from aggregator.catalog.search.document import document
from aggregator.catalog.search.postings import Postings
from aggregator.catalog.search.query import read
from aggregator.catalog.search.rank import ranked
from aggregator.catalog.search.visible import Allowed, VisibleTools
from aggregator.domain.records import ToolRecord

_SIGHTS_KEPT: Final = 16
_FEW: Final = 4


@dataclass(frozen=True, slots=True)
class Hit:
    """A tool and how well it fits; scores compare within one answer only. `named`: how exactly its name was asked for,
    from 0, not at all, to 4, whole; it goes before every score."""

    tool: ToolRecord
    score: float
    named: int = 0


class SearchIndex:
    """A frozen snapshot. A change of one server's tools makes a new one that shares what did not change."""

    def __init__(self, postings: Postings | None = None) -> None:
        self._postings = postings or Postings()
        self._sights: dict[frozenset[str], VisibleTools] = {}

    def __len__(self) -> int:
        return sum(map(len, self._postings.ranges.values()))

    def __repr__(self) -> str:
        return f"<Index {len(self)} tools of {len(self._postings.ranges)} servers, {len(self._postings.lists)} terms>"

    @classmethod
    def of(cls, servers: Iterable[tuple[str, str, tuple[ToolRecord, ...]]]) -> "SearchIndex":
        """An index of many servers: each one's id, text and tools, as `with_server` takes them. Takes its time
        (some 100 microseconds a tool), so run it in a thread."""
        known = {server: [document(tool, text) for tool in tools] for server, text, tools in servers}
        return cls(Postings().added(known))

    def more(
        self, server: str, text_of_server: str, tools: Sequence[ToolRecord], rest: Callable[[], None]
    ) -> "SearchIndex":
        """With `tools` as the next ones that `server` has: the last one that got any, or a new one. Each takes some 100
        microseconds; after every few `rest` is called."""
        documents = []
        for number, tool in enumerate(tools):
            if number % _FEW == 0:
                rest()
            documents.append(document(tool, text_of_server))
        return SearchIndex(self._postings.added({server: documents}, rest))

    def with_server(self, server: str, text_of_server: str, tools: tuple[ToolRecord, ...]) -> "SearchIndex":
        """With `tools` as all that `server` (its id) has. `text_of_server`: id, description, trigger keywords."""
        documents = [document(tool, text_of_server) for tool in tools]
        return SearchIndex(self._postings.removed(server).added({server: documents}))

    def without_server(self, server: str) -> "SearchIndex":
        """Without the tools of `server`; the same index if it has none."""
        return SearchIndex(self._postings.removed(server)) if server in self._postings.ranges else self

    def sight(self, allowed: Allowed) -> VisibleTools:
        """The index as one agent sees it, to keep as long as index and rights stay the same: it saves each search
        the look at every tool. For names that cannot change, some are kept here."""
        if not isinstance(allowed, frozenset):
            return VisibleTools(self._postings, allowed)
        sight = self._sights.get(allowed)
        if sight is None:
            if len(self._sights) == _SIGHTS_KEPT:
                self._sights.clear()
            sight = self._sights[allowed] = VisibleTools(self._postings, allowed)
        return sight

    def search(self, query: str, allowed: Allowed, limit: int) -> list[Hit]:
        """The best `limit` tools among those allowed, best first; none if no word of the query says anything."""
        return search(self.sight(allowed), query, limit)


def search(sight: VisibleTools, query: str, limit: int) -> list[Hit]:
    """The same as `SearchIndex.search`, with a sight that was kept."""
    return [Hit(document.tool, score, named) for document, score, named in ranked(sight, read(query), max(0, limit))]
