"""Take texts apart into the pieces that a multilingual model knows: the likeliest ones (SentencePiece's unigram model).

Source: "Subword Regularization" (arXiv 1804.10959), section 3.2, without its sampling.
"""

import unicodedata
from collections.abc import Mapping, Sequence
from typing import Final

from aggregator.domain.bounds.lru import LruCache

# The sign in front of a word, in place of the space.
_SPACE: Final = "\u2581"
# Characters that are read for each piece asked for; a piece has four on average.
_CHARACTERS: Final = 8
# A longer word is read in parts, so that none takes long.
_WORD_AT_MOST: Final = 64
_WORDS_KEPT: Final = 4096
# How much less likely an unknown character is than the least likely piece.
_UNKNOWN: Final = 10.0


class UnigramPieces:
    """The pieces of a vocabulary with the logarithms of how likely they are, numbered from 0.

    `begin`, `end` and `unknown` are the numbers of the markers; `normal`: what stands for a character, if another.
    """

    def __init__(
        self,
        pieces: Sequence[str],
        likely: Sequence[float],
        *,
        begin: int,
        end: int,
        unknown: int,
        normal: Mapping[int, str],
    ) -> None:
        markers = {begin, end, unknown}
        self._pieces = {piece: number for number, piece in enumerate(pieces) if piece and number not in markers}
        self._likely = likely
        self._least = min(likely) - _UNKNOWN
        self._longest = max(map(len, self._pieces))
        self._begin, self._end, self._unknown, self._normal = begin, end, unknown, dict(normal)
        self._words: LruCache[str, tuple[int, ...]] = LruCache(_WORDS_KEPT)

    def read(self, text: str, most: int) -> list[int]:
        """Return the numbers of the first pieces of a text, at most `most`, between the begin and end markers."""
        numbers = [self._begin]
        words = unicodedata.normalize("NFC", text[: _CHARACTERS * most]).translate(self._normal).split()
        for word in words:
            for start in range(0, len(word), _WORD_AT_MOST):
                numbers += self._of_word(f"{'' if start else _SPACE}{word[start : start + _WORD_AT_MOST]}")
            if len(numbers) >= most:
                break
        return [*numbers[: most - 1], self._end]

    def _of_word(self, word: str) -> tuple[int, ...]:
        found = self._words.get(word)
        if found is None:
            found = self._likeliest(word)
            self._words.put(word, found)
        return found

    def _likeliest(self, word: str) -> tuple[int, ...]:
        """Return the pieces of a word whose product is the likeliest (Viterbi's algorithm)."""
        length = len(word)
        best = [0.0, *[float("-inf")] * length]
        last: list[tuple[int, int]] = [(0, 0)] * (length + 1)
        for start in range(length):
            so_far = best[start]
            for stop in range(start + 1, min(length, start + self._longest) + 1):
                number = self._pieces.get(word[start:stop])
                if number is not None and so_far + self._likely[number] > best[stop]:
                    best[stop], last[stop] = so_far + self._likely[number], (start, number)
            if so_far + self._least > best[start + 1]:
                best[start + 1], last[start + 1] = so_far + self._least, (start, self._unknown)
        numbers: list[int] = []
        stop = length
        while stop:
            stop, number = last[stop]
            numbers.append(number)
        return tuple(reversed(numbers))
