"""Rank tools: sums over the terms of a query select candidates, and each candidate is then scored as a whole.

Law: only the tools the agent sees count, in every number here.
"""

from collections.abc import Container, Iterable
from itertools import compress
from typing import Final

from aggregator.catalog.search.document import Document
from aggregator.catalog.search.fit import scores
from aggregator.catalog.search.name_match import name_matches
from aggregator.catalog.search.query import Query
from aggregator.catalog.search.visible import VisibleTools
from aggregator.catalog.search.weighted_query import WeightedQuery, weigh

# After this many entries have been added up, the remaining, less telling terms are read for the best tools only.
_ENTRIES: Final = 6_000
_BEST: Final = 64


def rank(visible: VisibleTools, query: Query, limit: int) -> list[tuple[Document, float, int]]:
    """Return the best tools that match the query at all, best first, with scores and the degree of match of each name.

    `name_match.name_matches` defines the last number.
    """
    weighted = weigh(query, visible)
    sums = _sums(visible, weighted)
    asked_for = name_matches(visible, query)

    def order(slot: int, score: float) -> tuple[int, float, str, str]:
        return -asked_for.get(slot, 0), -score, *visible.document(slot).key

    named = sorted(asked_for, key=lambda slot: order(slot, sums[slot]))
    others = _best(visible, sums, asked_for, max(_BEST, limit))
    best = named[:_BEST] if len(named) > _BEST else named + others[:_BEST]
    scored = scores(weighted, {slot: visible.document(slot) for slot in best})
    ordered = sorted(scored, key=lambda slot: order(slot, scored[slot]))
    if limit > len(ordered):
        rest = [slot for slot in (*named, *others) if slot not in scored]
        lowest = min(scored.values(), default=0.0)
        for slot in rest:
            scored[slot] = min(lowest, sums[slot])
        ordered += rest
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
    return sums


def _best(visible: VisibleTools, sums: list[float], besides: Container[int], count: int) -> list[int]:
    """Return the best `count` slots, best first, and those with equal sums by name."""
    slots: Iterable[int] = range(len(sums))
    if visible.whole:
        found = list(compress(slots, sums))
    else:
        found = list(compress(compress(slots, visible.mask), compress(sums, visible.mask)))
    if besides:
        found = [slot for slot in found if slot not in besides]
    found.sort(key=sums.__getitem__, reverse=True)
    start = 0
    while start < min(count, len(found)):
        end = start + 1
        while end < len(found) and sums[found[end]] == sums[found[start]]:
            end += 1
        if end > start + 1:
            found[start:end] = sorted(found[start:end], key=lambda slot: visible.document(slot).key)
        start = end
    return found[:count]
