"""The nouns of a server's tools, and nouns that fit every server, in the words of a clause.

Law: a function reads the first words of a text, and never a list of tools.
"""

import re
from typing import Final

from aggregator.intent.match.clauses import NamedClause
from aggregator.intent.match.names import ToolNames
from aggregator.intent.match.words import word_set

_WORD: Final = re.compile(r"[\s'’]*([a-z0-9][\w-]*)")
_HELD: Final = word_set("contents") | word_set("things")


def next_word(clause: NamedClause) -> str:
    """Return the word after the name; empty if there is none."""
    word = _WORD.match(clause.after)
    return word[1] if word is not None else ""


def is_held(names: ToolNames, clause: NamedClause) -> bool:
    """Tell whether something follows the name that the server holds: a noun of its tools, or of every server."""
    kinds = _kinds(names, clause)
    words = [word.strip(".,:;!?()'\"") for word in clause.after.split()[:3]]
    small = next((at for at, word in enumerate(words) if word in word_set("no-verb-after")), len(words))
    nouns = words[: min(small, 2)]
    if any(word in word_set("about-products") and _one(word) not in kinds for word in words[:small]):
        return False
    return any(one in kinds or one in _HELD for noun in nouns for one in (noun, _one(noun)))


def mentions_thing(names: ToolNames, clause: NamedClause, text: str) -> bool:
    """Tell whether a text has a noun of the server's tools, or one that every server holds, or `there`."""
    words = [word.strip(".,:;!?()'\"") for word in text.split()[:10]]
    kinds, things = _kinds(names, clause), word_set("things")
    return any(word == "there" or (len(word) > 2 and (_one(word) in kinds or _one(word) in things)) for word in words)


def _kinds(names: ToolNames, clause: NamedClause) -> frozenset[str]:
    kinds = names.nouns_of(clause.named.servers)
    return kinds | {"doc"} if "document" in kinds else kinds


def _one(word: str) -> str:
    return word.rstrip("s")
