"""Work on the event loop that grows with a peer's input: done in pieces, with turns of the loop between them."""

import asyncio
from collections.abc import Generator
from time import perf_counter
from typing import Final, TypeVar

T = TypeVar("T")

# How long one piece may take, in seconds; the step that is running then is finished.
SLICE: Final = 0.003

Steps = Generator[None, None, T]
"""A piece of work that yields after each step of bounded cost and returns its result."""


def at_once(steps: Steps[T]) -> T:
    """Return the result of the work, without a pause."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


class Slices:
    """A queue of work, run in pieces of `SLICE` seconds, one per turn of the loop, however much there is to do."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def run(self, steps: Steps[T]) -> T:
        """Return the result of the work; work that fits into one piece runs at once."""
        while True:
            async with self._turn:
                until = perf_counter() + SLICE
                while True:
                    try:
                        next(steps)
                    except StopIteration as end:
                        return end.value  # type: ignore[no-any-return]
                    if perf_counter() >= until:
                        break
                # Still within its turn, so that no other piece is done in this one.
                await asyncio.sleep(0)
