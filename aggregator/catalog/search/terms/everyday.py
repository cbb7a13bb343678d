"""Everyday words and sayings for things that tools call by other words, from two tables.

A saying is several words that mean something together: `how high`, elevation.

Law: the tables are about the language of requests and tools, never about one catalog.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import product
from typing import Final, NamedTuple

from aggregator.catalog.search.terms.language import plain_words
from aggregator.catalog.search.terms.stem import stem
from aggregator.catalog.search.terms.tables import lines

# Other words that may stand between two words of a saying: get that rid.
_BETWEEN: Final = 2
# A request has few; a pasted text may have many.
_MOST: Final = 8


class Saying(NamedTuple):
    """A saying by its stems, and the terms that tools use for it, a pair of stems as one with a space."""

    words: tuple[str, ...]
    terms: tuple[str, ...]


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


@cache
def sayings() -> Mapping[str, Mapping[str, tuple[Saying, ...]]]:
    """Map the first stem of each saying, and then the second, to the sayings that begin so, read once."""
    found: dict[str, dict[str, dict[Saying, None]]] = {}
    for line in lines("sayings.txt"):
        called, _, said = line.partition(":")
        terms = tuple(dict.fromkeys(" ".join(map(stem, word.split("_"))) for word in called.split()))
        for saying in said.split(","):
            for words in product(*(word.split("/") for word in saying.split())):
                first, second, *_ = stems = tuple(map(stem, words))
                found.setdefault(first, {}).setdefault(second, {})[Saying(stems, terms)] = None
    return {first: {second: tuple(own) for second, own in after.items()} for first, after in found.items()}


def sayings_in(stems: Sequence[str]) -> Iterator[tuple[Saying, tuple[int, ...]]]:
    """Yield the first sayings in a text, given as the stems of all its words, each with the places of its words."""
    table, count = sayings(), 0
    for at, first in enumerate(stems):
        after = table.get(first)
        if after is None:
            continue
        for second in dict.fromkeys(stems[at + 1 : at + 2 + _BETWEEN]):
            for saying in after.get(second, ()):
                places = _places(saying.words, stems, at)
                if places:
                    yield saying, places
                    count += 1
                    if count == _MOST:
                        return


def _places(words: Sequence[str], stems: Sequence[str], at: int) -> tuple[int, ...]:
    """Return the places of the words of a saying whose first word is at `at`; none if one is missing."""
    places = [at]
    for word in words[1:]:
        after = places[-1] + 1
        near = stems[after : after + 1 + _BETWEEN]
        if word not in near:
            return ()
        places.append(after + near.index(word))
    return tuple(places)
