"""The listener of a process without a web server: opened for the first link, and ended with the process."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from aggregator.accounts.connect import on_demand
from aggregator.accounts.connect.on_demand import PagesOnDemand

GRANTS: Any = None


async def test_an_end_lets_go_of_a_link_that_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A1: the call that made the link ends too, while the listener still opens."""
    opening = asyncio.Event()

    @contextlib.asynccontextmanager
    async def never_open(*_: object) -> AsyncIterator[None]:
        opening.set()
        await asyncio.Event().wait()
        yield

    monkeypatch.setattr(on_demand, "resolve_name", lambda _: never_open)
    pages = PagesOnDemand(GRANTS)
    assert await pages.address() is None
    async with pages.running():
        link = asyncio.ensure_future(pages.address())
        await opening.wait()
    await asyncio.wait([link], timeout=30)
    assert link.cancelled()
    assert await pages.address() is None


async def test_an_address_that_cannot_be_bound_gives_no_link(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError("no address")

    monkeypatch.setattr("socket.create_server", refused)
    pages = PagesOnDemand(GRANTS)
    async with asyncio.timeout(30), pages.running():
        assert await pages.address() is None
        assert await pages.address() is None
