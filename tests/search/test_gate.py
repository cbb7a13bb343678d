"""The gate: questions of our own over tools of our own, English and Chinese; it falls when search gets worse."""

from aggregator.catalog.search.index import SearchIndex
from tests.search.sample_index import everything, gate, names

FIRST, AMONG_FIVE, RECIPROCAL = 0.80, 0.97, 0.88


def test_what_is_meant_is_found() -> None:
    shelves, queries = gate()
    index = SearchIndex.of(shelves)
    known = {record.name for _, _, tools in shelves for record in tools}
    assert {expected for _, expected in queries} <= known
    ranks = []
    for query, expected in queries:
        answer = names(index.search(query, everything, 100))
        ranks.append(answer.index(expected) + 1 if expected in answer else 0)
    count = len(ranks)
    assert count >= 120
    assert len(known) >= 60
    assert sum(rank == 1 for rank in ranks) / count >= FIRST
    assert sum(0 < rank <= 5 for rank in ranks) / count >= AMONG_FIVE
    assert sum(1 / rank for rank in ranks if rank) / count >= RECIPROCAL
