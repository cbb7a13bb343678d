"""Drives: checks of one feature, each with a host on a frontend and a server on a transport, by name."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tests.end_to_end.scripted_host import Call, ScriptedHost
from tests.end_to_end.server_harness import ServerHarness
from tests.passthrough.table import Cell
from tests.peers.toolbox import Json
from tests.server_requests.entries import ABLE


@dataclass(frozen=True)
class FeatureCase:
    """One cell of the table with its host and upstream. `key` is a name that no other case uses."""

    host: ScriptedHost
    upstream: str
    cell: Cell
    key: str

    @property
    def by(self) -> str:
        """The separator of exposed names on this frontend."""
        return "__" if self.cell.frontend == "stdio" else "."

    def call(self, name: str, /, **arguments: Any) -> Call:
        """Call a tool of the server."""
        return self.host.call(f"{self.upstream}.{name}", arguments)

    async def did(self, name: str, /, **arguments: Any) -> Json:
        """Call a tool of the server and return its result."""
        return await self.call(name, **arguments).result()


Drive = Callable[[FeatureCase], Awaitable[None]]
DriveAll = Callable[[Sequence[FeatureCase]], Awaitable[None]]
# Drives by the name of the feature that passes, and by the name of a feature that cannot pass.
DRIVES: Final[dict[str, DriveAll]] = {}
INSTEAD: Final[dict[str, DriveAll]] = {}
# Features whose drive looks at all servers together.
OF_ALL: Final[set[str]] = set()
# Features that need a host which can be asked.
NEED_ANSWERS: Final[set[str]] = set()


def drive_all(work: DriveAll) -> DriveAll:
    """Register a drive of all cells of one host: it shows that the feature of its name passes."""
    OF_ALL.add(work.__name__)
    DRIVES[work.__name__] = work
    return work


def drive(work: Drive) -> Drive:
    """Register a drive that runs in each cell, all cells at the same time."""
    DRIVES[work.__name__] = _in_each(work, lambda host: True)
    return work


def drive_in_turn(work: Drive) -> Drive:
    """Register a drive that runs in one cell after the other, as the host cannot attribute the notifications."""
    DRIVES[work.__name__] = _in_each(work, lambda host: False)
    return work


def drive_with_answers(work: Drive) -> Drive:
    """Register a drive for a host with every capability; in 2026-07-28 it is asked by `input_required` results."""
    NEED_ANSWERS.add(work.__name__)
    DRIVES[work.__name__] = _in_each(work, lambda host: host.modern)
    return work


def instead(feature: str) -> Callable[[Drive], Drive]:
    """Register a drive that shows the behaviour where the feature cannot pass."""

    def kept(work: Drive) -> Drive:
        INSTEAD[feature] = _in_each(work, lambda host: True)
        return work

    return kept


def _in_each(work: Drive, at_once: Callable[[ScriptedHost], bool]) -> DriveAll:
    async def attempt(case: FeatureCase) -> Exception | None:
        try:
            await work(case)
        except Exception as error:
            error.add_note(f"{work.__name__}: {case.cell}")
            return error
        return None

    async def all_of_them(cells: Sequence[FeatureCase]) -> None:
        if at_once(cells[0].host):
            ended = await asyncio.gather(*map(attempt, cells))
        else:
            ended = [await attempt(case) for case in cells]
        if failed := [error for error in ended if error is not None]:
            raise ExceptionGroup(f"{work.__name__} does not hold everywhere", failed)

    return all_of_them


class HostPool:
    """Hosts that many tests share: one for each frontend, revision and set of capabilities."""

    def __init__(self, harness: ServerHarness) -> None:
        self._harness = harness
        self._open: dict[tuple[str, str, bool], ScriptedHost] = {}
        self._staying: list[asyncio.Task[None]] = []
        self._leave = asyncio.Event()

    async def host(self, frontend: str, version: str, *, able: bool) -> ScriptedHost:
        """The host there."""
        key = frontend, version, able
        if key not in self._open:
            entered: asyncio.Future[ScriptedHost] = asyncio.get_running_loop().create_future()
            self._staying.append(asyncio.create_task(self._stay(key, entered)))
            self._open[key] = await entered
        return self._open[key]

    async def close(self) -> None:
        """Disconnect all hosts."""
        self._leave.set()
        await asyncio.gather(*self._staying)

    async def _stay(self, key: tuple[str, str, bool], entered: "asyncio.Future[ScriptedHost]") -> None:
        frontend, version, able = key
        try:
            async with self._harness.host(frontend, version, capabilities=ABLE if able else {}) as host:
                entered.set_result(host)
                await self._leave.wait()
        except BaseException as error:
            if entered.done():
                raise
            entered.set_exception(error)
