"""The vectors of tools, by the digest of the text that the model read, so that no start makes them again."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Final

from sqlalchemy import select, update

from aggregator.storage.engine.engine import Engine
from aggregator.storage.records import SEEN_TO_THE
from aggregator.storage.tables import tool_vectors

# Seconds that a vector is kept after a process last read it.
VECTORS_KEPT: Final = 30 * 86400.0
# In one statement.
_ROWS: Final = 200


class ToolVectors:
    """The vectors of every model, by its name. `now` is the time in seconds since 1970."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def read(self, model: str, digests: Iterable[str], *, now: float) -> dict[str, bytes]:
        """Return the vectors that a model made of these texts, by digest; they count as used now.

        Raises:
            StorageError: the database cannot do it.
        """
        columns = tool_vectors.c
        found: dict[str, bytes] = {}
        unused: list[str] = []
        async with self._engine.read() as connection:
            for some in _by(_ROWS, digests):
                kept = select(columns.digest, columns.vector, columns.used).where(
                    columns.model == model, columns.digest.in_(some)
                )
                for digest, vector, used in await connection.execute(kept):
                    found[digest] = bytes(vector)
                    if used < now - SEEN_TO_THE:
                        unused.append(digest)
        for some in _by(_ROWS, unused):
            mine = (columns.model == model) & columns.digest.in_(some)
            async with self._engine.write() as connection:
                await connection.execute(update(tool_vectors).where(mine).values(used=now))
        return found

    async def keep(self, model: str, vectors: Mapping[str, bytes], *, now: float) -> None:
        """Keep the vectors that a model made of texts, by digest; another process may have kept the same ones.

        Raises:
            StorageError: the database cannot do it.
        """
        statement = self._engine.insert(tool_vectors).on_conflict_do_nothing()
        for some in _by(_ROWS, vectors):
            rows = [{"model": model, "digest": one, "used": now, "vector": vectors[one]} for one in some]
            async with self._engine.write() as connection:
                await connection.execute(statement, rows)


def _by(size: int, items: Iterable[str]) -> Iterator[list[str]]:
    rest = iter(items)
    while some := list(islice(rest, size)):
        yield some
