"""Known secrets in text, in every form of writing: configured ones, and tokens of accounts, which come and go.

Law 1: a text without any costs one pass over it. The pass searches for short pieces of all forms at once, the anchors;
the whole form is matched only in a text with an anchor. Law 2: a source has one credential of each name at a time; the
previous one stays known for `GRACE` seconds.
"""

import re
import threading
import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, cached_property
from typing import Final

from aggregator.redaction.encodings import SecretForm, forms
from aggregator.redaction.spans import Span

# No configuration has every `a` hidden.
_SHORTEST: Final = 3
# A secret longer than the first length is cut into pieces of the second, each known separately.
_LONG: Final = 400
_PIECE: Final = 256
# What is longer than this is a document: its head is enough to know it by.
_LONGEST: Final = 16 * 1024
# The words of a secret with spaces or lines, such as a key file, count for themselves from this length on.
_WORD: Final = re.compile(r"[^\s\\\"',;]{16,}")
_LINE_BREAK: Final = re.compile(r"\\+[nrt]")
# A text is searched so many characters at a time, so that other threads get the interpreter in between; each time with
# so many of the next, more than any form of a piece has.
_BLOCK: Final = 64 * 1024
_OVERLAP: Final = 8 * 1024
# A text with more places than this that look like a secret is searched for each of them instead.
_PLACES: Final = 64

# Seconds that a replaced credential stays known: its receivers may still repeat it.
GRACE: Final = 3600.0

# Credentials known at one time; beyond that, the oldest are forgotten.
MOST: Final = 10_000

# The index of the new ones is rebuilt for each of them, so it stays small beside the main index.
_NEW: Final = 16

_PART: Final = 4

Forms = tuple[SecretForm, ...]


class KnownSecrets:
    """Secrets of `shortest` characters or more. Patterns are compiled when the first text comes."""

    def __init__(self, secrets: Iterable[str], shortest: int) -> None:
        self._pieces = {piece for secret in secrets for piece in pieces_of(secret, shortest)}

    def spans(self, text: str) -> Iterator[Span]:
        """Yield where secrets stand, unordered; spans may overlap."""
        return self._index.spans(text) if self._pieces else iter(())

    def prepare(self) -> None:
        """Compile the patterns before the first text needs them."""
        if self._pieces:
            _ = self._index

    @cached_property
    def _index(self) -> "SecretIndex":
        return SecretIndex(form for piece in self._pieces for form in forms(piece))


class SecretIndex:
    """The forms of secrets to look for, and the anchors that tell which of them may match."""

    def __init__(self, sought: Iterable[SecretForm]) -> None:
        self._compiled = cache(re.compile)
        self._unanchored: set[str] = set()
        owners: dict[str, set[str]] = defaultdict(set)
        for form in sought:
            for anchor in form.anchors:
                owners[anchor].add(form.pattern)
            if not form.anchors:
                self._unanchored.add(form.pattern)
        # Of two anchors that begin alike the shorter one is found: it stands for both.
        self._owners: dict[str, set[str]] = defaultdict(set)
        for anchor in sorted(owners):
            shorter = next((anchor[:end] for end in range(1, len(anchor)) if anchor[:end] in self._owners), anchor)
            self._owners[shorter] |= owners[anchor]
        self._anchors = re.compile(_any_of(list(self._owners)) if self._owners else r"(?!)")

    def spans(self, text: str) -> Iterator[Span]:
        for pattern in self._suspects(text):
            for start, end in _blocks(text):
                yield from (found.span() for found in self._compiled(pattern).finditer(text, start, end))

    def _suspects(self, text: str) -> set[str]:
        """Return the patterns that may match somewhere in a text."""
        found = next(filter(None, (self._anchors.search(text, start, end) for start, end in _blocks(text))), None)
        suspects = set(self._unanchored) if found is not None else self._unanchored
        for _ in range(_PLACES):
            if found is None:
                return suspects
            suspects |= self._owners[found[0]]
            # One anchor may begin inside another.
            found = self._anchors.search(text, found.start() + 1)
        return suspects.union(*(owners for anchor, owners in self._owners.items() if anchor in text))


def pieces_of(secret: str, shortest: int) -> set[str]:
    """Return the texts that identify a secret, each of `shortest` characters at least."""
    least = max(shortest, _SHORTEST)
    return {piece for piece in _pieces(secret.strip()) if len(piece) >= least}


def _blocks(text: str) -> Iterator[tuple[int, int]]:
    """Yield where to search, from and to; all of a short text at once."""
    for start in range(0, max(len(text), 1), _BLOCK):
        yield start, start + _BLOCK + _OVERLAP


def _pieces(secret: str) -> Iterator[str]:
    if len(secret) > _LONG:
        head = secret[:_LONGEST]
        yield from (head[at : at + _PIECE] for at in range(0, len(head) - _PIECE + 1, _PIECE))
        yield head[-_PIECE:]
    else:
        yield secret
    yield from (word[:_LONG] for word in _WORD.findall(_LINE_BREAK.sub(" ", secret[:_LONGEST])))


def _any_of(words: list[str]) -> str:
    """Return a pattern for any of these words, none of which begins another: a common beginning is compared once."""
    by_first: dict[str, list[str]] = {}
    for word in words:
        by_first.setdefault(word[0], []).append(word[1:])
    parts = []
    for first, rests in by_first.items():
        rest = re.escape(rests[0]) if len(rests) == 1 else f"(?:{_any_of(rests)})"
        parts.append(re.escape(first) + rest)
    return "|".join(parts)


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
