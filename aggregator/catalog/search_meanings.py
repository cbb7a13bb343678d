"""What words have to do with each other and which say little: two tables of general knowledge, read once.

Law: the tables are about the language of requests and tools, never about one catalog.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import pairwise
from typing import Final

from aggregator.catalog.search_stem import stem
from aggregator.catalog.words import chunks, unspaced

_DATA: Final = resources.files("aggregator.catalog") / "data"
# What a tool says by a word of several meanings is shared out among them.
_SPREAD: Final = 0.5
_LONGEST_SIGNS: Final = 6


@dataclass(frozen=True, slots=True)
class Meanings:
    """`of`: a stem, or a Chinese word, to the marks of its meanings: `*3` for doing the same,
    `=7` for words that stand for each other, `~9` for words of one subject. `shares`: the same with
    how much of each meaning the word says in a tool. `phrases`: two stems in a row that are looked up as one."""

    of: Mapping[str, tuple[str, ...]]
    shares: Mapping[str, tuple[tuple[str, float], ...]]
    phrases: Mapping[tuple[str, str], str]

    def with_phrases(self, terms: list[str]) -> list[str]:
        """Latin terms in a row, followed by the phrases among them."""
        return terms + [self.phrases[pair] for pair in pairwise(terms) if pair in self.phrases]

    def words_in(self, run: str) -> list[str]:
        """The known words in a run of Chinese, longest first at each place."""
        found: list[str] = []
        at = 0
        while at < len(run):
            for length in range(min(_LONGEST_SIGNS, len(run) - at), 0, -1):
                if run[at : at + length] in self.of:
                    found.append(run[at : at + length])
                    break
            else:
                length = 1
            at += length
        return found


@dataclass(frozen=True, slots=True)
class Plain:
    """`unsaid` and `little`: stems; `said`: Chinese words that only ask."""

    unsaid: frozenset[str]
    little: frozenset[str]
    said: frozenset[str]


@cache
def meanings() -> Meanings:
    """The table of meanings."""
    of: dict[str, tuple[str, ...]] = {}
    phrases: dict[tuple[str, str], str] = {}
    for number, line in enumerate(_lines("meanings.txt") + _lines("subjects.txt")):
        kind, *words = line.split()
        for word in words:
            for chunk in [word] if "_" in word else chunks(word):
                term = chunk if unspaced(chunk) else stem(chunk.lower())
                if "_" in chunk:
                    pair = [stem(part) for part in chunk.split("_")]
                    phrases[pair[0], pair[1]] = term = " ".join(pair[:2])
                marks = of.get(term, ())
                if f"{kind}{number}" not in marks:
                    of[term] = (*marks, f"{kind}{number}")
    shares = {term: tuple((mark, len(marks) ** -_SPREAD) for mark in marks) for term, marks in of.items()}
    return Meanings(of, shares, phrases)


@cache
def plain() -> Plain:
    """The words that say little."""
    lists: dict[str, list[str]] = {}
    words: list[str] = []
    for line in _lines("plain.txt"):
        if line.startswith("["):
            words = lists.setdefault(line.strip("[]"), [])
        else:
            words += line.split()
    return Plain(frozenset(map(stem, lists["unsaid"])), frozenset(map(stem, lists["little"])), frozenset(lists["说"]))


def _lines(name: str) -> list[str]:
    text = (_DATA / name).read_text(encoding="utf-8")
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
