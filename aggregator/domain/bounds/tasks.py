"""Groups of tasks: when a group is left, every task in it has ended. Every task of the program is in a group."""

import asyncio
import logging
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self

log = logging.getLogger(__name__)


class Tasks:
    """The tasks of one owner: a failure is logged and harms no other task, and leaving cancels the rest.

    In `asyncio.TaskGroup` one failure ends all, and leaving waits.
    """

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._tasks: set[asyncio.Task[Any]] = set()

    def __repr__(self) -> str:
        return f"<Tasks of {self._owner}, {len(self._tasks)} running>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.cancel()

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run `work` until it ends or the home closes."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def wait_ended(self) -> None:
        """Wait until every task, those started meanwhile too, has ended by itself."""
        while self._tasks:
            ended, _ = await asyncio.wait(list(self._tasks))
            self._tasks.difference_update(ended)

    async def cancel(self) -> None:
        """Cancel everything and wait until it has ended."""
        while self._tasks:
            tasks = list(self._tasks)
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            # Here, not only in a callback: waiting for an ended task need not give callbacks a turn.
            self._tasks.difference_update(tasks)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a task of %s failed", self._owner, exc_info=error)
