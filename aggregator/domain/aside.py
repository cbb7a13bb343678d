"""Work that takes time in proportion to what a peer sent: for little at once, for much in a thread."""

import asyncio
from collections.abc import Callable
from typing import Any, Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

# What takes a few microseconds for each is done at once for so many.
_MANY: Final = 500


async def for_each(items: Any, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what `work` does, which goes through `items`: in a thread where that is a long list."""
    if type(items) is list and len(items) > _MANY:
        return await asyncio.to_thread(work, *args, **kwargs)
    return work(*args, **kwargs)
