"""Work whose time grows with a peer's input: small inputs on the event loop, large ones in a thread."""

import asyncio
from collections.abc import Callable
from typing import Any, Final, ParamSpec, TypeVar

from aggregator.domain.bounds.small import is_small

P = ParamSpec("P")
T = TypeVar("T")

# Work of a few microseconds an item runs at once for so many items.
_MANY: Final = 500


def is_long(items: Any) -> bool:
    """Return whether a value is a list that is not gone through at once."""
    return type(items) is list and len(items) > _MANY


async def for_each(items: Any, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return the result of `work`, which iterates over `items`: in a thread if the list is long."""
    if is_long(items):
        return await asyncio.to_thread(work, *args, **kwargs)
    return work(*args, **kwargs)


async def going_through(value: Any, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return the result of `work`, which walks this value: in a thread if the value is large."""
    if is_small(value):
        return work(*args, **kwargs)
    return await asyncio.to_thread(work, *args, **kwargs)
