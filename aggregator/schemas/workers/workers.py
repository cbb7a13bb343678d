"""The processes for long checks: few, shared fairly, killed when their time is over.

Checks wait in a queue: servers in turn, and the agents of each server in turn. Law: a check that was interrupted is
reported as such. A worker that crashed is replaced before the next check.
"""

import asyncio
import logging
from asyncio.subprocess import Process
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final, Literal, Protocol, Self
from weakref import WeakKeyDictionary

from aggregator.config.settings import ChecksConfig
from aggregator.schemas.fault import Fault, UnusableSchema
from aggregator.schemas.structure.measure import DEPTH_LIMIT
from aggregator.system.own_module import start_module
from aggregator.wire.codec import decode, encode
from aggregator.wire.pieces import encode_in_pieces

log = logging.getLogger(__name__)

# Processes that check at once. Checks of one server, or for one agent, have all but one of them at most.
WORKERS: Final = 2
_MODULE: Final = "aggregator.schemas.workers.worker"
_HEADER: Final = 8
# A new process loads the engine first.
_START: Final = 30.0
# A worker idle for so long ends.
_IDLE: Final = 300.0

Why = Literal["time", "busy", "failed"]

# How many checks may wait: of one server, of one agent, and in all.
OF_ONE: Final = 64

IN_ALL: Final = 1_024


class WorkerQueueFull(Exception):
    """The queue is full."""


@dataclass(eq=False, slots=True)
class QueuedCheck:
    """One check in the queue: the server of the schema, and the agent of the call."""

    server: str
    agent: str
    number: int = field(default=0)


class CheckQueue:
    """A fair queue. `places` checks may run at once, and of one server or one agent at most all but one of them."""

    def __init__(self, places: int) -> None:
        self._places = places
        self._share = max(1, places - 1)
        self._waiting: list[QueuedCheck] = []
        self._running: set[QueuedCheck] = set()
        self._served: dict[tuple[str, str], int] = {}
        self._count = 0

    def __repr__(self) -> str:
        return f"<Turns: {len(self._running)} of {self._places} taken, {len(self._waiting)} waiting>"

    def enqueue(self, server: str, agent: str) -> QueuedCheck:
        """Put one more check into the queue.

        Raises:
            WorkerQueueFull: the queue is full.
        """
        same_server = sum(turn.server == server for turn in self._waiting)
        same_agent = sum(turn.agent == agent for turn in self._waiting)
        if len(self._waiting) >= IN_ALL or same_server >= OF_ONE or same_agent >= OF_ONE:
            raise WorkerQueueFull
        self._count += 1
        turn = QueuedCheck(server, agent, self._count)
        self._waiting.append(turn)
        return turn

    def admit(self) -> list[QueuedCheck]:
        """Return the checks that may run now and could not before."""
        admitted: list[QueuedCheck] = []
        while len(self._running) < self._places:
            servers = Counter(turn.server for turn in self._running)
            agents = Counter(turn.agent for turn in self._running)
            able = [
                turn
                for turn in self._waiting
                if servers[turn.server] < self._share and agents[turn.agent] < self._share
            ]
            if not able:
                break
            turn = min(able, key=self._rank)
            self._waiting.remove(turn)
            self._running.add(turn)
            self._count += 1
            self._served["server", turn.server] = self._served["server " + turn.server, turn.agent] = self._count
            admitted.append(turn)
        return admitted

    def leave(self, turn: QueuedCheck) -> None:
        """Take out a check that is over, or is not wanted any more."""
        self._running.discard(turn)
        if turn in self._waiting:
            self._waiting.remove(turn)
        if not self._waiting:
            self._served.clear()

    def _rank(self, turn: QueuedCheck) -> tuple[int, int, int]:
        """Return the sort key by which the one served longest ago comes first."""
        of_server = self._served.get(("server", turn.server), 0)
        return of_server, self._served.get(("server " + turn.server, turn.agent), 0), turn.number


class CheckInterrupted(Exception):
    """A check was not made to its end: it took too long, too many waited, or no process could make it.

    `why` is one of `time`, `busy` and `failed`.
    """

    def __init__(self, why: Why, message: str) -> None:
        super().__init__(message)
        self.why = why


class SchemaSet(Protocol):
    """An object that holds the schemas of one check. The worker processes know the check by this object."""

    @property
    def schemas(self) -> tuple[Mapping[str, Any] | bool, ...]: ...


class CheckWorkers:
    """The worker processes, started when first needed. `close` ends them; a worker whose parent is gone ends by itself.

    `started` counts the processes started so far.
    """

    def __init__(self, config: ChecksConfig | None = None) -> None:
        config = config or ChecksConfig()
        self._limit = config.timeout
        self._turns = CheckQueue(WORKERS)
        self._admitted: dict[QueuedCheck, asyncio.Future[None]] = {}
        self._idle: list[_Worker] = []
        self._all: set[_Worker] = set()
        self._closed = False
        self._keys: WeakKeyDictionary[SchemaSet, int] = WeakKeyDictionary()
        self._numbers = count()
        self.started = 0

    def __repr__(self) -> str:
        return f"<Workers: {len(self._all)} running, {self.started} started, {self._turns}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def reconfigure(self, config: ChecksConfig) -> None:
        """Take other settings; checks that are running keep theirs."""
        self._limit = config.timeout

    async def faults(self, check: SchemaSet, value: Any, server: str, agent: str) -> tuple[Fault, ...]:
        """Return the faults of the value, as `SchemaCheck.faults` does. `server` has the schema, `agent` calls.

        Raises:
            CheckInterrupted: the check did not finish.
            UnusableSchema: the schema cannot be compiled.
        """
        try:
            turn = self._turns.enqueue(server, agent)
        except WorkerQueueFull:
            raise CheckInterrupted("busy", "too many checks wait for a process of their own") from None
        admitted = self._admitted[turn] = asyncio.get_running_loop().create_future()
        try:
            self._admit()
            await admitted
            return await self._run(check, value)
        finally:
            del self._admitted[turn]
            self._turns.leave(turn)
            self._admit()

    async def close(self) -> None:
        """End every worker. Checks that are running are cut short."""
        self._closed = True
        for worker in list(self._all):
            await self._end(worker)

    def _admit(self) -> None:
        for turn in self._turns.admit():
            if not self._admitted[turn].done():
                self._admitted[turn].set_result(None)

    async def _run(self, check: SchemaSet, value: Any) -> tuple[Fault, ...]:
        try:
            data = await asyncio.to_thread(encode_in_pieces, value)
        except (ValueError, TypeError, RecursionError):
            return (Fault("", f"at most {DEPTH_LIMIT} levels of nesting", "more", "size"),)
        while self._idle and not self._idle[-1].alive:
            await self._end(self._idle[-1])
        worker = self._idle.pop() if self._idle else await self._start()
        worker.set_busy()
        try:
            async with asyncio.timeout(self._limit):
                answer = await worker.run(self._key(check), check, data, self._limit)
        except TimeoutError:
            log.warning("a check took more than %g s and was cut short", self._limit)
            raise CheckInterrupted("time", f"checking took more than {self._limit:g} s") from None
        except UnusableSchema:
            raise
        except (OSError, EOFError, ValueError) as error:
            log.warning("a process that checks ended in the middle: %r", error)
            raise CheckInterrupted("failed", "the process that made the check ended") from None
        else:
            self._idle.append(worker)
            worker.set_idle(lambda: self._retire(worker))
        finally:
            if worker not in self._idle:
                await self._end(worker)
        if "unusable" in answer:
            raise UnusableSchema(answer["unusable"])
        return tuple(Fault(*message) for message in answer["faults"])

    async def _start(self) -> "_Worker":
        if self._closed:
            raise CheckInterrupted("failed", "the aggregator is shutting down")
        try:
            worker = await _started()
        except (OSError, EOFError, ValueError, TimeoutError) as error:
            log.error("no process can be started to make checks in: %r", error)
            raise CheckInterrupted("failed", "no process could be started to check it in") from None
        self.started += 1
        self._all.add(worker)
        return worker

    def _key(self, check: SchemaSet) -> int:
        """Return the key of a check, which no other check ever has."""
        if check not in self._keys:
            self._keys[check] = next(self._numbers)
        return self._keys[check]

    def _retire(self, worker: "_Worker") -> None:
        """Let an idle worker end, by the end of its stdin."""
        if worker in self._idle:
            self._idle.remove(worker)
            self._all.discard(worker)
            worker.release()

    async def _end(self, worker: "_Worker") -> None:
        self._all.discard(worker)
        if worker in self._idle:
            self._idle.remove(worker)
        await worker.kill()


class _Worker:
    """One process, and the pipes to it."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process, self._orders, self._answers = process, process.stdin, process.stdout
        self._retirement: asyncio.TimerHandle | None = None

    async def run(self, key: int, check: SchemaSet, data: bytes, seconds: float) -> Any:
        """Send one job and return the answer; `key` is the key of the check. Cancelled meanwhile, the worker cannot be
        used again.
        """
        await self._send(encode([key, seconds]), data)
        answer = await self.answer()
        if answer == "unknown":
            try:
                schemas = await asyncio.to_thread(encode_in_pieces, check.schemas)
            except (ValueError, TypeError, RecursionError):
                raise UnusableSchema("it is nested too deeply") from None
            await self._send(schemas)
            answer = await self.answer()
        return answer

    @property
    def alive(self) -> bool:
        """True while the process has not ended."""
        return self._process.returncode is None

    async def answer(self) -> Any:
        """Return the next frame from the process."""
        size = int.from_bytes(await self._answers.readexactly(_HEADER))
        return decode(await self._answers.readexactly(size))

    async def _send(self, *frames: bytes) -> None:
        for frame in frames:
            self._orders.write(len(frame).to_bytes(_HEADER))
            self._orders.write(frame)
        await self._orders.drain()

    def set_busy(self) -> None:
        """Note that the worker is used: it is not retired."""
        if self._retirement is not None:
            self._retirement.cancel()
            self._retirement = None

    def set_idle(self, enough: Callable[[], None]) -> None:
        """Note that the worker is idle; `enough` is called if it stays so."""
        self._retirement = asyncio.get_running_loop().call_later(_IDLE, enough)

    def release(self) -> None:
        """Close the pipe to the process, so that it ends by itself."""
        self.set_busy()
        self._orders.close()

    async def kill(self) -> None:
        """End the process now."""
        self.release()
        with suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()


async def _started() -> _Worker:
    """Start a process and wait until it is ready.

    Raises:
        OSError, EOFError, ValueError, TimeoutError: it does not start.
    """
    worker = _Worker(await start_module(_MODULE))
    try:
        async with asyncio.timeout(_START):
            await worker.answer()
    except BaseException:
        await worker.kill()
        raise
    return worker
