"""Merge the tools that keywords find and those that resemble the query, by the similarities of one or two models.

Figures: docs/decisions/0043-meaning.md and 0050-languages.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from typing import Final

from aggregator.catalog.search.index import Hit
from aggregator.catalog.search.relevance import ToolLikeness
from aggregator.domain.records import ToolRecord

# How many tools a model may find without any keyword.
_NEAREST: Final = 64
# Keyword hits that are reordered; the hits after them keep their place.
CANDIDATES: Final = 64


@dataclass(frozen=True, slots=True)
class Likeness:
    """The similarity of visible tools to a query, by canonical name: -1 to 1, as one model has it.

    weight: the gain of the most similar tool, as a share of the best score by keywords.
    alike: the similarity from which a tool is found without any keyword.
    """

    similarities: Mapping[str, float]
    weight: float
    alike: float


@dataclass(frozen=True, slots=True)
class QueryMeaning:
    """The likenesses of one query, one for each model, and the weight of keywords beside them.

    judge: the likeness by which the search judges whether any tool fits; None to judge by keywords alone.
    """

    likenesses: Sequence[Likeness]
    keywords: float = 1.0
    judge: ToolLikeness | None = None


def merge_hits(hits: Sequence[Hit], meaning: QueryMeaning, visible: Mapping[str, ToolRecord], limit: int) -> list[Hit]:
    """Merge keyword hits and similar tools, best first; a tool that the query names stays in front.

    A tool gains by its distance above the mean.
    """
    likenesses = [one for one in meaning.likenesses if one.similarities]
    if not likenesses:
        return list(hits[:limit])
    best = max((hit.score for hit in hits), default=1.0) or 1.0
    found = {hit.tool.name: (hit.name_match, meaning.keywords * hit.score / best) for hit in hits[:CANDIDATES]}
    for one in likenesses:
        near = ((-like, name) for name, like in one.similarities.items() if like >= one.alike)
        for _, name in nsmallest(_NEAREST, near):
            found.setdefault(name, (0, 0.0))
    for one in likenesses:
        usual = sum(one.similarities.values()) / len(one.similarities)
        beyond = max(one.similarities.values()) - usual
        if beyond > 0:
            for name, (named, score) in found.items():
                gain = max(0.0, (one.similarities.get(name, usual) - usual) / beyond)
                found[name] = named, score + one.weight * gain
    ordered = sorted(found, key=lambda name: (-found[name][0], -found[name][1], name))
    merged = [Hit(visible[name], found[name][1], found[name][0]) for name in ordered]
    lowest = min((hit.score for hit in merged), default=0.0)
    rest = (hit for hit in hits[CANDIDATES:] if hit.tool.name not in found)
    return [*merged, *(Hit(visible[hit.tool.name], min(lowest, hit.score / best), hit.name_match) for hit in rest)][
        :limit
    ]
