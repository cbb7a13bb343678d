"""Find the tools that a query asks for by name, in any spelling, by all of the name or its beginning."""

from collections.abc import Iterator
from typing import Final

from aggregator.catalog.search.document import Document
from aggregator.catalog.search.document import name_term as named_term
from aggregator.catalog.search.query import Query
from aggregator.catalog.search.terms.language import plain_words
from aggregator.catalog.search.visible import VisibleTools

# A longer query is not the beginning of a name.
_NAME_WORDS: Final = 12


def name_matches(visible: VisibleTools, query: Query) -> dict[int, int]:
    """Return the slots of tools whose name equals or begins with the query, with the degree of match.

    4: the full name; 3: the own name; 2: its first words, or the server's name and the words after it; 1: the own
    name's first letters, if the query is written like a name or ends in no known word.
    """
    if not query.key or not query.name:
        return {}
    found: dict[int, int] = {}
    for slot, document in _candidates(visible, query):
        if document.name == query.key:
            found[slot] = 4
        elif document.own == query.key:
            found[slot] = 3
        elif document.words[: len(query.name)] == query.name or _continues(document, query.key):
            found[slot] = 2
        elif document.own.startswith(query.key) and _may_be_prefix(visible, query):
            found[slot] = 1
    return found


def _may_be_prefix(visible: VisibleTools, query: Query) -> bool:
    if query.foreign:
        return False
    return not visible.frequency(query.name[-1]) or (query.joined and len(query.name) > 1)


def _continues(document: Document, key: str) -> bool:
    return document.name.startswith(key) and len(key) > len(document.name) - len(document.own)


def _candidates(visible: VisibleTools, query: Query) -> Iterator[tuple[int, Document]]:
    """Return the tools the agent sees that may have such a name."""
    lists = visible.postings.lists
    begun = _may_be_prefix(visible, query)
    # Single letters, stop words and beginnings of words stand in names, but not in the lists.
    whole = query.name[: len(query.name) - begun]
    listed = [word for word in whole if len(word) > 1 and word not in plain_words().ignored]
    if begun and not listed:
        slots = set(visible.postings.names_containing(query.key))
    else:
        looked_up = [named_term(query.key)]
        if len(query.name) <= _NAME_WORDS:
            looked_up += sorted(listed, key=visible.frequency)[:1]
        slots = {slot for term in looked_up if term in lists for slot in lists[term].slots}
    return ((slot, visible.document(slot)) for slot in slots if visible.mask[slot])
