"""The heartbeat, the log of changes, the shared key and signed hops, over one SQLite file."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from aggregator.domain.bounds.tasks import Tasks
from aggregator.replicas.group.clock import GroupClock
from aggregator.replicas.group.hops import HopRefused, HopSigner
from aggregator.replicas.group.membership import Membership
from aggregator.replicas.group.replication import ChangesTail
from aggregator.replicas.group.shared_key import SharedKey
from aggregator.storage.database import open_database
from aggregator.storage.opening import Database
from aggregator.storage.records import Change
from aggregator.storage.retention import CHANGES_KEPT, RetentionRules, prune

LEASE = 6.0


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[Database]:
    async with open_database(f"sqlite:///{tmp_path / 'shared.db'}") as opened:
        yield opened


async def without_old_changes(database: Database) -> int:
    """Remove all changes but the newest of each subject, as retention does in time; return how many."""
    later = time.time() + 2 * CHANGES_KEPT
    removed = await prune(database.engine, database.audit, RetentionRules(None, None, audited=False), now=later)
    return next(one.rows for one in removed if one.kind == "changes")


async def test_each_replica_has_a_slot_of_its_own_and_gives_it_back(database: Database) -> None:
    rows = database.replicas("main", LEASE)
    members = [Membership(GroupClock(), LEASE) for _ in range(3)]
    for member in members:
        await member.join(rows)
    assert [member.slot for member in members] == [0, 1, 2]
    await members[0].join(rows)
    assert {one.id for one in members[0].others()} == {members[1].id, members[2].id}
    await members[1].leave()
    late = Membership(GroupClock(), LEASE)
    await late.join(rows)
    assert late.slot == 1
    assert late.count == 3


async def test_a_clock_that_is_set_back_keeps_no_dead_replica(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that ended before is not there for that hour; the living are, with their next heartbeat."""
    rows = database.replicas("main", LEASE)
    one, other, dead = (Membership(GroupClock(), LEASE) for _ in range(3))
    for member in (dead, other, one):
        await member.join(rows)
    assert one.count == 3
    now = time.time() - 3600
    monkeypatch.setattr(time, "time", lambda: now)
    await other.join(rows)
    await one.join(rows)
    assert {found.id for found in one.others()} == {other.id}
    assert one.reachable(dead.id) is not None, "it may only be cut off"


async def test_the_group_is_known_with_the_second_heartbeat(database: Database) -> None:
    """With the first, those that start at the same moment may not have written theirs."""
    rows = database.replicas("main", LEASE)
    one, other = Membership(GroupClock(), LEASE), Membership(GroupClock(), LEASE)
    await one.join(rows)
    await other.join(rows)
    assert (one.count, one.settled, other.settled) == (1, False, False)
    await one.join(rows)
    assert (one.count, one.settled, other.settled) == (2, True, False)


async def test_groups_on_one_database_do_not_see_each_other(database: Database) -> None:
    one, other = Membership(GroupClock(), LEASE), Membership(GroupClock(), LEASE)
    await one.join(database.replicas("one", LEASE))
    await other.join(database.replicas("other", LEASE))
    assert (one.slot, one.others()) == (other.slot, other.others()) == (0, ())
    assert await database.shared_keys.of_group("one") != await database.shared_keys.of_group("other")


async def test_what_is_told_is_heard_once_and_in_order(database: Database) -> None:
    await database.changes.publish("thing", {"number": -1})
    tail, heard = ChangesTail(), list[Change]()
    done = asyncio.Event()

    def listen(change: Change) -> None:
        heard.append(change)
        if len(heard) == 20:
            done.set()

    tail.listen("thing", listen)
    await tail.start(database.changes)
    async with Tasks("the test") as tasks:
        tasks.start(tail.run())
        for number in range(20):
            await database.changes.publish("thing", {"number": number})
            await database.changes.publish("something else")
        await asyncio.wait_for(done.wait(), 10)
    assert [change.body["number"] for change in heard] == list(range(20))


async def test_who_was_halted_for_long_is_told_that_anything_may_have_changed(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    tail, heard = ChangesTail(), list[Change]()
    told = asyncio.Event()

    def listen(change: Change) -> None:
        heard.append(change)
        told.set()

    tail.listen("thing", listen)
    await tail.start(database.changes)
    await database.changes.publish("thing", {"number": 1})
    await database.changes.publish("other")
    await without_old_changes(database)
    monkeypatch.setattr(tail, "_looked", 0.0)
    async with Tasks("the test") as tasks:
        tasks.start(tail.run())
        await asyncio.wait_for(told.wait(), 10)
    assert [change.body for change in heard] == [{}]


async def test_old_changes_go_and_numbers_never_come_again(database: Database) -> None:
    for _ in range(3):
        await database.changes.publish("thing")
    newest = await database.changes.newest()
    assert await without_old_changes(database) == 2
    await database.changes.publish("thing")
    assert await database.changes.newest() == newest + 1


def signers(*names: str, secret: str = "s" * 32) -> list[HopSigner]:
    found = []
    for name in names:
        key = SharedKey()
        key.use(secret)
        found.append(HopSigner(name, key, GroupClock()))
    return found


def test_a_hop_is_taken_by_the_one_it_is_for_and_once() -> None:
    sender, taker, other = signers("a", "b", "c")
    header = sender.sign("b", "POST", "/x", b"body", {"agent": "ada"})
    with pytest.raises(HopRefused, match="another replica"):
        other.check(header, "POST", "/x")
    for method, path in (("GET", "/x"), ("POST", "/y")):
        with pytest.raises(HopRefused, match="changed"):
            taker.check(header, method, path)
    hop = taker.check(header, "POST", "/x")
    assert (hop.origin, hop.claims) == ("a", {"agent": "ada"})
    assert hop.fits(b"body")
    assert not hop.fits(b"other")
    with pytest.raises(HopRefused, match="before"):
        taker.check(header, "POST", "/x")


@pytest.mark.parametrize("header", [None, "", "x", "é", "A" * 60, "AAAA" * 3000])
def test_what_was_not_signed_here_is_no_hop(header: str | None) -> None:
    (taker,) = signers("b")
    with pytest.raises(HopRefused, match="not signed"):
        taker.check(header, "POST", "/x")


def test_another_group_cannot_make_a_hop() -> None:
    (stranger,), (taker,) = signers("a", secret="t" * 32), signers("b")
    with pytest.raises(HopRefused, match="not signed"):
        taker.check(stranger.sign("b", "POST", "/x", b"", {}), "POST", "/x")
