"""Offsets in a text that split no visible character in two (UAX #29, without its rarer rules)."""

import unicodedata
from typing import Final

_JOINER: Final = "\u200d"
# Marks belong to the letter before them: combining, enclosing and spacing ones.
_MARKS: Final = frozenset({"Mn", "Me", "Mc"})
# No character of any language is as long; a text of marks alone is cut even so.
_LONGEST: Final = 64
# Before this no character needs its neighbour but a line feed after a carriage return.
_FIRST_MARK: Final = "\u0300"


def before(text: str, at: int, first: int) -> int:
    """Return the last offset up to `at`, and after `first`, that splits no character; `at` if there is none.

    A line break of two characters stays whole in any case, if there is room for it.
    """
    for place in range(at, max(first, at - _LONGEST), -1):
        if not joined(text, place):
            return place
    return at - 1 if text[at - 1 : at + 1] == "\r\n" and at - 1 > first else at


def joined(text: str, at: int) -> bool:
    """Tell whether the characters on both sides of an offset form one visible character."""
    if not 0 < at < len(text):
        return False
    left, right = text[at - 1], text[at]
    if right < _FIRST_MARK:
        return right == "\n" and left == "\r"
    if left == _JOINER or right in (_JOINER, "\u200c") or _is_mark(right) or _is_modifier(right):
        return left not in "\r\n"
    if _is_flag(left) and _is_flag(right):
        return _flags_before(text, at) % 2 == 1
    return _is_surrogate_pair(left, right) or _is_syllable(left, right)


def _is_mark(character: str) -> bool:
    return unicodedata.category(character) in _MARKS


def _is_modifier(character: str) -> bool:
    """Tell whether it is the colour of an emoji's skin, or a tag of a flag."""
    return "\U0001f3fb" <= character <= "\U0001f3ff" or "\U000e0020" <= character <= "\U000e007f"


def _is_flag(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _flags_before(text: str, at: int) -> int:
    """Return how many letters of flags end at an offset: two make one flag."""
    start = at
    while start > max(0, at - _LONGEST) and _is_flag(text[start - 1]):
        start -= 1
    return at - start


def _is_surrogate_pair(left: str, right: str) -> bool:
    return "\ud800" <= left <= "\udbff" and "\udc00" <= right <= "\udfff"


def _is_syllable(left: str, right: str) -> bool:
    """Tell whether two letters of Hangul are one syllable: only the parts of old texts are letters of their own."""
    if "\u1100" <= left <= "\u115f":
        return "\u1100" <= right <= "\u11a7" or "\uac00" <= right <= "\ud7a3"
    return "\u1160" <= right <= "\u11ff" and ("\u1160" <= left <= "\u11ff" or "\uac00" <= left <= "\ud7a3")
