"""Counting the calls of conversations."""

import pytest

from aggregator.frontends.v1 import conversations
from aggregator.frontends.v1.conversations import Conversations
from aggregator.replicas.group.shared_usage import CONVERSATION_OVER
from tests.replicas.alone import alone


async def test_a_conversation_is_counted_over_requests() -> None:
    """B6: three, and no more."""
    counts = Conversations(alone())
    assert [await counts.count("one", "c", float(now)).take(3) for now in range(5)] == [True, True, True, False, False]
    counts.count("one", "c", 5.0).give_back()
    assert await counts.count("one", "c", 6.0).take(3)
    assert not await counts.count("one", "c", 7.0).take(3)
    assert await counts.count("one", "c", 7.0).take(None)


async def test_conversations_are_apart() -> None:
    """B6, D4: one agent's name for it means nothing for another."""
    counts = Conversations(alone())
    assert await counts.count("one", "c", 0.0).take(1)
    assert not await counts.count("one", "c", 0.0).take(1)
    assert await counts.count("two", "c", 0.0).take(1)
    assert await counts.count("one", "d", 0.0).take(1)


async def test_without_a_name_it_is_the_request() -> None:
    """B6: counted by itself, and kept nowhere."""
    counts = Conversations(alone())
    first = counts.count("one", None, 0.0)
    assert await first.take(1)
    assert not await first.take(1)
    assert await counts.count("one", None, 0.0).take(1)
    assert len(counts) == 0


async def test_what_is_over_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """B6: after a day, or when there are too many, the quietest first."""
    monkeypatch.setattr(conversations, "KEPT", 3)
    counts = Conversations(alone())
    await counts.count("one", "old", 0.0).take(1)
    counts.count("one", "new", CONVERSATION_OVER / 2)
    counts.count("one", "now", CONVERSATION_OVER + 1)
    assert len(counts) == 2
    assert await counts.count("one", "old", CONVERSATION_OVER + 1).take(1)
    for name in "abcdef":
        await counts.count("one", name, CONVERSATION_OVER + 2).take(1)
    assert len(counts) == 3
    assert not await counts.count("one", "f", CONVERSATION_OVER + 3).take(1)
    assert await counts.count("one", "a", CONVERSATION_OVER + 3).take(1)
