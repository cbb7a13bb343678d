"""Words that are related: a table of meanings, and the further words that WordNet puts under its lines.

Law: the tables are about the language of requests and tools, never about one catalog.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from aggregator.catalog.search.terms.language import words_in
from aggregator.catalog.search.terms.stem import stem
from aggregator.catalog.search.terms.tables import lines
from aggregator.catalog.search.terms.words import chunks, unspaced

# The weight of a word is shared out among its meanings; the words of WordNet weigh less.
_SPREAD: Final = 0.5
_RELATED: Final = 0.7


@dataclass(frozen=True, slots=True)
class Synonyms:
    """A table of words and their meanings.

    `of` maps a stem, or a Chinese word, to the marks of its meanings: `*3` for words of one action, `=7` for words that
    stand for each other, `~9` for words of one subject. `shares` maps it to its marks, each with the word's share of
    that meaning. `phrases` has pairs of stems that are looked up as one.
    """

    of: Mapping[str, tuple[str, ...]]
    shares: Mapping[str, tuple[tuple[str, float], ...]]
    phrases: Mapping[tuple[str, str], str]

    def words_in(self, run: str) -> list[str]:
        """Return the known words in a run of Chinese, longest first at each place."""
        return words_in(run, self.of)


@cache
def synonyms() -> Synonyms:
    """Return the table of meanings, read once."""
    of: dict[str, tuple[str, ...]] = {}
    phrases: dict[tuple[str, str], str] = {}
    for (_, mark), line in zip(line_heads(), _lines(), strict=True):
        for word in line.split()[1:]:
            for chunk in [word] if "_" in word else chunks(word):
                term = chunk if unspaced(chunk) else stem(chunk.lower())
                if "_" in chunk:
                    pair = [stem(part) for part in chunk.split("_")]
                    phrases[pair[0], pair[1]] = term = " ".join(pair[:2])
                if mark not in of.get(term, ()):
                    of[term] = (*of.get(term, ()), mark)
    return Synonyms(of, {term: _shares(marks, 1.0) for term, marks in of.items()}, phrases)


@cache
def wider_synonyms() -> Synonyms:
    """Return the table of meanings with the words that WordNet puts under its lines, read once."""
    table = synonyms()
    of, shares = dict(table.of), dict(table.shares)
    by_head, wider = dict(line_heads()), set[str]()
    for line in lines("related.txt"):
        head, _, stems = line.partition(": ")
        for term in stems.split():
            of[term] = (*of.get(term, ()), by_head[head])
            wider.add(term)
    shares.update((term, _shares(of[term], _RELATED)) for term in wider)
    return Synonyms(of, shares, table.phrases)


def line_heads() -> list[tuple[str, str]]:
    """Return each line's first words, by which the table of related words names it, and its mark."""
    return [(" ".join(line.split()[:5]), f"{line[0]}{number}") for number, line in enumerate(_lines())]


def _lines() -> list[str]:
    return lines("meanings.txt") + lines("subjects.txt")


def _shares(marks: tuple[str, ...], worth: float) -> tuple[tuple[str, float], ...]:
    part = worth * len(marks) ** -_SPREAD
    return tuple(_share(mark, part) for mark in marks)


@cache
def _share(mark: str, part: float) -> tuple[str, float]:
    """Return the pair; there are few, and many words have them."""
    return mark, part
