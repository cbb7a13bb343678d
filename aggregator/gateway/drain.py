"""The drain before the process ends: running requests are answered, new ones are refused with the time to try again.

Rule 1: a request is refused before anything of it is sent, or it runs; a call is recorded in either case.
Rule 2: what still runs when its time is up is ended by itself, with words for the host that waits for it. No
work ends because something that it uses has ended.
"""

import asyncio
import math
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from aggregator.domain.errors import ShuttingDown

# The longest `Retry-After` that a host is sent, in seconds.
_LONGEST: Final = 30
# The function that makes the error for work ended at the end of the grace period.
MakeEndError = Callable[[], Exception]


class EndableWork:
    """One piece of work in the task that enters it: a context manager.

    If the drain ends it, the block ends with the error that `words` return. Of work inside work in one task, only the
    innermost is ended: it knows best what to say.
    """

    __slots__ = ("_cancelling", "_counted", "_drain", "_outer", "_task", "_words", "ended")

    def __init__(self, drain: "Drain", words: MakeEndError, *, counted: bool) -> None:
        self._drain = drain
        self._words = words
        self._counted = counted
        self._task: asyncio.Task[object] | None = None
        self._outer: EndableWork | None = None
        self._cancelling = 0
        self.ended = False

    def __enter__(self) -> Self:
        task = self._task = asyncio.current_task()
        assert task is not None, "work runs in a task"
        self._cancelling = task.cancelling()
        self._outer = self._drain.entered(task, self)
        if self._counted:
            self._drain.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Raise the words, if it is ended.

        Raises:
            Exception: what `words` returned.
        """
        task, words = self._task, self._words
        assert task is not None, "work is entered before it is left"
        self._drain.left(task, self._outer)
        if self._counted:
            self._drain.end()
        # They lead back to the owner of this work, which would wait for a garbage collection.
        del self._words
        # A task that is cancelled for another reason, too, keeps that reason.
        if self.ended and task.uncancel() <= self._cancelling and isinstance(error, asyncio.CancelledError):
            raise words() from None

    def end(self) -> None:
        """End it, if it runs and nothing else ends it. To be called from outside of its task; may be called twice."""
        task = self._task
        if task is None or self.ended or not self._drain.runs(task, self) or task.cancelling() > self._cancelling:
            return
        self.ended = True
        task.cancel()


class Drain:
    """The count of running requests, and the work of tasks (`work`).

    `leaving`: the process is about to end and still serves everything. `started`: new requests are refused. `over`: the
    grace period of running requests is over.
    """

    def __init__(self) -> None:
        self.started = False
        self.leaving = False
        self.over = False
        # The innermost work of each task.
        self._works: dict[asyncio.Task[object], EndableWork] = {}
        self._running = 0
        self._until = 0.0
        self._quiet = asyncio.Event()

    def __repr__(self) -> str:
        return f"<Drain {'started' if self.started else 'not started'}, {self._running} under way>"

    def __len__(self) -> int:
        return self._running

    def work(self, words: MakeEndError | None = None, *, counted: bool = True) -> EndableWork:
        """Return a context for work of the current task, which is ended after the grace period.

        words: the error of ended work; by default that nothing was done. counted: the drain waits for it, and not for a
        larger piece of work that contains it.
        """
        return EndableWork(self, words or self.unfinished, counted=counted)

    def entered(self, task: "asyncio.Task[object]", work: EndableWork) -> EndableWork | None:
        """Record the work of a task; return the enclosing work, if any."""
        outer = self._works.get(task)
        self._works[task] = work
        if self.over:
            asyncio.get_running_loop().call_soon(work.end)
        return outer

    def left(self, task: "asyncio.Task[object]", outer: EndableWork | None) -> None:
        """Note that a task goes on with `outer`, or with nothing."""
        if outer is None:
            del self._works[task]
        else:
            self._works[task] = outer
            if self.over:
                asyncio.get_running_loop().call_soon(outer.end)

    def runs(self, task: "asyncio.Task[object]", work: EndableWork) -> bool:
        """Tell whether this is the task's current work, and no part of it."""
        return self._works.get(task) is work

    def end_all(self) -> None:
        """End all running work, and later work as soon as it waits."""
        self.over = True
        for work in list(self._works.values()):
            work.end()

    def begin(self) -> None:
        """Count one running request more."""
        self._running += 1

    def end(self) -> None:
        """Count one running request less."""
        self._running -= 1
        if self.started and not self._running:
            self._quiet.set()

    def start(self, limit: float) -> None:
        """Refuse new requests from now on; the process ends within about `limit` seconds."""
        if not self.started:
            self.started, self._until = True, asyncio.get_running_loop().time() + limit

    @property
    def retry_after(self) -> int:
        """Seconds after which a restarted process may answer: usually long before the last call has to end."""
        left = self._until - asyncio.get_running_loop().time()
        return min(max(1, math.ceil(left)), _LONGEST)

    def refusal(self) -> ShuttingDown:
        """Return the error that new requests are answered with."""
        return ShuttingDown(self.retry_after)

    def unfinished(self) -> ShuttingDown:
        """Return the error for a request that waited and was not begun."""
        return ShuttingDown(self.retry_after, waited=True)

    async def wait_idle(self, limit: float) -> bool:
        """Wait at most `limit` seconds for the running requests to end; return whether all did."""
        try:
            async with asyncio.timeout(limit):
                while self._running:
                    self._quiet.clear()
                    await self._quiet.wait()
        except TimeoutError:
            return False
        return True
