"""A question put to the tools in sight: what each term that is looked for is worth among them.

Law: only the tools in sight count, in every number here.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from aggregator.catalog.search.postings import Postings, ends
from aggregator.catalog.search.query import Query, Word
from aggregator.catalog.search.terms.edit_distance import compound, distance_allowed, within
from aggregator.catalog.search.terms.language import plain, rarity
from aggregator.catalog.search.terms.synonyms import meanings
from aggregator.catalog.search.visible import VisibleTools

# Beside the term itself: a slip of the pen, the beginning or end of a longer word.
SLIP = 0.7
BEGINNING = 0.6

_MOST_UNKNOWN: Final = 8
_MOST_VARIANTS: Final = 4
_SCALE: Final = 255
_LONGER: Final = 9


@dataclass(frozen=True, slots=True)
class WeightedQuery:
    """Terms that some tool in sight says, with the gain for each point of their impact: `words` as asked, the terms
    that may stand for one word together; `beside`, their pairs and meanings."""

    query: Query
    words: tuple[Word, ...]
    beside: Word

    def terms(self) -> dict[str, float]:
        """All terms to add up, what is worth most first."""
        gains: dict[str, float] = {}
        for term, gain in (pair for word in (*self.words, self.beside) for pair in word):
            gains[term] = max(gain, gains.get(term, 0.0))
        return dict(sorted(gains.items(), key=lambda item: (-item[1], item[0])))


def put(query: Query, sight: VisibleTools) -> WeightedQuery:
    """The question as it is among these tools; a word that none of them says is read as its nearest neighbours."""
    words: list[Word] = []
    unknown: list[Word] = []
    for word in query.words.values():
        known = _gains(sight, word)
        if known:
            words.append(known)
        else:
            unknown.append(word)
    others = [word for word in unknown if _may_be_another(word[0][0])][:_MOST_UNKNOWN]
    for (term, worth), *_ in others:
        known = _gains(sight, tuple((other, worth * likeness) for other, likeness in _variants(sight, term)))
        if known:
            words.append(known)
    return WeightedQuery(query, tuple(words), _gains(sight, (*query.pairs.items(), *query.means.items())))


def _gains(sight: VisibleTools, word: Word) -> Word:
    return tuple((term, worth / _SCALE * _rareness(sight, term)) for term, worth in word if sight.frequency(term))


def _rareness(sight: VisibleTools, term: str) -> float:
    frequency = sight.frequency(term)
    return math.log(1 + (sight.count - frequency + 0.5) / (frequency + 0.5))


def _may_be_another(term: str) -> bool:
    return bool(ends(term)) and term not in meanings().of and term not in plain().little and term not in plain().unsaid


def _variants(sight: VisibleTools, term: str) -> Iterator[tuple[str, float]]:
    """Terms in sight that may have been meant, with how likely; the nearest only. A common word is no slip."""
    near: list[tuple[int, int, str]] = []
    most = 0 if term in rarity() else distance_allowed(term)
    for other in _neighbours(sight.postings, term):
        slips = within(term, other, most)
        longer = slips is None and compound(term, other)
        frequency = sight.frequency(other) if longer or slips is not None else 0
        if frequency:
            near.append((_LONGER if slips is None else slips, -frequency, other))
    near.sort()
    least = near[0][0] if near else 0
    likeness = BEGINNING if least == _LONGER else SLIP / max(least, 1)
    return ((other, likeness) for slips, _, other in near[:_MOST_VARIANTS] if slips == least)


def _neighbours(postings: Postings, term: str) -> set[str]:
    return {other for key in ends(term) for other in postings.ends.get(key, ())}
