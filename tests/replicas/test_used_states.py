"""Sealed states: good once over all replicas and across restarts, and not where that cannot be known."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from aggregator.gateway.ask.sealed_state import NotKnown, StateSealer
from aggregator.replicas.config import ReplicasConfig
from aggregator.replicas.group.replication import Replication
from aggregator.storage.errors import StorageBusy
from aggregator.storage.lazy_database import LazyDatabase


class Process:
    """A process with a sealer."""

    def __init__(self, url: str, *, enabled: bool) -> None:
        self.database = LazyDatabase(url, None)
        self.group = Replication(ReplicasConfig(), self.database)
        self.group.enabled = enabled
        self.sealer = StateSealer("consent", self.group)


@pytest.fixture
async def processes(tmp_path: Path) -> AsyncIterator[list[Process]]:
    """Give two replicas, and one that is none, on one file."""
    url = f"sqlite:///{tmp_path / 'shared.db'}"
    found = [Process(url, enabled=enabled) for enabled in (True, True, False)]
    async with found[0].database, found[1].database, found[2].database:
        for one in found:
            await one.group.start()
        yield found


def _away(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    async def database() -> object:
        raise StorageBusy("away")

    monkeypatch.setattr(process.group, "database", database)


async def test_a_state_counts_once_over_all_replicas(processes: list[Process]) -> None:
    one, two, alone = processes
    state = one.sealer.seal({"agent": "ada"}, 60.0)
    opened = await asyncio.gather(*(each.sealer.open(state, {"agent": "ada"}) for each in (two, one, alone) * 5))
    assert len([found for found in opened if found is not None]) == 1
    other = one.sealer.seal({"agent": "ada"}, 60.0)
    assert await two.sealer.open(other, {"agent": "bob"}) is None, "another's does not use it up"
    assert await two.sealer.open(other, {"agent": "ada"}) is not None


async def test_a_state_expires_by_the_clock_of_the_group(processes: list[Process]) -> None:
    one, two, _ = processes
    state = one.sealer.seal({}, 60.0)
    now = time.monotonic()
    two.group.clock.measure(now, two.group.clock.now() + 61, now)
    assert await two.sealer.open(state) is None
    assert await one.sealer.open(state) is not None


async def test_a_state_of_another_kind_is_not_taken(processes: list[Process]) -> None:
    one, _, _ = processes
    other = StateSealer("request", one.group)
    sealed = other.seal({}, 60.0)
    assert await one.sealer.open("consent." + sealed.removeprefix("request.")) is None
    assert await other.open(sealed) is not None


async def test_a_replica_that_cannot_ask_the_database_takes_none(
    processes: list[Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two, _ = processes
    state = one.sealer.seal({}, 60.0)
    with monkeypatch.context() as patch:
        _away(one, patch)
        with pytest.raises(NotKnown):
            await one.sealer.open(state)
        assert await one.sealer.open(one.sealer.seal({}, 60.0), at_its_maker=True) is not None
    assert await two.sealer.open(state) is not None
    assert await one.sealer.open(state) is None


async def test_a_process_alone_takes_its_own_and_remembers_them(
    processes: list[Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _, alone = processes
    own, foreign = alone.sealer.seal({}, 60.0), one.sealer.seal({}, 60.0)
    with monkeypatch.context() as patch:
        _away(alone, patch)
        assert await alone.sealer.open(own) is not None
        assert await alone.sealer.open(own) is None
        with pytest.raises(NotKnown):
            await alone.sealer.open(foreign)
    assert await alone.sealer.open(alone.sealer.seal({}, 60.0)) is not None
    assert await one.sealer.open(own) is None, "what was used meanwhile was written once the database was back"
