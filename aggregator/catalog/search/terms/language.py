"""Tables about words: how common each is in English, which say little, the actions they name, their translations.

Law: the tables are about the language of requests and tools, never about one catalog.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from aggregator.catalog.search.terms.stem import stem
from aggregator.catalog.search.terms.tables import lines

LONGEST_SIGNS: Final = 6
# Any query asks for this action, the first of the table.
LOOKING: Final = 0


@dataclass(frozen=True, slots=True)
class PlainWords:
    """Words that say little: the stems `ignored` and `weak`, and in `asking` Chinese words that only ask."""

    ignored: frozenset[str]
    weak: frozenset[str]
    asking: frozenset[str]


@dataclass(frozen=True, slots=True)
class Translations:
    """The Chinese words of the table, with the English `words` for each, and their `stems`."""

    words: Mapping[str, tuple[str, ...]]
    stems: Mapping[str, tuple[str, ...]]


@cache
def plain_words() -> PlainWords:
    """Return the words that say little, read once."""
    lists: dict[str, list[str]] = {}
    words: list[str] = []
    for line in lines("plain.txt"):
        if line.startswith("["):
            words = lists.setdefault(line.strip("[]"), [])
        else:
            words += line.split()
    return PlainWords(
        frozenset(map(stem, lists["unsaid"])), frozenset(map(stem, lists["little"])), frozenset(lists["说"])
    )


@cache
def rarity() -> Mapping[str, float]:
    """Map stems to minus the logarithm of their share of English text; a stem that is missing is rarer than 12.5."""
    found: dict[str, float] = {}
    for line in lines("frequency.txt"):
        rare, *stems = line.split()
        found.update(dict.fromkeys(stems, float(rare)))
    return found


@cache
def actions() -> Mapping[str, frozenset[int]]:
    """Map stems and Chinese words to the numbers of the actions they name."""
    found: dict[str, frozenset[int]] = {}
    for number, line in enumerate(lines("actions.txt")):
        for word in line.split():
            term = stem(word)
            found[term] = found.get(term, frozenset()) | {number}
    return found


@cache
def translations() -> Translations:
    """Return the translations of Chinese words, read once."""
    words: dict[str, tuple[str, ...]] = {}
    for line in lines("glossary.txt"):
        english = tuple(part for word in line.split() if word.isascii() for part in word.split("_"))
        for word in line.split():
            if not word.isascii():
                words[word] = tuple(dict.fromkeys((*words.get(word, ()), *english)))
    return Translations(words, {word: tuple(dict.fromkeys(map(stem, own))) for word, own in words.items()})


def words_in(run: str, *known: Mapping[str, object]) -> list[str]:
    """Return the words of a run of Chinese that one of the tables has, the longest first at each place."""
    found: list[str] = []
    at = 0
    while at < len(run):
        for end in range(min(at + LONGEST_SIGNS, len(run)), at, -1):
            word = run[at:end]
            if any(word in table for table in known):
                found.append(word)
                at = end
                break
        else:
            at += 1
    return found
