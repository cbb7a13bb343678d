"""Tell a server's tools apart in one line each: a line that repeats a sibling's, or only the name, gets an addition.

Law: an addition is the tool's own: words of its name, names of its parameters, a later sentence.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from aggregator.catalog.describe.first_sentence import Language, first_sentence, sentences_after, words_of
from aggregator.catalog.describe.markdown import columns, inline
from aggregator.catalog.describe.parameters import parameter_names
from aggregator.catalog.describe.shorten import shorten

_NAMES: Final = 4
# Characters that are read of a sibling's description.
_READ: Final = 600
# Columns of a later sentence.
_LATER: Final = 40
_ARTICLES: Final = frozenset({"a", "an", "the", "new", "existing"})
_TAKES: Final[Mapping[Language, tuple[str, str]]] = {"en": ("takes ", " and more"), "zh": ("参数 ", " 等")}


def line_of(
    definition: Mapping[str, Any], siblings: Iterable[Mapping[str, Any]], limit: int, language: Language
) -> str:
    """Return the purpose of a tool in at most `limit` columns, with an addition if a sibling or the name says the
    same.
    """
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
