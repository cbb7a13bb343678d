"""Credentials that come and go: tokens of accounts, known from before their first use until after their end.

Law: a learned credential is found in every form of `encodings`. A source has one credential of each name at a time; the
previous one stays known for `GRACE` seconds.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from aggregator.redaction.encodings import SecretForm, forms
from aggregator.redaction.known_secrets import SecretIndex, pieces_of
from aggregator.redaction.spans import Span

# Seconds that a replaced credential stays known: its receivers may still repeat it.
GRACE: Final = 3600.0
# Credentials known at one time; beyond that, the oldest are forgotten.
MOST: Final = 10_000
# The index of the new ones is rebuilt for each of them, so it stays small beside the main index.
_NEW: Final = 16
_PART: Final = 4

Forms = tuple[SecretForm, ...]


class PassingCredentials:
    """The credentials that are in use, by source and name, and those that were until lately."""

    def __init__(self, shortest: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._shortest = shortest
        self._clock = clock
        self._current: OrderedDict[tuple[str, str], str] = OrderedDict()
        # The end of each credential: None while it is in use. Several sources may share a value.
        self._ends: dict[str, float | None] = {}
        self._forms: dict[str, Forms] = {}
        # The index of most of them, and the index of those added since it was built.
        self._settled = self._latest = SecretIndex(())
        self._new: set[str] = set()
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<PassingCredentials, {len(self._ends)} known>"

    def __len__(self) -> int:
        return len(self._ends)

    def learn(self, source: str, named: Mapping[str, str]) -> None:
        """Add the credentials of a source by their names, replacing its earlier ones of these names.

        Takes some milliseconds for a new one: call it in a thread. It is known on return.
        """
        with self._lock:
            now, before = self._clock(), len(self._new)
            for name, value in named.items():
                self._replace((source, name), value, now)
            self._reindex(now, more=len(self._new) > before)

    def knows(self, source: str, named: Mapping[str, str]) -> bool:
        """Tell whether all of these are known as the credentials of the source."""
        return all(self._current.get((source, name)) == value for name, value in named.items())

    def spans(self, text: str) -> Iterator[Span]:
        """Yield where credentials stand, unordered; spans may overlap."""
        if self._ends:
            yield from self._settled.spans(text)
            yield from self._latest.spans(text)

    def _replace(self, key: tuple[str, str], value: str, now: float) -> None:
        before = self._current.pop(key, None)
        self._current[key] = value
        if before == value:
            return
        if before is not None:
            self._end(before, now + GRACE)
        if value not in self._ends:
            self._forms[value] = tuple(form for piece in pieces_of(value, self._shortest) for form in forms(piece))
            self._new.add(value)
        self._ends[value] = None
        if len(self._current) > MOST:
            _, oldest = self._current.popitem(last=False)
            self._end(oldest, now)

    def _end(self, value: str, at: float) -> None:
        if value not in self._current.values():
            self._ends[value] = at

    def _reindex(self, now: float, *, more: bool) -> None:
        """Forget ended credentials, and rebuild the indexes: the main one only after enough changes."""
        ended = [value for value, end in self._ends.items() if end is not None and end <= now]
        if ended and len(ended) * _PART >= len(self._ends):
            for value in ended:
                del self._ends[value], self._forms[value]
        elif len(self._new) <= max(_NEW, len(self._ends) // _PART):
            if more:
                self._latest = self._index_of(self._new)
            return
        # In this order: a search in between finds everything.
        self._settled = self._index_of(self._ends)
        self._latest = SecretIndex(())
        self._new.clear()

    def _index_of(self, values: Iterable[str]) -> SecretIndex:
        return SecretIndex(form for value in values for form in self._forms[value])
