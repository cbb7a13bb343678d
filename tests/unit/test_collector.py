"""Python's garbage collector is kept from large catalogs: it would stop everything to go through them."""

import asyncio
import gc
import math
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from aggregator.cli.runtime import collector
from aggregator.cli.runtime.collector import MANY, spare_catalogs, spare_start
from tests.polling import until


class FakeSnapshots:
    """A catalog that is replaced once, by one of so many tools, and indexed when told."""

    def __init__(self, tools: int) -> None:
        self.waiting: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.is_indexed = asyncio.Event()
        self.tools = tools

    async def replaced(self, known: Any) -> Any:
        if known is not None:
            await self.waiting
        return [SimpleNamespace() for _ in range(self.tools)]

    async def indexed(self) -> None:
        await self.is_indexed.wait()


@pytest.fixture
def frozen(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    done: list[str] = []
    fake = SimpleNamespace(collect=lambda generation: done.append(f"collect {generation}"))
    fake.freeze = lambda: done.append("freeze")
    monkeypatch.setattr(collector, "gc", fake)
    yield done
    assert gc.isenabled()


async def test_a_large_catalog_is_spared_and_then_its_index(frozen: list[str]) -> None:
    snapshots = FakeSnapshots(MANY)
    sparing = asyncio.ensure_future(spare_catalogs(snapshots))
    await until(lambda: len(frozen) == 2, "the catalog is spared")
    snapshots.is_indexed.set()
    await until(lambda: frozen == ["collect 1", "freeze"] * 2, "the index is spared")
    sparing.cancel()


async def test_a_small_catalog_is_left_to_the_collector(frozen: list[str]) -> None:
    snapshots = FakeSnapshots(MANY - 1)
    sparing = asyncio.ensure_future(spare_catalogs(snapshots))
    for _ in range(5):
        await asyncio.sleep(0)
    assert frozen == []
    sparing.cancel()


def test_the_collector_seldom_goes_through_all_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once for millions of objects that were made; by default it is 70,000."""
    before = gc.get_threshold()
    monkeypatch.setattr(gc, "freeze", lambda: None)
    gc.set_threshold(700, 10, 10)
    try:
        spare_start()
        assert math.prod(gc.get_threshold()) > 1_000_000
    finally:
        gc.set_threshold(*before)
