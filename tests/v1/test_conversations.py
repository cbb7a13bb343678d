"""Counting the calls of conversations."""

import pytest

from aggregator.frontends.v1 import conversations
from aggregator.frontends.v1.conversations import OVER_AFTER, Conversations


def test_a_conversation_is_counted_over_requests() -> None:
    """B6: three, and no more."""
    counts = Conversations()
    assert [counts.count("one", "c", float(now)).take(3) for now in range(5)] == [True, True, True, False, False]
    counts.count("one", "c", 5.0).give_back()
    assert counts.count("one", "c", 6.0).take(3)
    assert not counts.count("one", "c", 7.0).take(3)
    assert counts.count("one", "c", 7.0).take(None)


def test_conversations_are_apart() -> None:
    """B6, D4: one agent's name for it means nothing for another."""
    counts = Conversations()
    assert counts.count("one", "c", 0.0).take(1)
    assert not counts.count("one", "c", 0.0).take(1)
    assert counts.count("two", "c", 0.0).take(1)
    assert counts.count("one", "d", 0.0).take(1)


def test_without_a_name_it_is_the_request() -> None:
    """B6: counted by itself, and kept nowhere."""
    counts = Conversations()
    first = counts.count("one", None, 0.0)
    assert first.take(1)
    assert not first.take(1)
    assert counts.count("one", None, 0.0).take(1)
    assert len(counts) == 0


def test_what_is_over_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """B6: after a day, or when there are too many, the quietest first."""
    monkeypatch.setattr(conversations, "KEPT", 3)
    counts = Conversations()
    counts.count("one", "old", 0.0).take(1)
    counts.count("one", "new", OVER_AFTER / 2)
    counts.count("one", "now", OVER_AFTER + 1)
    assert len(counts) == 2
    assert counts.count("one", "old", OVER_AFTER + 1).take(1)
    for name in "abcdef":
        counts.count("one", name, OVER_AFTER + 2).take(1)
    assert len(counts) == 3
    assert not counts.count("one", "f", OVER_AFTER + 3).take(1)
    assert counts.count("one", "a", OVER_AFTER + 3).take(1)
