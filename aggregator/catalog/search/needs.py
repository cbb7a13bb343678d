"""Read the needs in a query, word by word: to measure how many a tool covers, and which words no tool has."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from aggregator.catalog.search.query import LONGEST, Query, without_asking, word_worth
from aggregator.catalog.search.terms.forms import formed_arguments
from aggregator.catalog.search.terms.language import actions, plain_words, translations, words_and_rest
from aggregator.catalog.search.terms.products import products_in
from aggregator.catalog.search.terms.synonyms import wider_synonyms
from aggregator.catalog.search.terms.words import chunks, signs, terms, unspaced

# What stands in quotes is an argument; so is, most often, a word with a capital inside a sentence or with a digit.
_QUOTED: Final = re.compile(r"[“”「」『』《》\"`].{1,200}?[“”「」『』《》\"`]")
_ARGUMENT: Final = 0.3
# Chinese that no table has is often a name.
_UNREAD: Final = 0.4
_USUAL: Final = 3
_PLACES: Final = 4


@dataclass(frozen=True, slots=True)
class QueryNeed:
    """A word of a query: as `shown`, its `keys` in `Query.words`, the marks of its `meanings`, and its `worth`.

    `action`: it says what to do, not with what (`language.actions`).
    """

    shown: str
    keys: tuple[str, ...]
    meanings: tuple[str, ...]
    worth: float
    action: bool = False


def needs(text: str, query: Query) -> list[QueryNeed]:
    """Return the needs of a query, without words that carry no meaning."""
    unquoted = _QUOTED.sub(" ", text[:LONGEST])
    found: dict[str, QueryNeed] = {}
    for argument in formed_arguments(unquoted):
        if argument.key in query.words:
            worth = _ARGUMENT * max(gain for _, gain in query.words[argument.key])
            found[argument.text] = QueryNeed(argument.text, (argument.key,), (), worth)
            unquoted = unquoted.replace(argument.text, " ")
    for at, chunk in enumerate(chunks(unquoted)):
        for need in _signs(chunk) if unspaced(chunk) else _latin(chunk, query, argument=at > 0):
            found.setdefault(need.shown, need)
    moments = plain_words().moments
    return [need for need in found.values() if need.keys[0] not in moments] or list(found.values())


def named_products(text: str) -> list[str]:
    """Return the products and services that a text names outside quotes, as it writes them in small letters."""
    return [" ".join(name) for name in products_in(chunks(_QUOTED.sub(" ", text[:LONGEST])))]


def _latin(chunk: str, query: Query, *, argument: bool) -> Iterator[QueryNeed]:
    term = terms(chunk)[-1]
    if term in query.sayings:
        yield from _saying(query.sayings[term][0], query)
        return
    if term not in query.words:
        return
    worth = max(gain for _, gain in query.words[term])
    named = (argument and chunk != chunk.lower()) or any(letter.isdigit() for letter in chunk)
    keys = tuple("@" * at + term for at in range(_PLACES) if at == 0 or "@" * at + term in query.words)
    meanings = wider_synonyms().of.get(term, ())
    known = len(keys) > 1 or len(query.words[term]) > 1 or meanings
    worth = worth * _ARGUMENT if named and not known else worth
    yield QueryNeed(chunk, keys, meanings, worth, term in actions())


def _saying(key: str, query: Query) -> Iterator[QueryNeed]:
    """Yield the one need of a saying: a tool may have its words, or what they stand for together."""
    own = dict.fromkeys(term for word in key.split() for term in terms(word))
    keys = (key, *(term for term in own if term in query.words))
    worth = max(gain for one in keys for _, gain in query.words[one])
    action = all(term in actions() for term, _ in query.words[key])
    yield QueryNeed(key, keys, tuple(mark for term in own for mark in wider_synonyms().of.get(term, ())), worth, action)


def _signs(run: str) -> Iterator[QueryNeed]:
    for part in without_asking(run):
        unread = ""
        for word, known in words_and_rest(part, wider_synonyms().of, translations().stems):
            if known:
                yield from _unread(unread)
                yield _word(word)
            unread = "" if known else unread + word
        yield from _unread(unread)


def _word(word: str) -> QueryNeed:
    table, english = wider_synonyms().of, translations()
    stems = english.stems.get(word, ())
    keys = (*_pairs(word), *("@" * at + word for at in range(1, len(english.places.get(word, ())) + 1)))
    meanings = table.get(word) or (table.get(stems[0], ()) if stems else ())
    worth = max((word_worth(term, _USUAL) for term in stems), default=_ARGUMENT * 2)
    return QueryNeed(word, keys, meanings, worth, word in actions())


def _unread(run: str) -> Iterator[QueryNeed]:
    if len(run) > 1:
        yield QueryNeed(run, _pairs(run), (), _UNREAD)


def _pairs(run: str) -> tuple[str, ...]:
    return (run,) if len(run) == 1 else tuple(sign for sign in signs(run) if len(sign) > 1)
