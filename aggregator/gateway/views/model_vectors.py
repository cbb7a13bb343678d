"""The vectors that one model has made of the tools in this process, and those of recent queries."""

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Protocol

from aggregator.catalog.search.semantic.models import KnownModel
from aggregator.domain.bounds.lru import LruCache
from aggregator.domain.records import ToolRecord
from aggregator.storage.errors import StorageError

if TYPE_CHECKING:
    from aggregator.catalog.search.semantic.index import MeaningIndex, TextEncoder
    from aggregator.catalog.search.semantic.spoken import Languages
    from aggregator.storage.tool_vectors import ToolVectors

log = logging.getLogger(__name__)

# Texts of tools that are encoded at once: each takes some 30 ms of a core. A pause as long as that follows.
_BATCH: Final = 8
_LONGEST_PAUSE: Final = 2.0
# Pieces that are read of a query.
OF_QUERY: Final = 64
# The vectors that are kept of queries of at most so many characters.
_QUERIES_KEPT: Final = 512
_QUERY_LENGTH: Final = 500


class VectorStore(Protocol):
    """The database of vectors, or None without a database."""

    async def tool_vectors(self) -> "ToolVectors | None": ...


class ModelVectors:
    """The vectors of one model; `learn` keeps them in step with the tools."""

    def __init__(self, model: KnownModel, store: VectorStore | None) -> None:
        self.model = model
        self.index: MeaningIndex | None = None
        # What the texts of each language have in common, for a model whose vectors are centred.
        self.languages: Languages | None = None
        self._encoder: TextEncoder | None = None
        self._usual: Any = None
        self._store = store
        self._queries: LruCache[str, Any] = LruCache(_QUERIES_KEPT)
        self._logged = ""

    @property
    def ready(self) -> bool:
        """Return whether some tools have vectors."""
        return self.index is not None and len(self.index) > 0

    def known_query(self, query: str) -> Any | None:
        """Return the vector of a recent query, or None."""
        return self._queries.get(query)

    def encode_query(self, query: str) -> Any:
        """Return the vector of a query. Takes some 20 ms: call it in a thread."""
        assert self._encoder is not None, "some tools have vectors"
        vector = self._encoder.encode_queries([query], OF_QUERY)[0]
        if len(query) <= _QUERY_LENGTH:
            self._queries.put(query, vector)
        return vector

    async def learn(self, tools: tuple[ToolRecord, ...], changed: asyncio.Event) -> None:
        """Make the vectors that these tools have not yet, until there are other tools.

        Raises:
            OperatorError: the model cannot be used.
        """
        encoder = self._encoder
        if encoder is None:
            encoder = await asyncio.to_thread(_open_encoder, self.model)
        if self.model.centred and self.languages is None:
            self.languages, self._usual = await asyncio.to_thread(_languages, encoder)
        index, missing = await asyncio.to_thread(_new_index, tools, self.index, self.model, self._usual)
        index.add(await self._kept(missing))
        await asyncio.to_thread(index.publish)
        if changed.is_set():
            return
        self.index, self._encoder = index, encoder
        left = iter(await asyncio.to_thread(index.missing, mixed=True))
        unpublished = 0
        while batch := list(islice(left, _BATCH)):
            begun = time.monotonic()
            # Other processes of the group make vectors of the same tools.
            vectors = await self._kept(digest for digest, _ in batch)
            batch = [(digest, text) for digest, text in batch if digest not in vectors]
            if batch:
                rows = await asyncio.to_thread(encoder.encode_tools, [text for _, text in batch], self.model.pieces)
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
                    await changed.wait()
            if changed.is_set():
                return
        await asyncio.to_thread(index.publish)

    async def _kept(self, digests: Iterable[str]) -> dict[str, Any]:
        """Return the vectors that the database has of these texts."""
        wanted = list(digests)
        kept: Mapping[str, bytes] = {}
        try:
            store = await self._store.tool_vectors() if self._store is not None else None
            if store is not None and wanted:
                kept = await store.read(self.model.name, wanted, now=time.time())
        except StorageError as error:
            self._log_fault("vectors of tools are made anew, since they cannot be read", error)
            return {}
        return await asyncio.to_thread(_as_rows, kept)

    async def _keep(self, made: Mapping[str, Any]) -> None:
        try:
            store = await self._store.tool_vectors() if self._store is not None else None
            if store is not None:
                rows = {digest: row.tobytes() for digest, row in made.items()}
                await store.keep(self.model.name, rows, now=time.time())
        except StorageError as error:
            self._log_fault("vectors of tools are not kept for the next start", error)

    def _log_fault(self, what: str, error: StorageError) -> None:
        """Log a fault of the database, once as long as it stays the same."""
        if self._logged != (said := f"{what}: {error}"):
            self._logged = said
            log.warning("%s", said)


def _open_encoder(model: KnownModel) -> "TextEncoder":
    from aggregator.catalog.search.semantic.installed import open_encoder

    return open_encoder(model)


def _languages(encoder: "TextEncoder") -> "tuple[Languages, Any]":
    from aggregator.catalog.search.semantic.spoken import read_languages

    return read_languages(encoder, OF_QUERY)


def _new_index(
    tools: tuple[ToolRecord, ...], before: "MeaningIndex | None", model: KnownModel, usual: Any
) -> "tuple[MeaningIndex, list[str]]":
    """Return an index of the tools with the vectors that were there before, and the digests that it misses."""
    from aggregator.catalog.search.semantic.index import MeaningIndex

    index = MeaningIndex(tools, latin=model.latin, usual=usual)
    if before is not None:
        index.add_from(before)
    return index, [digest for digest, _ in index.missing()]


def _as_rows(kept: Mapping[str, bytes]) -> dict[str, Any]:
    from aggregator.catalog.search.semantic.index import row_of

    return {digest: row for digest, vector in kept.items() if (row := row_of(vector)) is not None}
