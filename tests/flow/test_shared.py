"""Several processes on one database: what one has read the others know, and a clear is heeded by all."""

import asyncio
import os
import sqlite3
import sys
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import Any, Final

import pytest
from sqlalchemy import update

from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.call_record import CallRecord, RecordedCaller
from aggregator.domain.errors import RpcError
from aggregator.domain.trace_context import begin
from aggregator.flow.gateway.call_flow import CallFlow
from aggregator.flow.gateway.questions import QuestionFlow
from aggregator.flow.gateway.scopes import ScopeKey, ScopeOwner
from aggregator.flow.gateway.states import FlowStates
from aggregator.flow.storage import FlowLabels, FlowRow
from aggregator.gateway.host import Host
from aggregator.storage.database import open_database
from aggregator.storage.engine.change_mark import ChangeMark
from aggregator.storage.errors import StorageBusy, StorageError
from aggregator.storage.records import FLOW_SUBJECT
from aggregator.storage.tables import changes
from aggregator.upstream.connection import JsonRpcRequest
from tests.access.gateway_harness import MODERN, error_data
from tests.flow.flow_harness import OTHER_TRACE, FlowHarness, MovedClock, flow_of, guard_of, traced
from tests.peers.back_channel import FakeBackChannel
from tests.peers.toolbox import Json, text_result
from tests.polling import until

SESSION: Final = ScopeKey(ScopeOwner("ada", None, None), "session", "one")
UNTRUSTED: Final = frozenset({"untrusted"})
OpenHarness = Callable[[], AbstractAsyncContextManager[FlowHarness]]


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock()


@pytest.fixture(params=["sqlite", "postgres"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        url: str = request.getfixturevalue("postgres_url")
        return url
    return f"sqlite+aiosqlite:///{tmp_path}/shared.db"


@pytest.fixture
def open_harness(tmp_path: Path, clock: MovedClock, storage: str) -> OpenHarness:
    """Open one more process on the database of the test."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[FlowHarness]:
        async with FlowHarness(tmp_path, clock, storage=storage) as harness, harness.app.database:
            yield harness

    return opened


async def _clear(storage: str, clock: MovedClock, agent: str, shown: str | None = None) -> int:
    async with open_database(storage) as database:
        return await database.flow.clear(agent, shown, now=clock())


async def test_another_process_knows_at_once(open_harness: OpenHarness, clock: MovedClock) -> None:
    """By key and by trace; a trace that it heard of before the reading stays apart."""
    async with open_harness() as one, open_harness() as two:
        host = one.host("ada", MODERN)
        assert await two.outcome(host, "mail.send") == "ok"
        assert await two.outcome(host, "mail.list", _meta=traced(OTHER_TRACE)) == "ok"
        clock.time += 1.0
        await one.call(host, "web.fetch", _meta=traced())
        assert await two.outcome(host, "mail.send") == "not_confirmed"
        assert await two.outcome(host, "mail.send", _meta=traced()) == "not_confirmed"
        assert await two.outcome(host, "mail.send", _meta=traced(OTHER_TRACE)) == "ok"
        assert await two.outcome(host, "mail.send", _meta=traced("3" * 32)) == "not_confirmed"


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Collection[str]]:
    """The scopes of each look into the database for labels."""
    found: list[Collection[str]] = []
    read = FlowLabels.read

    async def noted(self: FlowLabels, scopes: Collection[str], *, now: float) -> Any:
        found.append(scopes)
        return await read(self, scopes, now=now)

    monkeypatch.setattr(FlowLabels, "read", noted)
    return found


async def test_a_file_is_read_again_only_after_a_commit_of_labels(
    tmp_path: Path, clock: MovedClock, reads: list[Collection[str]]
) -> None:
    """Of this process or another; so a call out costs no look into the database."""
    storage = f"sqlite+aiosqlite:///{tmp_path}/shared.db"
    async with (
        FlowHarness(tmp_path, clock, storage=storage) as one,
        FlowHarness(tmp_path, clock, storage=storage) as two,
        one.app.database,
        two.app.database,
    ):
        ada, bob = two.host("ada", MODERN), two.host("bob", MODERN)
        await one.call(one.host("ada", MODERN), "files.read")
        for _ in range(3):
            assert await two.outcome(bob, "mail.send") == "ok"
        # Once where the file was read, and once more here after the label of the first mail.
        assert len(reads) == 3
        await one.call(one.host("ada", MODERN), "web.fetch")
        for _ in range(3):
            assert await two.outcome(ada, "mail.send") == "flow_denied"
            assert await two.outcome(bob, "mail.send") == "ok"
        assert len(reads) == 5


@pytest.mark.skipif(os.name == "nt", reason="Windows deletes no file that is mapped into memory")
@pytest.mark.parametrize("lacks", ["nothing", "ctypes"])
@pytest.mark.parametrize("by", ["the same process", "a new process"])
def test_a_deleted_mark_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str, lacks: str) -> None:
    """The file was deleted again before the other process looked, or the writer never had the deleted one; also with a
    Python that cannot call the system itself.
    """
    if lacks == "ctypes":
        monkeypatch.setitem(sys.modules, "ctypes", None)
    database, file = tmp_path / "shared.db", tmp_path / "shared.db.flow"
    database.touch()
    writer, reader = ChangeMark(database, "flow"), ChangeMark(database, "flow")
    writer.look()
    reader.look()
    for _ in range(2):
        before = reader.read()
        file.unlink()
        (writer if by == "the same process" else ChangeMark(database, "flow")).change()
        assert reader.read() is None or reader.read() != before
    assert reader.read() is None
    reader.look()
    assert reader.read() == file.read_bytes()


@pytest.mark.parametrize("mark", ["missing", "short", "another", "cut", "emptied"])
async def test_a_mark_that_is_replaced_hides_no_commit(tmp_path: Path, clock: MovedClock, mark: str) -> None:
    """Before a process notices that the file is another one, and after."""
    storage, path = f"sqlite+aiosqlite:///{tmp_path}/shared.db", tmp_path / "shared.db.flow"
    async with (
        FlowHarness(tmp_path, clock, storage=storage) as one,
        FlowHarness(tmp_path, clock, storage=storage) as two,
        one.app.database,
        two.app.database,
    ):
        hosts = [one.host(agent, MODERN) for agent in ("ada", "bob")]
        # Twice: the first mail of each brings a label, which changes the mark.
        for harness in (one, two, one, two):
            for host in hosts:
                assert await harness.outcome(host, "mail.send") == "ok"
        if mark in ("cut", "emptied"):
            # In its place, as cp does: a process that had it mapped into memory would end.
            os.truncate(path, 15 if mark == "cut" else 0)
        else:
            path.unlink()
        if mark in ("short", "another"):
            path.write_bytes(b"short" if mark == "short" else bytes(16))
        ada, bob = hosts
        async with FlowHarness(tmp_path, clock, storage=storage) as three, three.app.database:
            assert await three.outcome(ada, "mail.send") == "ok"
            await one.call(ada, "web.fetch")
            assert await three.outcome(ada, "mail.send") == "not_confirmed"
        assert await two.outcome(ada, "mail.send") == "not_confirmed"
        await flow_of(two.app).heed_clears()
        assert await two.outcome(bob, "mail.send") == "ok"
        await one.call(bob, "web.fetch")
        assert await two.outcome(bob, "mail.send") == "not_confirmed"


async def test_a_database_by_another_name_has_the_same_mark(tmp_path: Path, clock: MovedClock) -> None:
    """A process that uses a link to the database sees what one without the link commits, and the other way round."""
    kept = tmp_path / "kept here"
    kept.mkdir()
    (tmp_path / "link.db").symlink_to(kept / "shared ü.db")
    (tmp_path / "folder").symlink_to(kept)
    places = [kept / "shared ü.db", tmp_path / "link.db", tmp_path / "folder" / "shared ü.db"]
    async with AsyncExitStack() as stack:
        harnesses = []
        for place in places:
            harness = FlowHarness(tmp_path, clock, storage=f"sqlite+aiosqlite:///{place}")
            harnesses.append(await stack.enter_async_context(harness))
            await stack.enter_async_context(harness.app.database)
        agents = ["ada", "bob"]
        for harness in (*harnesses, *harnesses):
            for agent in agents:
                assert await harness.outcome(harness.host(agent, MODERN), "mail.send") == "ok"
        for agent, reader in zip(agents, harnesses, strict=False):
            await reader.call(reader.host(agent, MODERN), "web.fetch")
            for harness in harnesses:
                assert await harness.outcome(harness.host(agent, MODERN), "mail.send") == "not_confirmed"
    assert [name for name in os.listdir(tmp_path) if name.endswith(".flow")] == []
    assert "shared ü.db.flow" in os.listdir(kept)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away")
async def test_the_mark_of_a_gateway_of_root_belongs_to_the_owner_of_the_database(
    tmp_path: Path, clock: MovedClock
) -> None:
    """As SQLite's own files do: the gateway of that user could not write it otherwise."""
    file = tmp_path / "shared.db"
    storage = f"sqlite+aiosqlite:///{file}"
    async with open_database(storage):
        pass
    os.chown(file, 4711, 4712)
    async with FlowHarness(tmp_path, clock, storage=storage) as harness, harness.app.database:
        await harness.call(harness.host("ada", MODERN), "web.fetch")
    mark = (tmp_path / "shared.db.flow").stat()
    assert (mark.st_uid, mark.st_gid, mark.st_mode & 0o777) == (4711, 4712, 0o600)


@pytest.mark.parametrize("mark", ["a folder", "a pipe", "a link", "another file"])
async def test_without_a_mark_each_call_out_is_looked_up(
    tmp_path: Path, clock: MovedClock, reads: list[Collection[str]], mark: str
) -> None:
    """What cannot be the file of the mark holds nothing up, hides no label, and is not written into."""
    storage, path = f"sqlite+aiosqlite:///{tmp_path}/shared.db", tmp_path / "shared.db.flow"
    async with FlowHarness(tmp_path, clock, storage=storage) as harness, harness.app.database:
        host = harness.host("ada", MODERN)
        await harness.call(host, "files.read")
        assert await harness.outcome(host, "mail.send") == "ok"
        path.unlink()
        mine = tmp_path / "mine.flow"
        mine.write_text("A file of the user.")
        if mark == "a folder":
            path.mkdir()
        elif mark == "a pipe":
            os.mkfifo(path)
        elif mark == "a link":
            path.symlink_to(mine)
        else:
            os.link(mine, path)
        await flow_of(harness.app).heed_clears()
        before = len(reads)
        for _ in range(3):
            assert await harness.outcome(host, "mail.send") == "ok"
        assert len(reads) == before + 3
        assert error_data(await harness.call(host, "web.fetch"))["code"] == "flow_unknown"
        assert mine.read_text() == "A file of the user."


async def test_what_the_mark_cannot_tell_to_others_is_withheld(tmp_path: Path, clock: MovedClock) -> None:
    """They would go on with what they knew before."""
    storage, path = f"sqlite+aiosqlite:///{tmp_path}/shared.db", tmp_path / "shared.db.flow"
    async with FlowHarness(tmp_path, clock, storage=storage) as harness, harness.app.database:
        host = harness.host("ada", MODERN)
        path.mkdir()
        answer = await harness.call(host, "web.fetch")
        assert error_data(answer)["code"] == "flow_unknown"
        assert "did fetch" not in str(answer)
        path.rmdir()
        await flow_of(harness.app).write_rest()
        assert path.stat().st_mode & 0o777 == 0o600
        assert await harness.outcome(host, "web.fetch") == "ok"


async def test_replicas_take_up_each_others_sessions(
    open_harness: OpenHarness, clock: MovedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that both have in memory is looked up again for each call that a flow rule speaks of."""
    async with open_harness() as one, open_harness() as two:
        for harness in (one, two):
            harness.app.replication.enabled = True
        host = one.legacy(session="travelling")
        assert await two.outcome(host, "mail.send") == "ok"
        await one.call(host, "web.fetch")
        assert await two.outcome(host, "mail.send") == "not_confirmed"


async def test_a_restart_keeps_sessions_and_traces(open_harness: OpenHarness, clock: MovedClock) -> None:
    async with open_harness() as before:
        await before.call(before.legacy(session="long"), "web.fetch")
    clock.time += 6 * 86_400.0
    async with open_harness() as after:
        assert await after.outcome(after.legacy(session="long"), "mail.send") == "not_confirmed"
        assert await after.outcome(after.host("ada", MODERN), "mail.send") == "ok"


async def test_a_later_reading_makes_no_label_younger(open_harness: OpenHarness, clock: MovedClock) -> None:
    """A trace that was heard of after a key's first reading has that, whichever process reads again."""
    async with open_harness() as one, open_harness() as two, open_harness() as three:
        await one.call(one.legacy(), "web.fetch")
        clock.time += 10.0
        host = two.host("ada", MODERN)
        assert await two.outcome(host, "mail.list", _meta=traced(OTHER_TRACE)) == "ok"
        clock.time += 200.0
        await three.call(three.host("ada", MODERN), "web.fetch", _meta=traced())
        assert await two.outcome(host, "mail.send", _meta=traced(OTHER_TRACE)) == "not_confirmed"


async def test_what_is_renewed_is_written_before_its_row_ends(open_harness: OpenHarness, clock: MovedClock) -> None:
    """The short way is left for that, once in a tenth of the time that a label counts."""
    key, labels, decay = ScopeKey(SESSION.owner, "key"), frozenset({"untrusted"}), 1_800.0
    async with open_harness() as harness:
        flow = flow_of(harness.app)
        assert not flow.brings_nothing_new(key, labels, "web.fetch", "t", decay)
        await flow.bring(key, labels, "web.fetch", "t", decay)
        clock.time += 170.0
        assert flow.brings_nothing_new(key, labels, "web.fetch", "t", decay)
        clock.time += 20.0
        assert not flow.brings_nothing_new(key, labels, "web.fetch", "t", decay)
        assert not flow.brings_nothing_new(key, labels | {"private"}, "web.fetch", "t", decay)
    clock.time += 1_790.0 - 20.0
    async with open_harness() as after:
        assert await after.outcome(after.host("ada", MODERN), "mail.send") == "not_confirmed"


async def test_a_clear_is_heeded_and_what_comes_after_counts(
    open_harness: OpenHarness, clock: MovedClock, storage: str
) -> None:
    """Whatever is read after it is not lost, though it was known and written before."""
    async with open_harness() as harness:
        host = harness.legacy()
        await harness.call(host, "web.fetch")
        clock.time += 5.0
        assert await _clear(storage, clock, "bob") == 0
        assert await _clear(storage, clock, "ada") == 2
        clock.time += 1.0
        await harness.call(host, "web.fetch")
        await flow_of(harness.app).heed_clears()
        assert await harness.outcome(host, "mail.send") == "not_confirmed"
        clock.time += 1.0
        assert await _clear(storage, clock, "ada") in (0, 2)
        await flow_of(harness.app).heed_clears()
        assert await harness.outcome(host, "mail.send") == "ok"


async def test_one_scope_is_cleared(open_harness: OpenHarness, clock: MovedClock, storage: str) -> None:
    """The session alone; its key still knows."""
    async with open_harness() as harness:
        host = harness.legacy()
        await harness.call(host, "web.fetch")
        async with open_database(storage) as database:
            rows = await database.flow.show("ada", now=clock())
        (session,) = {row.shown for row in rows if row.kind == "session"}
        clock.time += 1.0
        assert await _clear(storage, clock, "ada", "nothing like it") == 0
        assert await _clear(storage, clock, "ada", session) == 1
        await flow_of(harness.app).heed_clears()
        assert await harness.outcome(host, "mail.send") == "ok"
        assert await harness.outcome(harness.host("ada", MODERN), "mail.send") == "not_confirmed"


@pytest.mark.parametrize(
    "body",
    [
        None,
        "",
        "{",
        "[]",
        "{}",
        '{"agent": null, "at": 1e12, "scopes": []}',
        '{"agent": "ada", "at": NaN, "scopes": []}',
        '{"agent": "ada", "at": "soon", "scopes": []}',
        '{"agent": "ada", "at": 1e12, "scopes": null}',
        '{"agent": "ada", "at": 1e12, "scopes": [1]}',
        "[" * 100_000,
    ],
    ids=[
        "none",
        "empty",
        "no JSON",
        "a list",
        "no fields",
        "no agent",
        "NaN",
        "no time",
        "no scopes",
        "numbers",
        "deep",
    ],
)
async def test_a_clear_that_cannot_be_read_clears_nothing_and_stops_no_other(
    open_harness: OpenHarness,
    clock: MovedClock,
    storage: str,
    body: str | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What it was about is not known: the labels stay, and the clears after it are heeded."""
    async with open_harness() as harness:
        ada, bob = harness.host("ada", MODERN), harness.host("bob", MODERN)
        for host in (ada, bob):
            await harness.call(host, "web.fetch")
        clock.time += 1.0
        async with open_database(storage) as database, database.engine.write(FLOW_SUBJECT, body={}) as connection:
            pass
        async with open_database(storage) as database, database.engine.write() as connection:
            await connection.execute(update(changes).where(changes.c.subject == FLOW_SUBJECT).values(body=body))
        await flow_of(harness.app).heed_clears()
        assert "a clear of flow labels cannot be read" in caplog.text
        assert await harness.outcome(ada, "mail.send") == "not_confirmed"
        await _clear(storage, clock, "bob")
        clock.time += 1.0
        await flow_of(harness.app).heed_clears()
        assert await harness.outcome(bob, "mail.send") == "ok"
        assert await harness.outcome(ada, "mail.send") == "not_confirmed"


async def test_a_damaged_row_costs_its_own_conversation(tmp_path: Path, clock: MovedClock) -> None:
    """What it has read is not known, so a call that a flow rule speaks of is refused; again at the next call."""
    storage = f"sqlite+aiosqlite:///{tmp_path}/shared.db"
    async with FlowHarness(tmp_path, clock, storage=storage) as harness, harness.app.database:
        await harness.call(harness.host("ada", MODERN), "web.fetch")
    with closing(sqlite3.connect(tmp_path / "shared.db")) as connection:
        connection.execute("UPDATE flow_labels SET expires = 'later'")
        connection.commit()
    async with FlowHarness(tmp_path, clock, storage=storage) as after, after.app.database:
        for _ in range(2):
            assert await after.outcome(after.host("ada", MODERN), "mail.send") == "flow_unknown"
        assert await after.outcome(after.host("bob", MODERN), "mail.send") == "ok"


async def test_a_running_process_looks_for_clears_by_itself(
    open_harness: OpenHarness, clock: MovedClock, storage: str
) -> None:
    """And writes what it could not write before."""
    async with open_harness() as harness:
        host, running = harness.legacy(), flow_of(harness.app)
        await harness.call(host, "web.fetch")
        await _clear(storage, clock, "ada")
        clock.time += 1.0
        await running.heed_clears()
        assert await running.state(SESSION, "mail.send", decides=True) == {}


async def test_a_database_that_was_deleted_gets_the_labels_again(tmp_path: Path, clock: MovedClock) -> None:
    """Though nothing was ever cleared in it: a restart after that forgets nothing that this process knew."""
    path, host = tmp_path / "shared.db", ScopeKey(SESSION.owner, "key")
    storage = f"sqlite+aiosqlite:///{path}"
    async with FlowHarness(tmp_path, clock, storage=storage) as harness, harness.app.database:
        await harness.call(harness.host("ada", MODERN), "web.fetch")
        for end in ("", "-wal", "-shm"):
            await asyncio.to_thread(Path(f"{path}{end}").unlink)
        await flow_of(harness.app).heed_clears()
        await flow_of(harness.app).write_rest()
        assert "untrusted" in await flow_of(harness.app).state(host, "mail.send", decides=True)
    async with FlowHarness(tmp_path, clock, storage=storage) as after, after.app.database:
        assert await after.outcome(after.host("ada", MODERN), "mail.send") == "not_confirmed"


async def test_without_the_database_a_call_out_waits(
    open_harness: OpenHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was read is kept in memory and written later; what a flow rule speaks of is not guessed."""

    async def away(*_: object, **__: object) -> None:
        raise StorageBusy("away")

    async with open_harness() as harness:
        # In a session that this process alone has, its memory decides.
        host, key = harness.legacy(), harness.host("ada", MODERN)
        unknown = harness.host("bob", MODERN)
        assert await harness.outcome(host, "mail.list") == "ok"
        with monkeypatch.context() as patched:
            patched.setattr(FlowLabels, "note", away)
            patched.setattr(FlowLabels, "read", away)
            assert await harness.outcome(host, "web.fetch") == "ok"
            assert await harness.outcome(host, "mail.send") == "not_confirmed"
            answer = await harness.call(unknown, "mail.send")
            assert error_data(answer)["code"] == "flow_unknown"
            assert error_data(answer)["retryable"] is True
        assert len(flow_of(harness.app).scopes.unwritten) == 2
        await flow_of(harness.app).write_rest()
        assert not flow_of(harness.app).scopes.unwritten
        assert await harness.outcome(key, "mail.send") == "not_confirmed"


Conversation = Callable[[FlowHarness], tuple[Host, Json]]
# The kinds of conversations that another process may go on with, and whether several serve as one.
SHARED: Final[dict[str, tuple[bool, Conversation]]] = {
    "session of replicas": (True, lambda harness: (harness.legacy(session="travelling"), {})),
    "key": (False, lambda harness: (harness.host("ada", MODERN), {})),
    "trace": (False, lambda harness: (harness.host("ada", MODERN), {"_meta": traced()})),
    "trace of replicas": (True, lambda harness: (harness.host("ada", MODERN), {"_meta": traced()})),
}


@pytest.mark.parametrize("kind", SHARED)
async def test_what_is_not_committed_reaches_no_host_where_another_process_decides(
    open_harness: OpenHarness, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The database can be read and not written: the answer is withheld, and the call out is made nowhere wrongly."""
    shared, conversation = SHARED[kind]

    async def full(*_: object, **__: object) -> None:
        raise StorageError("database or disk is full")

    async with open_harness() as one, open_harness() as two:
        for harness in (one, two):
            harness.app.replication.enabled = shared
        host, more = conversation(one)
        with monkeypatch.context() as patched:
            patched.setattr(FlowLabels, "note", full)
            for _ in range(3):
                answer = await one.call(host, "web.fetch", **more)
                assert error_data(answer)["code"] == "flow_unknown"
                assert error_data(answer)["retryable"] is False
                assert "did fetch" not in str(answer)
            # What brings nothing goes on, and what was known before too.
            assert await one.outcome(host, "mail.list", **more) == "ok"
            assert await two.outcome(host, "web.plain", **more) == "ok"
            assert await two.outcome(host, "mail.send", **more) == "ok"
        assert await one.outcome(host, "web.fetch", **more) == "ok"
        assert await two.outcome(host, "mail.send", **more) == "not_confirmed"


async def test_errors_are_withheld_too(open_harness: OpenHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of the server is read as its results are."""

    async def full(*_: object, **__: object) -> None:
        raise StorageError("database or disk is full")

    async def fails(params: Json) -> Json:
        raise RpcError(-32000, "secrets of the page")

    async with open_harness() as one:
        one.fake_upstreams["web"].answer = fails
        host = one.host("ada", MODERN)
        assert (await one.call(host, "web.fetch"))["error"]["message"] == "secrets of the page"
        with monkeypatch.context() as patched:
            patched.setattr(FlowLabels, "note", full)
            assert "secrets" not in str(await one.call(one.host("bob", MODERN), "web.fetch"))


@pytest.mark.parametrize("written", [True, False])
async def test_messages_wait_for_the_commit(
    open_harness: OpenHarness, monkeypatch: pytest.MonkeyPatch, written: bool
) -> None:
    """Log messages and progress of a call leave once their labels are committed, in their order, or not at all."""
    noted = FlowLabels.note
    seen: list[int] = []
    channel = FakeBackChannel()

    async def note(self: FlowLabels, rows: Sequence[FlowRow]) -> None:
        seen.append(len(channel.notifications))
        if not written:
            raise StorageError("database or disk is full")
        await noted(self, rows)

    monkeypatch.setattr(FlowLabels, "note", note)
    async with open_harness() as harness:
        harness.app.replication.enabled = True
        played = harness.fake_upstreams["web"]

        async def take(request: JsonRpcRequest) -> Json:
            assert request.on_progress is not None
            assert request.origin is not None
            assert request.origin.caller is not None
            request.on_progress({"progress": 1, "message": "half"})
            request.origin.caller.on_log("web", {"level": "error", "data": "a row"})
            request.on_progress({"progress": 2})
            return text_result("did fetch")

        monkeypatch.setattr(played, "take", take)
        answer = await harness.call(harness.legacy(), "web.fetch", channel=channel, _meta={"progressToken": 7})
        # Before the labels were committed, the host had been told nothing.
        assert seen[0] == 0
        if written:
            assert [told.get("data") or told["progress"] for _, told in channel.notifications] == [1, "a row", 2]
            assert "did fetch" in str(answer)
            # Now that they are, messages pass at once.
            await harness.call(harness.legacy(), "web.fetch", channel=channel, _meta={"progressToken": 7})
            assert len(channel.notifications) == 6
        else:
            assert channel.notifications == []
            assert error_data(answer)["code"] == "flow_unknown"


async def test_the_loop_passes_on_what_waits(open_harness: OpenHarness) -> None:
    """While the call still runs: it is not the result that messages wait for."""
    async with open_harness() as harness:
        states = flow_of(harness.app)
        call = CallFlow(
            ScopeKey(SESSION.owner, "key"), frozenset({"untrusted"}), "web.fetch", 1_800.0, frozenset({"untrusted"})
        )
        record = CallRecord(begin(), 0.0, RecordedCaller("ada", "http"), "web.fetch")
        questions = QuestionFlow(guard_of(harness.app), call, record)
        passed: list[str] = []
        questions.say(lambda: passed.append("one"))
        questions.say(lambda: passed.append("two"))
        assert passed == []
        await states.write_rest()
        assert passed == ["one", "two"]
        questions.say(lambda: passed.append("three"))
        assert passed == ["one", "two", "three"]


async def test_what_waits_ends_with_its_call(open_harness: OpenHarness) -> None:
    """A message of a call that is over goes to no channel."""
    async with open_harness() as harness:
        call = CallFlow(
            ScopeKey(SESSION.owner, "key"), frozenset({"untrusted"}), "web.fetch", 1_800.0, frozenset({"untrusted"})
        )
        record = CallRecord(begin(), 0.0, RecordedCaller("ada", "http"), "web.fetch")
        questions = QuestionFlow(guard_of(harness.app), call, record)
        passed: list[str] = []
        questions.say(lambda: passed.append("late"))
        questions.end()
        questions.say(lambda: passed.append("later"))
        await flow_of(harness.app).write_rest()
        assert passed == []


async def test_a_session_that_has_listed_elsewhere_is_a_conversation_of_its_own(
    open_harness: OpenHarness, clock: MovedClock, storage: str
) -> None:
    """It listed at one replica and calls at the other, whose process has seen no list of it."""
    async with open_harness() as one, open_harness() as two:
        for harness in (one, two):
            harness.app.replication.enabled = True
        # The key knows something, by another session.
        await one.listed(reads := one.legacy(session="reads", listed=False))
        await one.call(reads, "web.fetch")
        clock.time += 1.0
        await one.listed(one.legacy(session="clean", listed=False))
        clock.time += 1.0
        assert await two.outcome(two.legacy(session="clean", listed=False), "mail.send") == "ok"
        # One that has listed nowhere takes over, and one that called first does, whatever it lists later.
        assert await two.outcome(two.legacy(session="other", listed=False), "mail.send") == "not_confirmed"
        first = two.legacy(session="calls first", listed=False)
        assert await two.outcome(first, "mail.send") == "not_confirmed"
        clock.time += 1.0
        await one.listed(one.legacy(session="calls first", listed=False))
        assert await two.outcome(first, "mail.send") == "not_confirmed"
    async with open_database(storage) as database:
        rows = await database.flow.show("ada", now=clock())
        assert {row.label for row in rows} <= {"untrusted", "outward"}
    assert await _clear(storage, clock, "ada") >= 1


@pytest.mark.parametrize("ahead", [-0.2, 0.2], ids=["behind", "ahead"])
async def test_clocks_of_replicas_may_differ(open_harness: OpenHarness, clock: MovedClock, ahead: float) -> None:
    """What one commits before another looks comes before, by whatever clock."""
    async with open_harness() as one, open_harness() as two:
        for harness in (one, two):
            harness.app.replication.enabled = True
        flow_of(two.app).now = lambda: clock() + ahead

        async def session(name: str, *steps: str) -> list[str]:
            """Return how the calls of a session ended that lists and calls where the steps say."""
            ends = []
            for step, at in (step.split(" at ") for step in steps):
                harness = {"one": one, "two": two}[at]
                host = harness.legacy(session=name, listed=False)
                if step == "lists":
                    await harness.listed(host)
                else:
                    ends.append(await harness.outcome(host, "mail.send"))
            return ends

        await one.listed(reads := one.legacy(session="reads", listed=False))
        await one.call(reads, "web.fetch")
        assert await two.outcome(two.host("ada", MODERN), "mail.send", _meta=traced()) == "not_confirmed"
        assert await session("a", "calls at two", "lists at one", "calls at one") == ["not_confirmed"] * 2
        assert await session("b", "calls at one", "lists at two", "calls at two") == ["not_confirmed"] * 2
        assert await session("c", "lists at one", "calls at two", "calls at one") == ["ok", "ok"]
        assert await session("d", "lists at two", "calls at one", "calls at two") == ["ok", "ok"]


@pytest.mark.parametrize("first", ["mail.list", "mail.send"], ids=["not-decided", "decided"])
@pytest.mark.parametrize("at", ["there", "a third one"])
async def test_a_session_that_called_elsewhere_before_it_listed_takes_over(
    open_harness: OpenHarness, clock: MovedClock, storage: str, first: str, at: str
) -> None:
    """It called at one replica and lists at the other: what it took over is known at both, and no more than that."""
    async with open_harness() as one, open_harness() as two, open_harness() as third:
        for harness in (one, two, third):
            harness.app.replication.enabled = True
        await one.listed(reads := one.legacy(session="reads", listed=False))
        await one.call(reads, "web.fetch")
        clock.time += 1.0
        await two.outcome(two.legacy(session="dirty", listed=False), first)
        clock.time += 1.0
        await one.listed(lists := one.legacy(session="dirty", listed=False))
        assert lists.listed
        clock.time += 1.0
        where = one if at == "there" else third
        host = lists if at == "there" else third.legacy(session="dirty", listed=False)
        assert await where.outcome(host, "mail.send") == "not_confirmed"
        assert await where.outcome(host, "mail.send") == "not_confirmed"
        # What its key learns after its first call does not come, wherever it goes on.
        await two.outcome(two.legacy(session="early", listed=False, agent="bob"), first)
        clock.time += 1.0
        await one.listed(reads := one.legacy(session="reads", listed=False, agent="bob"))
        await one.call(reads, "web.fetch")
        clock.time += 1.0
        late = third.legacy(session="early", listed=False, agent="bob")
        assert await third.outcome(late, "mail.send") == "ok"
    async with open_database(storage) as database:
        for agent in ("ada", "bob"):
            rows = await database.flow.show(agent, now=clock())
            assert {row.label for row in rows} <= {"untrusted", "outward"}


async def test_what_a_session_took_over_elsewhere_ends_with_a_clear(
    open_harness: OpenHarness, clock: MovedClock, storage: str
) -> None:
    async with open_harness() as one, open_harness() as two:
        for harness in (one, two):
            harness.app.replication.enabled = True
        await one.listed(reads := one.legacy(session="reads", listed=False))
        await one.call(reads, "web.fetch")
        clock.time += 1.0
        assert await two.outcome(two.legacy(session="dirty", listed=False), "mail.send") == "not_confirmed"
        clock.time += 1.0
        assert await _clear(storage, clock, "ada") >= 1
        clock.time += 1.0
        for harness in (one, two):
            await flow_of(harness.app).heed_clears()
            assert await harness.outcome(harness.legacy(session="dirty"), "mail.send") == "ok"


async def test_a_clear_leaves_that_a_session_has_listed(
    open_harness: OpenHarness, clock: MovedClock, storage: str
) -> None:
    """It is a conversation of its own afterwards too, at a replica that has not seen it."""
    async with open_harness() as one, open_harness() as two:
        for harness in (one, two):
            harness.app.replication.enabled = True
        await one.listed(one.legacy(session="clean", listed=False))
        await one.listed(reads := one.legacy(session="reads", listed=False))
        await one.call(reads, "web.fetch")
        clock.time += 1.0
        assert await _clear(storage, clock, "ada") >= 1
        clock.time += 1.0
        for harness in (one, two):
            await flow_of(harness.app).heed_clears()
        await one.call(reads, "web.fetch")
        clock.time += 1.0
        assert await two.outcome(two.legacy(session="clean", listed=False), "mail.send") == "ok"
        assert await two.outcome(two.legacy(session="other", listed=False), "mail.send") == "not_confirmed"


@pytest.mark.parametrize(("knows", "end"), [(True, "flow_unknown"), (False, "ok")])
async def test_a_call_before_a_list_that_cannot_be_noted_is_refused(
    open_harness: OpenHarness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, knows: bool, end: str
) -> None:
    """Another process would have the session begin anew with its list; it matters if it takes anything over."""

    async def refuses(*args: object) -> None:
        raise StorageError("no space")

    async with open_harness() as harness:
        harness.app.replication.enabled = True
        if knows:
            await harness.listed(reads := harness.legacy(session="reads", listed=False))
            await harness.call(reads, "web.fetch")
        host = harness.legacy(session="calls", listed=False)
        with monkeypatch.context() as patched:
            patched.setattr(FlowLabels, "note", refuses)
            for _ in range(2):
                assert await harness.outcome(host, "mail.list") == end
        assert "called before it listed: no space" in caplog.text
        assert await harness.outcome(host, "mail.list") == "ok"


async def test_a_session_of_one_process_is_noted_nowhere(open_harness: OpenHarness, clock: MovedClock) -> None:
    async with open_harness() as harness:
        await harness.outcome(harness.legacy(listed=False), "mail.list")
        labels = await flow_of(harness.app)._labels()
        assert await labels.read([SESSION.digest], now=clock()) == {}


async def test_a_session_has_listed_once_it_was_sent_tools(open_harness: OpenHarness) -> None:
    """Neither one of something else, nor one that failed."""
    async with open_harness() as harness:
        host = harness.legacy(listed=False)
        await harness.ask(host, "prompts/list", {})
        await harness.ask(host, "resources/list", {})
        await harness.ask(host, "tools/list", {"cursor": "no such cursor"})
        assert not host.listed
        await harness.ask(host, "tools/list", {})
        assert host.listed
        # A list without tools tells it no names.
        stranger = harness.legacy(agent="stranger", listed=False)
        assert (await harness.ask(stranger, "tools/list", {}))["result"]["tools"] == []
        assert not stranger.listed


async def test_a_refused_row_about_a_list_costs_no_list(
    open_harness: OpenHarness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Other processes only have the session take over what its key knows."""

    async def refuses(*args: object) -> None:
        raise ValueError("half of a surrogate pair")

    async with open_harness() as harness:
        host = harness.legacy(listed=False)
        monkeypatch.setattr(FlowLabels, "note", refuses)
        monkeypatch.setattr(FlowStates, "alone", lambda states, key: False)
        assert (await harness.ask(host, "tools/list", {}))["result"]["tools"]
        assert "other processes cannot know that a session has listed: ValueError" in caplog.text


async def test_a_row_that_is_refused_costs_its_own_scope(
    open_harness: OpenHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What others have read is written, be it now or at a later look; the answers of this one are withheld."""
    noted = FlowLabels.note

    async def note(self: FlowLabels, rows: Sequence[FlowRow]) -> None:
        if any(row.agent_id == "ada" for row in rows):
            raise ValueError("half of a surrogate pair")
        await noted(self, rows)

    async def away(*args: object, **more: object) -> None:
        raise StorageError("no database")

    monkeypatch.setattr("aggregator.flow.gateway.states._REST_AT_ONCE", 2)
    async with open_harness() as harness:
        flow, ada, bob = flow_of(harness.app), harness.host("ada", MODERN), harness.host("bob", MODERN)
        with monkeypatch.context() as patched:
            patched.setattr(FlowLabels, "note", away)
            for host in (ada, bob):
                await harness.call(host, "web.fetch", _meta=traced())
        assert [key.owner.agent_id for key in flow.scopes.unwritten] == ["ada", "ada", "bob", "bob"]
        monkeypatch.setattr(FlowLabels, "note", note)
        answer = await harness.call(ada, "web.fetch")
        assert error_data(answer)["code"] == "flow_unknown"
        assert "did fetch" not in str(answer)
        assert await harness.outcome(bob, "web.fetch") == "ok"
        for _ in range(2):
            with pytest.raises(StorageError, match="refuses the flow labels of"):
                await flow.write_rest()
        assert {key.owner.agent_id for key in flow.scopes.unwritten} == {"ada"}


async def test_an_error_of_ours_does_not_end_the_look_after_labels(
    open_harness: OpenHarness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The log has it once."""
    monkeypatch.setattr("aggregator.flow.gateway.states.LOOK_EVERY", 0.001)
    tries: list[int] = []

    async def breaks(self: FlowStates) -> None:
        tries.append(1)
        raise RuntimeError("a fault of ours")

    async with open_harness() as harness, Tasks("a test") as tasks:
        with monkeypatch.context() as patched:
            patched.setattr(FlowStates, "heed_clears", breaks)
            tasks.start(flow_of(harness.app).run())
            await harness.call(harness.host("ada", MODERN), "web.fetch")
            await until(lambda: len(tries) > 2, "it is tried again")
        assert sum("an error of ours" in one.message for one in caplog.records) == 1
