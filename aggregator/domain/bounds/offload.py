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
    seen, waiting = 0, [value]
    while waiting:
        one = waiting.pop()
        seen += 1
        if isinstance(one, str):
            if len(one) > characters:
                return False
        elif isinstance(one, dict):
            if seen + len(one) > values:
                return False
            waiting += one.values()
        elif isinstance(one, list | tuple):
            if seen + len(one) > values:
                return False
            waiting += one
        if seen > values:
            return False
    return True
