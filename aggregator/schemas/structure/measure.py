"""Measure a value, level by level, without recursion: a value too large or too deep is not checked at all."""

from typing import Any, Final, NamedTuple

# The size of a host's message is bounded before it arrives here; these limits bound the cost of a check.
DEPTH_LIMIT: Final = 64
VALUES_LIMIT: Final = 250_000
# The engine ignores limits on numbers that are not finite or have thousands of digits.
_BOUND: Final = 10**300


class Size(NamedTuple):
    """The size of a value: the number of values and of characters on each level below the root.

    Characters are those in strings and property names.
    """

    values: list[int]
    characters: list[int]


class ValueTooLarge(ValueError):
    """The value is larger than is checked; the message says what would have been accepted."""


def measure(value: Any, *, characters: bool, most: int = VALUES_LIMIT, number: int = _BOUND) -> Size:
    """Return the size of `value`; it may have `most` values, and numbers below `number`.

    `characters`: whether the characters are counted too; without them the walk is cheaper.

    Raises:
        ValueTooLarge: too deep, too many values, or a number without end.
    """
    counts: list[int] = []
    texts: list[int] = []
    level: list[Any] = [value]
    total = 0
    while level:
        count = len(level)
        total += count
        if total > most:
            raise ValueTooLarge(f"at most {most:,} values")
        if len(counts) > DEPTH_LIMIT:
            raise ValueTooLarge(f"at most {DEPTH_LIMIT} levels of nesting")
        counts.append(count)
        if characters:
            texts.append(sum(len(v) if type(v) is str else sum(map(len, v)) if type(v) is dict else 0 for v in level))
        inside: list[Any] = []
        for part in level:
            kind = type(part)
            if kind is dict:
                if len(part) > most:
                    raise ValueTooLarge(f"at most {most:,} values")
                inside += part.values()
            elif kind is list:
                if len(part) > most:
                    raise ValueTooLarge(f"at most {most:,} values")
                inside += part
            elif (kind is int or kind is float) and not -number < part < number:
                raise ValueTooLarge("a number of at most 300 digits")
        level = inside
    return Size(counts, texts)
