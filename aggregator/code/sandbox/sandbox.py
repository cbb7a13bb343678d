"""The sandbox: the processes of all programs, and how many may run at the same time.

The modules that read and run programs are imported with the first program: most configurations run none.
"""

import asyncio
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from aggregator.code.sandbox.bounds import ProgramFunctions, ProgramLimits, TooManyPrograms, check_installed

if TYPE_CHECKING:
    from pydantic_monty import AsyncMonty

    from aggregator.code.sandbox.outcome import Outcome
    from aggregator.code.sandbox.reading import ProgramReader

# Programs that run at the same time, all together and of one agent.
AT_MOST: Final = 16
OF_ONE_AGENT: Final = 4


class Sandbox:
    """All programs that run: an async context manager, in which the processes begin with the first program."""

    def __init__(self) -> None:
        self._pool: AsyncMonty | None = None
        self._reader: ProgramReader | None = None
        self._opening = asyncio.Lock()
        self._running: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"<Sandbox, {sum(self._running.values())} programs>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            await self._pool.__aexit__(None, None, None)
            self._pool = None

    async def run(self, code: str, functions: ProgramFunctions, limits: ProgramLimits, agent: str) -> "Outcome":
        """Run a program of an agent to its end. Cancelling ends its process and its calls.

        Raises:
            TooManyPrograms: no further program may run now.
            OperatorError: the package that runs programs is not installed.
        """
        if self._running.get(agent, 0) >= OF_ONE_AGENT:
            raise TooManyPrograms(f"{OF_ONE_AGENT} programs of this agent run already")
        if sum(self._running.values()) >= AT_MOST:
            raise TooManyPrograms(f"{AT_MOST} programs run already")
        self._running[agent] = self._running.get(agent, 0) + 1
        try:
            pool, reader = await self._opened()
            from aggregator.code.sandbox.code_run import CodeRun

            return await CodeRun(pool, functions, limits, reader).run(code)
        finally:
            self._running[agent] -= 1
            if not self._running[agent]:
                del self._running[agent]

    async def _opened(self) -> "tuple[AsyncMonty, ProgramReader]":
        async with self._opening:
            if self._pool is None or self._reader is None:
                await asyncio.to_thread(_load)
                from aggregator.code.sandbox.code_run import open_pool
                from aggregator.code.sandbox.reading import ProgramReader

                self._reader = ProgramReader()
                self._pool = await open_pool(AT_MOST)
            return self._pool, self._reader


def _load() -> None:
    """Import the interpreter, which takes too long for the event loop."""
    check_installed()
    import_module("aggregator.code.sandbox.code_run")
