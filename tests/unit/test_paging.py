"""Draining a paged list: all of it, in order, and an end to it whatever the upstream does."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.domain.errors import RpcError, UpstreamBadAnswer
from aggregator.upstream.lists.paging import ITEM_LIMIT, PAGE_LIMIT, read_pages
from aggregator.wire.sent_request import OnProgress

BOUND = 5


class Pages:
    """A connection that answers page by page; the cursor is the number of the next one. It never ends."""

    def __init__(self, pages: list[Any]) -> None:
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.pages = pages
        self.asked: list[dict[str, Any]] = []

    def begin(self, *given: Any, **more: Any) -> None:
        """Send nothing without a task."""

    async def request(
        self,
        method: str,
        params: dict[str, Any],
        on_progress: OnProgress | None = None,
        headers: Mapping[str, str] | None = None,
        origin: object = None,
    ) -> dict[str, Any]:
        assert method == "tools/list"
        self.asked.append(params)
        page: Any = self.page(int(params.get("cursor", 0)))
        if isinstance(page, Exception):
            raise page
        assert isinstance(page, dict)
        return page

    def page(self, number: int) -> Any:
        if isinstance(self.pages[number], list):
            more = {"nextCursor": str(number + 1)} if number + 1 < len(self.pages) else {}
            return {"tools": self.pages[number], **more}
        return self.pages[number]

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        raise AssertionError("nothing to tell")

    def use_version(self, version: str) -> None:
        raise AssertionError("nothing to speak")


class Endless(Pages):
    """A list without an end: a new cursor on every page."""

    def page(self, number: int) -> Any:
        return {"tools": self.pages, "nextCursor": str(number + 1)}


async def _drain(connection: Pages, meta: dict[str, Any] | None = None) -> list[Any]:
    async with asyncio.timeout(BOUND):
        return (await read_pages("srv", connection, "tools/list", "tools", meta or {})).items


@given(st.lists(st.lists(st.integers(), max_size=4), min_size=1, max_size=6))
def test_every_item_of_every_page_in_order(pages: list[list[Any]]) -> None:
    """Proves: C5"""

    async def check() -> None:
        assert await _drain(Pages(pages)) == [item for page in pages for item in page]

    asyncio.run(check())


async def test_the_envelope_goes_with_every_page_and_the_cursor_unchanged() -> None:
    connection = Pages([[1], [2], [3]])
    await _drain(connection, {"k": 1})
    meta = {"_meta": {"k": 1}}
    assert connection.asked == [meta, {**meta, "cursor": "1"}, {**meta, "cursor": "2"}]


async def test_a_legacy_upstream_gets_no_empty_envelope() -> None:
    connection = Pages([[1]])
    await _drain(connection)
    assert connection.asked == [{}]


@pytest.mark.parametrize("page", [{}, {"tools": None}, {"tools": {}}, {"tools": "x"}, {"resources": []}])
async def test_a_page_without_the_list_is_no_answer(page: Any) -> None:
    with pytest.raises(UpstreamBadAnswer, match="without a list of tools"):
        await _drain(Pages([[1], page]))


@pytest.mark.parametrize(("cursor", "said"), [(True, "no text"), ([], "no text"), ({}, "no text"), ("1", "in circles")])
async def test_a_cursor_that_leads_nowhere_ends_it(cursor: Any, said: str) -> None:
    with pytest.raises(UpstreamBadAnswer, match=said):
        await _drain(Pages([[1], {"tools": [2], "nextCursor": cursor}]))


@pytest.mark.parametrize("cursor", [7, 0, 1.5])
async def test_a_number_comes_back_as_a_cursor(cursor: Any) -> None:
    """Some servers count their pages."""

    class Counting:
        asked: list[Any]

        def __init__(self) -> None:
            self.asked = []

        async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
            self.asked.append(params.get("cursor"))
            return {"tools": [len(self.asked)], **({"nextCursor": cursor} if len(self.asked) == 1 else {})}

    connection: Any = Counting()
    assert await _drain(connection) == [1, 2]
    assert connection.asked == [None, cursor]


async def test_null_is_no_cursor() -> None:
    assert await _drain(Pages([{"tools": [1], "nextCursor": None}])) == [1]


async def test_empty_pages_for_ever_end() -> None:
    """Proves: E4"""
    connection = Endless([])
    with pytest.raises(UpstreamBadAnswer, match="does not stop paging"):
        await _drain(connection)
    assert len(connection.asked) == PAGE_LIMIT


async def test_full_pages_for_ever_end_sooner() -> None:
    connection = Endless([{}] * 1_000)
    with pytest.raises(UpstreamBadAnswer, match="does not stop paging"):
        await _drain(connection)
    assert len(connection.asked) <= ITEM_LIMIT // 1_000 + 1


async def test_an_error_on_a_later_page_is_passed_on() -> None:
    with pytest.raises(RpcError, match="no more"):
        await _drain(Pages([[1], RpcError(-32602, "no more")]))
