"""Work that takes time in proportion to what a peer sent: small inputs on the event loop, large ones in a thread."""

import asyncio
from collections.abc import Callable
from typing import Any, Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

# What takes a few microseconds for each is done at once for so many.
_MANY: Final = 500
# A value is small with so many values in it, and so many characters in one text.
VALUES: Final = 256
CHARACTERS: Final = 2**18
# A union of types would be made anew each time.
_HOLDERS: Final = (dict, list, tuple)


def is_long(items: Any) -> bool:
    """Return whether a value is a list that is not gone through at once."""
    return type(items) is list and len(items) > _MANY


async def for_each(items: Any, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what `work` does, which goes through `items`: in a thread where that is a long list."""
    if is_long(items):
        return await asyncio.to_thread(work, *args, **kwargs)
    return work(*args, **kwargs)


async def going_through(value: Any, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what `work` does, which goes through this value: in a thread where the value is large."""
    if is_small(value):
        return work(*args, **kwargs)
    return await asyncio.to_thread(work, *args, **kwargs)


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
