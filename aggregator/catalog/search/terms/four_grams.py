"""Compare the spelling of two texts: the four-letter sequences of their words, as the bits of a number."""

import math
from functools import lru_cache, reduce
from operator import or_
from typing import Final
from zlib import crc32

from aggregator.catalog.search.terms.words import chunks, unspaced

_BITS: Final = 4096
_LENGTH: Final = 4


def four_grams(text: str) -> int:
    """Return the runs of four letters in each word, its two ends included; the pairs of signs in Chinese."""
    return reduce(or_, map(_word, set(chunks(text.lower()))), 0)


def similarity(query: int, text: int) -> float:
    """Score how many runs both have, less where `text` is long."""
    return (query & text).bit_count() / math.sqrt(text.bit_count() or 1)


@lru_cache(maxsize=16384)
def _word(word: str) -> int:
    whole, length = (word, 2) if unspaced(word) else (f" {word} ", _LENGTH)
    found = 0
    for at in range(max(1, len(whole) - length + 1)):
        found |= 1 << crc32(whole[at : at + length].encode(errors="replace")) % _BITS
    return found
