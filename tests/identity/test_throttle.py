"""Slowing guesses down, whatever happens in whatever order."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator.identity.throttle import ENTRIES, FORGET, FREE, LONGEST, Throttle, peer_group

PEERS = ("10.0.0.1", "10.0.0.2", "2001:db8::1", None)
# Who fails, and how many seconds after the one before.
failures = st.lists(st.tuples(st.sampled_from(PEERS), st.floats(-100, 1000)), max_size=60)


def play(throttle: Throttle, history: list[tuple[str | None, float]]) -> float:
    """The time after all of it."""
    now = 1e9
    for peer, after in history:
        now += after
        throttle.failed(peer, now)
    return now


@settings(deadline=None)
@given(failures, st.floats(0, 10))
def test_another_address_is_not_slowed(history: list[tuple[str | None, float]], later: float) -> None:
    throttle = Throttle()
    now = play(throttle, history)
    assert throttle.failed("192.0.2.7", now + later) == 0.0


@settings(deadline=None)
@given(failures, st.sampled_from(PEERS))
def test_every_wait_is_bounded_and_ends(history: list[tuple[str | None, float]], peer: str | None) -> None:
    """What comes meanwhile makes it no longer."""
    throttle = Throttle()
    now = play(throttle, history)
    wait = throttle.failed(peer, now)
    assert 0.0 <= wait <= LONGEST
    for part in (0.25, 0.5, 0.75):
        left = throttle.failed(peer, now + wait * part) if wait else 0.0
        assert left == pytest.approx(wait * (1 - part), abs=1e-6)


@settings(deadline=None)
@given(failures)
def test_memory_is_bounded(history: list[tuple[str | None, float]]) -> None:
    throttle = Throttle(entries=2)
    play(throttle, history)
    assert len(throttle._peers) <= 2


def test_a_flood_from_everywhere_takes_bounded_room() -> None:
    throttle = Throttle()
    for number in range(ENTRIES + 500):
        throttle.failed(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", 0.0)
    assert len(throttle._peers) == ENTRIES


def test_each_wait_is_longer() -> None:
    throttle = Throttle()
    now, waits = 0.0, []
    for _ in range(FREE + 9):
        waits.append(throttle.failed("10.0.0.1", now))
        now += waits[-1]
    assert waits == [0.0] * FREE + [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]
    assert throttle.failed("10.0.0.1", now + FORGET + 1) == 0.0


def test_a_peer_is_forgotten_after_its_last_failure_not_after_its_first() -> None:
    """Else one that guesses on and on would begin anew now and then."""
    throttle = Throttle()
    for number in range(50):
        wait = throttle.failed("10.0.0.1", number * FORGET / 5)
    assert wait == LONGEST


def test_whoever_shares_the_network_of_a_peer_waits_with_it() -> None:
    throttle = Throttle()
    for _ in range(FREE + 1):
        throttle.failed("2001:db8:1:2::9", 1e6)
    for peer, waits in (("2001:db8:1:2::9", True), ("2001:db8:1:2:3::1", True), ("2001:db8:1:3::9", False)):
        assert throttle.waits(peer, 1e6) is waits
    assert not throttle.waits("2001:db8:1:2::9", 1e6 + 1)
    assert not throttle.waits("2001:db8:1:2::9", 1e6 - LONGEST), "the clock was set back"


@pytest.mark.parametrize("back", [1.0, FORGET / 2, 10 * FORGET])
def test_a_clock_that_is_set_back_forgets_and_locks_out_nobody(back: float) -> None:
    throttle = Throttle()
    for _ in range(FREE + 7):
        throttle.failed("10.0.0.1", 1e6)
    assert throttle.waits("10.0.0.1", 1e6)
    # Two failures later: the first may still fall into a wait that the old clock began.
    throttle.failed("10.0.0.1", 1e6 - back - LONGEST)
    assert throttle.failed("10.0.0.1", 1e6 - back - LONGEST) == 0.0
    assert not throttle.waits("10.0.0.1", 1e6 - back - LONGEST)


@pytest.mark.parametrize(
    ("peer", "group"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("2001:db8:1:2::9", "2001:db8:1:2::"),
        ("fe80::1%eth0", "fe80::"),
        ("/run/aggregator.sock", "/run/aggregator.sock"),
        (None, ""),
    ],
)
def test_who_counts_as_one_peer(peer: str | None, group: str) -> None:
    assert peer_group(peer) == group
