"""What somebody asks for -> the terms to look for, each with how much it says about the tool that is meant.

Law: the weights come from the language alone; how rare a term is among the tools is the index's to know.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from aggregator.catalog.search_meanings import meanings, plain
from aggregator.catalog.search_stem import stem
from aggregator.catalog.words import chunks, folded, signs, split, terms, unspaced

# Words that say little; numbers, which are arguments; single Chinese signs beside their pairs.
LITTLE = 0.3
NUMBER = 0.3
SIGN = 0.15
# The meanings of a word beside the word itself: words for doing, words that stand for each other, subjects.
MEANS = {"*": 0.4, "=": 1.3, "~": 1.3}
# A meaning that several words share gains by each of them; a word of several meanings is spread over them.
AGAIN = 1.0
SPREAD = 1.0
# Two words in a row, also where the tool writes them as one.
PAIR = 1.5
JOINED = 0.8
# More than a person types: the rest of a pasted text is not looked at.
LONGEST: Final = 2_000
_MOST_TERMS: Final = 64


@dataclass(frozen=True, slots=True)
class Query:
    """`words`: terms as asked, `means`: the marks of their meanings. `key`, `name`: the text read as a tool's name."""

    words: dict[str, float]
    pairs: dict[str, float]
    means: dict[str, float]
    key: str
    name: tuple[str, ...]


def read(text: str) -> Query:
    """Any text, of which the first 2,000 characters count."""
    text = text[:LONGEST]
    words: dict[str, float] = {}
    means: dict[str, float] = {}
    for chunk in chunks(text):
        if unspaced(chunk):
            _read_signs(chunk, words, means)
    latin = [term for term in terms(text) if not unspaced(term)]
    said = [term for term in latin if term not in plain().unsaid]
    for term in said if said or words else latin:
        words.setdefault(term, _worth(term))
    words = dict(list(words.items())[:_MOST_TERMS])
    _add_means(latin, words, means)
    return Query(words, _pairs(said, words), means, folded(text), tuple(map(stem, split(text))))


def _worth(term: str) -> float:
    if term.isdigit():
        return NUMBER
    return LITTLE if term in plain().little else 1.0


def _read_signs(run: str, words: dict[str, float], means: dict[str, float]) -> None:
    table = meanings()
    for part in _without_asking(run) or [run]:
        for term in signs(part):
            words.setdefault(term, SIGN if len(term) == 1 < len(part) else 1.0)
        for word in table.words_in(part):
            _add(means, table.of[word], 1.0)


def _without_asking(run: str) -> list[str]:
    """The parts of a run of Chinese between the words that only ask; a word of the tables is never cut."""
    said, known = plain().said, meanings().of
    parts: list[str] = []
    part = ""
    at = 0
    while at < len(run):
        ends = range(min(at + 6, len(run)), at, -1)
        end = next((end for end in ends if run[at:end] in said or run[at:end] in known), at + 1)
        if run[at:end] in said:
            parts.append(part)
            part = ""
        else:
            part += run[at:end]
        at = end
    return [part for part in (*parts, part) if part]


def _add_means(latin: list[str], words: dict[str, float], means: dict[str, float]) -> None:
    table = meanings()
    for term, worth in words.items():
        if not unspaced(term):
            _add(means, table.of.get(term, ()), worth)
    for pair in pairwise(latin):
        if pair in table.phrases:
            _add(means, table.of[table.phrases[pair]], 1.0)


def _add(means: dict[str, float], marks: tuple[str, ...], worth: float) -> None:
    for mark in marks:
        gain = worth * MEANS[mark[0]] / len(marks) ** SPREAD
        before = means.get(mark, 0.0)
        means[mark] = max(before, gain) + AGAIN * min(before, gain)


def _pairs(said: list[str], words: dict[str, float]) -> dict[str, float]:
    pairs: dict[str, float] = {}
    for one, two in pairwise(said):
        worth = min(words.get(one, 0.0), words.get(two, 0.0))
        if worth and one != two:
            pairs[f"{one} {two}"] = PAIR * worth
        if one + two not in words:
            pairs.setdefault(one + two, JOINED)
    return pairs
