"""The search by meaning of one process: embeddings of tools, computed in the background, and of queries.

Law: no search waits for the embeddings of tools: until there are some, it uses keywords alone.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Container, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Protocol

from aggregator.domain.bounds.lru import LruCache
from aggregator.domain.errors import OperatorError
from aggregator.domain.records import ToolRecord
from aggregator.storage.errors import StorageError

if TYPE_CHECKING:
    from aggregator.catalog.search.semantic.index import MeaningIndex, TextEncoder
    from aggregator.storage.tool_vectors import ToolVectors

log = logging.getLogger(__name__)

# How similar each of the tools with these names is to a query. Takes time with their number: call it in a thread.
Similarity = Callable[[Container[str]], dict[str, float]]

# Texts of tools that are encoded at once: each takes some 30 ms of a core. A pause as long as that follows.
_BATCH: Final = 8
_LONGEST_PAUSE: Final = 2.0
# Pieces that are read of a tool's text, which has 200 characters of a description, and of a query.
OF_TOOL: Final = 128
OF_QUERY: Final = 64
# Queries that are encoded at once; how many may wait for that before others are answered by keywords alone.
_TOGETHER: Final = 2
_MOST_WAITING: Final = 16
# The vectors that are kept of queries of at most so many characters.
_QUERIES_KEPT: Final = 512
_QUERY_LENGTH: Final = 500


class VectorStore(Protocol):
    """The database of vectors, or None without a database."""

    async def tool_vectors(self) -> "ToolVectors | None": ...


class ToolEmbeddings:
    """The vectors of one process; `run` keeps them in step with the tools passed to `set_tools`."""

    def __init__(self, store: VectorStore | None = None) -> None:
        self._store = store
        self._tools: tuple[ToolRecord, ...] | None = None
        self._changed = asyncio.Event()
        self._complete = asyncio.Event()
        self._encoder: TextEncoder | None = None
        self._index: MeaningIndex | None = None
        self._queries: LruCache[str, Any] = LruCache(_QUERIES_KEPT)
        self._slots = asyncio.Semaphore(_TOGETHER)
        self._waiting = 0
        self._logged = ""

    def set_tools(self, tools: Iterable[ToolRecord] | None) -> None:
        """Take the tools to be found by their meaning; None: the search by meaning is off."""
        self._tools = tuple(tools) if tools is not None else None
        if self._tools is None:
            self._index = self._encoder = None
            self._queries = LruCache(_QUERIES_KEPT)
        self._complete.clear()
        self._changed.set()

    async def wait_complete(self) -> None:
        """Wait until every tool has its vector."""
        await self._complete.wait()

    async def run(self) -> None:
        """Make the vectors of tools until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            if self._tools is None:
                continue
            try:
                await self._learn(self._tools)
            except OperatorError as error:
                log.error("tools are found by keywords only: %s", error)
            except Exception as error:  # the next tools are tried again
                log.error("some tools are found by keywords only, by an error of ours", exc_info=error)

    async def similarities_to(self, query: str) -> Similarity | None:
        """Return the similarity of tools to a query; None to use keywords alone.

        That is so while the search by meaning is off or has no vectors, for a query without Latin letters, and if too
        many queries wait.
        """
        index, encoder = self._index, self._encoder
        if index is None or encoder is None or not len(index):
            return None
        from aggregator.catalog.search.semantic.texts import is_latin

        if not is_latin(query):
            return None
        vector = self._queries.get(query)
        if vector is None:
            if self._waiting >= _MOST_WAITING:
                return None
            async with self._turn():
                vector = (await asyncio.to_thread(encoder.encode, [query], OF_QUERY))[0]
            if len(query) <= _QUERY_LENGTH:
                self._queries.put(query, vector)
        return lambda visible: index.similarities(vector, visible)

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        self._waiting += 1
        try:
            async with self._slots:
                yield
        finally:
            self._waiting -= 1

    async def _learn(self, tools: tuple[ToolRecord, ...]) -> None:
        """Make the vectors that these tools have not yet, until there are other tools.

        Raises:
            OperatorError: the model cannot be used.
        """
        encoder = self._encoder
        if encoder is None:
            encoder = await asyncio.to_thread(_open_encoder)
        index, missing = await asyncio.to_thread(_new_index, tools, self._index)
        index.add(await self._kept(missing))
        await asyncio.to_thread(index.publish)
        if self._changed.is_set():
            return
        self._index, self._encoder = index, encoder
        left = iter(await asyncio.to_thread(index.missing, mixed=True))
        unpublished = 0
        while batch := list(islice(left, _BATCH)):
            begun = time.monotonic()
            # Other processes of the group make vectors of the same tools.
            vectors = await self._kept(digest for digest, _ in batch)
            batch = [(digest, text) for digest, text in batch if digest not in vectors]
            if batch:
                rows = await asyncio.to_thread(encoder.encode, [text for _, text in batch], OF_TOOL)
                made = {digest: row for (digest, _), row in zip(batch, rows, strict=True)}
                await self._keep(made)
                vectors |= made
            index.add(vectors)
            unpublished += len(vectors)
            if unpublished > max(_BATCH, len(index) // 4):
                await asyncio.to_thread(index.publish)
                unpublished = 0
            with suppress(TimeoutError):
                async with asyncio.timeout(min(_LONGEST_PAUSE, time.monotonic() - begun)):
                    await self._changed.wait()
            if self._changed.is_set():
                return
        await asyncio.to_thread(index.publish)
        if not self._changed.is_set():
            self._complete.set()

    async def _kept(self, digests: Iterable[str]) -> dict[str, Any]:
        """Return the vectors that the database has of these texts."""
        wanted = list(digests)
        try:
            store = await self._store.tool_vectors() if self._store is not None else None
            kept = await store.read(wanted, now=time.time()) if store is not None and wanted else {}
        except StorageError as error:
            self._log_fault("vectors of tools are made anew, since they cannot be read", error)
            return {}
        return await asyncio.to_thread(_as_rows, kept)

    async def _keep(self, made: Mapping[str, Any]) -> None:
        try:
            store = await self._store.tool_vectors() if self._store is not None else None
            if store is not None:
                await store.keep({digest: row.tobytes() for digest, row in made.items()}, now=time.time())
        except StorageError as error:
            self._log_fault("vectors of tools are not kept for the next start", error)

    def _log_fault(self, what: str, error: StorageError) -> None:
        """Log a fault of the database, once as long as it stays the same."""
        if self._logged != (said := f"{what}: {error}"):
            self._logged = said
            log.warning("%s", said)


def _open_encoder() -> "TextEncoder":
    from aggregator.catalog.search.semantic.installed import open_encoder

    return open_encoder()


def _new_index(tools: tuple[ToolRecord, ...], before: "MeaningIndex | None") -> "tuple[MeaningIndex, list[str]]":
    """Return an index of the tools with the vectors that were there before, and the digests that it misses."""
    from aggregator.catalog.search.semantic.index import MeaningIndex

    index = MeaningIndex(tools)
    if before is not None:
        index.add_from(before)
    return index, [digest for digest, _ in index.missing()]


def _as_rows(kept: Mapping[str, bytes]) -> dict[str, Any]:
    from aggregator.catalog.search.semantic.index import row_of

    return {digest: row for digest, vector in kept.items() if (row := row_of(vector)) is not None}
