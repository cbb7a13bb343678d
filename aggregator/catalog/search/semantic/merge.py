"""Merge the tools that keywords find and those that resemble the query. Figures: docs/decisions/0043-meaning.md."""

from collections.abc import Mapping, Sequence
from heapq import nsmallest
from typing import Final

from aggregator.catalog.search.index import Hit
from aggregator.domain.records import ToolRecord

# The gain of the most similar tool, as a share of the best score by keywords.
WEIGHT: Final = 1.0
# The similarity from which a tool is found without any keyword, and how many of these there may be.
ALIKE: Final = 0.35
_NEAREST: Final = 64
# Keyword hits that are reordered; the hits after them keep their place.
CANDIDATES: Final = 64


def merge_hits(
    hits: Sequence[Hit], similarities: Mapping[str, float], visible: Mapping[str, ToolRecord], limit: int
) -> list[Hit]:
    """Merge keyword hits and similar tools, best first; a tool that the query names stays in front.

    `similarities`: the similarity of each visible tool that has a vector. A tool gains by its distance above the mean.
    """
    if not similarities:
        return list(hits[:limit])
    usual = sum(similarities.values()) / len(similarities)
    beyond = max(similarities.values()) - usual
    best = max((hit.score for hit in hits), default=1.0) or 1.0
    found = {hit.tool.name: (hit.name_match, hit.score / best) for hit in hits[:CANDIDATES]}
    nearest = nsmallest(_NEAREST, ((-like, name) for name, like in similarities.items() if like >= ALIKE))
    for _, name in nearest:
        found.setdefault(name, (0, 0.0))
    if beyond > 0:
        for name, (named, score) in found.items():
            found[name] = named, score + WEIGHT * max(0.0, (similarities.get(name, usual) - usual) / beyond)
    ordered = sorted(found, key=lambda name: (-found[name][0], -found[name][1], name))
    merged = [Hit(visible[name], found[name][1], found[name][0]) for name in ordered]
    lowest = min((hit.score for hit in merged), default=0.0)
    rest = (hit for hit in hits[CANDIDATES:] if hit.tool.name not in found)
    return [*merged, *(Hit(visible[hit.tool.name], min(lowest, hit.score / best), hit.name_match) for hit in rest)][
        :limit
    ]
