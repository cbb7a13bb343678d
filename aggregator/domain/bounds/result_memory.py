"""The memory that the results of all calls under way take, by agent and by server."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from aggregator.domain.call_record import current_call
from aggregator.domain.errors import ResultsFull

# What is smaller is not counted: there are never so many of these that they matter.
SMALL: Final = 64 * 1024


class ResultMemory:
    """Bytes of JSON that may be in memory at once. One agent, and one server, has half of it at most."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.held = 0
        self._parts: Counter[tuple[str, str]] = Counter()

    def __repr__(self) -> str:
        return f"<Results: {self.held} of {self.most} bytes>"

    def take(self, size: int, parts: tuple[tuple[str, str], ...]) -> bool:
        """Count the bytes of one more result for its agent and its server; return False if there is no room."""
        if self.held + size > self.most or any(self._parts[part] + size > self.most // 2 for part in parts):
            return False
        self.held += size
        self._parts.update(dict.fromkeys(parts, size))
        return True

    def give(self, size: int, parts: tuple[tuple[str, str], ...]) -> None:
        """Release counted bytes."""
        self.held -= size
        self._parts.subtract(dict.fromkeys(parts, size))
        for part in parts:
            if not self._parts[part]:
                del self._parts[part]


class HeldMemory:
    """The memory that one call holds until it is answered."""

    __slots__ = ("_results", "_taken")

    def __init__(self, results: ResultMemory) -> None:
        self._results: ResultMemory | None = results
        self._taken: list[tuple[int, tuple[tuple[str, str], ...]]] = []

    def take(self, size: int, agent: str | None, server: str) -> bool:
        """Count so many bytes more; nothing is counted for a call that was answered already."""
        if self._results is None:
            return True
        parts = (("agent", agent or ""), ("server", server))
        if not self._results.take(size, parts):
            return False
        self._taken.append((size, parts))
        return True

    def end(self) -> None:
        """Release the bytes of the call after its answer."""
        results, self._results = self._results, None
        if results is not None and self._taken:
            for size, parts in self._taken:
                results.give(size, parts)
            self._taken.clear()


class MemoryTotal:
    """The bytes that have come for one task, small results apart."""

    __slots__ = ("size",)

    def __init__(self) -> None:
        self.size = 0


_summed: Final[ContextVar[MemoryTotal | None]] = ContextVar("summed", default=None)


@contextmanager
def summed() -> Iterator[MemoryTotal]:
    """Sum up the bytes received by this task, which is no call."""
    total = MemoryTotal()
    token = _summed.set(total)
    try:
        yield total
    finally:
        _summed.reset(token)


def hold(size: int) -> None:
    """Count bytes received for the call of the current task.

    Raises:
        ResultsFull: there is no room for so many bytes.
    """
    if size <= SMALL:
        return
    total = _summed.get()
    if total is not None:
        total.size += size
    call = current_call.get()
    if call is None or call.holding is None:
        return
    server = call.server or ""
    if not call.holding.take(size, call.agent, server):
        raise ResultsFull(server)
