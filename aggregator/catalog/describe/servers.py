"""Describe the purpose of a server if its operator does not: in its own words, or by the subjects of its tools."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from aggregator.catalog.describe.first_sentence import first_sentence, sentences_after, words_of
from aggregator.catalog.describe.markdown import columns, is_cjk, visible
from aggregator.catalog.describe.shorten import is_verb, shorten
from aggregator.catalog.describe.truncate import MARK

# Columns of a line, of one thing that a server is for, and how many of these there are.
_LINE: Final = 100
_THING: Final = 24
_THINGS: Final = 6
# Tools examined, and characters of instructions read.
_READ: Final = 400
_INSTRUCTIONS: Final = 4_000
# A Chinese sentence of so many characters says nothing.
_FEW: Final = 3
# A pair of words replaces its first word if it makes up this share of the word's occurrences.
_PAIR: Final = 0.6
_BETWEEN: Final = frozenset(
    ("a", "an", "the", "of", "for", "to", "in", "on", "by", "with", "and", "or", "all", "id", "ids")
)
_LEAD: Final = re.compile(
    r"(?:use\s+)?(?:this|the|these)\s+(?:[\w-]+\s+){0,2}?(?:server|tools)\s+"
    r"(?:can\s+be\s+used\s+|is\s+used\s+|allows?\s+you\s+)?(?:to\s+)?(?=[a-z])",
    re.IGNORECASE,
)
# Words that advise a model how to proceed, rather than describe the server.
_ADVICE: Final = frozenset(
    ("call", "follow", "use", "start", "begin", "make", "check", "ask", "read", "see", "set", "prefer", "install")
)


def own_purpose(instructions: str) -> str:
    """Return the sentence of a server's instructions that describes its purpose best, on one line; empty if none
    does.
    """
    definition = {"name": "", "description": _LEAD.sub("", instructions[:_INSTRUCTIONS].lstrip("# \n"), 1)}
    for sentence in (first_sentence(definition, _LINE), *sentences_after(definition)):
        said = shorten(_LEAD.sub("", sentence, 1), _LINE)
        first, _, rest = said.partition(" ")
        if any(map(is_cjk, said)):
            if len(said) > _FEW:
                return said
        elif " " in rest and is_verb(first.casefold()) and first.casefold() not in _ADVICE:
            return f"{first.capitalize()} {rest}"
    return ""


def tools_purpose(definitions: Iterable[Mapping[str, Any]], server: str) -> str:
    """Return the subjects of a server's tools, the most frequent first, on one line: `issues, pull requests, teams`."""
    read = list(islice(definitions, _READ))
    if sum(is_cjk(str(tool.get("description"))[:1]) for tool in read) * 2 > len(read):
        return _in_chinese(read)
    things = Counter[tuple[str, ...]]()
    firsts = Counter[str]()
    own = {*words_of(server), *(word.rstrip("s") for word in words_of(server))}
    for tool in read:
        words = _object(words_of(str(tool.get("name"))), own)
        if words:
            firsts[words[0]] += 1
            things[tuple(words[:2])] += 1
    named: dict[str, int] = {}
    for word, count in firsts.items():
        pair, most = max(
            ((pair, n) for pair, n in things.items() if pair[0] == word and len(pair) > 1),
            key=lambda one: one[1],
            default=((word,), 0),
        )
        thing = " ".join(pair) if most >= count * _PAIR and (most > 1 or count == 1) else word
        named[thing] = count
    best = sorted(named, key=lambda thing: -named[thing])
    shown = [visible(thing)[:_THING] for thing in best[:_THINGS]]
    return ", ".join(filter(None, shown)) + (" and more" if len(best) > _THINGS else "")


def whole_words(purpose: str, limit: int) -> str:
    """Return as many whole things or phrases of a purpose as fit in `limit` columns; empty if none does."""
    if columns(purpose) <= limit:
        return purpose
    separator = "；" if "；" in purpose else ", "
    kept = ""
    for thing in purpose.removesuffix(" and more").removesuffix(" 等").split(separator):
        longer = f"{kept}{separator}{thing}" if kept else thing
        if columns(longer) > limit:
            break
        kept = longer
    if kept or not limit:
        return kept
    short = shorten(purpose, limit)
    return short if not short.endswith(MARK) else ""


def _object(words: Sequence[str], own: set[str]) -> list[str]:
    """Return the words of a tool's name for its object, the first in the singular; without verbs and the server's
    name.
    """
    found = [word for word in words if word not in own and word not in _BETWEEN and not word.isdigit()]
    if len(found) > 1 and is_verb(found[0]):
        found = found[1:]
    return list(dict.fromkeys(map(_singular, found)))


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return f"{word[:-3]}y"
    if word.endswith(("xes", "ches", "shes", "sses")):
        return word[:-2]
    plural = len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is", "news"))
    return word[:-1] if plural else word


def _in_chinese(read: Sequence[Mapping[str, Any]]) -> str:
    shown: list[str] = []
    for tool in read:
        said = first_sentence(tool, _THING)
        if not said or said.endswith(MARK):
            continue
        if sum(map(columns, shown)) + columns(said) + 2 * len(shown) > _LINE:
            break
        shown.append(said)
    return "；".join(shown) + (" 等" if shown and len(shown) < len(read) else "")
