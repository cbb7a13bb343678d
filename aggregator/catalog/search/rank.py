"""Rank tools: sums over the terms of a query select candidates, and each candidate is then scored as a whole.

Law: only the tools the agent sees count, in every number here.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import compress
from typing import Final

from aggregator.catalog.search.agent_query import AgentQuery
from aggregator.catalog.search.document import Document
from aggregator.catalog.search.visible import VisibleTools
from aggregator.catalog.search.weighted_query import WeightedQuery

# After this many entries have been added up, the remaining, less telling terms are read for the best tools only.
_ENTRIES: Final = 6_000
_BEST: Final = 64
# Of more tools than this many times those that are wanted, the worst are left out before the others are sorted.
_MANY: Final = 2
# The best sum divided by this is the first guess at the least sum of a tool that is wanted.
_STEP: Final = 4


def rank(visible: VisibleTools, asked: AgentQuery, limit: int) -> list[tuple[Document, float, int]]:
    """Return the best tools that match the query at all, best first, with scores and the degree of match of each name.

    `name_match.name_matches` defines the last number.
    """
    sums = _sums(visible, asked.weighted)
    names = asked.named

    def in_order(values: Sequence[float] | Mapping[int, float], slots: Iterable[int]) -> list[int]:
        keyed = [(-names.get(slot, 0), -values[slot], *visible.document(slot).key, slot) for slot in slots]
        keyed.sort()
        return [key[-1] for key in keyed]

    named = in_order(sums, names) if names else []
    others = _best(visible, sums, names, max(_BEST, limit))
    best = named[:_BEST] if len(named) > _BEST else named + others[:_BEST]
    scored: Mapping[int, float] = asked.scores(visible, best)
    ordered = in_order(scored, scored)
    if limit > len(ordered):
        rest = [slot for slot in (*named, *others) if slot not in scored]
        lowest = min(scored.values(), default=0.0)
        scored = {**scored, **{slot: min(lowest, sums[slot]) for slot in rest}}
        ordered += rest
    return [(visible.document(slot), scored[slot], names.get(slot, 0)) for slot in ordered[:limit]]


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
    if len(found) > _MANY * count:
        found = _without_worst(found, sums, count)
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


def _without_worst(found: list[int], sums: Sequence[float], count: int) -> list[int]:
    """Return the slots whose sums are so good that at least `count` are; sorting fewer takes less time."""
    least = max([sums[slot] for slot in found])
    while True:
        least /= _STEP
        good = [slot for slot in found if sums[slot] >= least]
        if len(good) >= count:
            return good
