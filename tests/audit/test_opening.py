"""When the log opens the database: not while the program starts, unless there is a call to write."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from aggregator.audit import writer
from aggregator.audit.spill import Spill, waiting_beside
from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.call_record import AuditEvent
from aggregator.storage.audit.chain import ChainBatch
from aggregator.storage.audit.log import AuditRows
from aggregator.storage.opening import Database
from tests.audit.logs import make_call, make_log, numbers, rows, verdict_on
from tests.polling import until

_EVENTS = "SELECT summary FROM audit_events ORDER BY seq"


class _Start:
    """A program that starts: `over` ends the start, `opened` counts how often the database was opened."""

    def __init__(self, database: Database, *, strict: bool = False) -> None:
        self.over = asyncio.Event()
        self.opened = 0
        self.log = make_log(database, strict=strict)
        self.log._writer._open_rows = self._open
        self._rows = database.audit

    async def quiet(self) -> None:
        await self.over.wait()

    async def _open(self) -> AuditRows:
        self.opened += 1
        return self._rows


async def _calls(start: _Start) -> None:
    start.log.record(make_call(1))


async def _is_over(start: _Start) -> None:
    start.over.set()


@pytest.mark.parametrize("ends", [_calls, _is_over])
async def test_events_of_the_start_wait_for_a_call_or_its_end(
    database: Database, path: Path, ends: Callable[[_Start], Awaitable[None]]
) -> None:
    """Proves: D9. None of them is lost, and the call is written at once, however long the start takes."""
    start = _Start(database)
    async with Tasks("a test") as tasks:
        tasks.start(start.log.run(start.quiet))
        start.log.event(AuditEvent("upstream_state", 1.0, "crm is starting"))
        start.log.event(AuditEvent("upstream_state", 2.0, "crm is ready"))
        await until(lambda: len(start.log._writer) == 2)
        assert (start.opened, rows(path, _EVENTS)) == (0, [])
        await ends(start)
        await until(lambda: start.log.report()["waiting"] == 0)
        await tasks.cancel()
        await start.log.close()
    assert (start.opened, rows(path, _EVENTS)) == (1, ["crm is starting", "crm is ready"])
    assert len(rows(path)) == (ends is _calls)


async def test_a_program_that_ends_while_it_starts_writes_what_happened(database: Database, path: Path) -> None:
    """Proves: D9. The end does not wait for the start either."""
    start = _Start(database)
    async with Tasks("a test") as tasks:
        tasks.start(start.log.run(start.quiet))
        start.log.event(AuditEvent("login_refused", 1.0, "a key was wrong"))
        await until(lambda: len(start.log._writer) == 1)
        await tasks.cancel()
        await start.log.close()
    assert rows(path, _EVENTS) == ["a key was wrong"]


async def test_strict_calls_wait_for_no_start(database: Database) -> None:
    """Proves: D9. A call whose answer waits for its row gets it while the program still starts."""
    start = _Start(database, strict=True)
    async with Tasks("a test") as tasks, asyncio.timeout(5):
        tasks.start(start.log.run(start.quiet))
        call = make_call(1)
        await start.log.wait_for_space("crm.list_orders")
        start.log.record(call)
        await start.log.written(call)
        assert start.log.report()["written"] == 1
        await tasks.cancel()
        await start.log.close()


async def test_what_is_answered_before_the_database_is_open_is_in_a_file(
    database: Database, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D9: Where it is made first, that takes seconds; a process that is killed meanwhile has its rows beside it, also
    those after which nothing more came, and the next start adds them in their order."""
    monkeypatch.setattr(writer, "ASIDE_EVERY", writer.FIRST_ASIDE)
    start, made = _Start(database), asyncio.Event()

    async def slowly() -> AuditRows:
        await made.wait()
        return database.audit

    start.log._writer._open_rows = slowly
    async with Tasks("a test") as tasks:
        tasks.start(start.log.run())
        for number in range(1, 6):
            start.log.record(make_call(number))
            await until(lambda wanted=number: start.log.report()["put_aside"] == wanted)  # type: ignore[misc]
        spill = Spill(path, 2**20)
        # One file grows; for other processes it counts once this one has ended.
        assert spill.files() == []
        growing = path.parent.glob("*.growing")
        kept = [batch.entries for file in growing if (batch := spill.read(file)) is not None]
        assert [one.values["trace_id"] for entries in kept for one in entries] == [f"{n:032x}" for n in range(1, 6)]
        assert rows(path) == []
        made.set()
        start.log.record(make_call(6))
        await until(lambda: len(numbers(path)) == 6)
        await tasks.cancel()
        await start.log.close()
    assert numbers(path) == [1, 2, 3, 4, 5, 6]
    assert (waiting_beside(path), (await verdict_on(path)).faults) == ([], ())


@pytest.mark.parametrize("ends", ["while it is opened", "while the file is taken back"])
async def test_a_program_that_ends_before_the_database_is_open_leaves_no_file(
    database: Database, path: Path, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    """D9: A command such as `aggregator call` lives about as long as that takes; its row is in the log when it ends."""
    monkeypatch.setattr(writer, "FIRST_ASIDE", 0.0)
    start, made = _Start(database), asyncio.Event()
    reading, go_on = threading.Event(), threading.Event()
    read = Spill.read

    def slowly_read(self: Spill, file: Path) -> ChainBatch | None:
        reading.set()
        go_on.wait(20)
        return read(self, file)

    async def slowly() -> AuditRows:
        await made.wait()
        return database.audit

    monkeypatch.setattr(Spill, "read", slowly_read)
    start.log._writer._open_rows = slowly
    async with Tasks("a test") as tasks:
        tasks.start(start.log.run())
        start.log.record(make_call(1))
        await until(lambda: start.log.report()["put_aside"] == 1)
        if ends == "while the file is taken back":
            made.set()
            await until(reading.is_set)
        await tasks.cancel()
        made.set()
        go_on.set()
        await start.log.close()
    assert (numbers(path), waiting_beside(path)) == ([1], [])


async def test_nobody_is_answered_before_the_database_is_open_in_strict_mode(
    database: Database, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D9: A file is not the database."""
    monkeypatch.setattr(writer, "FIRST_ASIDE", 0.0)
    start, made = _Start(database, strict=True), asyncio.Event()

    async def slowly() -> AuditRows:
        await made.wait()
        return database.audit

    start.log._writer._open_rows = slowly
    async with Tasks("a test") as tasks, asyncio.timeout(20):
        tasks.start(start.log.run())
        start.log.record(make_call(1))
        written = tasks.start(start.log.written(make_call(1)))
        await until(lambda: len(start.log._writer) == 1)
        for _ in range(20):
            await asyncio.sleep(0)
        assert (written.done(), waiting_beside(path)) == (False, [])
        made.set()
        await written
        await tasks.cancel()
        await start.log.close()
    assert numbers(path) == [1]
