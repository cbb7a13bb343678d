"""One program from its first line to its outcome, in the interpreter of `pydantic-monty`."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final

from pydantic_monty import (
    AsyncFunctionSnapshot,
    AsyncFutureSnapshot,
    AsyncMonty,
    AsyncSnapshot,
    MontyComplete,
    MontyCrashedError,
    MontyError,
    MontyRuntimeError,
    MontySyntaxError,
)

from aggregator.code.sandbox.bounds import CallFailed, ProgramFunctions, ProgramLimits
from aggregator.code.sandbox.forms import Lines
from aggregator.code.sandbox.outcome import Outcome, failure_text, raised_text, refused_text, value_text
from aggregator.code.sandbox.prelude import CALLS_LEFT, LATER, NOW, BadCall, read_call
from aggregator.code.sandbox.process_bounds import bound_process
from aggregator.code.sandbox.reading import ProgramReader
from aggregator.code.sandbox.refusal import Refusal
from aggregator.code.sandbox.remedies import with_remedy
from aggregator.code.sandbox.zones import ZONE, zone_table
from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.text.error_text import error_text

log = logging.getLogger(__name__)

# Calls of one program that run at the same time.
_CALLS_AT_ONCE: Final = 10
# Characters that a program may print.
MOST_PRINTED: Final = 1_000_000
# Lookups of unknown names, imports and the like, which interrupt a program for a moment each.
_INTERRUPTIONS: Final = 1_000
_DEEPEST: Final = 500
_LONGEST_SLEEP: Final = 10.0
# The name that the interpreter has for the program; the prelude comes first.
_PROGRAM: Final = "<python-input-1>"
# `sys.exit()` and `sys.exit(0)` (`methods`).
_ENDED_WELL: Final = ("SystemExit: 0", "SystemExit: False")
# The value of a call, or of a function of the program, that nothing awaited.
_UNAWAITED: Final = "<coroutine object "


async def open_pool(most: int) -> AsyncMonty:
    """Return the processes of programs, none of which runs yet; each program gets one that no other has used."""
    return await AsyncMonty(min_processes=0, max_processes=most, max_checkouts_per_worker=1).__aenter__()


class CodeRun:
    """One program from its first line to its outcome."""

    def __init__(
        self, pool: AsyncMonty, functions: ProgramFunctions, limits: ProgramLimits, reader: ProgramReader
    ) -> None:
        self._pool = pool
        self._reader = reader
        self._functions = functions
        self._limits = limits
        self._tasks = Tasks("the calls of a program")
        self._turns = asyncio.Semaphore(_CALLS_AT_ONCE)
        self._waiting: dict[int, asyncio.Task[dict[str, Any]]] = {}
        self._calls = 0
        self._printed: list[str] = []
        self._characters = 0
        self._overrun = asyncio.Event()

    async def run(self, code: str) -> Outcome:
        """Run the program and return its outcome."""
        async with Tasks("a program") as tasks, self._tasks:
            work, overrun = tasks.start(self._whole(code)), tasks.start(self._overrun.wait())
            await asyncio.wait((work, overrun), return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                outcome: Outcome = work.result()
                return outcome
        return self._failed(f"MemoryError: the program printed more than {MOST_PRINTED:,} characters, and was ended")

    async def _whole(self, code: str) -> Outcome:
        limits, loop = self._limits, asyncio.get_running_loop()

        def on_print(stream: str, text: str) -> None:
            loop.call_soon_threadsafe(self._print, text)

        session = self._pool.checkout(
            limits={
                "max_feed_duration_secs": limits.seconds,
                "max_memory": limits.memory,
                "max_recursion_depth": _DEEPEST,
                "max_suspensions": _INTERRUPTIONS + 3 * limits.calls,
                "max_total_sleep_secs": limits.seconds,
            }
        )
        names = dict.fromkeys((NOW, LATER, ZONE), _outside)
        try:
            program = await self._reader.read(code)
        except Refusal as refusal:
            return self._failed(refused_text(refusal, code))
        try:
            async with session:
                if session.worker_pid is not None:
                    bound_process(session.worker_pid, limits)
                await session.feed_run(program.prelude, external_lookup=names)
                snapshot = await session.feed_start(program.code, external_lookup=names, print_callback=on_print)
                value = await self._to_the_end(snapshot)
                left = await session.feed_run(CALLS_LEFT, print_callback=on_print) if program.awaited else 0
        except MontyError as error:
            # What was printed before has been handed to the loop, in order.
            await asyncio.sleep(0)
            if isinstance(error, MontyRuntimeError) and error.display(format="type-msg") in _ENDED_WELL:
                return Outcome("".join(self._printed), calls=self._calls)
            return self._failed(_failure(error, program.lines))
        await asyncio.sleep(0)
        if left or (isinstance(value, str) and value.startswith(_UNAWAITED)):
            return self._failed(f"RuntimeError: {_never_made(left)}")
        text = await asyncio.to_thread(value_text, value)
        return Outcome("".join(self._printed), text, calls=self._calls)

    async def _to_the_end(self, snapshot: AsyncSnapshot) -> Any:
        """Answer everything that the program asks for. Return the value of its last expression."""
        while not isinstance(snapshot, MontyComplete):
            if isinstance(snapshot, AsyncFunctionSnapshot):
                if snapshot.function_name == NOW and not snapshot.is_os_function:
                    snapshot = await snapshot.resume(await self._call(snapshot.args))
                elif snapshot.function_name == ZONE and not snapshot.is_os_function:
                    snapshot = await snapshot.resume(await asyncio.to_thread(_zone, snapshot.args))
                elif snapshot.function_name == LATER and not snapshot.is_os_function:
                    self._waiting[snapshot.call_id] = self._tasks.start(self._call(snapshot.args))
                    snapshot = await snapshot.resume({"future": ...})
                elif snapshot.function_name == "system.sleep":
                    snapshot = await snapshot.resume(await self._sleep(snapshot.args))
                elif snapshot.function_name == "system.async_sleep":
                    self._waiting[snapshot.call_id] = self._tasks.start(self._sleep(snapshot.args))
                    snapshot = await snapshot.resume({"future": ...})
                else:
                    # Imports and system calls of the program: the sandbox has no files and no environment.
                    snapshot = await snapshot.resume_auto()
            elif isinstance(snapshot, AsyncFutureSnapshot):
                waited = {self._waiting[call] for call in snapshot.pending_call_ids}
                await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
                ended = {call: self._waiting[call] for call in snapshot.pending_call_ids if self._waiting[call].done()}
                for call in ended:
                    del self._waiting[call]
                snapshot = await snapshot.resume({call: task.result() for call, task in ended.items()})  # type: ignore[misc]
            else:
                snapshot = await snapshot.resume_auto()
        return snapshot.output

    async def _call(self, given: tuple[Any, ...]) -> Any:
        """Return the answer to one call, as the interpreter takes it."""
        self._calls += 1
        if self._calls > self._limits.calls:
            return _raised(f"a program may make {self._limits.calls} calls, and this one would be one more")
        try:
            call = await asyncio.to_thread(read_call, given)
            async with self._turns:
                text = await self._functions(call)
        except (CallFailed, BadCall) as error:
            return _raised(str(error))
        if len(text) > self._limits.memory // 4:
            return _raised(f"the result has {len(text):,} characters, more than a program here has memory for")
        return {"return_value": text}

    async def _sleep(self, given: tuple[Any, ...]) -> Any:
        """Sleep for the program; the pool adds up the time, and ends the program if it is too long."""
        seconds = given[0] if given and isinstance(given[0], int | float) else 0.0
        await asyncio.sleep(min(max(float(seconds), 0.0), _LONGEST_SLEEP))
        return {"return_value": None}

    def _print(self, text: str) -> None:
        left = MOST_PRINTED - self._characters
        if left > 0:
            self._printed.append(text[:left])
        self._characters += len(text)
        if self._characters > MOST_PRINTED:
            self._overrun.set()

    def _failed(self, why: str) -> Outcome:
        return Outcome("".join(self._printed), failure=why, calls=self._calls)


def _outside(text: str) -> str:
    """Stand in for an external function; the calls are answered one by one, never by this."""
    raise NotImplementedError


def _zone(given: tuple[Any, ...]) -> Any:
    """Return the table of a time zone, as the interpreter takes it; None if there is no such zone."""
    try:
        return {"return_value": zone_table(str(given[0])).decode()}
    except (KeyError, IndexError):
        return {"return_value": None}


def _never_made(left: Any) -> str:
    """Return what to tell of calls, or of a function of the program, that no `await` stands before."""
    if left in (0, None):
        return "the program ends with a function that was never run: write `await` before it"
    return f"calls of tools that were never made, as `await` is missing before them: {left!s:.20}"


def _raised(message: str) -> Mapping[str, Any]:
    return {"exc_type": "RuntimeError", "message": message}


def _failure(error: MontyError, lines: Lines) -> str:
    """Return why a program ended, as its author can use it."""
    if isinstance(error, MontyCrashedError):
        log.warning("the process of a program ended: %s", error)
        return "MemoryError: the process of the program ended: it used more memory or time than it may, or was killed"
    if not isinstance(error, MontyRuntimeError | MontySyntaxError):
        return error_text(error)
    said = with_remedy(raised_text(error.display(format="type-msg")))
    return failure_text(said, error.traceback(), _PROGRAM, lines)
