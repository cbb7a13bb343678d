"""The tables of accounts: whose claim counts, which tokens replace which, and what a link is good for.

Times that the tables read themselves are moved by hand, so that no claim is waited out.
"""

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Final

import pytest

from aggregator.accounts.storage import vault
from aggregator.accounts.storage.records import ConnectRecord, GrantRecord, digest_of
from aggregator.accounts.storage.vault import ConnectRows
from aggregator.storage.opening import Database

SECONDS: Final = 15.0


def grant(
    owner: str = "alice", server: str = "docs", issuer: str = "https://idp", sealed: str = "first"
) -> GrantRecord:
    """A grant of one owner for one server, from one issuer."""
    return GrantRecord(
        id=digest_of(server, issuer, owner),
        account=digest_of(server, owner),
        server=server,
        resource="https://docs",
        resource_digest="r",
        issuer=issuer,
        owner=owner,
        scopes=("read",),
        problem=None,
        expires=None,
        renewable=True,
        created=1.0,
        updated=2.0,
        key_id="k",
        sealed="first",
    )


def connect(id: str, *, created: float = 0.0, expires: float = 600.0, state: str | None = None) -> ConnectRecord:
    return ConnectRecord(id, state, created, expires, "k", "sealed")


async def kept(database: Database, record: GrantRecord) -> GrantRecord:
    found = await database.vault.grants.get(record.id)
    assert found is not None
    return found


class MovedTime:
    """The time that the table of grants reads: a file has none of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000.0
        monkeypatch.setattr(vault, "time", SimpleNamespace(time=lambda: self.now))

        async def now(*_: object) -> float:
            return self.now

        monkeypatch.setattr(vault.GrantRows, "_now", now)


@pytest.mark.parametrize(("later", "again"), [(0.0, False), (SECONDS - 0.1, False), (SECONDS, True)])
async def test_a_claim_is_of_one_until_its_time_is_over(
    database: Database, monkeypatch: pytest.MonkeyPatch, later: float, again: bool
) -> None:
    """Two that present one refresh token end the grant at many issuers; one that died must not hold it for ever."""
    time = MovedTime(monkeypatch)
    rows, record = database.vault.grants, grant()
    version = await rows.put(record, "p")
    assert await rows.claim(record.id, version, "one", SECONDS)
    time.now += later
    assert await rows.claim(record.id, version, "other", SECONDS) is again
    assert not await rows.claim(record.id, version, "third", SECONDS), "one of the two has it now"


@pytest.mark.parametrize(("by", "free"), [("one", True), ("other", False)])
async def test_a_claim_is_given_back_by_who_has_it(database: Database, by: str, free: bool) -> None:
    rows, record = database.vault.grants, grant()
    version = await rows.put(record, "p")
    assert await rows.claim(record.id, version, "one", SECONDS)
    await rows.release(record.id, by)
    assert await rows.claim(record.id, version, "third", SECONDS) is free


async def test_only_the_version_that_was_read_is_claimed(database: Database) -> None:
    rows, record = database.vault.grants, grant()
    version = await rows.put(record, "p")
    for wrong in (version - 1, version + 1):
        assert not await rows.claim(record.id, wrong, "one", SECONDS)
    assert await rows.claim(record.id, version, "one", SECONDS)


async def test_an_account_that_is_connected_anew_has_no_claim(database: Database) -> None:
    """The claim was for the tokens of before; the new ones can be renewed at once."""
    rows, record = database.vault.grants, grant()
    before = await rows.put(record, "p")
    assert await rows.claim(record.id, before, "one", SECONDS)
    now = await rows.put(replace(record, sealed="second"), "p")
    assert now == before + 1
    assert await rows.claim(record.id, now, "other", SECONDS)


async def _renew(database: Database, read: GrantRecord) -> bool:
    return await database.vault.grants.renew(replace(read, sealed="late"))


async def _mark(database: Database, read: GrantRecord) -> bool:
    return await database.vault.grants.mark(read, "it was ended", "p")


async def _stay(database: Database, read: GrantRecord) -> None:
    assert await kept(database, read) == read


async def _connect_anew(database: Database, read: GrantRecord) -> None:
    await database.vault.grants.put(replace(read, sealed="anew"), "p")


async def _end(database: Database, read: GrantRecord) -> None:
    await database.vault.grants.remove(read.server, read.owner, read.account, "p")


async def _end_and_connect(database: Database, read: GrantRecord) -> None:
    """Perhaps another person did, who has the account of this agent now."""
    await _end(database, read)
    await _connect_anew(database, read)


async def _renew_by_another(database: Database, read: GrantRecord) -> None:
    assert await database.vault.grants.renew(replace(read, sealed="anew"))


@pytest.mark.parametrize("late", [_renew, _mark])
@pytest.mark.parametrize("meanwhile", [_stay, _connect_anew, _end, _end_and_connect, _renew_by_another])
async def test_what_comes_late_counts_for_the_version_it_was_read_as(
    database: Database,
    late: Callable[[Database, GrantRecord], "object"],
    meanwhile: Callable[[Database, GrantRecord], "object"],
) -> None:
    """Tokens, or the word that a person has to connect again, for a grant that has others by now."""
    rows = database.vault.grants
    await rows.put(grant(), "p")
    read = await kept(database, grant())
    await meanwhile(database, read)  # type: ignore[misc]
    assert await late(database, read) is (meanwhile is _stay)  # type: ignore[misc]
    found = await rows.get(read.id)
    if meanwhile is _end:
        assert found is None
    elif meanwhile is _stay:
        assert found is not None
        assert (found.version, found.sealed, found.problem) == (
            read.version + 1,
            "late" if late is _renew else "first",
            None if late is _renew else "it was ended",
        )
    else:
        assert found is not None
        assert (found.sealed, found.problem) == ("anew", None)


@pytest.mark.parametrize("end", [_renew, _mark])
async def test_what_was_renewed_or_ended_has_no_claim(
    database: Database, end: Callable[[Database, GrantRecord], "object"]
) -> None:
    rows, record = database.vault.grants, grant()
    version = await rows.put(record, "p")
    assert await rows.claim(record.id, version, "one", SECONDS)
    assert await end(database, await kept(database, record))  # type: ignore[misc]
    assert await rows.claim(record.id, version + 1, "other", SECONDS)


@pytest.mark.parametrize(
    ("other", "stays"),
    [
        (grant(issuer="https://older-idp"), False),
        (grant(owner="bob"), True),
        (grant(server="mail"), True),
    ],
    ids=["another issuer", "another owner", "another server"],
)
async def test_a_new_grant_replaces_what_its_account_had(database: Database, other: GrantRecord, stays: bool) -> None:
    """An account has one grant; no grant of another account goes."""
    rows = database.vault.grants
    await rows.put(other, "p")
    await rows.put(grant(), "p")
    assert {one.id for one in await rows.all()} == {grant().id} | ({other.id} if stays else set())
    removed = await rows.remove("docs", "alice", grant().account, "p")
    assert [one.id for one in removed] == [grant().id]
    assert {one.id for one in await rows.all()} == ({other.id} if stays else set())


async def test_each_row_is_found_by_its_own_names(database: Database) -> None:
    rows = database.vault.grants
    alices, bobs, mails = grant(), grant(owner="bob"), grant(server="mail")
    for one in (alices, bobs, mails):
        await rows.put(one, "p")
    assert [one.id for one in await rows.of_account(alices.account)] == [alices.id]
    assert {one.id for one in await rows.of_server("docs")} == {alices.id, bobs.id}
    assert (await rows.versions([bobs.id])).keys() == {bobs.id}
    assert await rows.versions([]) == {}


async def test_others_are_told_of_what_changes_for_a_person_and_of_nothing_else(database: Database) -> None:
    """Whose account, at which server, connected or ended, and by whom: a process does not take its own news."""
    rows, vault = database.vault.grants, database.vault
    _, number = await vault.version()
    await rows.put(grant(), "one")
    read = await kept(database, grant())
    assert await rows.claim(read.id, read.version, "c", SECONDS)
    assert await rows.renew(read)
    assert await rows.mark(await kept(database, grant()), "it was ended", "two")
    await rows.remove("docs", "alice", grant().account, "three")
    told = [(one["server"], one["owner"], one["connected"], one["by"]) for one in await vault.changes_after(number)]
    assert told == [("docs", "alice", True, "one"), ("docs", "alice", False, "two"), ("docs", "alice", False, "three")]


# -- links


@pytest.mark.parametrize(("now", "found"), [(599.9, True), (600.0, False), (601.0, False)])
async def test_a_link_and_its_answer_are_found_until_they_expire(database: Database, now: float, found: bool) -> None:
    rows = database.vault.connects
    await rows.put(connect("c"))
    await rows.put(connect("other"))
    assert await rows.begin("c", "state", "k", "sealed")
    by_id, by_state = await rows.get("c", now), await rows.of_state("state", now)
    assert (by_id is not None, by_state is not None) == (found, found)
    if by_id is not None and by_state is not None:
        assert by_id == by_state == connect("c", state="state")
    assert await rows.of_state("another state", now) is None


async def test_a_state_is_used_up_by_the_first_and_a_link_that_was_removed_begins_nothing(database: Database) -> None:
    rows = database.vault.connects
    for id in ("c", "other"):
        await rows.put(connect(id))
        assert await rows.begin(id, f"state of {id}", "k", "sealed")
    assert not await rows.take_state("c", "state of other")
    assert await rows.take_state("c", "state of c")
    assert not await rows.take_state("c", "state of c")
    assert await rows.of_state("state of c", 1.0) is None
    assert await rows.of_state("state of other", 1.0) is not None
    assert await rows.remove("c")
    assert not await rows.remove("c")
    assert not await rows.begin("c", "state", "k", "sealed")
    assert await rows.get("other", 1.0) is not None


async def test_links_that_expired_go_and_then_the_oldest_of_too_many(database: Database) -> None:
    """A program that asks again and again costs a bounded number of rows; the newest links are good."""
    rows = ConnectRows(database.engine, at_most=3)
    for one in (connect("c1", created=1.0), connect("c2", created=2.0), connect("expired", created=3.0, expires=5.0)):
        await rows.put(one)
    await rows.put(connect("new", created=5.0))
    assert [await rows.get(id, 1.0) is not None for id in ("c1", "c2", "expired", "new")] == [True, True, False, True]
    await rows.put(connect("newer", created=6.0))
    assert [await rows.get(id, 1.0) is not None for id in ("c1", "c2", "new", "newer")] == [False, True, True, True]
