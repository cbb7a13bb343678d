"""Show a long text part by part: each ends at a paragraph, a sentence or a word, and names the offset of the next."""

import re
import unicodedata
from typing import Final, NamedTuple

# A part that ends at a paragraph, a line or a sentence is at least this share of what would fit.
_SHARE: Final = 0.6
_ENDS: Final = tuple(map(re.compile, (r"\n\s*\n", r"\n", r"[.!?](?=\s)|[。！？]", r"\s")))
# Code points of the longest single character.
_JOINED: Final = 32


class Excerpt(NamedTuple):
    """A part of a text. `next` is the offset of the rest, None at the end; `left` are the characters of that rest."""

    text: str
    next: int | None
    left: int


def excerpt(text: str, offset: int, length: int) -> Excerpt:
    """Return at most `length` characters of a text from `offset` on."""
    if len(text) - offset <= length:
        return Excerpt(text[offset:].strip(), None, 0)
    end = _end(text, offset, offset + max(1, length))
    after = end + len(text[end:]) - len(text[end:].lstrip())
    return Excerpt(text[offset:end].strip(), after, len(text) - after)


def _end(text: str, start: int, most: int) -> int:
    """Return the end of a part that begins at `start` and may reach `most`."""
    least = start + int((most - start) * _SHARE)
    for ending in _ENDS:
        ends = [found.end() for found in ending.finditer(text, least, most)]
        if ends:
            return ends[-1]
    end = most
    while (
        end > start + 1 and most - end < _JOINED and (unicodedata.combining(text[end]) or text[end] in "\u200d\ufe0f")
    ):
        end -= 1
    return end
