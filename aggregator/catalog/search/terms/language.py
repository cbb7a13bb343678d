"""What words are in themselves: how common in English, which say little, what they ask to have done, how they are
translated. Four tables, read once.

Law: the tables are about the language of requests and tools, never about one catalog.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from aggregator.catalog.search.terms.stem import stem
from aggregator.catalog.search.terms.tables import lines

LONGEST_SIGNS: Final = 6
# Any question asks for this action, the first of the table.
LOOKING: Final = 0


@dataclass(frozen=True, slots=True)
class PlainWords:
    """`unsaid` and `little`: stems; `said`: Chinese words that only ask."""

    unsaid: frozenset[str]
    little: frozenset[str]
    said: frozenset[str]


@dataclass(frozen=True, slots=True)
class Glossary:
    """A Chinese word to the English `words`, and their `stems`."""

    words: Mapping[str, tuple[str, ...]]
    stems: Mapping[str, tuple[str, ...]]


@cache
def plain() -> PlainWords:
    """The words that say little."""
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
    """Stems to minus the logarithm of their share of English text; what is not here is rarer than 12.5."""
    found: dict[str, float] = {}
    for line in lines("frequency.txt"):
        rare, *stems = line.split()
        found.update(dict.fromkeys(stems, float(rare)))
    return found


@cache
def actions() -> Mapping[str, frozenset[int]]:
    """Stems and Chinese words to the actions they are words for, by number."""
    found: dict[str, frozenset[int]] = {}
    for number, line in enumerate(lines("actions.txt")):
        for word in line.split():
            term = stem(word)
            found[term] = found.get(term, frozenset()) | {number}
    return found


@cache
def glossary() -> Glossary:
    """The Chinese words of the table."""
    words: dict[str, tuple[str, ...]] = {}
    for line in lines("glossary.txt"):
        english = tuple(part for word in line.split() if word.isascii() for part in word.split("_"))
        for word in line.split():
            if not word.isascii():
                words[word] = tuple(dict.fromkeys((*words.get(word, ()), *english)))
    return Glossary(words, {word: tuple(dict.fromkeys(map(stem, own))) for word, own in words.items()})


def words_in(run: str, *known: Mapping[str, object]) -> list[str]:
    """The words of a run of Chinese that one of the tables knows, the longest first at each place."""
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
