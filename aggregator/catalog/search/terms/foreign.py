"""The language of a request, by words that English does not have: German, French, Spanish, Italian, Portuguese, Dutch.

Law: the table is about languages, never about one catalog.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from aggregator.catalog.search.terms.language import plain_words, rarity
from aggregator.catalog.search.terms.stem import stem
from aggregator.catalog.search.terms.tables import lines
from aggregator.catalog.search.terms.words import chunks

# A word of content that English has says less about the language than a small word: other languages borrow it.
_BORROWED: Final = 0.5
_COMMON: Final = 10.0
_WANTED: Final = "wanted:"
# The endings of verbs and nouns, and what joins German words; the least letters of a part of a compound.
_ENDINGS: Final = {
    "German": re.compile(r"(?<=...)(?:en|em|er|ern|es|et|st|e|n|s)$"),
    "French": re.compile(r"(?<=...)(?:er|ez|ent|on|ir|ee|e)?[sx]?$"),
    "Spanish": re.compile(r"(?<=...)(?:ar|er|ir|ad[oa]|es|en|an|a|o|e)?s?$"),
}
_LEAST: Final = 4
_WORD: Final = re.compile(r"(?<!\w)[^\W\d_]{3,40}(?!\w)")
# l'application, d'écran.
_ELIDED: Final = re.compile(r"(?i)(?<!\w)(?:[cdjlmnst]|qu)['’](?=\w)")


@dataclass(frozen=True, slots=True)
class ForeignLanguage:
    """A language other than English: the `small` words that say little, and all its `words`, without accents."""

    name: str
    small: frozenset[str]
    words: frozenset[str]

    def in_english(self, text: str) -> tuple[str, Mapping[str, tuple[str, ...]]]:
        """Return a text with English for each of its words that the table has, and by its stem other English for it.

        German puts words together: a compound of two words of the table is read as both.
        """
        others: dict[str, tuple[str, ...]] = {}

        def read(found: re.Match[str]) -> str:
            word = "".join(chunks(found[0])).lower()
            parts = () if word in self.small else self._parts(word)
            for first, *more in parts:
                others.setdefault(stem(first.split()[-1]), tuple(stem(one.split()[-1]) for one in more))
            return " ".join(first for first, *_ in parts) or found[0]

        return _WORD.sub(read, _ELIDED.sub("", text)), others

    def _parts(self, word: str) -> tuple[tuple[str, ...], ...]:
        """Return the English words for each part of a word; empty if the table lacks it."""
        whole = _known(self.name, word)
        if whole:
            return (whole,)
        for at in range(_LEAST, len(word) - _LEAST + 1) if self.name == "German" else ():
            first, second = _known(self.name, word[:at]), _known(self.name, word[at:])
            if first and second:
                return first, second
        return ()


@cache
def glossary() -> Mapping[str, Mapping[str, tuple[str, ...]]]:
    """Map each language with a glossary to its words without their endings, and these to English ones; read once."""
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for line in lines("foreign_glossary.txt"):
        if line.startswith("["):
            name = line.strip("[]")
            known = found.setdefault(name, {})
        else:
            english, _, words = line.partition(": ")
            for word in chunks(words):
                known.setdefault(_ENDINGS[name].sub("", word), tuple(one.replace("_", " ") for one in english.split()))
    return found


def _known(language: str, word: str) -> tuple[str, ...]:
    """Return the English words for a word of a language; empty if its table lacks it."""
    ending = _ENDINGS.get(language)
    return () if ending is None else glossary()[language].get(ending.sub("", word), ())


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
        if word not in table and stem(word) not in rarity():
            for language in _with_glossary():
                if _known(language.name, word):
                    counts[language.name] = counts.get(language.name, 0) + _BORROWED
                    known[language.name] = language
    if not counts:
        return None
    # Of two with equally many, the first of the table.
    best = known[max(counts, key=counts.__getitem__)]
    english = sum(_english(word) for word in words if word not in best.words)
    return best if counts[best.name] > english else None


@cache
def _with_glossary() -> tuple[ForeignLanguage, ...]:
    """Return the languages that have a glossary, in the order of the table of words."""
    by_name = {language.name: language for languages in foreign_languages().values() for language in languages}
    return tuple(by_name[name] for name in glossary())


def _english(word: str) -> float:
    """Return how much a word says that its text is English."""
    root = stem(word)
    if root in plain_words().ignored:
        return 1.0
    return _BORROWED if rarity().get(root, _COMMON) < _COMMON else 0.0
