"""Limits of calls at single moments, each condition by itself: what is charged, when there is room again, and whose."""

import asyncio
import random
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, Final

import pytest

from aggregator.domain.errors import OverLimit
from aggregator.gateway.calls import rate_limits
from aggregator.gateway.calls.rate_limits import FREE, Charge, Counted, RateLimits
from aggregator.policy.limits import Limit, LimitKind, Limits
from tests.replicas.alone import alone

NONE: Final = Limits()
# A name that a shorter one stands for.
LONG: Final = "x" * 65


def limit(kind: LimitKind, most: int, owner: str = "agent") -> Limit:
    return Limit(kind, most, (owner, kind, "rule", "*"), "the rule", "policies/1.yaml:3")


class Here:
    """The limits of a process, by a clock that is moved by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1_000.0
        monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: self.now)
        self.limits = RateLimits(alone())

    def call(self, *limits: Limit, conversation: str | None = None, again: bool = False) -> OverLimit | None:
        """Make a call that ends at once; return why it is refused."""
        try:
            with self.limits.charged("t", Limits(limits), conversation, again=again):
                return None
        except OverLimit as refused:
            return refused

    def has_room(self, *limits: Limit, conversation: str | None = None) -> bool:
        try:
            self.limits.look("t", Limits(limits), conversation)
        except OverLimit:
            return False
        return True


@pytest.fixture
async def here(monkeypatch: pytest.MonkeyPatch) -> Here:
    return Here(monkeypatch)


async def test_calls_of_a_minute(here: Here) -> None:
    two = limit("per_minute", 2)
    for _ in range(2):
        assert here.has_room(two)
        assert here.call(two) is None
        here.now += 10.0
    assert not here.has_room(two)
    refused = here.call(two)
    assert refused is not None
    assert (refused.details["limit"], refused.details["most"], refused.details["retry_after"]) == ("per_minute", 2, 40)
    assert (refused.blame.rule, refused.blame.source) == ("the rule", "policies/1.yaml:3")  # type: ignore[union-attr]
    here.now += 39.9
    assert here.call(two) is not None
    here.now += 0.1
    assert here.call(two) is None
    assert here.call(two) is not None, "what was refused is not charged, and what was not is"


async def test_calls_under_way(here: Here) -> None:
    two = limit("concurrent", 2)
    first = here.limits.charged("t", Limits((two,)), None)
    with suppress(ZeroDivisionError), first, here.limits.charged("t", Limits((two,)), None):
        assert not here.has_room(two)
        refused = here.call(two)
        assert refused is not None
        assert (refused.details["limit"], refused.details["retry_after"]) == ("concurrent", 1)
        raise ZeroDivisionError
    assert here.has_room(two)
    here.now += 10_000.0
    with here.limits.charged("t", Limits((two,)), None):
        assert here.limits.left(two) == 1
    assert here.limits.left(two) == 2


async def test_calls_of_a_conversation(here: Here) -> None:
    one = limit("per_conversation", 1)
    assert here.limits.left(one, "a") == 1
    assert here.call(one, conversation="a") is None
    assert not here.has_room(one, conversation="a")
    assert here.call(one, conversation="a") is not None
    assert here.call(one, conversation="b") is None
    assert [here.limits.left(one, name) for name in ("a", "b", "c", None)] == [0, 0, 1, None]
    here.now += 100_000.0
    assert here.call(one, conversation="a") is not None, "it does not grow old"
    for asked in (here.call(one), here.call(one, conversation=None)):
        assert asked is not None
        assert "names none" in asked.message
    assert not here.has_room(one)
    long, other = "x" * 65, "x" * 66
    assert here.call(one, conversation=long) is None
    assert here.call(one, conversation=long) is not None
    assert here.call(one, conversation=other) is None
    assert here.limits.left(one, long) == 0
    assert all(len(key[1]) <= 64 for key, _ in here.limits._conversations.items())


async def test_the_conversation_used_longest_ago_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_limits, "_CONVERSATIONS", 3)
    here, one = Here(monkeypatch), limit("per_conversation", 1)
    for name in ("a", "b", "c", "d"):
        assert here.call(one, conversation=name) is None
    assert [here.limits.left(one, name) for name in ("a", "b", "d")] == [1, 0, 0]


@pytest.mark.parametrize("full", ["per_minute", "concurrent", "per_conversation"])
async def test_a_call_that_one_limit_refuses_is_charged_to_none(here: Here, full: LimitKind) -> None:
    limits = [limit(kind, 1 if kind == full else 5) for kind in ("per_minute", "concurrent", "per_conversation")]
    with here.limits.charged("t", Limits(tuple(one for one in limits if one.kind == full)), "c"):
        for _ in range(3):
            refused = here.call(*limits, conversation="c")
            assert refused is not None
            assert refused.details["limit"] == full
        assert [here.limits.left(one, "c") for one in limits] == [0 if one.kind == full else 5 for one in limits]


async def test_a_call_that_goes_on_after_a_question_counts_among_those_under_way_alone(here: Here) -> None:
    limits = [limit(kind, 1) for kind in ("per_minute", "concurrent", "per_conversation")]
    assert here.call(*limits, conversation="c") is None
    assert here.call(*limits, conversation="c") is not None
    assert here.call(*limits, conversation="c", again=True) is None
    with here.limits.charged("t", Limits(tuple(limits)), "c", again=True):
        refused = here.call(*limits, conversation="c", again=True)
        assert refused is not None
        assert refused.details["limit"] == "concurrent"


async def test_a_limit_of_zero_lets_nothing_through(here: Here) -> None:
    for kind in ("per_minute", "concurrent", "per_conversation"):
        assert here.call(limit(kind, 0), conversation="c") is not None
        assert not here.has_room(limit(kind, 0), conversation="c")
        assert here.limits.room_at_once(Limits((limit(kind, 0, "unused"),)), "c", here.now) is None


async def test_each_counter_counts_for_itself_and_over_other_numbers(here: Here) -> None:
    """After a reload a limit has another number, and what was used counts on."""
    mine, theirs = limit("per_minute", 1), limit("per_minute", 1, "other")
    assert here.call(mine) is None
    assert here.call(theirs) is None
    assert here.call(mine) is not None
    assert here.call(limit("per_minute", 2)) is None
    assert here.call(limit("per_minute", 2)) is not None
    assert [here.limits.left(limit("per_minute", most)) for most in (1, 2, 3)] == [0, 0, 1], "a lower one has none left"


@pytest.mark.parametrize(("on", "away", "asks"), [(True, False, 2), (True, True, 0), (False, False, 0)])
async def test_other_replicas_are_asked_while_they_can_be(here: Here, on: bool, away: bool, asks: int) -> None:
    """For each limit that no conversation counts; while the database is away, nothing waits for it."""
    shared, asked = here.limits.shared, list[object]()

    async def ask(usage: object) -> None:
        asked.append(usage)

    fake: Any = SimpleNamespace(on=on, away=away, ask=ask, window=shared.window, level=shared.level)
    here.limits.shared = fake
    await here.limits.learn(Limits((limit("per_minute", 1), limit("concurrent", 1), limit("per_conversation", 1))))
    assert len(asked) == asks


async def test_a_call_without_limits_costs_nothing(here: Here) -> None:
    assert here.limits.charged("t", NONE, None) is FREE
    assert here.limits.charged("t", Limits((limit("per_minute", 5),)), None) is FREE
    assert here.limits.charged("t", Limits((limit("concurrent", 5),)), None) is not FREE
    assert here.limits._usages.keys() == {("agent", "per_minute", "rule", "*"), ("agent", "concurrent", "rule", "*")}


async def test_calls_are_checked_and_charged_apart_in_a_replica(here: Here) -> None:
    one = limit("per_minute", 1)
    here.limits.look("t", Limits((one,)), None)
    assert here.limits.left(one) == 1
    here.limits.charged("t", Limits((one,)), None)
    assert here.limits.left(one) == 0
    assert await asyncio.gather(*(here.limits.learn(Limits((one,))) for _ in range(2))) == [None, None]
    with pytest.raises(OverLimit):
        await here.limits.check("t", Limits((one,)), None)
    with pytest.raises(OverLimit):
        await here.limits.charge("t", Limits((one,)), None)


def _charged(ledger: RateLimits, limits: Limits, conversation: str | None) -> Charge | None:
    try:
        return ledger.charged("t", limits, conversation)
    except OverLimit:
        return None


@pytest.mark.parametrize("seed", range(12))
async def test_a_direct_call_is_charged_as_any_other(here: Here, seed: int) -> None:
    """Calls that end or go on, of two conversations, at moments that pass: the counts of both ways are equal. A plan
    keeps what its calls are charged to.
    """
    drawn, direct, usual, at_once, again = random.Random(seed), here.limits, RateLimits(alone()), 0, 0  # noqa: S311 - a sequence that can be repeated
    kinds: tuple[LimitKind, ...] = ("per_minute", "concurrent", "per_conversation")
    going: list[tuple[Charge, Charge]] = []
    kept: dict[Limits, Counted] = {}
    for _ in range(200):
        here.now += drawn.choice((0.0, 0.5, 7.0))
        limits = Limits(tuple(limit(kind, drawn.randint(1, 4)) for kind in kinds if drawn.random() < 0.4))
        conversation = drawn.choice(("a", LONG, None))
        if (known := kept.get(limits)) is None:
            counted = direct.room_at_once(limits, conversation, here.now)
            if counted is not None and counted.lasts:
                kept[limits] = counted
        else:
            counted, again = (known if direct.has_room(known, here.now) else None), again + 1
        if counted is None:
            first = _charged(direct, limits, conversation)
        else:
            first, at_once = direct.charged_at_once(counted, here.now), at_once + (limits.counted != ())
        second = _charged(usual, limits, conversation)
        assert (first is None) == (second is None)
        if first is not None and second is not None:
            going.append((first, second))
        if going and drawn.random() < 0.6:
            for charge in going.pop(drawn.randrange(len(going))):
                charge.give_back()
        for kind in kinds:
            for name in ("a", LONG):
                assert direct.left(limit(kind, 4), name) == usual.left(limit(kind, 4), name)
    assert at_once > 20
    assert again > 20
