"""Queued approvals: bound to agent, tool and arguments; one use; an end."""

from typing import Any

import pytest

from aggregator.storage import approvals as module
from aggregator.storage.approvals import Approvals, same_person
from aggregator.storage.errors import AlreadyAgreed, NoSuchRow, QueueFull
from aggregator.storage.opening import Database
from aggregator.storage.records import Approval

CALL = ("bot", "github.delete_repo", "d1")


@pytest.fixture
def queue(database: Database) -> Approvals:
    return database.approvals


async def _asked(queue: Approvals, *call: str, expires: float = 100.0, now: float = 1.0) -> Approval:
    agent, tool, digest = call or CALL
    return await queue.ask(agent, tool, digest, "Delete the repository x", expires=expires, now=now)


async def test_from_question_to_use(queue: Approvals) -> None:
    asked = await _asked(queue)
    assert asked.id.startswith("apr_")
    assert (asked.status, asked.created, asked.expires) == ("pending", 1.0, 100.0)
    assert await queue.find_answer(*CALL, now=2.0) is None
    assert not await queue.consume(asked.id, *CALL, now=2.0)
    approved = await queue.approve(asked.id, "ada", now=3.0)
    assert (approved.status, approved.decided, approved.decided_by) == ("approved", 3.0, "ada")
    assert await queue.find_answer(*CALL, now=4.0) == approved
    assert await queue.consume(asked.id, *CALL, now=5.0)
    assert not await queue.consume(asked.id, *CALL, now=5.0)
    assert await queue.find_answer(*CALL, now=6.0) is None
    used = await queue.get(asked.id, now=6.0)
    assert (used.status, used.used) == ("used", 5.0)


@pytest.mark.parametrize(
    "call",
    [("Bot", CALL[1], CALL[2]), (CALL[0], "github.delete_repo2", CALL[2]), (CALL[0], CALL[1], "d2"), ("", "", "")],
)
async def test_a_yes_is_good_for_this_very_call(queue: Approvals, call: tuple[str, str, str]) -> None:
    asked = await _asked(queue)
    await queue.approve(asked.id, "ada", now=2.0)
    assert await queue.find_answer(*call, now=3.0) is None
    assert not await queue.consume(asked.id, *call, now=3.0)
    assert (await queue.get(asked.id, now=3.0)).status == "approved"


async def test_a_clock_that_is_set_back_makes_no_answer_last_longer(queue: Approvals) -> None:
    """How long ago it was given is not known then: the call asks again. What waits is asked again, too."""
    hours = 3 * 3600.0
    asked = await _asked(queue, expires=hours + 100.0, now=hours)
    await queue.approve(asked.id, "ada", valid_until=hours + 60.0, now=hours + 1.0)
    waits = await _asked(queue, "bot", "github.delete_repo", "d2", expires=hours + 100.0, now=hours + 1.0)
    assert await queue.waiting(now=hours + 2.0) == 1
    for now in (hours - 50.0, hours + 2.0):
        # By so much the clocks of two processes may differ.
        assert await queue.find_answer(*CALL, now=now) is not None
    for now in (0.0, hours - 3000.0):
        assert await queue.find_answer(*CALL, now=now) is None
        assert not await queue.consume(asked.id, *CALL, now=now)
        assert await queue.waiting(now=now) == 0
        assert [one.status for one in await queue.list(now=now)] == ["expired", "expired"]
        with pytest.raises(NoSuchRow):
            await queue.approve(waits.id, "ada", now=now)
        with pytest.raises(NoSuchRow):
            await queue.deny(asked.id, "ada", now=now)
    assert (await _asked(queue, expires=100.0, now=1.0)).id != asked.id


async def test_the_same_question_waits_once(queue: Approvals) -> None:
    first = await _asked(queue)
    assert await _asked(queue, now=50.0) == first
    assert (await _asked(queue, "bot", "github.delete_repo", "d2")).id != first.id
    await queue.deny(first.id, "ada", now=3.0)
    assert (await _asked(queue)).id != first.id


async def test_a_no_counts_for_a_while(queue: Approvals) -> None:
    """B6: for this very call alone, with the words of the person who said it."""
    asked = await _asked(queue)
    denied = await queue.deny(asked.id, "ada", note="too much", now=3.0)
    assert (denied.status, denied.decided_by, denied.note) == ("denied", "ada", "too much")
    assert denied.expires == 3.0 + module.DENIED_FOR
    assert await queue.find_answer(*CALL, now=denied.expires - 1) == denied
    assert await queue.find_answer(*CALL, now=denied.expires) is None
    assert await queue.find_answer(CALL[0], CALL[1], "d2", now=4.0) is None
    assert not await queue.consume(asked.id, *CALL, now=4.0)


async def test_what_is_agreed_to_is_kept(queue: Approvals) -> None:
    """B6: the arguments as they are shown; rows of before have none."""
    asked = await queue.ask(*CALL, "text", arguments='{"a":1}', expires=100.0, now=1.0)
    assert (await queue.get(asked.id, now=2.0)).arguments == '{"a":1}'
    assert (await _asked(queue, "bot", "a.b", "d2")).arguments is None


async def test_time_ends_questions_and_answers(queue: Approvals) -> None:
    asked, other = await _asked(queue), await _asked(queue, "other", "a.b", "d")
    await queue.approve(other.id, "ada", now=2.0)
    assert {found.status for found in await queue.list(now=100.0)} == {"expired"}
    with pytest.raises(NoSuchRow, match="is expired already"):
        await queue.approve(asked.id, "ada", now=100.0)
    assert not await queue.consume(other.id, "other", "a.b", "d", now=100.0)
    assert await queue.find_answer("other", "a.b", "d", now=100.0) is None
    again = await _asked(queue, now=100.0, expires=200.0)
    assert again.id != asked.id


@pytest.mark.parametrize("answers", [("deny", "approve"), ("approve", "approve"), ("deny", "deny")])
async def test_an_answer_stays(queue: Approvals, answers: tuple[str, str]) -> None:
    asked = await _asked(queue)
    first, second = (getattr(queue, answer) for answer in answers)
    status = (await first(asked.id, "ada", now=2.0)).status
    with pytest.raises(NoSuchRow, match=f"is {status} already"):
        await second(asked.id, "eve", now=3.0)
    assert (await queue.get(asked.id, now=3.0)).decided_by == "ada"


async def test_a_yes_can_be_taken_back_until_it_is_used(queue: Approvals) -> None:
    asked = await _asked(queue)
    await queue.approve(asked.id, "ada", now=2.0)
    assert (await queue.deny(asked.id, "eve", now=3.0)).status == "denied"
    assert not await queue.consume(asked.id, *CALL, now=4.0)


async def test_a_yes_for_a_time(queue: Approvals) -> None:
    """B6: it counts its uses until its end, however soon the question would have expired."""
    asked = await _asked(queue)
    approved = await queue.approve(asked.id, "ada", note="for the fair", valid_until=500.0, now=2.0)
    assert (approved.status, approved.note, approved.valid_until, approved.expires) == (
        "approved",
        "for the fair",
        500.0,
        500.0,
    )
    for use in range(1, 4):
        assert await queue.consume(asked.id, *CALL, now=100.0 + use)
        found = await queue.find_answer(*CALL, now=110.0)
        assert found is not None
        assert (found.uses, found.used, found.status) == (use, 100.0 + use, "approved")
    assert not await queue.consume(asked.id, *CALL, now=500.0)
    assert (await queue.get(asked.id, now=500.0)).status == "expired"


async def test_the_shortest_time_of_several_people_counts(queue: Approvals) -> None:
    """B6: and one who says once has said once."""
    for number, (times, holds) in enumerate([((9.0, 7.0), 7.0), ((9.0, None), None), ((None, 9.0), None)]):
        asked = await queue.ask("bot", "a.b", str(number), "text", needed=2, expires=100.0, now=1.0)
        first = await queue.approve(asked.id, "ada", note="fine", valid_until=times[0], now=2.0)
        assert (first.status, first.decided, first.agreed) == ("pending", None, '["ada"]')
        with pytest.raises(AlreadyAgreed, match="1 more must"):
            await queue.approve(asked.id, "cli:ADA", now=3.0)
        both = await queue.approve(asked.id, "bob", note="fine too", valid_until=times[1], now=3.0)
        assert (both.status, both.decided_by, both.valid_until) == ("approved", "ada, bob", holds)
        assert both.note == "fine\nfine too"


async def test_a_yes_of_fewer_people_than_the_call_needs_now_is_not_used(queue: Approvals) -> None:
    """B6: the policy may have changed since it was given."""
    asked = await _asked(queue)
    await queue.approve(asked.id, "ada", now=2.0)
    assert await queue.find_answer(*CALL, needed=2, now=3.0) is None
    assert not await queue.consume(asked.id, *CALL, needed=2, now=3.0)
    assert await queue.consume(asked.id, *CALL, needed=1, now=3.0)


@pytest.mark.parametrize("meanwhile", ["more are needed", "another agrees", "another refuses"])
async def test_an_answer_that_came_between_counts(
    queue: Approvals, monkeypatch: pytest.MonkeyPatch, meanwhile: str
) -> None:
    """B6: the request is read before it is answered, and another process may answer in that moment."""
    several = 3 if meanwhile == "another agrees" else 1
    asked = await queue.ask(*CALL, "text", needed=several, expires=100.0, now=1.0)
    read, reads = queue.get, 0

    async def late(id: str, *, now: float) -> Approval:
        nonlocal reads
        found, reads = await read(id, now=now), reads + 1
        if reads == 1:
            if meanwhile == "more are needed":
                await queue.ask(*CALL, "text", needed=2, expires=100.0, now=now)
            elif meanwhile == "another agrees":
                await queue.approve(id, "bob", now=now)
            else:
                await queue.deny(id, "bob", now=now)
        return found

    monkeypatch.setattr(queue, "get", late)
    if meanwhile == "another refuses":
        with pytest.raises(NoSuchRow, match="is denied already"):
            await queue.approve(asked.id, "ada", now=2.0)
        return
    found = await queue.approve(asked.id, "ada", now=2.0)
    agreed = '["ada"]' if meanwhile == "more are needed" else '["bob", "ada"]'
    assert (found.status, found.agreed) == ("pending", agreed)


async def test_what_was_used_lately_is_listed_as_lately_changed(queue: Approvals) -> None:
    asked = await _asked(queue)
    await queue.approve(asked.id, "ada", now=2.0)
    await queue.consume(asked.id, *CALL, now=90.0)
    for since, listed in ((1.5, [asked.id]), (89.0, [asked.id]), (101.0, [])):
        assert [found.id for found in await queue.list(since=since, now=200.0)] == listed
    used = await queue.last_approved(*CALL[:2], before=100.0)
    assert used is not None
    assert used.status == "used"


async def test_a_page_that_showed_a_question_refuses_no_yes(queue: Approvals) -> None:
    """B6: a person refuses what they have seen."""
    asked = await _asked(queue)
    await queue.approve(asked.id, "ada", now=2.0)
    with pytest.raises(NoSuchRow, match="is approved already"):
        await queue.deny(asked.id, "bob", seen="pending", now=3.0)
    assert (await queue.deny(asked.id, "bob", seen="approved", now=3.0)).status == "denied"


async def test_a_note_that_no_database_takes(queue: Approvals) -> None:
    """B6: halves of characters and NUL are left out of it, and the answer counts."""
    asked = await _asked(queue)
    assert (await queue.deny(asked.id, "ada", note="a\0b\ud83dc" + "x" * 600, now=2.0)).note == "ab?c" + "x" * 495


async def test_what_a_page_needs(queue: Approvals) -> None:
    """B6: the count, the newest ones without their arguments, and what was agreed to before."""
    for number in range(3):
        await queue.ask(*CALL[:2], str(number), "text", arguments=f'{{"n":{number}}}', expires=100.0, now=1.0 + number)
    first, second, third = await queue.list(now=5.0)
    await queue.approve(first.id, "ada", now=5.0)
    await queue.approve(second.id, "ada", now=6.0)
    assert await queue.waiting(now=7.0) == 1
    newest = await queue.list(since=2.0, most=2, now=7.0)
    assert [found.id for found in newest] == [second.id, third.id]
    assert newest[0].arguments is None
    before = await queue.last_approved(*CALL[:2], before=6.5)
    assert before is not None
    assert (before.id, before.arguments) == (second.id, '{"n":1}')
    assert await queue.last_approved(*CALL[:2], before=5.5) == await queue.get(first.id, now=7.0)
    assert await queue.last_approved("other", CALL[1], before=7.0) is None
    assert await queue.answered({first.id, third.id, "apr_gone"}, now=7.0) == {first.id, "apr_gone"}


@pytest.mark.parametrize("name", ["approve", "deny"])
async def test_an_id_that_nobody_has(queue: Approvals, name: str) -> None:
    act: Any = getattr(queue, name)
    for id in ("apr_none", "' OR 1=1 --", "%"):
        with pytest.raises(NoSuchRow, match="There is no approval"):
            await act(id, "ada", now=1.0)


async def test_lists(queue: Approvals) -> None:
    ids = [(await _asked(queue, "bot", "a.b", str(n), now=float(n))).id for n in range(4)]
    await queue.approve(ids[2], "ada", now=5.0)
    assert [found.id for found in await queue.list(now=6.0)] == ids
    assert [found.id for found in await queue.list("pending", now=6.0)] == [ids[0], ids[1], ids[3]]
    assert [found.id for found in await queue.list("approved", now=6.0)] == [ids[2]]


async def test_an_agent_cannot_flood_the_queue(queue: Approvals, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PENDING_AT_MOST", 3)
    for number in range(3):
        await _asked(queue, "bot", "a.b", str(number))
    with pytest.raises(QueueFull, match="already wait"):
        await _asked(queue, "bot", "a.b", "3")
    await _asked(queue, "other", "a.b", "3")
    await _asked(queue, "bot", "a.b", "0")
    assert (await _asked(queue, "bot", "a.b", "3", now=100.0, expires=200.0)).status == "pending"


async def test_old_ones_are_forgotten(queue: Approvals) -> None:
    old = await _asked(queue)
    await _asked(queue, "bot", "a.b", "new", now=100.0 + module.KEPT, expires=1e9)
    assert old.id in {found.id for found in await queue.list(now=1e8)}
    await _asked(queue, "bot", "a.b", "newer", now=101.0 + module.KEPT, expires=1e9)
    assert old.id not in {found.id for found in await queue.list(now=1e8)}


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("ada", "cli:Ada", True),
        ("CLI:ada", "ada", True),
        ("Ada  Lovelace", " ada lovelace", True),
        ("Jos\u00e9", "Jose\u0301", True),
        ("Ada", "Ada B", False),
    ],
)
def test_a_person_is_one_in_any_spelling(one: str, other: str, same: bool) -> None:
    assert same_person(one, other) is same
