"""Read a query: the terms to look for, each with how much it says about the wanted tool.

Law: the weights come from the language alone; the index alone knows how rare a term is among the tools.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Final

from aggregator.catalog.search.terms.everyday import everyday, sayings_in
from aggregator.catalog.search.terms.foreign import ForeignLanguage, foreign_language
from aggregator.catalog.search.terms.forms import formed_arguments
from aggregator.catalog.search.terms.four_grams import four_grams
from aggregator.catalog.search.terms.language import (
    abbreviations,
    actions,
    plain_words,
    rarity,
    segments,
    translations,
    words_in,
)
from aggregator.catalog.search.terms.stem import stem
from aggregator.catalog.search.terms.synonyms import wider_synonyms
from aggregator.catalog.search.terms.words import chunks, folded, signs, split, terms, unspaced

# Numbers are arguments; single Chinese signs stand beside their pairs, a translation for the word itself.
NUMBER = 0.3
SIGN = 0.15
TRANSLATED = 0.7
EXPANDED = 0.8
# What tools may say instead of an everyday word.
OTHERWISE = 0.6
# The worth of a saying, whose words together say what the user wants: of what tools call it first, and else.
SAID, SAID_ELSE = 1.0, 0.7
# The worth of an argument that shows its kind by its form: of what tools call the kind first, and else.
FORMED, FORMED_ELSE = 0.6, 0.4
# Words that say little count even less in a long query, since they fill the sentence.
LITTLE_ALONE = 0.7
LITTLE = 0.3
LONG = 6
# The worth of a word by its rarity (`language.rarity`): 0 at the first number, 1 at the second, and in between this
# power of the share.
COMMON, RARE = 4.0, 14.0
RARENESS = 0.5
# The worth of a word's meanings: of actions, of words that stand for each other, of subjects.
MEANS = {"*": 0.8, "=": 1.5, "~": 1.5}
# Two adjacent words, also if the tool writes them as one.
PAIR = 1.5
JOINED = 0.8
# The worth of the first action named and of the second; less in a long query.
ACTIONS = (1.0, 0.6)
SURE = 4
# More than a user types: the rest of a pasted text is ignored.
LONGEST: Final = 2_000
_MOST_TERMS: Final = 64
# Words of fewer letters say nothing in a language other than English.
_SHORT: Final = 3
_NOTHING: Final[Mapping[str, tuple[str, ...]]] = {}
# Queries kept as they were read: the tools that a query finds are judged by it again.
_KEPT: Final = 16
# In front of a word that is not English; no term of a tool begins with it.
_FOREIGN: Final = "!"

# The terms that may stand for one word, each with its worth.
WeightedTerms = tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class Query:
    """A query, read.

    `words` as typed, `pairs` of them, and `meanings`, the marks of their meanings, each with its worth. `actions` maps
    the number of an action to the certainty that the query requests it. `four_grams`: see `four_grams`. `key`, `name`:
    the text read as a tool's name; `joined`: the text is written like a name, without a space. `compounds` maps a word
    such as gitlab, written GitLab, to its parts. `sayings` maps the terms of sayings to their keys in `words`, which
    have spaces. `foreign`: the text is in a language of `terms.foreign`. `read_as`: the text, in English as far as the
    words of its language are known.
    """

    words: dict[str, WeightedTerms]
    pairs: dict[str, float]
    meanings: dict[str, float]
    actions: dict[int, float]
    four_grams: int
    key: str
    name: tuple[str, ...]
    joined: bool
    compounds: Mapping[str, tuple[str, ...]]
    sayings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    foreign: bool = False
    read_as: str = ""


@dataclass(slots=True)
class _Reading:
    """The words, meanings, actions and four-grams of a query, while they are collected."""

    words: dict[str, WeightedTerms] = field(default_factory=dict)
    meanings: dict[str, float] = field(default_factory=dict)
    actions: list[frozenset[int]] = field(default_factory=list)
    four_grams: int = 0
    compounds: dict[str, tuple[str, ...]] = field(default_factory=dict)
    sayings: dict[str, tuple[str, ...]] = field(default_factory=dict)


def read(text: str) -> Query:
    """Read any text; its first 2,000 characters count."""
    return _read(text[:LONGEST])


@lru_cache(_KEPT)
def _read(text: str) -> Query:
    reading = _Reading()
    does = actions()
    found = chunks(text)
    language = foreign_language([chunk.lower() for chunk in found if not unspaced(chunk)])
    typed, otherwise = text, _NOTHING
    if language is not None:
        text, otherwise = language.in_english(text)
        found = chunks(text)
    small, false_friends = _foreign_terms(language, found)
    spoken = _add_sayings(found, reading)
    for argument in formed_arguments(text):
        reading.words[argument.key] = tuple(
            (term, FORMED_ELSE if at else FORMED) for at, term in enumerate(argument.terms)
        )
    for at, chunk in enumerate(found):
        if unspaced(chunk):
            _read_signs(chunk, reading)
        else:
            *parts, whole = own = terms(chunk)
            done = spoken.get(at, own)
            reading.actions += [does[term] for term in done if term in does and term not in false_friends]
            if parts:
                reading.compounds[whole] = tuple(parts)
    latin = [term for term in terms(text) if not unspaced(term) and term not in small]
    terms_kept = [term for term in latin if term not in plain_words().ignored]
    chosen = list(dict.fromkeys(terms_kept if terms_kept or reading.words else latin))
    for term in chosen:
        reading.words.setdefault(term, ((_written(term, false_friends), word_worth(term, len(chosen))),))
    english = [term for term in chosen if term not in false_friends]
    _add_others(english, otherwise, reading)
    words = dict(list(reading.words.items())[:_MOST_TERMS])
    worth = {term: words[term][0][1] for term in english if term in words}
    _add_means(latin, worth, reading.meanings)
    sure = min(1.0, SURE / max(1, len(chosen)))
    return Query(
        words,
        _pairs(terms_kept, worth),
        reading.meanings,
        _actions(reading.actions, sure),
        four_grams(text) | reading.four_grams,
        folded(typed),
        tuple(_written(stem(word), false_friends) for word in split(text)),
        len(typed.split()) == 1,
        reading.compounds,
        reading.sayings,
        language is not None,
        text,
    )


def _foreign_terms(language: ForeignLanguage | None, found: list[str]) -> tuple[frozenset[str], frozenset[str]]:
    """Return the terms of the small words of a request in another language, and of its words that are not English."""
    if language is None:
        return frozenset(), frozenset()
    words = [chunk.lower() for chunk in found if not unspaced(chunk)]
    small = frozenset(stem(word) for word in words if word in language.small)
    small |= {chunk for chunk in found if len(chunk) < _SHORT and chunk.isascii() and chunk.islower()}
    return small, frozenset(stem(word) for word in words if word in language.words) - small


def _written(term: str, false_friends: frozenset[str]) -> str:
    """Return the term that tools have for a word: none has one for a word that is not English."""
    return f"{_FOREIGN}{term}" if term in false_friends else term


def word_worth(term: str, count: int) -> float:
    """Return how much a word of a query says, by its language alone; `count`: the words of the query."""
    if term.isdigit():
        return NUMBER
    rare: float = min(1.0, max(0.02, (rarity().get(term, RARE) - COMMON) / (RARE - COMMON))) ** RARENESS
    if term not in plain_words().weak:
        return rare
    return rare * (LITTLE_ALONE - (LITTLE_ALONE - LITTLE) * min(1.0, count / LONG))


def _add_sayings(found: list[str], reading: _Reading) -> dict[int, tuple[str, ...]]:
    """Add the sayings in a text, given in chunks; return the terms that stand for the actions of their words, by place.

    The verb of a saying is no action of its own: `get rid of` does not get.
    """
    does = actions()
    spoken: dict[int, tuple[str, ...]] = {}
    stems = [stem(chunk.lower()) for chunk in found]
    for saying, places in sayings_in(stems):
        key = " ".join(found[place].lower() for place in places)
        worth = (SAID, *[SAID_ELSE] * len(saying.terms))
        reading.words[key] = tuple(
            (term, word_worth(term, LONG) if term in does else own)
            for term, own in zip(saying.terms, worth, strict=False)
        )
        for place in places:
            spoken.setdefault(place, ())
            reading.sayings[stems[place]] = (*reading.sayings.get(stems[place], ()), key)
        spoken[places[0]] = (*spoken[places[0]], *" ".join(saying.terms).split())
    return spoken


def _add_others(chosen: list[str], otherwise: Mapping[str, tuple[str, ...]], reading: _Reading) -> None:
    """Let an abbreviation stand for its long forms, a long form for its abbreviations, an everyday word for others.

    `otherwise`: by stem, other English words for a word of another language.
    """
    table, words = abbreviations(), reading.words
    for term in chosen:
        places = table.places.get(term, ())
        own = words[term][0][1]
        for at, stems in enumerate(places):
            share = own / math.sqrt(len(places))
            others = tuple((other, share * EXPANDED) for other in stems if other != term)
            words["@" * at + term] = ((term, own if not at else share), *others)
    for length in range(1, table.longest + 1):
        for at in range(len(chosen) - length + 1):
            form = tuple(chosen[at : at + length])
            for short in table.of.get(form, ()):
                for term in form:
                    if all(short != other for other, _ in words[term]):
                        words[term] += ((short, words[term][0][1] * EXPANDED),)
    for term in chosen:
        if term in reading.sayings:
            continue
        known = {other for other, _ in words[term]}
        more = dict.fromkeys((*everyday().get(term, ()), *otherwise.get(term, ())))
        words[term] += tuple((other, words[term][0][1] * OTHERWISE) for other in more if other not in known)


def _actions(done: list[frozenset[int]], sure: float) -> dict[int, float]:
    found: dict[int, float] = {}
    for share, numbers in zip(ACTIONS, done, strict=False):
        for number in numbers:
            found.setdefault(number, share * sure)
    return found


def _read_signs(run: str, reading: _Reading) -> None:
    table, english = wider_synonyms().of, translations()
    for part in without_asking(run) or [run]:
        known = words_in(part, table, english.stems)
        for term in signs(part):
            # A single sign counts only if it is a word.
            if len(term) > 1 or term == part or term in known:
                reading.words.setdefault(term, ((term, SIGN if len(term) == 1 < len(part) else 1.0),))
        for word in known:
            _add(reading.meanings, table.get(word, ()), 1.0)
            places = english.places.get(word, ())
            for at, stems in enumerate(places, 1):
                share = TRANSLATED / math.sqrt(len(places))
                # The @ keeps it apart from the pairs of signs.
                reading.words.setdefault("@" * at + word, tuple((term, share) for term in stems))
            if places:
                reading.four_grams |= four_grams(" ".join(english.words[word]))
    does = actions()
    reading.actions += [does[word] for word in words_in(run, does)]


def without_asking(run: str) -> list[str]:
    """Return the parts of a run of Chinese between the words that only ask; a word of the tables is never cut."""
    asking = plain_words().asking
    parts = [""]
    for word, _ in segments(run, asking, wider_synonyms().of, translations().stems):
        if word in asking:
            parts.append("")
        else:
            parts[-1] += word
    return [part for part in parts if part]


def _add_means(latin: list[str], worth: dict[str, float], means: dict[str, float]) -> None:
    table = wider_synonyms()
    for term, own in worth.items():
        _add(means, table.of.get(term, ()), own)
    for pair in pairwise(latin):
        if pair in table.phrases:
            _add(means, table.of[table.phrases[pair]], 1.0)


def _add(means: dict[str, float], marks: tuple[str, ...], worth: float) -> None:
    """Add the meanings of one word, whose worth is spread over them."""
    for mark in marks:
        means[mark] = means.get(mark, 0.0) + worth * MEANS[mark[0]] / len(marks)


def _pairs(terms_kept: list[str], worth: dict[str, float]) -> dict[str, float]:
    pairs: dict[str, float] = {}
    for one, two in pairwise(terms_kept):
        least = min(worth.get(one, 0.0), worth.get(two, 0.0))
        if least and one != two:
            pairs[f"{one} {two}"] = PAIR * least
        if one in worth and two in worth and one + two not in worth:
            pairs.setdefault(one + two, JOINED)
    return pairs
