"""Full-text search over a small collection: SQLite FTS5 in memory, ranked by bm25."""

import sqlite3
import weakref
from collections.abc import Iterable
from dataclasses import dataclass

from examples.legal.texts import pairs, phrases, runs, tokens

_TITLE_WEIGHT, _BODY_WEIGHT = 2.0, 1.0


@dataclass(frozen=True, slots=True)
class Entry:
    """One document to index; `group` is what a search can be narrowed to."""

    group: str
    title: str
    body: str


@dataclass(frozen=True, slots=True)
class Hit:
    """A found document: its place in the collection and its score, higher is better."""

    position: int
    score: float


@dataclass(frozen=True, slots=True)
class Found:
    """The hits of one search. `exact`: every piece of the query occurs as written; otherwise only parts of it do."""

    hits: list[Hit]
    total: int
    exact: bool


class FullText:
    """An index of entries, built once and then only read."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        # A server may be built on one thread and run on another; nothing writes after this constructor.
        self._db = sqlite3.connect(":memory:", check_same_thread=False)
        weakref.finalize(self, self._db.close)
        self._db.execute(
            "CREATE VIRTUAL TABLE docs USING fts5"
            "(title, body, category UNINDEXED, tokenize = 'unicode61 remove_diacritics 0')"
        )
        self._db.executemany(
            "INSERT INTO docs(rowid, title, body, category) VALUES (?, ?, ?, ?)",
            (
                (position, " ".join(tokens(entry.title)), " ".join(tokens(entry.body)), entry.group)
                for position, entry in enumerate(entries)
            ),
        )

    def find(self, query: str, *, group: str = "", limit: int) -> Found:
        """The best `limit` entries holding all pieces of `query`; failing that, those holding parts of them."""
        pieces = runs(query)
        for exact, expression in ((True, phrases(pieces, "AND")), (False, phrases(pairs(pieces), "OR"))):
            hits, total = self._match(expression, group, limit)
            if total:
                return Found(hits, total, exact)
        return Found([], 0, True)

    def _match(self, expression: str, group: str, limit: int) -> tuple[list[Hit], int]:
        where = (expression, group, group)
        rows = self._db.execute(
            "SELECT rowid, -bm25(docs, ?, ?) AS score FROM docs WHERE docs MATCH ? AND (? = '' OR category = ?)"
            " ORDER BY score DESC, rowid LIMIT ?",
            (_TITLE_WEIGHT, _BODY_WEIGHT, *where, limit),
        )
        hits = [Hit(int(position), round(float(score), 4)) for position, score in rows]
        (total,) = self._db.execute(
            "SELECT count(*) FROM docs WHERE docs MATCH ? AND (? = '' OR category = ?)", where
        ).fetchone()
        return hits, int(total)
