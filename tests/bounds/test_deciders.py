"""What decides about bounds, with plain values."""

import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from aggregator.domain.bounds.token_bucket import TokenBucket
from aggregator.domain.principal import LOCAL, Principal
from aggregator.frontends.web.event_stream import TOGETHER, UnreadBytes
from aggregator.frontends.web.host_guard import Message
from aggregator.gateway.admission import Admission, Kind, Slot, TooMany

AGENTS = (LOCAL, Principal("one", key_id="a"), Principal("one", key_id="b"), Principal("two", key_id="c"))
MOST: dict[Kind, int] = {"sessions": 4, "streams": 3, "pending": 1}
SHARE = 0.5
KINDS = st.sampled_from(sorted(MOST))


class AdmissionMachine(RuleBasedStateMachine):
    """Proves: D11. Whatever hosts do: never more than may be, never a refusal while there is room, nothing lost."""

    def __init__(self) -> None:
        super().__init__()
        self.room = Admission(MOST, SHARE)
        self.seats: list[tuple[Kind, Principal, Slot]] = []
        self.refused = 0

    def taken(self, kind: Kind, agent: str | None = None) -> int:
        return sum(one == kind and agent in (None, who.agent_id) for one, who, _ in self.seats)

    def full(self, kind: Kind, who: Principal) -> bool:
        part = max(1, int(MOST[kind] * SHARE))
        of_one = who.key_id is not None and self.taken(kind, who.agent_id) >= part
        return self.taken(kind) >= MOST[kind] or of_one

    @rule(kind=KINDS, who=st.sampled_from(AGENTS))
    def come(self, kind: Kind, who: Principal) -> None:
        if self.full(kind, who):
            with pytest.raises(TooMany) as refused:
                self.room.acquire(kind, who)
            assert (refused.value.code == 429) == (self.taken(kind) < MOST[kind])
            self.refused += 1
        else:
            self.seats.append((kind, who, self.room.acquire(kind, who)))

    @rule(kind=KINDS, at=st.integers(0, 20))
    def change(self, kind: Kind, at: int) -> None:
        if self.seats:
            _, who, seat = self.seats[at % len(self.seats)]
            if self.full(kind, who):
                with pytest.raises(TooMany):
                    seat.change(kind)
                self.refused += 1
            else:
                seat.change(kind)
                self.seats[at % len(self.seats)] = kind, who, seat

    @rule(at=st.integers(0, 20))
    def leave(self, at: int) -> None:
        if self.seats:
            _, _, seat = self.seats.pop(at % len(self.seats))
            seat.release()
            seat.release()

    @invariant()
    def it_is_counted(self) -> None:
        places: dict[str, int] = {kind: self.taken(kind) for kind in MOST}
        assert self.room.in_use == {**places, "connections": 0}
        assert self.room.refused.total() == self.refused


test_admission_with_any_hosts = AdmissionMachine.TestCase


@given(
    st.floats(0.1, 100),
    st.floats(1, 100),
    st.lists(st.tuples(st.floats(0, 10), st.floats(0, 50)), max_size=30),
)
def test_a_rate_is_kept_in_the_long_run(rate: float, burst: float, steps: list[tuple[float, float]]) -> None:
    """Proves: D11. What is let through never exceeds the burst and what the time since the start allows."""
    bucket, now, passed = TokenBucket(rate, burst), 0.0, 0.0
    for pause, cost in steps:
        now += pause
        if bucket.allows(cost, now):
            passed += cost
        assert passed <= burst + rate * now + 1e-6


@given(st.floats(0.1, 100), st.floats(1, 100), st.lists(st.floats(0, 50), max_size=30))
def test_who_waits_as_long_as_told_keeps_the_rate(rate: float, burst: float, costs: list[float]) -> None:
    bucket, now, charged = TokenBucket(rate, burst), 0.0, 0.0
    for cost in costs:
        now += bucket.charge(cost, now)
        charged += cost
        assert charged <= burst + rate * now + cost + 1e-6


async def test_together_streams_hold_a_bounded_part() -> None:
    """Proves: D11. The fullest is ended when all together hold too much; the others keep what they have."""
    refused: Counter[str] = Counter()
    unread = UnreadBytes(1000, refused)
    streams = [unread.open() for _ in range(2 * TOGETHER)]
    streams[3].push(b"x" * 900)
    for stream in streams:
        stream.push(b"x" * 700)
    assert unread.size <= 1000 * TOGETHER
    assert unread.size == sum(stream.waiting for stream in streams)
    assert streams[3].ended
    assert refused["unread"] == sum(stream.ended for stream in streams) < TOGETHER


async def test_a_stream_that_is_broken_off_holds_nothing() -> None:
    """Proves: D11. Neither what waits nor what was on its way."""
    unread = UnreadBytes(1000)
    stream, blocked = unread.open(), asyncio.Event()

    async def send(message: Message) -> None:
        if message.get("body"):
            blocked.set()
            await asyncio.Event().wait()

    stream.push(b"x" * 500)
    running = asyncio.create_task(stream.run(send))
    await blocked.wait()
    stream.push(b"x" * 400)
    assert unread.size > 900
    running.cancel()
    await asyncio.wait([running])
    assert unread.size == stream.waiting == 0
    assert repr(unread) == "<UnreadBytes 0 bytes on 0 streams>"
