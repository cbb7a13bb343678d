"""Ranking: sums over the terms of a question find those tools that may be meant; then each of these is looked at whole.

Law: only the tools in sight count, in every number here.
"""

from collections.abc import Container
from heapq import nlargest, nsmallest
from itertools import compress
from operator import mul
from typing import Final

from aggregator.catalog.search.document import Document
from aggregator.catalog.search.fit import fits
from aggregator.catalog.search.name_match import named
from aggregator.catalog.search.query import Query
from aggregator.catalog.search.visible import VisibleTools
from aggregator.catalog.search.weighted_query import WeightedQuery, put

# When so many entries have been added up, further terms, which say less, are looked at for the best tools only.
_ENTRIES: Final = 6_000
_BEST: Final = 64


def ranked(sight: VisibleTools, query: Query, limit: int) -> list[tuple[Document, float, int]]:
    """The best tools in sight that the query says anything about, best first: each with its score, and how exactly its
    name is asked for (`search_names.named`)."""
    question = put(query, sight)
    sums = _sums(sight, question)
    asked_for = named(sight, query)

    def order(slot: int, score: float) -> tuple[int, float, str, str]:
        return -asked_for.get(slot, 0), -score, *sight.document(slot).key

    best = nsmallest(_BEST, asked_for, key=lambda slot: order(slot, sums[slot]))
    if len(asked_for) <= _BEST:
        best += _best(sight, sums, asked_for)
    scores = fits(question, {slot: sight.document(slot) for slot in best})
    ordered = sorted(scores, key=lambda slot: order(slot, scores[slot]))
    if limit > len(ordered):
        rest = {slot for slot, score in enumerate(sums) if score} | asked_for.keys()
        ordered += sorted(rest - scores.keys(), key=lambda slot: order(slot, sums[slot]))
        lowest = min(scores.values(), default=0.0)
        scores |= {slot: min(lowest, sums[slot]) for slot in rest - scores.keys()}
    return [(sight.document(slot), scores[slot], asked_for.get(slot, 0)) for slot in ordered[:limit]]


def _sums(sight: VisibleTools, question: WeightedQuery) -> list[float]:
    """By slot, what the terms of the question sum up to there; for long lists of common terms left out."""
    sums = [0.0] * len(sight.mask)
    entries = 0
    for term, gain in question.terms().items():
        frequency = sight.frequency(term)
        if entries and entries + frequency > _ENTRIES:
            continue
        entries += frequency
        posting = sight.postings.lists[term]
        for slot, impact in zip(posting.slots, posting.impacts, strict=True):
            sums[slot] += gain * impact
    return sums if sight.whole else list(map(mul, sums, sight.mask))


def _best(sight: VisibleTools, sums: list[float], besides: Container[int]) -> list[int]:
    """The best, and of those that are level the first by name."""
    found = [slot for slot in compress(range(len(sums)), sums) if slot not in besides]
    if len(found) <= _BEST:
        return found
    least = nlargest(_BEST, map(sums.__getitem__, found))[-1]
    best = [slot for slot in found if sums[slot] > least]
    level = [slot for slot in found if sums[slot] == least]
    return best + nsmallest(_BEST - len(best), level, key=lambda slot: sight.document(slot).key)
