"""Slowing guesses down, whatever happens in whatever order."""

from dataclasses import dataclass
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator.identity.throttle import FREE, LONGEST, LONGEST_KNOWN, SUSPICIOUS, Throttle, peer_group

PEERS = ("10.0.0.1", "10.0.0.2", "2001:db8::1", None)
KEYS = ("a", "b", None)


@dataclass(frozen=True)
class Event:
    kind: Literal["failed", "succeeded"]
    peer: str | None
    key_id: str | None
    after: float


events = st.lists(
    st.builds(
        Event,
        st.sampled_from(["failed", "failed", "failed", "succeeded"]),
        st.sampled_from(PEERS),
        st.sampled_from(KEYS),
        st.floats(-100, 1000),
    ),
    max_size=60,
)


def play(throttle: Throttle, history: list[Event]) -> float:
    """As `identify` plays it: what has to wait is not looked at."""
    now = 1e9
    for event in history:
        now += event.after
        if throttle.wait(event.peer, event.key_id, now) > 0:
            continue
        if event.kind == "failed":
            throttle.failed(event.peer, event.key_id, now)
        elif event.key_id is not None:
            throttle.succeeded(event.peer, event.key_id, now)
    return now


@settings(deadline=None)
@given(events, st.sampled_from(KEYS), st.floats(0, 10))
def test_nobody_is_locked_out_from_another_address(history: list[Event], key_id: str | None, later: float) -> None:
    throttle = Throttle()
    now = play(throttle, history)
    assert throttle.wait("192.0.2.7", key_id, now + later) == 0.0


@settings(deadline=None)
@given(events, st.sampled_from(PEERS), st.sampled_from(KEYS))
def test_every_wait_is_bounded_and_ends(history: list[Event], peer: str | None, key_id: str | None) -> None:
    throttle = Throttle()
    now = play(throttle, history)
    wait = throttle.wait(peer, key_id, now)
    assert 0.0 <= wait <= LONGEST
    assert throttle.wait(peer, key_id, now + wait) == pytest.approx(0.0, abs=1e-6)


@settings(deadline=None)
@given(events, st.sampled_from(PEERS), st.sampled_from(["a", "b"]))
def test_a_key_that_works_goes_on_working(history: list[Event], peer: str | None, key_id: str) -> None:
    throttle = Throttle()
    throttle.succeeded(peer, key_id, 1e9)
    others = [event for event in history if (event.peer, event.key_id) != (peer, key_id)]
    now = play(throttle, others)
    assert throttle.wait(peer, key_id, now) == 0.0


@settings(deadline=None)
@given(events)
def test_memory_is_bounded(history: list[Event]) -> None:
    throttle = Throttle(entries=2)
    play(throttle, history)
    assert max(len(throttle._peers), len(throttle._key_ids), len(throttle._known)) <= 2


def _tries(throttle: Throttle, peer: str, key_id: str | None, seconds: float) -> int:
    """How often a peer that tries without rest is looked at."""
    now, tries = 0.0, 0
    while now < seconds:
        wait = throttle.wait(peer, key_id, now)
        if wait == 0.0:
            throttle.failed(peer, key_id, now)
            tries += 1
        now += max(wait, 0.001)
    return tries


@pytest.mark.parametrize("key_id", [None, "a"])
def test_how_often_a_guesser_is_looked_at(key_id: str | None) -> None:
    assert _tries(Throttle(), "10.0.0.1", key_id, 3600.0) < FREE + 10 + 3600 / LONGEST


def test_a_known_key_is_slowed_briefly() -> None:
    throttle = Throttle()
    throttle.succeeded("10.0.0.1", "a", 0.0)
    assert _tries(throttle, "10.0.0.1", "a", 600.0) < FREE + 5 + 600 / LONGEST_KNOWN
    assert throttle.wait("10.0.0.1", "a", 600.0) <= LONGEST_KNOWN
    throttle.succeeded("10.0.0.1", "a", 610.0)
    throttle.failed("10.0.0.1", "a", 611.0)
    assert throttle.wait("10.0.0.1", "a", 611.0) == 0.0


def test_the_first_failures_are_free() -> None:
    throttle = Throttle()
    for _ in range(FREE):
        throttle.failed("10.0.0.1", None, 0.0)
        assert throttle.wait("10.0.0.1", None, 0.0) == 0.0
    throttle.failed("10.0.0.1", None, 0.0)
    assert throttle.wait("10.0.0.1", None, 0.0) == 1.0


def test_guessers_of_one_key_from_many_addresses_get_one_try_each() -> None:
    throttle = Throttle()
    for number in range(SUSPICIOUS):
        throttle.failed(f"10.0.1.{number}", "a", 0.0)
    throttle.failed("10.0.2.1", "a", 0.0)
    assert throttle.wait("10.0.2.1", "a", 0.0) > 0.0
    throttle.failed("10.0.2.2", "b", 0.0)
    assert throttle.wait("10.0.2.2", "b", 0.0) == 0.0


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
