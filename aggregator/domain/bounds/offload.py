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
_SINGLE: Final = frozenset({int, float, bool, type(None)})


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
    # Every result comes through here: a list that grows is gone through once, and types are looked at before classes.
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
