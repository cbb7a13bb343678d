"""Take texts apart into the pieces that the model knows (WordPiece, as BERT without capitals has it)."""

import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Final

# A longer word is one unknown piece: splitting it takes time with the square of its length.
_WORD_AT_MOST: Final = 100
_ASCII_SIGNS: Final = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
# Control, format and private-use characters, and accents.
_DROPPED: Final = frozenset({"Cc", "Cf", "Co", "Cs", "Mn"})
# Ideographs, each of which is a word of its own to the model.
_IDEOGRAPHS: Final = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


class Pieces:
    """The pieces of a vocabulary: a file with one in each line, numbered from 0."""

    def __init__(self, vocabulary: Path) -> None:
        lines = vocabulary.read_text(encoding="utf-8").split("\n")
        self._numbers = {piece: number for number, piece in enumerate(lines) if piece}
        self._unknown, self._begin, self._end = (self._numbers[name] for name in ("[UNK]", "[CLS]", "[SEP]"))

    def read(self, text: str, most: int) -> list[int]:
        """Return the numbers of the first pieces of a text, at most `most`, between the begin and end markers."""
        numbers = [self._begin]
        for word in _words(text):
            numbers += self._of_word(word)
            if len(numbers) >= most:
                break
        return [*numbers[: most - 1], self._end]

    def _of_word(self, word: str) -> list[int]:
        """Return the longest pieces from left to right; those after the first begin with `##`."""
        if len(word) > _WORD_AT_MOST:
            return [self._unknown]
        found: list[int] = []
        start = 0
        while start < len(word):
            sign = "##" if start else ""
            for end in range(len(word), start, -1):
                number = self._numbers.get(sign + word[start:end])
                if number is not None:
                    break
            else:
                return [self._unknown]
            found.append(number)
            start = end
        return found


def _words(text: str) -> Iterator[str]:
    """Yield the words of a text without capitals and accents; each sign and each ideograph is a word."""
    word: list[str] = []
    for character in unicodedata.normalize("NFD", text).lower():
        kind = unicodedata.category(character)
        if character in "\t\n\r" or kind == "Zs":
            alone, shown = True, False
        elif kind in _DROPPED or character == "\ufffd":
            continue
        else:
            shown = True
            alone = kind[0] == "P" or character in _ASCII_SIGNS or _is_ideograph(character)
        if not alone:
            word.append(character)
            continue
        if word:
            yield "".join(word)
            word.clear()
        if shown:
            yield character
    if word:
        yield "".join(word)


def _is_ideograph(character: str) -> bool:
    code = ord(character)
    return code >= 0x3400 and any(first <= code <= last for first, last in _IDEOGRAPHS)
