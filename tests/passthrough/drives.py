"""Where a feature is driven: a host at a door and a server behind a transport; and what the drives are known by."""

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
    """One cell of the table, set up. `key` is a name nobody else uses."""

    host: ScriptedHost
    upstream: str
    cell: Cell
    key: str

    @property
    def by(self) -> str:
        """Between a server's name and its own, as the door lists them."""
        return "__" if self.cell.frontend == "stdio" else "."

    def call(self, name: str, /, **arguments: Any) -> Call:
        """A tool of the server."""
        return self.host.call(f"{self.upstream}.{name}", arguments)

    async def did(self, name: str, /, **arguments: Any) -> Json:
        """The result of one."""
        return await self.call(name, **arguments).result()


Drive = Callable[[FeatureCase], Awaitable[None]]
DriveAll = Callable[[Sequence[FeatureCase]], Awaitable[None]]
# What shows that a feature passes, by name, and what shows what happens where it cannot.
DRIVES: Final[dict[str, DriveAll]] = {}
INSTEAD: Final[dict[str, DriveAll]] = {}
# Features that need a host which can be asked.
NEED_ANSWERS: Final[set[str]] = set()


def drive_all(work: DriveAll) -> DriveAll:
    """It shows that the feature of its name passes, in these cells of one host at once."""
    DRIVES[work.__name__] = work
    return work


def drive(work: Drive) -> Drive:
    """The same, in each cell for itself, all at the same time."""
    DRIVES[work.__name__] = _in_each(work, lambda host: True)
    return work


def drive_in_turn(work: Drive) -> Drive:
    """The same, in one cell after the other: what the host hears says not whose it is."""
    DRIVES[work.__name__] = _in_each(work, lambda host: False)
    return work


def drive_with_answers(work: Drive) -> Drive:
    """The same, for a host that can be asked everything; one of 2026-07-28 is asked in its results."""
    NEED_ANSWERS.add(work.__name__)
    DRIVES[work.__name__] = _in_each(work, lambda host: host.modern)
    return work


def instead(feature: str) -> Callable[[Drive], Drive]:
    """It shows what happens where that feature cannot pass."""

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
    """Hosts that stay for many tests of one loop: one at each door, in each revision, for each that it can be asked."""

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
        """They all leave."""
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
