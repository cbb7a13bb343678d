"""Time limits on what many tasks wait for, with one timer of the event loop for all of them.

`asyncio.timeout` costs each call a timer, which the loop has to make and cancel; nearly all calls end long before it.
"""

import asyncio
from contextvars import Context
from math import inf
from types import TracebackType
from typing import Final, Self

# Timers of some event loops fire so many seconds early.
_EARLY: Final = 0.001


class TimeLimits:
    """The limits that run now, all in one event loop."""

    def __init__(self) -> None:
        self._running: set[TimeLimit] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._due = inf

    def __len__(self) -> int:
        return len(self._running)

    def limit(self, seconds: float) -> "TimeLimit":
        """Return a context manager that does what `asyncio.timeout` does; it can be entered once."""
        return TimeLimit(self, seconds)

    def _watch(self, loop: asyncio.AbstractEventLoop, when: float) -> None:
        """Set the timer to fire at `when` at the latest."""
        if when < self._due:
            if self._timer is not None:
                self._timer.cancel()
            # The timer outlives the task that happens to start it, and must keep nothing of it.
            self._due, self._timer = when, loop.call_at(when, self._end_due, loop, context=Context())

    def _end_due(self, loop: asyncio.AbstractEventLoop) -> None:
        self._due, self._timer = inf, None
        now, following = loop.time() + _EARLY, inf
        for limit in list(self._running):
            if limit._when <= now:
                limit._end()
            else:
                following = min(following, limit._when)
        if following < inf:
            self._watch(loop, following)


class TimeLimit:
    """One limit: it cancels the task inside, and turns that into `TimeoutError`."""

    __slots__ = ("_before", "_limits", "_loop", "_over", "_task", "_when")

    def __init__(self, limits: TimeLimits, seconds: float) -> None:
        self._limits = limits
        self._when = seconds
        self._over = False

    def __enter__(self) -> Self:
        self._loop = loop = asyncio.get_running_loop()
        task = asyncio.current_task(loop)
        assert task is not None, "a time limit is entered in a task"
        self._task, self._before = task, task.cancelling()
        self._when = when = self._when + loop.time()
        limits = self._limits
        limits._running.add(self)
        if when < limits._due:
            limits._watch(loop, when)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._limits._running.discard(self)
        if self._over and self._task.uncancel() <= self._before and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def when(self) -> float | None:
        """Return the time of the event loop at which the limit ends; None while it is suspended."""
        return self._when if self._when < inf else None

    def reschedule(self, when: float | None) -> None:
        """Move the end of a limit that is not over; None suspends it."""
        self._when = inf if when is None else when
        self._limits._watch(self._loop, self._when)

    def _end(self) -> None:
        self._limits._running.discard(self)
        self._over = True
        self._task.cancel()
