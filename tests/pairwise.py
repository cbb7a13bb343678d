"""Choose rows of a product so that every pair of values is still met: the short lane runs these (tests/lanes.py)."""

import heapq
from collections.abc import Hashable, Sequence
from itertools import combinations


def cover(rows: Sequence[tuple[Hashable, ...]]) -> list[int]:
    """Return the positions of rows that together hold every pair of values which stand together in some row.

    Each time the row with the most pairs that are still missing is taken, and the first of several: the same rows give
    the same choice in every process. Rows of one or two values are all taken.
    """
    pairs = [_pairs(row) for row in rows]
    missing = set().union(*pairs)
    heap = [(-len(own), position) for position, own in enumerate(pairs)]
    heapq.heapify(heap)
    chosen = []
    while missing:
        _, position = heapq.heappop(heap)
        gain = len(pairs[position] & missing)
        if heap and (-gain, position) > heap[0]:
            # Other rows took some of its pairs.
            heapq.heappush(heap, (-gain, position))
            continue
        chosen.append(position)
        missing -= pairs[position]
    return sorted(chosen)


def _pairs(row: tuple[Hashable, ...]) -> frozenset[tuple[tuple[int, Hashable], ...]]:
    values = tuple(enumerate(row))
    return frozenset(combinations(values, min(2, len(values))))
