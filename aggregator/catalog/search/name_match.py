"""Tools asked for by their name, in any spelling, whole or the beginning of it."""

from collections.abc import Iterator
from typing import Final

from aggregator.catalog.search.document import Document
from aggregator.catalog.search.document import named as named_term
from aggregator.catalog.search.query import Query
from aggregator.catalog.search.terms.language import plain
from aggregator.catalog.search.visible import VisibleTools

# A longer question is not the beginning of a name.
_NAME_WORDS: Final = 12


def named(sight: VisibleTools, query: Query) -> dict[int, int]:
    """The tools whose name the query is, or begins: 4 the full name, 3 the own name, 2 its first words or the server's
    name and what follows it, 1 the own name's first letters, if it is written like a name or ends in no known word."""
    if not query.key or not query.name:
        return {}
    found: dict[int, int] = {}
    for slot, document in _candidates(sight, query):
        if document.name == query.key:
            found[slot] = 4
        elif document.own == query.key:
            found[slot] = 3
        elif document.words[: len(query.name)] == query.name or _goes_on(document, query.key):
            found[slot] = 2
        elif document.own.startswith(query.key) and _may_be_begun(sight, query):
            found[slot] = 1
    return found


def _may_be_begun(sight: VisibleTools, query: Query) -> bool:
    return not sight.frequency(query.name[-1]) or (query.joined and len(query.name) > 1)


def _goes_on(document: Document, key: str) -> bool:
    return document.name.startswith(key) and len(key) > len(document.name) - len(document.own)


def _candidates(sight: VisibleTools, query: Query) -> Iterator[tuple[int, Document]]:
    """The tools in sight that may have such a name."""
    lists = sight.postings.lists
    begun = _may_be_begun(sight, query)
    # A letter alone and a word that says nothing are in names, but not in the lists; nor is a word that is begun.
    whole = query.name[: len(query.name) - begun]
    listed = [word for word in whole if len(word) > 1 and word not in plain().unsaid]
    if begun and not listed:
        slots = set(sight.postings.named_with(query.key))
    else:
        looked_up = [named_term(query.key)]
        if len(query.name) <= _NAME_WORDS:
            looked_up += sorted(listed, key=sight.frequency)[:1]
        slots = {slot for term in looked_up if term in lists for slot in lists[term].slots}
    return ((slot, sight.document(slot)) for slot in slots if sight.mask[slot])
