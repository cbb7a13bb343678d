"""Ranking: sums over the terms of a question find those tools that may be meant; then each of these is looked at whole.

Law: only the tools in sight count, in every number here.
"""

from collections.abc import Iterable, Mapping
from heapq import nlargest, nsmallest
from itertools import compress
from typing import Final

from aggregator.catalog.search_document import Document
from aggregator.catalog.search_fit import fits
from aggregator.catalog.search_names import named
from aggregator.catalog.search_query import Query
from aggregator.catalog.search_question import Question, put
from aggregator.catalog.search_sight import Sight as Sight

# When so many entries have been added up, further terms, which say less, are looked at for the best tools only.
_ENTRIES: Final = 6_000
_BEST: Final = 64


def ranked(sight: Sight, query: Query, limit: int) -> list[tuple[Document, float]]:
    """The best tools in sight that the query says anything about, best first, with their scores."""
    question = put(query, sight)
    sums = _sums(sight, question)
    asked_for = named(sight, query)
    best = _best(sight, sums, asked_for)
    scores = fits(question, {slot: sight.document(slot) for slot in best})
    ordered = _in_order(sight, scores, asked_for)
    if limit > len(ordered):
        rest = [slot for slot, score in enumerate(sums) if score and slot not in scores]
        ordered += sorted(rest, key=lambda slot: (-sums[slot], *_name(sight, slot)))
        lowest = min(scores.values(), default=0.0)
        scores |= {slot: min(lowest, sums[slot]) for slot in rest}
    return [(sight.document(slot), scores[slot]) for slot in ordered[:limit]]


def _sums(sight: Sight, question: Question) -> list[float]:
    """By slot, what the terms of the question sum up to there; for long lists of common terms left out."""
    sums = [0.0] * len(sight.mask)
    entries = 0
    for term, gain in question.terms().items():
        posting = sight.postings.lists[term]
        if entries and entries + len(posting.slots) > _ENTRIES:
            continue
        entries += len(posting.slots)
        for slot, impact in zip(posting.slots, posting.impacts, strict=True):
            sums[slot] += gain * impact
    return sight.hide(sums)


def _best(sight: Sight, sums: list[float], asked_for: Iterable[int]) -> list[int]:
    """Those whose name was asked for, and the best; of those that are level the first by name."""
    found = list(compress(range(len(sums)), sums))
    if len(found) <= _BEST:
        return list(dict.fromkeys((*asked_for, *found)))
    least = nlargest(_BEST, map(sums.__getitem__, found))[-1]
    best = [*asked_for, *(slot for slot in found if sums[slot] > least and slot not in set(asked_for))]
    level = [slot for slot in found if sums[slot] == least and slot not in set(asked_for)]
    return best + nsmallest(max(0, _BEST - len(best)), level, key=lambda slot: _name(sight, slot))


def _in_order(sight: Sight, scores: Mapping[int, float], asked_for: Mapping[int, int]) -> list[int]:
    return sorted(scores, key=lambda slot: (-asked_for.get(slot, 0), -scores[slot], *_name(sight, slot)))


def _name(sight: Sight, slot: int) -> tuple[str, str]:
    document = sight.document(slot)
    return document.canonical, document.tool.server
