"""Whose check is next: decided with plain values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.schemas.workers.workers import OF_ONE, CheckQueue, QueuedCheck, WorkerQueueFull

NAMES = st.sampled_from("abc")


@given(st.lists(st.tuples(NAMES, NAMES, st.booleans()), max_size=60), st.integers(1, 4))
def test_places_are_kept_and_none_is_left_free(steps: list[tuple[str, str, bool]], places: int) -> None:
    turns, running, asked = CheckQueue(places), list[QueuedCheck](), 0
    share = max(1, places - 1)
    for server, agent, ends in steps:
        if ends and running:
            turns.leave(running.pop(0))
        else:
            turns.enqueue(server, agent)
            asked += 1
        running += turns.admit()
        assert len(running) <= places
        assert all(sum(one.server == name for one in running) <= share for name in "abc")
        assert all(sum(one.agent == name for one in running) <= share for name in "abc")
    while running:
        turns.leave(running.pop())
        running += turns.admit()
    assert repr(turns) == f"<Turns: 0 of {places} taken, 0 waiting>"


def test_a_server_that_asks_for_much_leaves_a_place_and_every_other_turn() -> None:
    turns = CheckQueue(2)
    flood = [turns.enqueue("loud", "a") for _ in range(10)]
    assert turns.admit() == flood[:1], "the other place is for others"
    quiet = [turns.enqueue("quiet", "b") for _ in range(3)]
    assert turns.admit() == quiet[:1]
    turns.leave(flood[0])
    turns.leave(quiet[0])
    assert turns.admit() == [flood[1], quiet[1]]


def test_agents_of_one_server_take_turns() -> None:
    turns = CheckQueue(1)
    first, *_ = many = [turns.enqueue("s", "busy") for _ in range(5)]
    assert turns.admit() == [first]
    other = turns.enqueue("s", "idle")
    turns.leave(first)
    assert turns.admit() == [other], "it was served longer ago"
    turns.leave(other)
    assert turns.admit() == [many[1]]


def test_a_line_has_an_end_for_each_server_and_each_agent() -> None:
    turns = CheckQueue(1)
    waiting = [turns.enqueue("s", f"agent {n}") for n in range(OF_ONE)]
    with pytest.raises(WorkerQueueFull):
        turns.enqueue("s", "one more")
    more = [turns.enqueue(f"server {n}", "a") for n in range(OF_ONE)]
    with pytest.raises(WorkerQueueFull):
        turns.enqueue("other", "a")
    for turn in (*waiting, *more):
        turns.leave(turn)
    turns.enqueue("s", "a")
