"""How many values a JSON text holds, told from its bytes: before an object is made of any of them."""

from math import inf
from typing import Final

# As many as a host may send in one message, and a server by default.
VALUES_AT_MOST: Final = 250_000
# Looked through at a time; where a sign does not occur, that costs next to nothing.
_BLOCK: Final = 64 * 1024
# A value takes two bytes at least, itself and what stands between it and the next.
_SHORTEST: Final = 2
_SIGNS: Final = (b",", b"[", b"{")


class TooManyValues(ValueError):
    """The text holds more values than are read."""

    def __init__(self, most: float) -> None:
        super().__init__(f"it holds more than {most:,.0f} values")


def check_count(data: bytes | bytearray | memoryview, most: float) -> None:
    """Raise for more than `most` values. Names of fields are none; an empty array or object may count twice.

    Raises:
        TooManyValues: there are more.
    """
    if most == inf or len(data) <= most * _SHORTEST:
        return
    text = bytes(data)
    if _signs(text, most) >= most and _signs(_without_strings(text, most), most) >= most:
        raise TooManyValues(most)


def _signs(text: bytes, enough: float) -> int:
    """How often a value may begin: a comma or an opening bracket stands before each but the first. Stops at enough."""
    count = 0
    for start in range(0, len(text), _BLOCK):
        end = start + _BLOCK
        for sign in _SIGNS:
            if text.find(sign, start, end) >= 0:
                count += text.count(sign, start, end)
        if count >= enough:
            break
    return count


def _without_strings(text: bytes, most: float) -> bytes:
    """What stands outside of strings.

    Raises:
        TooManyValues: there are so many strings that they are too many values themselves.
    """
    plain = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    # Each string has two quotes, and is a value or the name of one.
    parts = plain.split(b'"', int(most) * 4 + 2)
    if len(parts) > most * 4 + 2:
        raise TooManyValues(most)
    return b"".join(parts[::2])
