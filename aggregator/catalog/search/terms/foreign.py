"""The language of a request, by words that English does not have: German, French, Spanish, Italian, Portuguese, Dutch.

Law: the table is about languages, never about one catalog.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from aggregator.catalog.search.terms.language import plain_words, rarity
from aggregator.catalog.search.terms.stem import stem
from aggregator.catalog.search.terms.tables import lines

# A word of content that English has says less about the language than a small word: other languages borrow it.
_BORROWED: Final = 0.5
_COMMON: Final = 10.0
_WANTED: Final = "wanted:"


@dataclass(frozen=True, slots=True)
class ForeignLanguage:
    """A language other than English: the `small` words that say little, and all its `words`, without accents."""

    name: str
    small: frozenset[str]
    words: frozenset[str]


@cache
def foreign_languages() -> Mapping[str, tuple[ForeignLanguage, ...]]:
    """Map each word of the table to the languages that have it; read once."""
    small: dict[str, set[str]] = {}
    wanted: dict[str, set[str]] = {}
    name = ""
    for line in lines("foreign.txt"):
        if line.startswith("["):
            name = line.strip("[]")
            small[name], wanted[name] = set(), set()
        elif line.startswith(_WANTED):
            wanted[name].update(line.removeprefix(_WANTED).split())
        else:
            small[name].update(line.split())
    found: dict[str, tuple[ForeignLanguage, ...]] = {}
    for name, words in small.items():
        language = ForeignLanguage(name, frozenset(words), frozenset(words | wanted[name]))
        for word in language.words:
            found[word] = (*found.get(word, ()), language)
    return found


def foreign_language(words: Sequence[str]) -> ForeignLanguage | None:
    """Return the language of a request, given its words in small letters without accents; None for English.

    A request is in the language that has most of its words, unless more of them are English.
    """
    table = foreign_languages()
    counts: dict[str, float] = {}
    known: dict[str, ForeignLanguage] = {}
    for word in words:
        for language in table.get(word, ()):
            counts[language.name] = counts.get(language.name, 0) + (1 if word not in rarity() else _BORROWED)
            known[language.name] = language
    if not counts:
        return None
    # Of two with equally many, the first of the table.
    best = known[max(counts, key=counts.__getitem__)]
    english = sum(_english(word) for word in words if word not in best.words)
    return best if counts[best.name] > english else None


def _english(word: str) -> float:
    """Return how much a word says that its text is English."""
    root = stem(word)
    if root in plain_words().ignored:
        return 1.0
    return _BORROWED if rarity().get(root, _COMMON) < _COMMON else 0.0
