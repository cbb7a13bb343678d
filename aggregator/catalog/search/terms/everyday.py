"""Everyday words for things that tools call by other words, from a table.

Law: the table is about the language of requests and tools, never about one catalog.
"""

from collections.abc import Mapping
from functools import cache

from aggregator.catalog.search.terms.language import plain_words
from aggregator.catalog.search.terms.stem import stem
from aggregator.catalog.search.terms.tables import lines


@cache
def everyday() -> Mapping[str, tuple[str, ...]]:
    """Map a stem to those that tools may use instead of it, read once."""
    found: dict[str, tuple[str, ...]] = {}
    for line in lines("everyday.txt"):
        called, _, said = line.partition(":")
        tools_say = [stem(word) for word in called.split()]
        for term in (*tools_say, *map(stem, said.split())):
            if term not in plain_words().ignored:
                others = [other for other in tools_say if other != term]
                found[term] = tuple(dict.fromkeys((*found.get(term, ()), *others)))
    return found
