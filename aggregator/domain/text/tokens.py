"""Estimate the tokens of a text without a tokenizer, and fit items into a budget of tokens.

Calibrated against cl100k over the definitions of some 1,200 real tools, and their three levels: `benchmarks tokens`.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from math import ceil
from typing import Final

_HUMP: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")

# No character is more; most are less.
TOKENS_OF_CHARACTER: Final = 1.1

# Between pieces when items are joined.
_BREAK: Final = 1
# How many samples of how many characters stand for a long text.
_SAMPLES: Final = 32
_SAMPLE: Final = 2_000
# White space counts as one token however long it is; this bound keeps pages of it finite.
_CHARACTERS_AT_MOST: Final = 24
# A piece of more tokens than this is no word, and may be cut anywhere.
_LONG_PIECE: Final = 6


@cache
def _piece() -> re.Pattern[str]:
    """Return the expression of the pieces that a tokenizer cuts a text into before it looks anything up.

    A piece is a word with the space or sign before it, up to three digits, or signs. The expression takes 5 ms to
    compile, which no start waits for.
    """
    return re.compile(
        r"(?P<sign>[^\r\nA-Za-z0-9\x80-\U0010ffff]?)(?P<word>[A-Za-z]+)"
        r"|(?P<digits>[0-9]{1,3})"
        r"| ?(?P<signs>[^\sA-Za-z0-9\x80-\U0010ffff]+)[\r\n]*"
        r"|(?P<wide>[\u2e80-\ud7ff\uf900-\uffef\U00020000-\U0003ffff])"
        r"|(?P<other>[^\x00-\x7f])"
        r"|\s+"
    )


@dataclass(frozen=True, slots=True)
class FittedItems:
    """The items that fit, in order and whole; their tokens, and how many items were left out."""

    items: tuple[str, ...]
    tokens: int
    left_out: int


def estimate(text: str) -> int:
    """Estimate the tokens of a text, usually within a tenth of what cl100k counts; never 0 unless the text is empty."""
    return ceil(sum(map(_cost, _piece().finditer(text))))


def estimate_long(text: str) -> int:
    """Estimate the tokens of a text of any length in about 10 ms: a long one by samples from all over it."""
    if len(text) <= _SAMPLES * _SAMPLE:
        return estimate(text)
    step = (len(text) - _SAMPLE) / (_SAMPLES - 1)
    starts = (int(number * step) for number in range(_SAMPLES))
    tokens = sum(estimate(text[start : start + _SAMPLE]) for start in starts)
    return round(tokens * len(text) / (_SAMPLES * _SAMPLE))


def reach(text: str, start: int, most: int) -> int:
    """Return the offset up to which a text has `most` tokens from `start` on, and no more than 24 characters for each.

    A long piece, such as Base64, is cut at its share of the tokens.
    """
    return reach_half(text, start, most)[1]


def reach_half(text: str, start: int, most: int) -> tuple[int, int]:
    """Return the offsets up to which a text has half of `most` tokens from `start` on, and all, as `reach` does."""
    end = min(len(text), start + _CHARACTERS_AT_MOST * most)
    used, at, half, middle = 0.0, start, most // 2, -1
    for piece in _piece().finditer(text, start, end):
        cost = _cost(piece)
        if middle < 0 and used + cost > half:
            middle = at + _share(piece, cost, half - used)
        if used + cost > most:
            return middle, at + _share(piece, cost, most - used)
        used += cost
        at = piece.end()
    return (middle if middle >= 0 else end), end


def _share(piece: re.Match[str], cost: float, tokens: float) -> int:
    """Return how many characters of a piece make so many tokens of its cost; none of a short piece."""
    if cost <= _LONG_PIECE:
        return 0
    # Line breaks behind signs cost nothing.
    return int(len(piece["signs"] or piece[0]) * tokens / cost)


def fit(items: Iterable[str], max_tokens: int, at_least: int = 0) -> FittedItems:
    """Return the first items, as many as fit `max_tokens` when joined by line breaks.

    The order counts: the first item that does not fit ends the list. `at_least` items are always included.
    """
    every = tuple(items)
    used = taken = 0
    for item in every:
        cost = estimate(item) + (_BREAK if taken else 0)
        if taken >= at_least and used + cost > max_tokens:
            break
        used += cost
        taken += 1
    return FittedItems(every[:taken], used, len(every) - taken)


def _cost(piece: re.Match[str]) -> float:
    kind = piece.lastgroup
    if kind == "word":
        return _word(piece["word"], piece["sign"])
    if kind == "wide":
        return 1.08
    if kind == "other":
        return 0.9
    if kind == "signs":
        return 1.02 if len(piece["signs"]) <= 4 else 0.4 * len(piece["signs"])
    return 1


def _word(word: str, sign: str) -> float:
    length = len(word)
    if length == 1:
        return 1.0
    if word.isupper():
        return 1 + 0.1 * (length - 2)
    if not word[1:].islower():
        return max(1.0, 0.9 * len(_HUMP.findall(word))) + (0.2 if sign not in ("", " ") else 0)
    if sign not in ("", " "):
        return 1 + 0.1 * (length - 2)
    return 1.02 if length <= 8 else 1.1 if length <= 13 else length / 5
