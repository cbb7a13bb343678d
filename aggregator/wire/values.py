"""Bounds on the numbers of values and names in a JSON text, counted in its bytes before any object is built."""

import re
import secrets
from collections.abc import Iterator
from math import inf
from typing import Final

# Values that a host may send in one message, and a server by default.
VALUES_AT_MOST: Final = 250_000
# Names of fields that a host may send in one message: one that is not like others takes as long as nine numbers.
NAMES_AT_MOST: Final = 50_000
# Bytes searched at a time; a block without the sign costs next to nothing.
_BLOCK: Final = 64 * 1024
# A value takes two bytes at least: itself, and the separator to the next.
_SHORTEST: Final = 2
# A name takes two quotes and a colon, its value a byte and the separator.
_SHORTEST_MEMBER: Final = 5
# One of these precedes each value but the first; a colon follows each name.
_SIGNS: Final = (b",", b"[", b"{")
_NAME_SIGN: Final = (b":",)
# A number of many digits takes its parser much longer than others: with an exponent for the exact computation, a whole
# one in proportion to the square of its digits. It counts as so many values.
_LONG_NUMBER: Final = re.compile(rb"[0-9][0-9.]{19,}([eE]?)")
_EXPONENT: Final = 20
_SQUARE: Final = 150_000
# The search for long numbers covers a sample: so many bytes, once in so many, from an unpredictable start.
_SAMPLE: Final = 64
_STEP: Final = 4096


class TooManyValues(ValueError):
    """A text that holds more values, or names of fields, than are read."""

    def __init__(self, most: float, what: str = "values") -> None:
        super().__init__(f"it holds more than {most:,.0f} {what}")


def check_count(data: bytes | bytearray | memoryview, most: float, names: float = inf) -> None:
    """Raise if a JSON text holds more than `most` values, or more than `names` names of fields.

    Names are no values; an empty array or object may count twice, a number of many digits as several.

    Raises:
        TooManyValues: the text holds more.
    """
    if len(data) <= min(most * _SHORTEST, names * _SHORTEST_MEMBER):
        return
    text = bytes(data)
    long_numbers = most != inf and _may_have_long_numbers(text, most)
    counts_values = long_numbers or _has(_SIGNS, text, most)
    counts_names = _has(_NAME_SIGN, text, names + 1)
    if not counts_values and not counts_names:
        return
    values = members = 0
    for block in outside_strings(text):
        if counts_values:
            values += sum(map(block.count, _SIGNS))
        if counts_names:
            members += sum(map(block.count, _NAME_SIGN))
        if values >= most:
            raise TooManyValues(most)
        if members > names:
            raise TooManyValues(names, "names of fields")
    if long_numbers and values + _more_for_long_numbers(b"".join(outside_strings(text)), most) >= most:
        raise TooManyValues(most)


def _has(signs: tuple[bytes, ...], text: bytes, many: float) -> bool:
    """Return True if these signs are `many` or more in a text, strings included."""
    if many == inf:
        return False
    count = 0
    for start in range(0, len(text), _BLOCK):
        end = start + _BLOCK
        for sign in signs:
            if text.find(sign, start, end) >= 0:
                count += text.count(sign, start, end)
        if count >= many:
            return True
    return False


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


def outside_strings(text: bytes) -> Iterator[bytes]:
    """Yield the parts of a JSON text outside of strings, a block at a time, so that a count can stop early.

    A string without an end takes the rest. The time is linear, and the memory that of a block, for any text.
    """
    start, is_inside = 0, False
    while start < len(text):
        block = text[start : start + _BLOCK]
        if (len(block) - len(block.rstrip(b"\\"))) % 2:
            # What is escaped stays with its backslash.
            block = text[start : start + _BLOCK + 1]
        start += len(block)
        parts = block.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        yield b"".join(parts[is_inside::2])
        is_inside ^= len(parts) % 2 == 0
