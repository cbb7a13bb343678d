"""The bound up to which work in proportion to a value is done at once."""

from typing import Any, Final

# A value is small with so many values in it, and so many characters in one text.
VALUES: Final = 256
CHARACTERS: Final = 2**18
# A union of types would be made anew each time.
_HOLDERS: Final = (dict, list, tuple)


def is_small(value: Any, values: int = VALUES, characters: int = CHARACTERS) -> bool:
    """Return whether a value holds so many values at most, and no text of more characters.

    A bounded part of it is looked at.
    """
    if isinstance(value, str):
        return len(value) <= characters
    # Every result comes through here: only what holds other values is put on the list.
    seen, waiting = 1, [value] if isinstance(value, _HOLDERS) else []
    while waiting:
        one = waiting.pop()
        inside = one.values() if isinstance(one, dict) else one
        seen += len(inside)
        if seen > values:
            return False
        for item in inside:
            if isinstance(item, str):
                if len(item) > characters:
                    return False
            elif isinstance(item, _HOLDERS):
                waiting.append(item)
    return True
