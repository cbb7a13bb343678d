"""The bound below which work in proportion to a value runs at once."""

from typing import Any, Final

# A value is small with so many values in it, and so many characters in one text.
VALUES: Final = 256
CHARACTERS: Final = 2**18


_SINGLE: Final = frozenset({int, float, bool, type(None)})


def is_small(value: Any, values: int = VALUES, characters: int = CHARACTERS) -> bool:
    """Tell whether a value has at most so many values, and no text of more characters.

    A bounded part of it is read.
    """
    # Every result passes through here: one growing list is walked once, and exact types are compared before classes.
    waiting: list[Any] = [(value,)]
    seen = 0
    for inside in waiting:
        seen += len(inside)
        if seen > values:
            return False
        for item in inside:
            kind = type(item)
            if kind is str:
                if len(item) > characters:
                    return False
            elif kind is dict:
                waiting.append(item.values())
            elif kind not in _SINGLE:
                if isinstance(item, list | tuple):
                    waiting.append(item)
                elif isinstance(item, dict):
                    waiting.append(item.values())
                elif isinstance(item, str) and len(item) > characters:
                    return False
    return True
