"""The search index of the current tools, kept in step with the catalog off the event loop.

The engine of search is imported at its first use: its tables take a while to load, and no start waits for them.
"""

import asyncio
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from aggregator.catalog.catalog import Catalog
from aggregator.config.model import Config
from aggregator.domain.records import ToolRecord
from aggregator.gateway.views.current import CurrentCatalog
from aggregator.gateway.views.embeddings import ToolEmbeddings

if TYPE_CHECKING:
    from aggregator.catalog.search.index import SearchIndex

log = logging.getLogger(__name__)

# Seconds until what could not be indexed is tried again: the first time, and at most, since each pause is twice the one
# before.
_AGAIN: Final = 5.0
_AGAIN_AT_MOST: Final = 600.0
# Tools are indexed in growing parts, the first of this size, which is searchable at once.
_FIRST_PART: Final = 250
# Seconds to sleep after every few tools, so that the event loop gets the interpreter.
_PAUSE: Final = 50e-6


class ToolIndex:
    """The index by words; `run` keeps it and the embeddings in step with the current catalog.

    `searchable` is the index, None before its first part. `unsearchable` has the servers whose tools are not in it
    though it is complete, each with the reason. `problem` is the reason why it is not made of the current tools; None
    while it is. `fresh` is set while it holds all current tools.
    """

    def __init__(self, config: Config, current: CurrentCatalog, embeddings: ToolEmbeddings) -> None:
        self.searchable: SearchIndex | None = None
        self.unsearchable: Mapping[str, str] = {}
        self.problem: str | None = None
        self.fresh = asyncio.Event()
        self._config = config
        self._current = current
        self._embeddings = embeddings
        self._indexed: dict[str, tuple[str, tuple[ToolRecord, ...]]] = {}
        # Attempts in a row that left something out, and the time of the next (of the event loop).
        self._failures = 0
        self._due: float | None = None
        self._begun = asyncio.Event()
        self._stale = asyncio.Event()

    def reconfigure(self, config: Config) -> None:
        """Take the servers and search settings of a new configuration."""
        self._config = config
        self._stale.set()

    def update(self) -> None:
        """Index the changed tools in the background."""
        self.fresh.clear()
        self._stale.set()

    def begin(self) -> None:
        """Let `run` index from now on. Idempotent; the first search does so too."""
        self._begun.set()

    async def wait_indexed(self) -> None:
        """Wait until the index holds the current tools; see to it that it is built."""
        self.begin()
        await self.fresh.wait()

    @property
    def not_indexed(self) -> int:
        """The number of tools that are still being indexed and cannot be found by words yet."""
        if self.fresh.is_set():
            return 0
        return max(0, len(self._current.tools) - (len(self.searchable) if self.searchable is not None else 0))

    def texts(self) -> dict[str, str]:
        """Return the text of each indexed server, by which its tools are found too."""
        return {server: text for server, (text, _) in self._indexed.items()}

    async def run(self) -> None:
        """Index changed servers until cancelled, from `begin` on."""
        await self._begun.wait()
        while True:
            again, changed = await self._wait_due(), self._stale.is_set()
            self._stale.clear()
            catalog = self._current.tools
            try:
                await asyncio.to_thread(self._reindex, catalog, again)
            except Exception as error:  # the index before goes on, and it is tried again
                self.problem = f"an error of ours ({type(error).__name__}); the log says more"
                log.error("the tools cannot be indexed for search", exc_info=error)
            else:
                self.problem = None
            self._plan_again(again)
            if catalog is self._current.tools:
                self.fresh.set()
            if changed:
                self._embeddings.set_tools(catalog.tools if self._config.search.semantic else None)

    async def _wait_due(self) -> bool:
        """Wait until there is something to index; return whether what failed is to be tried again."""
        with suppress(TimeoutError):
            async with asyncio.timeout_at(self._due):
                await self._stale.wait()
        return self._due is not None and asyncio.get_running_loop().time() >= self._due

    def _plan_again(self, again: bool) -> None:
        """Note when what could not be indexed is tried again; `again`: it has been tried just now."""
        if self.problem is None and not self.unsearchable:
            self._failures, self._due = 0, None
        elif again or self._due is None:
            pause = min(_AGAIN * 2**self._failures, _AGAIN_AT_MOST)
            self._failures, self._due = self._failures + 1, asyncio.get_running_loop().time() + pause

    def _reindex(self, catalog: Catalog, again: bool) -> None:
        """Index a catalog, with `again` also the servers that could not be indexed. Runs in a thread, one at a time."""
        # The tables of search are slow to import and to read: no start waits for them, and no first query.
        from aggregator.catalog.search.index import SearchIndex
        from aggregator.catalog.search.relevance import read_tables

        read_tables()
        servers: dict[str, list[ToolRecord]] = {}
        for tool in catalog.tools:
            servers.setdefault(tool.server, []).append(tool)

        texts = {one.id: " ".join((one.id, one.description, *one.trigger_keywords)) for one in self._config.servers}
        now = {server: (texts.get(server, server), tuple(tools)) for server, tools in servers.items()}
        retried = self.unsearchable if again else {}
        changed = {
            server: known for server, known in now.items() if self._indexed.get(server) != known or server in retried
        }
        failed = {server: why for server, why in self.unsearchable.items() if server in now and server not in changed}
        index = self.searchable if self.searchable is not None else SearchIndex()
        index = index.without({*(self._indexed.keys() - now.keys()), *changed})
        for part in _parts(changed):
            index = index.with_each(part, _rest, failed)
            if not self._indexed:
                # What there is can be found by now.
                self.searchable = index
        self.searchable, self._indexed, self.unsearchable = index, now, failed


def _parts(
    servers: Mapping[str, tuple[str, tuple[ToolRecord, ...]]],
) -> Iterator[dict[str, tuple[str, Sequence[ToolRecord]]]]:
    """Yield the tools of servers in growing parts over all of them: each part is merged into the whole."""
    size = left = _FIRST_PART
    part: dict[str, tuple[str, Sequence[ToolRecord]]] = {}
    for server, (text, tools) in servers.items():
        start = 0
        while start < len(tools):
            part[server] = text, tools[start : start + left]
            start += len(part[server][1])
            left -= len(part[server][1])
            if not left:
                yield part
                size *= 2
                part, left = {}, size
    if part:
        yield part


def _rest() -> None:
    time.sleep(_PAUSE)
