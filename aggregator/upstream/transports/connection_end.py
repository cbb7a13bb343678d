"""The end of a connection: of its stream, of the program that serves it, or because we abandoned it."""

import asyncio
from typing import Any

from aggregator.upstream.lifecycle.failures import program_ended
from aggregator.upstream.process.process import ChildProcess


async def wait_for_end(
    ended: asyncio.Future[str], lost: asyncio.Future[str | None], child: ChildProcess | None
) -> str | None:
    """Wait until a connection ends, in any of these ways, and return why; None if it was closed for being idle."""
    ends: set[asyncio.Future[Any]] = {ended, lost}
    if child is not None:
        ends.add(child.exited)
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    if lost.done():
        return lost.result()
    if child is not None and child.exited.done() and not ended.done():
        return program_ended(child.end_reason())
    return ended.result()
