"""What one replica knows of the others: heartbeats, changes, usage and hops, their clocks moved by hand."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import SimpleNamespace
from typing import Any, Final

import pytest

from aggregator.domain.bounds.tasks import Tasks
from aggregator.replicas.config import ReplicasConfig
from aggregator.replicas.group import hops, membership, replication
from aggregator.replicas.group.clock import GroupClock
from aggregator.replicas.group.hops import GOOD_FOR, HopRefused, HopSigner
from aggregator.replicas.group.membership import Membership
from aggregator.replicas.group.replication import ChangesTail, Replication
from aggregator.replicas.group.shared_key import SharedKey
from aggregator.replicas.group.shared_usage import CONVERSATION_OVER, SharedUsage
from aggregator.replicas.group.usage import MINUTE, CountedCalls, UsageWindow
from aggregator.storage.errors import StorageBusy
from aggregator.storage.records import Change, Heartbeat, ReplicaRecord, UsageRow
from tests.replicas.limit_simulation import simulated

LEASE: Final = 6.0


class Time:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 10_000.0

    def __call__(self) -> float:
        return self.now


# -- heartbeats


class Beats:
    """The table of heartbeats, which says of the others what the test gives."""

    def __init__(self, time: Time) -> None:
        self.time = time
        self.others: list[str] = []
        self.silent: list[str] = []
        self.open = asyncio.Event()
        self.open.set()
        self.slot = 0
        self.seen: dict[str, float] = {}

    async def beat(self, me: ReplicaRecord) -> Heartbeat:
        await self.open.wait()
        records = {
            id: ReplicaRecord(id, self.slot, None, "1", 0.0, self.time.now, {})
            for id in (*self.others, *self.silent, me.id)
        }
        silent = tuple(records.pop(id) for id in self.silent)
        return Heartbeat(self.time.now, tuple(records.values()), silent)

    async def leave(self, id: str) -> None: ...

    async def last_seen(self) -> Mapping[str, float]:
        return self.seen


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    moved = Time()
    monkeypatch.setattr(membership, "time", SimpleNamespace(monotonic=moved, time=moved))
    return moved


@pytest.mark.parametrize(
    ("beats", "expected"),
    [
        # Seconds between the heartbeats that came through.
        ([], set()),
        ([1.0] * 7, set()),
        ([1.0] * 8, {"dead"}),
        ([2.0] * 4, {"dead"}),
        ([1.0] * 8 + [30.0], set()),
        ([1.0] * 8 + [30.0] + [1.0] * 7, set()),
        ([1.0] * 8 + [30.0] + [1.0] * 8, {"dead"}),
    ],
)
async def test_a_replica_is_gone_once_its_heartbeat_could_have_come(
    time: Time, beats: Sequence[float], expected: set[str]
) -> None:
    """While the database was away no replica could write: the living must not be taken for dead."""
    rows = Beats(time)
    here = Membership(GroupClock(time), LEASE)
    assert await here.gone(["dead"]) == frozenset()
    await here.join(rows)
    for pause in beats:
        time.now += pause
        await here.join(rows)
    rows.seen = {
        "alive": time.now - LEASE + 0.1,
        "just": time.now - LEASE,
        "dead": time.now - LEASE - 0.1,
        here.id: 0.0,
    }
    ids = ["alive", "just", "dead", here.id]
    assert await here.gone(ids) == expected
    assert await here.gone(["unknown"]) == ({"unknown"} if expected else set())


async def test_a_replica_takes_the_slot_that_the_table_gives_it(time: Time) -> None:
    rows = Beats(time)
    here, changed = Membership(GroupClock(time), LEASE), list[int]()
    here.on_changed(lambda: changed.append(here.count))
    rows.slot = 3
    await here.join(rows)
    assert here.slot == 3
    # One that joined at the same time may not be in the first answer: no slice of a limit is taken before the second.
    assert not here.settled
    # It was away so long that its row was removed, and its slot is another's.
    rows.slot, rows.others = 5, ["other"]
    await here.join(rows)
    assert (here.slot, here.settled) == (5, True)
    rows.others = ["third"]
    await here.join(rows)
    await here.join(rows)
    assert changed == [1, 2, 2], "one replaced another: as many, and not the same"
    assert [one.id for one in here.others()] == ["third"]


def has_id(id: str, one: ReplicaRecord) -> bool:
    return one.id == id


async def test_a_silent_replica_may_be_reached_and_is_not_there(time: Time) -> None:
    rows = Beats(time)
    here = Membership(GroupClock(time), LEASE)
    rows.others, rows.silent = ["other"], ["silent"]
    await here.join(rows)
    assert [here.get(id) is not None for id in ("other", "silent", "gone")] == [True, False, False]
    assert [here.reachable(id) is not None for id in ("other", "silent", "gone")] == [True, True, False]
    assert [one.id for one in here.others()] == ["other"]
    assert here.count == 2
    for id in ("other", "silent"):
        found = await here.find(partial(has_id, id))
        assert found is not None
        assert found.id == id
    assert here.get(here.id) is not None
    found = await here.find(lambda one: one.id != "other")
    assert found is not None
    assert found.id == "silent", "never this replica itself"
    rows.silent = []
    await here.join(rows)
    assert here.reachable("silent") is None, "it has left"


async def test_one_that_is_not_known_is_gone_only_by_a_heartbeat_that_began_later(time: Time) -> None:
    """It may have come after the database was last read."""
    rows = Beats(time)
    here = Membership(GroupClock(time), LEASE)
    await here.join(rows)
    rows.open.clear()
    before = asyncio.create_task(here.join(rows))
    await asyncio.sleep(0)
    looking = asyncio.create_task(here.find(lambda one: one.id == "new"))
    gone = asyncio.create_task(here.find(lambda one: one.id == "gone"))
    rows.open.set()
    await before
    await asyncio.sleep(0)
    assert not looking.done()
    assert not gone.done()
    rows.others = ["new"]
    await here.join(rows)
    found = await looking
    assert found is not None
    assert found.id == "new"
    assert await gone is None


# -- changes


class Log:
    """The log of changes as a list, which the test may replace."""

    def __init__(self, *changes: Change) -> None:
        self.changes = list(changes)
        self.away = False

    async def newest(self) -> int:
        return max((one.seq for one in self.changes), default=0)

    async def after(self, seq: int) -> list[Change]:
        if self.away:
            raise StorageBusy("away")
        return [one for one in self.changes if one.seq > seq]

    def on_written(self, listener: object) -> None: ...


def change(seq: int, subject: str = "thing") -> Change:
    return Change(seq, subject, None, {"number": seq})


@pytest.mark.parametrize(
    ("halted", "log", "expected"),
    [
        (0.0, [6, 7], [6, 7]),
        (0.0, [5], []),
        # Restored from a backup.
        (0.0, [3], ["anything"]),
        (0.0, [], ["anything"]),
        (1_800.0, [6, 7], [6, 7]),
        (1_801.0, [6, 7], ["anything"]),
        (1_801.0, [5], ["anything"]),
        # The clock of the machine was put back.
        (-1_801.0, [6, 7], ["anything"]),
    ],
)
def test_changes_that_may_be_lost_are_taken_for_all(
    monkeypatch: pytest.MonkeyPatch, halted: float, log: Sequence[int], expected: Sequence[object]
) -> None:
    moved = Time()
    monkeypatch.setattr(replication, "time", SimpleNamespace(time=moved))

    async def work() -> None:
        changes = Log(change(5))
        tail, heard = ChangesTail(), list[object]()
        tail.listen("thing", lambda one: heard.append(one.body.get("number", "anything")))
        await tail.start(changes)  # type: ignore[arg-type]
        running = asyncio.create_task(tail.run())
        await asyncio.sleep(0.1)
        assert heard == []
        changes.changes = [change(seq) for seq in log]
        moved.now += halted
        await asyncio.sleep(2.0)
        assert heard == expected
        # It goes on from there.
        newest = max([*log, 0])
        changes.changes.append(change(newest + 1))
        await asyncio.sleep(2.0)
        assert heard == [*expected, newest + 1]
        running.cancel()

    simulated(work())


def test_one_listener_that_fails_holds_up_no_other_change() -> None:
    async def work() -> None:
        changes = Log()
        tail, heard = ChangesTail(), list[int]()

        def fail(one: Change) -> None:
            raise TypeError("a body of another version")

        tail.listen("thing", fail)
        tail.listen("thing", lambda one: heard.append(one.seq))
        await tail.start(changes)  # type: ignore[arg-type]
        running = asyncio.create_task(tail.run())
        await asyncio.sleep(0.1)
        changes.changes += [change(1), change(2, "other"), change(3)]
        await asyncio.sleep(1.0)
        changes.away = True
        await asyncio.sleep(5.0)
        assert tail.problem is not None
        changes.changes.append(change(4))
        changes.away = False
        await asyncio.sleep(5.0)
        assert tail.problem is None
        assert heard == [1, 3, 4]
        running.cancel()

    simulated(work())


# -- hops


def signer(name: str, time: Time) -> HopSigner:
    key = SharedKey()
    key.use("s" * 32)
    clock = GroupClock(time)
    clock.measure(0.0, 0.0, 0.0)
    return HopSigner(name, key, clock)


@pytest.mark.parametrize(
    ("age", "good"),
    [(0.0, True), (GOOD_FOR, True), (GOOD_FOR + 0.1, False), (-GOOD_FOR, True), (-GOOD_FOR - 0.1, False)],
)
def test_a_hop_is_good_for_a_moment_of_the_groups_clock(age: float, good: bool) -> None:
    theirs, ours = Time(), Time()
    theirs.now -= age
    header = signer("a", theirs).sign("b", "POST", "/x", b"", {})
    taker = signer("b", ours)
    if good:
        assert taker.check(header, "POST", "/x").origin == "a"
    else:
        with pytest.raises(HopRefused, match="too old"):
            taker.check(header, "POST", "/x")


def test_a_hop_counts_once_however_many_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """With too many at once others are refused; those that were taken are not forgotten while they would be good."""
    monkeypatch.setattr(hops, "_USED_AT_MOST", 3)
    time, sending = Time(), Time()
    sender, taker = signer("a", sending), signer("b", time)
    # Made by a clock that is ahead: it is good for longest.
    sending.now = time.now + GOOD_FOR
    first = sender.sign("b", "POST", "/x", b"", {})
    taker.check(first, "POST", "/x")
    for later in (0.0, GOOD_FOR, 2 * GOOD_FOR):
        time.now = 10_000.0 + later
        sending.now = time.now
        with pytest.raises(HopRefused, match="before"):
            taker.check(first, "POST", "/x")
        if not later:
            for _ in range(2):
                taker.check(sender.sign("b", "POST", "/x", b"", {}), "POST", "/x")
        if later < 2 * GOOD_FOR:
            with pytest.raises(HopRefused, match="too many"):
                taker.check(sender.sign("b", "POST", "/x", b"", {}), "POST", "/x")
            with pytest.raises(HopRefused, match="before"):
                taker.check(first, "POST", "/x")
    time.now += 0.1
    sending.now = time.now
    taker.check(sender.sign("b", "POST", "/x", b"", {}), "POST", "/x")
    with pytest.raises(HopRefused, match="too old"):
        taker.check(first, "POST", "/x")


# -- usage


@pytest.mark.parametrize("most", [10, 100])
def test_a_window_tells_each_call_until_its_minute_is_over(most: int) -> None:
    """A small limit is told call by call; of a large one, calls that were close together are told as one."""
    made = UsageWindow("k")
    for at in (0.0, 0.5, 30.0):
        made.add(at, most)
    told = (
        (CountedCalls(60.5, 2), CountedCalls(90.0, 1))
        if most > 64
        else (CountedCalls(60.0, 1), CountedCalls(60.5, 1), CountedCalls(90.0, 1))
    )
    assert made.send(30.0) == (3, told)
    assert made.send(60.4)[0] == made.own(60.4) + (most > 64)
    assert made.send(60.5) == (1, told[-1:])
    assert made.send(90.0) == (0, ())


@pytest.mark.parametrize(
    ("own", "others", "most", "free"),
    [
        ([0.0, 10.0, 20.0], [], 3, 60.0),
        ([0.0, 10.0, 20.0], [], 2, 70.0),
        ([0.0, 10.0, 20.0], [], 1, 80.0),
        ([0.0, 10.0, 20.0], [], 4, 30.0),
        ([0.0, 10.0, 20.0], [], 0, 90.0),
        ([0.0], [CountedCalls(50.0, 1)], 2, 50.0),
        ([0.0], [CountedCalls(50.0, 1)], 1, 60.0),
        ([0.0], [CountedCalls(65.0, 4), CountedCalls(40.0, 1)], 2, 65.0),
        ([0.0, 10.0], [CountedCalls(80.0, 1)], 3, 60.0),
        ([], [CountedCalls(80.0, 3)], 3, 80.0),
    ],
)
def test_when_a_window_has_room_again(
    own: Sequence[float], others: Sequence[CountedCalls], most: int, free: float
) -> None:
    made = UsageWindow("k")
    for at in own:
        made.add(at, most)
    made.send(30.0)
    made.acknowledge(30.0, others)
    assert made.free_at(30.0, most) == free


class Table:
    """The table of usage, which fails as the test says, and keeps what it was told."""

    def __init__(self) -> None:
        self.told: list[tuple[int, Sequence[UsageRow]]] = []
        self.others: dict[str, Sequence[UsageRow]] = {}
        self.failure: str | None = None
        # While it is clear, what is asked of the table waits.
        self.answers = asyncio.Event()
        self.answers.set()
        self.asked = asyncio.Event()

    async def report(self, replica: str, number: int, rows: Sequence[UsageRow]) -> None:
        await self._fail()
        self.told.append((number, rows))

    async def _fail(self) -> None:
        self.asked.set()
        await self.answers.wait()
        if self.failure == "refused":
            raise StorageBusy("away")
        if self.failure == "failed":
            raise ZeroDivisionError("a fault of our own")
        if self.failure == "silent":
            await asyncio.Event().wait()

    async def of_others(self, replica: str, counters: Collection[str], now: float) -> Mapping[str, Sequence[UsageRow]]:
        await self._fail()
        return {key: self.others[key] for key in counters if key in self.others}


def shared(group: str = "main") -> SharedUsage:
    clock = GroupClock(asyncio.get_running_loop().time)
    found = SharedUsage(group, Membership(clock, LEASE), clock)
    found.on = True
    return found


@pytest.mark.parametrize(
    ("kind", "own", "others", "away", "room"),
    [
        ("window", 0, 0, False, True),
        ("window", 0, 4, False, False),
        ("window", 1, 3, False, False),
        ("level", 0, 4, False, None),
        ("level", 1, 3, False, None),
        ("level", 4, 0, False, False),
        ("level", 4, 2, False, False),
        ("level", 0, 4, True, False),
        ("level", 3, 0, True, True),
        ("window", 4, 0, True, False),
        # A slice of one that the database does not have yet.
        ("window", 1, 0, False, None),
        ("level", 1, 0, False, None),
    ],
)
async def test_room_in_a_limit_of_four(kind: str, own: int, others: int, away: bool, room: bool | None) -> None:
    usages = shared()
    usages.away = away
    usage = usages.window("t") if kind == "window" else usages.level("t")
    now = asyncio.get_running_loop().time()
    usage.acknowledge(now, [CountedCalls(now + 30.0, others)] if others else [])
    for _ in range(own):
        usage.add(now, 4)
    assert usages.has_room(usage, 4, now) is room


async def test_each_group_and_each_limit_has_a_counter_of_its_own() -> None:
    named = [("main", ("a", "b")), ("other", ("a", "b")), ("main", ("ab",)), ("main", ("a",)), ("main", ("b", "a"))]
    keys = [shared(group).window(*names).key for group, names in named]
    assert len(set(keys)) == len(named)
    assert shared().level("a", "b").key == keys[0]
    alone = shared()
    alone.on = False
    assert alone.window("a").key is None


@pytest.mark.parametrize("kind", ["window", "level"])
@pytest.mark.parametrize("failure", ["refused", "silent", "failed"])
def test_what_could_not_be_told_is_told_with_the_next_report(kind: str, failure: str) -> None:
    """The calls of a minute are told once only: nothing else brings them into a later report."""

    async def work() -> None:
        usages, table = shared(), Table()
        now = asyncio.get_running_loop().time
        await usages.start(table)
        usage = usages.window("t") if kind == "window" else usages.level("t")
        usage.add(now(), 4)
        usages.charged(usage, 4, now())
        table.failure = failure
        with suppress(ZeroDivisionError):
            await usages.exchange()
        assert table.told == []
        assert usages.away is (failure != "failed")
        assert usage.unknown(now()) == 1
        table.failure = None
        await usages.exchange()
        assert not usages.away
        assert [[row.used for row in rows] for _, rows in table.told] == [[1]]
        assert usage.unknown(now()) == 0

    simulated(work())


@pytest.mark.parametrize("failure", [None, "refused", "silent", "failed"])
@pytest.mark.parametrize("ends", [False, True])
def test_a_call_that_waits_for_a_report_goes_on_however_that_ends(failure: str | None, ends: bool) -> None:
    """One asks before the report is sent, and one while it is under way."""

    async def work() -> None:
        usages, table = shared(), Table()
        await usages.start(table)
        async with Tasks("calls") as calls:
            async with usages.running():
                table.failure, table.answers, table.asked = failure, asyncio.Event(), asyncio.Event()
                waiting = [calls.start(usages.ask(usages.window("first")))]
                await table.asked.wait()
                waiting.append(calls.start(usages.ask(usages.window("second"))))
                if not ends:
                    table.answers.set()
                    await asyncio.wait(waiting, timeout=10.0)
                    assert [one.done() for one in waiting] == [True, True]
            await asyncio.wait(waiting, timeout=10.0)
            assert [one.done() for one in waiting] == [True, True]
            assert usages.away

    simulated(work())


def test_calls_under_way_are_told_anew_until_they_end() -> None:
    """A row counts for a lease: one that is not renewed gives the place of a long call away."""

    async def work() -> None:
        usages, table = shared(), Table()
        now = asyncio.get_running_loop().time
        await usages.start(table)
        level = usages.level("t")
        level.add(now(), 4)
        usages.charged(level, 4, now())
        async with usages.running():
            for _ in range(20):
                await asyncio.sleep(1.0)
                _, rows = table.told[-1]
                assert rows[0].used == 1
                assert rows[0].expires > now()
                assert level.unknown(now()) == 0
            level.remove()
            usages.given_back(level)
            await asyncio.sleep(1.0)
            assert table.told[-1][1][0].used == 0
            told = len(table.told)
            await asyncio.sleep(30.0)
            assert len(table.told) == told, "there is nothing to tell"

    simulated(work())


@pytest.mark.parametrize(
    ("kind", "lasts", "counted"),
    [
        ("window", 60.0, True),
        ("window", 3600.0, False),
        ("level", LEASE, True),
        ("level", 3600.0, False),
        ("conversation", CONVERSATION_OVER, True),
        ("conversation", 3 * CONVERSATION_OVER, False),
    ],
)
def test_what_was_written_before_the_clock_was_set_back_does_not_count(kind: str, lasts: float, counted: bool) -> None:
    """It would count for as long as the clock was set back; a conversation counts for a day as it is."""

    async def work() -> None:
        usages, table = shared(), Table()
        now = asyncio.get_running_loop().time
        usages._clock.measure(now(), now(), now())
        await usages.start(table)
        lease = CONVERSATION_OVER if kind == "conversation" else None
        usage = usages.window("t") if kind == "window" else usages.level("t", lease=lease)
        expires = now() + lasts + 1.0
        times = ((expires - 60.0, 3),) if kind == "window" else None
        table.others = {usage.key or "": [UsageRow(usage.key or "", 3, times, expires)]}
        usage.add(now(), 4)
        usages.charged(usage, 4, now())
        await usages.exchange()
        assert usage.used(now()) == (4 if counted else 1)

    simulated(work())


def test_the_others_calls_count_by_the_clock_here() -> None:
    """The table has the times of the group's clock, which are far from those of the event loop."""

    async def work() -> None:
        usages, table = shared(), Table()
        now = asyncio.get_running_loop().time
        usages._clock.measure(now(), now() + 1e9, now())
        await usages.start(table)
        level, window = usages.level("level"), usages.window("window")
        assert level.key is not None
        assert window.key is not None
        theirs = now() + 1e9
        table.others = {
            level.key: [UsageRow(level.key, 2, None, theirs + 5.0)],
            window.key: [UsageRow(window.key, 3, ((theirs - 50.0, 1), (theirs, 2)), theirs + 61.0)],
        }
        for usage in (level, window):
            usages.charged(usage, 4, now())
        await usages.exchange()
        at = now()
        assert [level.used(at), level.used(at + 4.9), level.used(at + 5.1)] == [2, 2, 0]
        assert [window.used(at), window.used(at + 9.9), window.used(at + 10.1)] == [3, 3, 2]
        assert [window.used(at + MINUTE - 0.1), window.used(at + MINUTE + 0.1)] == [2, 0]

    simulated(work())


def test_the_end_of_a_replica_tells_what_ended_with_it() -> None:
    async def work() -> None:
        usages, table = shared(), Table()
        now = asyncio.get_running_loop().time
        await usages.start(table)
        level = usages.level("t")
        level.add(now(), 4)
        usages.charged(level, 4, now())
        await usages.exchange()
        level.remove()
        usages.given_back(level)
        await usages.end()
        assert [rows[0].used for _, rows in table.told] == [1, 0]
        assert [number for number, _ in table.told] == [1, 2]
        assert usages.away

    simulated(work())


def test_a_call_that_began_while_a_report_was_under_way_is_told_with_the_next() -> None:
    async def work() -> None:
        usages, table = shared(), Table()
        now = asyncio.get_running_loop().time
        await usages.start(table)
        level = usages.level("t")
        level.add(now(), 4)
        usages.charged(level, 4, now())
        report = table.report

        async def late(replica: str, number: int, rows: Sequence[Any]) -> None:
            await report(replica, number, rows)
            level.add(now(), 4)

        table.report = late  # type: ignore[method-assign]
        await usages.exchange()
        table.report = report  # type: ignore[method-assign]
        await usages.exchange()
        assert [rows[0].used for _, rows in table.told] == [1, 2]

    simulated(work())


# -- the key


async def test_what_was_sealed_before_the_key_of_the_group_came_can_be_opened() -> None:
    """By this process, which sealed it with a key of its own; others use the same key for a purpose."""
    one, other = SharedKey(), SharedKey()
    before = one.derive("sessions")
    assert one.derive_all("sessions") == (before,)
    for key in (one, other):
        key.use("a secret of the group")
    assert one.derive("sessions") == other.derive("sessions") not in (before, one.derive("hops"))
    assert one.derive_all("sessions") == (other.derive("sessions"), before)


@pytest.mark.parametrize(("key", "awaited"), [(None, True), ("k" * 32, False)])
async def test_a_key_in_the_configuration_is_known_before_the_database_answers(key: str | None, awaited: bool) -> None:
    async def away() -> None:
        raise StorageBusy("The database is away.")

    database: Any = SimpleNamespace(open=away, url="sqlite:///x")
    group = Replication(ReplicasConfig(key=key), database)
    assert not group.awaited
    await group.start()
    assert group.awaited is awaited
    assert await group.entered(0.0) is False
