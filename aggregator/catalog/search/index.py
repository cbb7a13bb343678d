"""Keyword search over all tools: one index for all agents, asked with the tools that one agent may see.

Law 1: a tool that the agent may not see has no part in its answer: neither as a hit, nor in how rare a term is.
Law 2: the answer depends on the tools and the query only, not on the order in which servers came and went.
"""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from aggregator.catalog.search.agent_query import asked
from aggregator.catalog.search.document import Document, document
from aggregator.catalog.search.postings import Pause, Postings
from aggregator.catalog.search.rank import rank
from aggregator.catalog.search.visible import Allowed, VisibleTools
from aggregator.domain.records import ToolRecord

log = logging.getLogger(__name__)

_VISIBLE_KEPT: Final = 16
_FEW: Final = 4


class Hit(NamedTuple):
    """A tool and how well it fits. Scores compare within one answer only.

    `name_match` says how exactly the query asks for the tool by name, from 0, not at all, to 4, its whole name; it goes
    before every score.
    """

    tool: ToolRecord
    score: float
    name_match: int = 0


class SearchIndex:
    """A frozen index of all tools. A change of one server's tools makes a new one that shares what did not change."""

    def __init__(self, postings: Postings | None = None) -> None:
        self._postings = postings or Postings()
        self._visible: dict[frozenset[str], VisibleTools] = {}

    def __len__(self) -> int:
        return sum(map(len, self._postings.ranges.values()))

    def __repr__(self) -> str:
        return f"<Index {len(self)} tools of {len(self._postings.ranges)} servers, {len(self._postings.lists)} terms>"

    @classmethod
    def of(cls, servers: Iterable[tuple[str, str, tuple[ToolRecord, ...]]]) -> "SearchIndex":
        """Build an index of many servers, each given as its id, text and tools (see `with_server`).

        Takes some 100 microseconds a tool, so run it in a thread.
        """
        known = {server: [document(tool, text) for tool in tools] for server, text, tools in servers}
        return cls(Postings().added(known))

    def with_more(self, servers: Mapping[str, tuple[str, Sequence[ToolRecord]]], pause: Pause) -> "SearchIndex":
        """Return an index with the next tools of these servers, each with its text (see `with_server`) and the tools.

        A server that has tools already may get more only as the first one, if it got tools last. Each tool takes some
        100 microseconds; `pause` is called after every few.
        """
        added: dict[str, list[Document]] = {}
        for server, (text, tools) in servers.items():
            documents = added[server] = []
            for tool in tools:
                if len(documents) % _FEW == 0:
                    pause()
                documents.append(document(tool, text))
        return SearchIndex(self._postings.added(added, pause))

    def with_each(
        self, servers: Mapping[str, tuple[str, Sequence[ToolRecord]]], pause: Pause, failed: dict[str, str]
    ) -> "SearchIndex":
        """Return an index with the next tools of these servers, as `with_more` does, each server for itself.

        failed: why the tools of a server cannot be indexed. None of its tools is in the index, and no more are added.
        """
        sound = {server: more for server, more in servers.items() if server not in failed}
        try:
            return self.with_more(sound, pause)
        except Exception as error:  # one of these servers
            log.debug("tools cannot be indexed together: %s", type(error).__name__)
        index = self
        for server, more in sound.items():
            try:
                index = index.with_more({server: more}, pause)
            except Exception as error:  # it costs this server its own tools
                index = index.without((server,))
                failed[server] = f"an error of ours ({type(error).__name__})"
                log.warning("%s: what it lists cannot be found by words: %s", server, failed[server], exc_info=error)
        return index

    def with_server(self, server: str, text_of_server: str, tools: tuple[ToolRecord, ...]) -> "SearchIndex":
        """Return an index with `tools` as all that `server` (its id) has.

        `text_of_server`: id, description, trigger keywords.
        """
        documents = [document(tool, text_of_server) for tool in tools]
        return SearchIndex(self._postings.removed((server,)).added({server: documents}))

    def without(self, servers: Collection[str]) -> "SearchIndex":
        """Return an index without the tools of these servers; the same object if they have none."""
        postings = self._postings.removed(servers)
        return SearchIndex(postings) if postings is not self._postings else self

    def visible_to(self, allowed: Allowed) -> VisibleTools:
        """Return the part of the index that one agent sees, to be cached while index and rights stay unchanged.

        Each search then skips the check of every tool. Some are cached here, for names that cannot change.
        """
        if not isinstance(allowed, frozenset):
            return VisibleTools(self._postings, allowed)
        visible = self._visible.get(allowed)
        if visible is None:
            if len(self._visible) == _VISIBLE_KEPT:
                self._visible.clear()
            visible = self._visible[allowed] = VisibleTools(self._postings, allowed)
        return visible

    def search(self, query: str, allowed: Allowed, limit: int) -> list[Hit]:
        """Return the best `limit` tools among those allowed, best first; none if no word of the query says anything."""
        return search(self.visible_to(allowed), query, limit)


def search(visible: VisibleTools, query: str, limit: int) -> list[Hit]:
    """Return the best `limit` tools that the agent sees, best first; none if no word of the query says anything."""
    best = rank(visible, asked(visible, query), max(0, limit))
    return [Hit(document.tool, score, named) for document, score, named in best]
