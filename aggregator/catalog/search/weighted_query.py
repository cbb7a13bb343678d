"""Weigh a query by the tools that one agent sees: what each of its terms is worth among them.

Law: only the tools the agent sees count, in every number here.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from aggregator.catalog.search.postings import Postings, end_keys
from aggregator.catalog.search.query import Query, WeightedTerms
from aggregator.catalog.search.terms.edit_distance import distance_allowed, edit_distance, extends
from aggregator.catalog.search.terms.language import plain_words, rarity
from aggregator.catalog.search.terms.synonyms import synonyms
from aggregator.catalog.search.visible import VisibleTools

# Beside the term itself: a slip of the pen, the beginning or end of a longer word.
SLIP = 0.7
BEGINNING = 0.6
# A part of a word that some tool has as a whole: git of GitLab.
PART = 0.3

_MOST_UNKNOWN: Final = 8
_MOST_VARIANTS: Final = 4
_SCALE: Final = 255
_LONGER: Final = 9
# Letters of a word that may have a cognate in English, and the first letters that both have.
_COGNATE: Final = 5
_ALIKE: Final = 2


@dataclass(frozen=True, slots=True)
class WeightedQuery:
    """A query weighed by the tools that one agent sees.

    `words` and `extra` hold terms that some of these tools have, with the gain for each point of their impact: `words`
    as typed, the terms that may stand for one word together; `extra`, their pairs and meanings. `asked` has for each of
    `words` the word of the query (a key of `Query.words`).
    """

    query: Query
    words: tuple[WeightedTerms, ...]
    extra: WeightedTerms
    asked: tuple[str, ...]

    def terms(self) -> dict[str, float]:
        """Return all terms to add up, those worth most first."""
        gains: dict[str, float] = {}
        for term, gain in (pair for word in (*self.words, self.extra) for pair in word):
            gains[term] = max(gain, gains.get(term, 0.0))
        return dict(sorted(gains.items(), key=lambda item: (-item[1], item[0])))


def weigh(query: Query, visible: VisibleTools) -> WeightedQuery:
    """Weigh a query by these tools; a word that none of them has is read as its nearest neighbours."""
    words: list[WeightedTerms] = []
    asked: list[str] = []
    unknown: list[tuple[str, WeightedTerms]] = []
    parts, inside = _parts(visible, query)
    for key, word in query.words.items():
        known = _gains(visible, word)
        if known:
            if key in parts:
                known = tuple((term, gain * PART) for term, gain in known)
            words.append(known)
            asked.append(key)
        else:
            unknown.append((key, word))
    others = [(key, word) for key, word in unknown if " " not in key and _may_be_misspelt(word[0][0])][:_MOST_UNKNOWN]
    for key, ((term, worth), *_) in others:
        near = _cognates(visible, term) if query.foreign else _variants(visible, term)
        known = _gains(visible, tuple((other, worth * likeness) for other, likeness in near))
        if known:
            words.append(known)
            asked.append(key)
    pairs = [(pair, worth) for pair, worth in query.pairs.items() if pair not in inside]
    extra = _gains(visible, (*pairs, *query.meanings.items()))
    return WeightedQuery(query, tuple(words), extra, tuple(asked))


def _parts(visible: VisibleTools, query: Query) -> tuple[set[str], set[str]]:
    """Return the parts of the words that some tool has as a whole, and the pairs within these words."""
    parts: set[str] = set()
    inside: set[str] = set()
    for whole, own in query.compounds.items():
        if visible.frequency(whole):
            parts.update(own)
            for one, two in pairwise((*own, whole)):
                inside |= {f"{one} {two}", one + two}
    return parts, inside


def _gains(visible: VisibleTools, word: WeightedTerms) -> WeightedTerms:
    return tuple((term, worth / _SCALE * rareness(visible, term)) for term, worth in word if visible.frequency(term))


def rareness(visible: VisibleTools, term: str) -> float:
    """Return how rare a term is among the tools seen."""
    frequency = visible.frequency(term)
    return math.log(1 + (visible.count - frequency + 0.5) / (frequency + 0.5))


def _may_be_misspelt(term: str) -> bool:
    return (
        bool(end_keys(term))
        and term not in synonyms().of
        and term not in plain_words().weak
        and term not in plain_words().ignored
    )


def _variants(visible: VisibleTools, term: str) -> Iterator[tuple[str, float]]:
    """Return the terms closest to a term that no tool has, with the likelihood of each. A common word is no typo."""
    near: list[tuple[int, int, str]] = []
    most = 0 if term in rarity() else distance_allowed(term)
    for other in _neighbours(visible.postings, term):
        slips = edit_distance(term, other, most)
        longer = slips is None and extends(term, other)
        frequency = visible.frequency(other) if longer or slips is not None else 0
        if frequency:
            near.append((_LONGER if slips is None else slips, -frequency, other))
    near.sort()
    least = near[0][0] if near else 0
    likeness = BEGINNING if least == _LONGER else SLIP / max(least, 1)
    return ((other, likeness) for slips, _, other in near[:_MOST_VARIANTS] if slips == least)


def _cognates(visible: VisibleTools, term: str) -> Iterator[tuple[str, float]]:
    """Return the variants of a word of another language that are written nearly like all of it: Tabelle, table."""
    if len(term) < _COGNATE:
        return iter(())
    return ((other, likeness) for other, likeness in _variants(visible, term) if _is_cognate(term, other))


def _is_cognate(term: str, other: str) -> bool:
    return other[:_ALIKE] == term[:_ALIKE] and abs(len(other) - len(term)) <= _ALIKE


def _neighbours(postings: Postings, term: str) -> set[str]:
    return {other for key in end_keys(term) for other in postings.ends.get(key, ())}
