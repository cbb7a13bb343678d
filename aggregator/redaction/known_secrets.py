"""Known secrets in text, in every form of writing.

Law: a text without any costs one pass over it. The pass searches for short pieces of all forms at once, the anchors;
the whole form is matched only in a text with an anchor.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
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
