"""Guess the tools meant by a name that no tool has: by the words of the name, or by its spelling.

Law: no guess is better than a bad one; a word that could be of any tool says nothing.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final

from aggregator.catalog.search.terms.edit_distance import distance_allowed, edit_distance
from aggregator.catalog.search.terms.stem import stem
from aggregator.catalog.search.terms.synonyms import synonyms
from aggregator.catalog.search.terms.words import split
from aggregator.intent.match.names import ToolNames
from aggregator.intent.match.text import SIGNS, lowered, squashed
from aggregator.intent.match.words import word_set

_RUN: Final = re.compile(rf"[{SIGNS}]+")
# Comparing costs a microsecond or so a name.
_COMPARED: Final = 4_000
_LONGEST: Final = 80
_MOST_WORDS: Final = 5
_FEWEST_SIGNS: Final = 2
# A text with one of these words is a phrase, not a name: with the help of this plugin.
_LINKS: Final = frozenset({"of", "for", "that", "which", "in", "on", "to", "and", "from", "as", "or"})
# Shorter names resemble too many words.
_ALIKE_FROM: Final = 6


def nearest(names: ToolNames, called: str, *, is_identifier: bool, announced: bool) -> tuple[int, ...]:
    """Return the positions of the tools that `called` may mean, likeliest first.

    `is_identifier`: the name is written as an identifier; `announced`: the message says that it is a tool.
    """
    called = called.strip()[:_LONGEST]
    if is_identifier:
        return _similar(names, called) or _with_all_parts(names, _content_words(called, announced), split(called))
    return _with_all_parts(names, _parts(called)) or _similar(names, called)


def _parts(called: str) -> list[str]:
    """Return the stems and runs of signs that identify the tool; none if the text is too long to be a name."""
    generic, vague = word_set("generic"), word_set("泛指")
    runs = [run for run in (_without_vague(run) for run in _RUN.findall(lowered(called))) if run and run not in vague]
    latin = split(_RUN.sub(" ", called))
    words = [word for word in latin if word not in generic]
    only_verbs = bool(words) and not runs and word_set("verbs").issuperset(words)
    if only_verbs or len(words) > _MOST_WORDS or not _LINKS.isdisjoint(latin):
        return []
    return [*map(stem, words), *runs]


def _without_vague(run: str) -> str:
    """Strip 的 from the end, and a word for `some` or `the` from the beginning."""
    run = run.rstrip("的")
    front = next((word for word in sorted(word_set("泛指"), key=len, reverse=True) if run.startswith(word)), "")
    return run[len(front) :]


def _content_words(identifier: str, announced: bool) -> list[str]:
    """Return the words of an identifier without a leading verb.

    None if all are ordinary words: the identifier may be any code then.
    """
    words = split(lowered(identifier))
    if words and words[0] in word_set("verbs"):
        rest = words[1:]
    else:
        rest = [words[0][len(verb) :] for verb in _leading_verbs() if len(words) == 1 and words[0].startswith(verb)][:1]
    ordinary = all(word in word_set("ordinary") or len(word) < 4 for word in rest)
    return [] if ordinary and not (announced and rest) else [stem(word) for word in rest]


@cache
def _leading_verbs() -> list[str]:
    """Return the verbs that an identifier in one word may begin with; longest first."""
    return sorted((verb for verb in word_set("verbs") if len(verb) > 2), key=lambda verb: (-len(verb), verb))


def _with_all_parts(names: ToolNames, parts: list[str], besides: Iterable[str] = ()) -> tuple[int, ...]:
    """Return the tools whose names have every part: first those that also have most of `besides`, and the fewest other
    words.
    """
    if not parts:
        return ()
    found: set[int] | None = None
    for part in parts:
        if _RUN.fullmatch(part):
            has = (
                {at for at, text in enumerate(names.sign_texts) if part in text}
                if len(part) >= _FEWEST_SIGNS
                else set()
            )
            has = has or _in_pairs(names, part) or _translated(names, part)
        else:
            has = names.by_word.get(part, set())
        found = has if found is None else found & has
        if not found:
            return ()
    return tuple(
        sorted(found or (), key=lambda at: (-_count_having(names, at, besides), _surplus(names, at, parts), at))
    )


def _in_pairs(names: ToolNames, run: str) -> set[int]:
    """Return the tools that have every two-sign word of the run: 公交规划 in 公交路径规划."""
    pairs = [run[at : at + 2] for at in range(0, len(run), 2)]
    if len(pairs) < 2 or len(run) % 2:
        return set()
    return {at for at, text in enumerate(names.sign_texts) if text and all(pair in text for pair in pairs)}


def _translated(names: ToolNames, run: str) -> set[int]:
    """Return the tools with an English word in their names for each Chinese word of the run."""
    words = synonyms().words_in(run)
    if not words or sum(map(len, words)) < len(run):
        return set()
    found = [
        {
            at
            for mark in synonyms().of[word]
            for known in _english().get(mark, ())
            for at in names.by_word.get(known, ())
        }
        for word in words
    ]
    return set.intersection(*found)


@cache
def _english() -> Mapping[str, tuple[str, ...]]:
    """Return the English stems for each meaning; words of one subject have no meaning in common."""
    found: dict[str, list[str]] = {}
    for word, marks in synonyms().of.items():
        if word.isascii():
            for mark in marks:
                if not mark.startswith("~"):
                    found.setdefault(mark, []).append(word)
    return {mark: tuple(words) for mark, words in found.items()}


def _count_having(names: ToolNames, at: int, words: Iterable[str]) -> int:
    return sum(at in names.by_word.get(stem(word), ()) for word in words)


def _surplus(names: ToolNames, at: int, parts: list[str]) -> int:
    """Score how much else the name says; a part that stands only in the description counts as much more."""
    name = names.sign_texts[at].partition("\n")[0]
    runs = sum(part in names.sign_texts[at] and part not in name for part in parts if _RUN.fullmatch(part))
    return 20 * runs + len(split(names.tools[at].own_name))


def _similar(names: ToolNames, called: str) -> tuple[int, ...]:
    """Return the tools whose name differs from this one by a slip or two."""
    key = squashed(called)
    most = distance_allowed(key) if len(split(lowered(called))) > 1 else 1
    if len(key) < _ALIKE_FROM or not key.isascii():
        return ()
    best: dict[int, list[int]] = {}
    compared = 0
    for name, places in names.of_tools.items():
        if abs(len(name) - len(key)) > most or name[0] != key[0]:
            continue
        compared += 1
        if compared > _COMPARED:
            break
        slips = edit_distance(key, name, most)
        if slips is not None:
            best.setdefault(slips, []).extend(places)
    return tuple(best[min(best)]) if best else ()


def nearest_servers(names: ToolNames, called: str) -> list[str]:
    """Return the servers whose description says what `called` does, in their order."""
    parts = _parts(called.strip()[:_LONGEST])
    return [
        server for server, text in names.descriptions.items() if parts and all(_has_part(part, text) for part in parts)
    ]


def _has_part(part: str, text: str) -> bool:
    if _RUN.fullmatch(part):
        return len(part) >= _FEWEST_SIGNS and part in text
    return part in {stem(word) for word in split(text)}
