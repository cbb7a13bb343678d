"""A bound on the number of values in a JSON text, counted in its bytes before any object is built."""

import re
import secrets
from math import inf
from typing import Final

# Values that a host may send in one message, and a server by default.
VALUES_AT_MOST: Final = 250_000
# Bytes searched at a time; a block without the sign costs next to nothing.
_BLOCK: Final = 64 * 1024
# A value takes two bytes at least: itself, and the separator to the next.
_SHORTEST: Final = 2
_SIGNS: Final = (b",", b"[", b"{")
# A number of many digits takes its parser much longer than others: with an exponent for the exact computation, a whole
# one in proportion to the square of its digits. It counts as so many values.
_LONG_NUMBER: Final = re.compile(rb"[0-9][0-9.]{19,}([eE]?)")
_EXPONENT: Final = 20
_SQUARE: Final = 150_000
# Long numbers are looked for in a sample: so many bytes, once in so many, from a start that cannot be predicted.
_SAMPLE: Final = 64
_STEP: Final = 4096


class TooManyValues(ValueError):
    """A text that holds more values than are read."""

    def __init__(self, most: float) -> None:
        super().__init__(f"it holds more than {most:,.0f} values")


def check_count(data: bytes | bytearray | memoryview, most: float) -> None:
    """Raise if a JSON text holds more than `most` values.

    Names of members do not count; an empty array or object may count twice, a number of many digits as several.

    Raises:
        TooManyValues: the text holds more.
    """
    if most == inf or len(data) <= most * _SHORTEST:
        return
    text = bytes(data)
    seemingly, long_numbers = _signs(text, most), _may_have_long_numbers(text, most)
    if seemingly < most and not long_numbers:
        return
    plain = _without_strings(text, most)
    count = _signs(plain, most)
    if count >= most or (long_numbers and count + _more_for_long_numbers(plain, most) >= most):
        raise TooManyValues(most)


def _signs(text: bytes, enough: float) -> int:
    """Count the commas and opening brackets, one of which precedes each value but the first; stop at `enough`."""
    count = 0
    for start in range(0, len(text), _BLOCK):
        end = start + _BLOCK
        for sign in _SIGNS:
            if text.find(sign, start, end) >= 0:
                count += text.count(sign, start, end)
        if count >= enough:
            break
    return count


def _may_have_long_numbers(text: bytes, most: float) -> bool:
    """Return True if a sample has so many long numbers that they could matter."""
    start = secrets.randbelow(_STEP)
    sample = b" ".join(text[at : at + _SAMPLE] for at in range(start, len(text), _STEP))
    return sum(1 for _ in _LONG_NUMBER.finditer(sample)) * _STEP >= most / 2


def _more_for_long_numbers(plain: bytes, most: float) -> float:
    """Return how many values the long numbers count as, beyond one each; stop at `most`."""
    more = 0
    for found in _LONG_NUMBER.finditer(plain):
        more += len(found[0]) ** 2 // _SQUARE + (_EXPONENT if found[1] else 0)
        if more >= most:
            break
    return more


def _without_strings(text: bytes, most: float) -> bytes:
    """Return the text outside of strings.

    Raises:
        TooManyValues: the strings alone are too many values.
    """
    plain = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    # Each string has two quotes, and is a value or the name of one.
    parts = plain.split(b'"', int(most) * 4 + 2)
    if len(parts) > most * 4 + 2:
        raise TooManyValues(most)
    return b"".join(parts[::2])
