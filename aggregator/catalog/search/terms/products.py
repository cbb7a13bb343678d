"""The products and services that a request names, from a table.

Law: the table is about the world, never about one catalog.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final

from aggregator.catalog.search.terms.language import rarity
from aggregator.catalog.search.terms.stem import stem
from aggregator.catalog.search.terms.tables import lines
from aggregator.catalog.search.terms.words import chunks, unspaced

_LONGEST_SIGNS: Final = 6


@cache
def products() -> Mapping[str, tuple[tuple[str, ...], ...]]:
    """Map the first word of a name to the names that begin with it, each as its words in small letters; read once."""
    found: dict[str, tuple[tuple[str, ...], ...]] = {}
    for line in lines("products.txt"):
        for name in line.split():
            words = tuple(chunks(name.replace("_", " ")))
            found[words[0]] = (*found.get(words[0], ()), words)
    return found


def products_in(found: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the products that a text names, given its chunks (`words.chunks`), each as its words in small letters."""
    table, named = products(), list[tuple[str, ...]]()
    small = [chunk.lower() for chunk in found]
    for at, word in enumerate(small):
        if unspaced(word):
            named += _in_signs(word)
        else:
            fitting = (name for name in table.get(word, ()) if tuple(small[at : at + len(name)]) == name)
            name = max(fitting, key=len, default=())
            if len(name) > 1 or (name and _is_name(found[at], first=at == 0)):
                named.append(name)
    return named


def _is_name(chunk: str, *, first: bool) -> bool:
    """Tell whether one word is the name: a word that is English too needs a capital inside the sentence."""
    return stem(chunk.lower()) not in rarity() or (not first and chunk != chunk.lower())


def _in_signs(run: str) -> list[tuple[str, ...]]:
    table = products()
    parts = (run[at : at + length] for at in range(len(run)) for length in range(2, _LONGEST_SIGNS + 1))
    return [(part,) for part in dict.fromkeys(parts) if part in table]
