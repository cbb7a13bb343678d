"""The sessions of the console and links that sign in, as rows: when they end, for whom, and how many there are."""

from typing import Final

import pytest

from aggregator.storage import console_sessions
from aggregator.storage.console_sessions import IDLE_FOR, LASTS_FOR, LINK_FOR
from aggregator.storage.errors import NoSuchRow
from aggregator.storage.opening import Database

NOW: Final = 1_000_000.0
# Steps between two requests of a person who stays: shorter than a session may be idle.
STEP: Final = IDLE_FOR - 1


@pytest.mark.parametrize(("later", "good"), [(0.0, True), (LINK_FOR - 0.1, True), (LINK_FOR, False)])
async def test_a_link_signs_in_once_and_in_time(database: Database, later: float, good: bool) -> None:
    rows = database.console
    await rows.add_link("one", "ada", "operator", now=NOW)
    await rows.add_link("other", "bob", "viewer", now=NOW)
    found = await rows.take_link("one", now=NOW + later)
    assert found == (("ada", "operator") if good else None)
    assert await rows.take_link("one", now=NOW) is None, "also one that came too late is used up"
    assert await rows.take_link("a guess", now=NOW) is None
    assert await rows.take_link("other", now=NOW) == ("bob", "viewer")


@pytest.mark.parametrize(
    ("seen", "later", "good"),
    [
        (0.0, IDLE_FOR - 0.1, True),
        (0.0, IDLE_FOR, False),
        (61.0, IDLE_FOR + 60.9, True),
        (61.0, IDLE_FOR + 61.0, False),
    ],
)
async def test_a_session_ends_an_hour_after_its_last_request(
    database: Database, seen: float, later: float, good: bool
) -> None:
    rows = database.console
    made = await rows.begin("one", "ada", "approver", "key-1", now=NOW)
    assert await rows.find("one", now=NOW + seen) is not None
    assert await rows.holds(made.id, now=NOW + later) is good
    assert [one.id for one in await rows.all(now=NOW + later)] == ([made.id] if good else [])
    found = await rows.find("one", now=NOW + later)
    assert (found is not None) is good
    if found is not None:
        assert (found.id, found.person, found.role, found.key_id) == (made.id, "ada", "approver", "key-1")
    assert await rows.find("a guess", now=NOW) is None
    assert not await rows.holds("a guess", now=NOW)


async def test_a_session_ends_after_half_a_day_however_much_it_is_used(database: Database) -> None:
    rows = database.console
    made = await rows.begin("one", "ada", "viewer", None, now=NOW)
    at = 0.0
    while at + STEP < LASTS_FOR:
        at += STEP
        assert await rows.find("one", now=NOW + at) is not None
    assert await rows.holds(made.id, now=NOW + LASTS_FOR - 0.1)
    assert not await rows.holds(made.id, now=NOW + LASTS_FOR)
    assert await rows.all(now=NOW + LASTS_FOR) == []
    assert await rows.find("one", now=NOW + LASTS_FOR) is None


async def test_looking_whether_a_session_holds_is_no_use_of_it(database: Database) -> None:
    """A stream that stays open must not keep a person signed in who has gone."""
    rows = database.console
    made = await rows.begin("one", "ada", "viewer", None, now=NOW)
    for later in range(0, int(IDLE_FOR), 600):
        assert await rows.holds(made.id, now=NOW + later)
    assert not await rows.holds(made.id, now=NOW + IDLE_FOR)


async def test_a_session_that_is_ended_ends_alone(database: Database) -> None:
    rows = database.console
    first = await rows.begin("one", "ada", "viewer", None, now=NOW)
    second = await rows.begin("other", "ada", "viewer", None, now=NOW)
    await rows.end(first.id)
    assert await rows.find("one", now=NOW) is None
    assert not await rows.holds(first.id, now=NOW)
    assert await rows.find("other", now=NOW) is not None
    assert [one.id for one in await rows.all(now=NOW)] == [second.id]
    with pytest.raises(NoSuchRow):
        await rows.end(first.id)


async def test_with_too_many_the_one_that_was_unused_longest_ends(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console_sessions, "_MOST", 3)
    rows = database.console
    for number in range(3):
        await rows.begin(f"s{number}", "ada", "viewer", None, now=NOW + number)
    # The oldest is in use.
    assert await rows.find("s0", now=NOW + 100) is not None
    await rows.begin("s3", "ada", "viewer", None, now=NOW + 101)
    assert [await rows.find(f"s{number}", now=NOW + 101) is not None for number in range(4)] == [
        True,
        False,
        True,
        True,
    ]
