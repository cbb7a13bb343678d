"""Rank tools: sums over the terms of a query select candidates, and each candidate is then scored as a whole.

Law: only the tools the agent sees count, in every number here.
"""

from collections.abc import Container
from heapq import nlargest, nsmallest
from itertools import compress
from operator import mul
from typing import Final

from aggregator.catalog.search.document import Document
from aggregator.catalog.search.fit import scores
from aggregator.catalog.search.name_match import name_matches
from aggregator.catalog.search.query import Query
from aggregator.catalog.search.visible import VisibleTools
from aggregator.catalog.search.weighted_query import WeightedQuery, weigh

# When so many entries have been added up, further terms, which say less, are looked at for the best tools only.
_ENTRIES: Final = 6_000
_BEST: Final = 64


def rank(visible: VisibleTools, query: Query, limit: int) -> list[tuple[Document, float, int]]:
    """Return the best tools the query says anything about, best first, with their scores and how exactly each is named.

    `name_match.name_matches` says what the last number means.
    """
    weighted = weigh(query, visible)
    sums = _sums(visible, weighted)
    asked_for = name_matches(visible, query)

    def order(slot: int, score: float) -> tuple[int, float, str, str]:
        return -asked_for.get(slot, 0), -score, *visible.document(slot).key

    best = nsmallest(_BEST, asked_for, key=lambda slot: order(slot, sums[slot]))
    if len(asked_for) <= _BEST:
        best += _best(visible, sums, asked_for)
    scored = scores(weighted, {slot: visible.document(slot) for slot in best})
    ordered = sorted(scored, key=lambda slot: order(slot, scored[slot]))
    if limit > len(ordered):
        rest = {slot for slot, score in enumerate(sums) if score} | asked_for.keys()
        ordered += sorted(rest - scored.keys(), key=lambda slot: order(slot, sums[slot]))
        lowest = min(scored.values(), default=0.0)
        scored |= {slot: min(lowest, sums[slot]) for slot in rest - scored.keys()}
    return [(visible.document(slot), scored[slot], asked_for.get(slot, 0)) for slot in ordered[:limit]]


def _sums(visible: VisibleTools, weighted: WeightedQuery) -> list[float]:
    """Return by slot the sum of the query's terms there; long lists of common terms are left out."""
    sums = [0.0] * len(visible.mask)
    entries = 0
    for term, gain in weighted.terms().items():
        frequency = visible.frequency(term)
        if entries and entries + frequency > _ENTRIES:
            continue
        entries += frequency
        posting = visible.postings.lists[term]
        for slot, impact in zip(posting.slots, posting.impacts, strict=True):
            sums[slot] += gain * impact
    return sums if visible.whole else list(map(mul, sums, visible.mask))


def _best(visible: VisibleTools, sums: list[float], besides: Container[int]) -> list[int]:
    """Return the best slots, and of those with equal sums the first by name."""
    found = [slot for slot in compress(range(len(sums)), sums) if slot not in besides]
    if len(found) <= _BEST:
        return found
    least = nlargest(_BEST, map(sums.__getitem__, found))[-1]
    best = [slot for slot in found if sums[slot] > least]
    level = [slot for slot in found if sums[slot] == least]
    return best + nsmallest(_BEST - len(best), level, key=lambda slot: visible.document(slot).key)
