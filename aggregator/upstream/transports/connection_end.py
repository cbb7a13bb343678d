"""The end of a connection: of its stream, of the program behind it, or because somebody says so."""

import asyncio
from typing import Any

from aggregator.upstream.lifecycle.failures import gone
from aggregator.upstream.process.process import ChildProcess


async def end_of(
    ended: asyncio.Future[str], lost: asyncio.Future[str | None], child: ChildProcess | None
) -> str | None:
    """Wait until a connection ends, however that shows, and return why; None where it came to rest."""
    ends: set[asyncio.Future[Any]] = {ended, lost}
    if child is not None:
        ends.add(child.exited)
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    if lost.done():
        return lost.result()
    if child is not None and child.exited.done() and not ended.done():
        return gone(child.obituary())
    return ended.result()
