"""Tell a server's tools apart in one line each: a line that repeats a sibling's, or only the name, gets an addition.

Law: an addition is the tool's own: words of its name, names of its parameters, a later sentence.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final

from aggregator.catalog.describe.first_sentence import Language, first_sentence, sentences_after, words_of
from aggregator.catalog.describe.markdown import columns, inline
from aggregator.catalog.describe.parameters import parameter_names
from aggregator.catalog.describe.shorten import shorten
from aggregator.domain.records import ToolRecord

_NAMES: Final = 4
# Characters that are read of a sibling's description.
_READ: Final = 600
# Columns of a later sentence.
_LATER: Final = 40
# The label in front of a description, and how many descriptions must have it.
_LABEL: Final = re.compile(r"\s*[^\n.!?|:]{1,40}?(?:\s[|–—-]|:|\])\s+(?=\S)")
_MANY: Final = 3
_ARTICLES: Final = frozenset({"a", "an", "the", "new", "existing"})
_TAKES: Final[Mapping[Language, tuple[str, str]]] = {"en": ("takes ", " and more"), "zh": ("参数 ", " 等")}


def shared_beginning(descriptions: Sequence[Any]) -> str:
    """Return how most of a server's descriptions begin, up to a colon, a bar or a dash; empty if they do not."""
    begins = Counter(found[0] for text in descriptions if isinstance(text, str) and (found := _LABEL.match(text)))
    label, count = max(begins.items(), key=itemgetter(1), default=("", 0))
    return label if count >= max(_MANY, len(descriptions) / 2) else ""


def without_beginning(definition: Mapping[str, Any], shared: str) -> Mapping[str, Any]:
    """Return a definition whose description lacks the beginning that it shares with others."""
    text = definition.get("description")
    if not shared or not isinstance(text, str) or not text.startswith(shared):
        return definition
    return {**definition, "description": text[len(shared) :]}


def line_of(tool: ToolRecord, limit: int, language: Language) -> str:
    """Return the purpose of a tool in at most `limit` columns, with an addition if a sibling or the name says the
    same.
    """
    definition = without_beginning(tool.definition, tool.shared)
    siblings = [without_beginning(other, tool.shared) for other in tool.siblings]
    words = first_sentence(definition, limit, language)
    mine_said = _plain(words)
    same = [other for other in siblings if _plain(first_sentence(_beginning(other), limit, language)) == mine_said]
    mine = {_stem(word) for word in words_of(str(definition.get("name", "")))}
    bare = {_stem(word) for word in words_of(words)} <= mine | _ARTICLES
    if not words or not (same or bare):
        return words
    for more in _additions(definition, words, same, limit - columns(words) - 3, language):
        space = limit - columns(more) - 3
        if more and space >= min(columns(words), limit // 3):
            return f"{shorten(words, space)} ({more})"
    return words


def _additions(
    definition: Mapping[str, Any], words: str, same: list[Mapping[str, Any]], space: int, language: Language
) -> Iterator[str]:
    """Yield additions that may distinguish the line from others, best first."""
    name = words_of(str(definition.get("name", "")))
    said = {_stem(word) for word in words_of(words)}
    theirs = [words_of(str(other.get("name", ""))) for other in same]
    yield " ".join(word for word in name if _stem(word) not in said and any(word not in one for one in theirs))[:40]
    shared = set.intersection(*(set(_parameters(other)) for other in same)) if same else set()
    if own := [parameter for parameter in _parameters(definition) if parameter not in shared]:
        yield _taken(own, space, language)
    known = {sentence for other in same for sentence in sentences_after(other)}
    yield next(
        (shorten(f"{one[:1].lower()}{one[1:]}", 40) for one in sentences_after(definition) if one not in known), ""
    )
    if same:
        yield " ".join(name)


def _taken(names: list[str], space: int, language: Language) -> str:
    """Return `takes a, b and more`, with as many names as fit in `space` columns; empty if none does."""
    before, after = _TAKES[language]
    for count in range(min(_NAMES, len(names)), 0, -1):
        text = f"{before}{', '.join(names[:count])}{after if count < len(names) else ''}"
        if columns(text) <= space:
            return text
    return ""


def _beginning(definition: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a definition with the beginning of its description, so that many long ones cost little."""
    text = definition.get("description")
    return {**definition, "description": text[:_READ]} if isinstance(text, str) and len(text) > _READ else definition


def _parameters(definition: Mapping[str, Any]) -> list[str]:
    return [inline(name[:40]) for name, _ in parameter_names(definition.get("inputSchema"))]


def _plain(words: str) -> list[str]:
    return [word for word in words_of(words) if word not in _ARTICLES]


def _stem(word: str) -> str:
    return word.rstrip("s")
