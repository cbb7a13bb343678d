"""Draining a paged list: all of it, in order, and an end to it whatever the upstream does."""

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.domain.errors import RpcError, UpstreamBadAnswer
from aggregator.upstream.connection import Connection, DeferredRequest, JsonRpcRequest, SessionExpired
from aggregator.upstream.lists.paging import EMPTY_PAGES, ITEM_LIMIT, PAGE_LIMIT, DrainedList, read_pages
from aggregator.wire.peer import PeerGone
from aggregator.wire.pending_request import AnswerReceiver, PendingRequest

BOUND = 5


class Pages(Connection):
    """A connection that answers page by page; the cursor is the number of the next one. It never ends."""

    def __init__(self, pages: list[Any]) -> None:
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.pages = pages
        self.asked: list[dict[str, Any]] = []

    def begin(self, request: JsonRpcRequest, receiver: AnswerReceiver | None = None) -> PendingRequest:
        """Send nothing without a task."""
        assert request.method == "tools/list"
        return DeferredRequest(partial(self.answer, request.params))

    async def answer(self, params: dict[str, Any]) -> dict[str, Any]:
        """Return one page."""
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


async def _drained(connection: Pages, meta: dict[str, Any] | None = None) -> DrainedList:
    async with asyncio.timeout(BOUND):
        return await read_pages("srv", connection, "tools/list", "tools", meta or {})


async def _drain(connection: Pages, meta: dict[str, Any] | None = None) -> list[Any]:
    return (await _drained(connection, meta)).items


@given(st.lists(st.integers(0, 4), min_size=1, max_size=6))
def test_every_item_of_every_page_in_order(lengths: list[int]) -> None:
    """Proves: C5"""
    numbers = iter(range(sum(lengths)))
    pages: list[list[Any]] = [[next(numbers) for _ in range(length)] for length in lengths]

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


NO_LIST: list[Any] = [{}, {"tools": {}}, {"tools": "x"}, {"resources": []}]


@pytest.mark.parametrize("page", NO_LIST)
async def test_a_first_page_without_the_list_is_no_answer(page: Any) -> None:
    with pytest.raises(UpstreamBadAnswer, match="without a list of tools"):
        await _drain(Pages([page]))


@pytest.mark.parametrize("page", [*NO_LIST, RpcError(-32602, "SERVER WORDS"), UpstreamBadAnswer("srv", "SERVER WORDS")])
async def test_a_later_page_that_is_none_costs_what_is_behind_it(page: Any) -> None:
    """C5: what came before is kept, and is known to be a part; the words of the server are not repeated."""
    drained = await _drained(Pages([[1], [2], page, [3]]))
    assert drained.items == [1, 2]
    assert drained.cut
    assert drained.fault is not None
    assert "page 3 of `tools/list`" in drained.fault
    assert "SERVER WORDS" not in drained.fault


class Silent(Pages):
    """A connection that never answers the page of a number."""

    def __init__(self, pages: list[Any], silent: int) -> None:
        super().__init__(pages)
        self.silent = silent

    async def answer(self, params: dict[str, Any]) -> dict[str, Any]:
        if int(params.get("cursor", 0)) == self.silent:
            await asyncio.Event().wait()
        return await super().answer(params)


async def test_a_later_page_that_does_not_come_costs_what_is_behind_it() -> None:
    """C5: the time for the whole list would take the pages before with it."""
    drained = await read_pages("srv", Silent([[1], [2], [3]], 2), "tools/list", "tools", {}, patience=0.05)
    assert drained.items == [1, 2]
    assert drained.cut
    assert drained.fault is not None
    assert "page 3 of `tools/list` within 0.05 s" in drained.fault


async def test_the_first_page_has_the_time_of_the_whole_list() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await read_pages("srv", Silent([[1]], 0), "tools/list", "tools", {}, patience=0.01)


@pytest.mark.parametrize("error", [PeerGone("ended"), SessionExpired()])
async def test_the_end_of_a_connection_between_pages_is_no_list(error: Exception) -> None:
    """C5: the next connection reads the list whole."""
    with pytest.raises(type(error)):
        await _drain(Pages([[1], error]))


@pytest.mark.parametrize("tools", [None, []])
async def test_null_is_an_empty_list(tools: Any) -> None:
    """C5: as some languages write one."""
    assert await _drain(Pages([{"tools": tools, "nextCursor": "1"}, [2]])) == [2]


def named(*names: str) -> list[Any]:
    return [{"name": name} for name in names]


@pytest.mark.parametrize(
    ("cursor", "said"),
    [(True, "no text"), ([], "no text"), ({}, "no text"), ("1", "in circles")],
)
async def test_a_cursor_that_leads_nowhere_ends_the_list(cursor: Any, said: str) -> None:
    """C5: what came is kept, and counts as the whole list."""
    drained = await _drained(Pages([named("a"), {"tools": named("b"), "nextCursor": cursor}]))
    assert drained.items == named("a", "b")
    assert not drained.cut
    assert drained.fault is not None
    assert said in drained.fault


@pytest.mark.parametrize("cursor", ["MQ==", "", 0])
async def test_the_same_page_for_ever_is_read_twice(cursor: Any) -> None:
    """C5: each name once."""

    class Stuck(Pages):
        async def answer(self, params: dict[str, Any]) -> dict[str, Any]:
            self.asked.append(params)
            return {"tools": self.pages, "nextCursor": cursor}

    connection = Stuck(named("a", "b"))
    drained = await _drained(connection)
    assert drained.items == named("a", "b")
    assert [params.get("cursor") for params in connection.asked] == [None, cursor]
    assert drained.fault is not None
    assert "in circles" in drained.fault


async def test_an_empty_cursor_that_is_refused_was_the_end() -> None:
    """C5: an empty cursor is valid, and to some servers no cursor at all."""

    class Refusing(Pages):
        def page(self, number: int) -> Any:
            raise AssertionError(number)

        async def answer(self, params: dict[str, Any]) -> dict[str, Any]:
            if "cursor" in params:
                raise RpcError(-32602, "no such cursor")
            return {"tools": named("a"), "nextCursor": ""}

    drained = await _drained(Refusing([]))
    assert drained.items == named("a")
    assert not drained.cut


async def test_new_cursors_without_new_names_end() -> None:
    """C5: after the first page that brings nothing new."""
    # An item without a name is no new one each time.
    items = [*named("a", "b"), {"title": "c"}, 7]
    connection = Endless(items)
    drained = await _drained(connection)
    assert drained.items == items
    assert len(connection.asked) == 2
    assert drained.fault is not None
    assert "no new tools" in drained.fault


async def test_a_name_on_two_pages_counts_once() -> None:
    """C5, B5: and the fault is told. Twice on one page is for whoever validates the items."""
    drained = await _drained(Pages([named("a", "b", "b"), named("b", "c")]))
    assert drained.items == named("a", "b", "b", "c")
    assert drained.fault is not None
    assert "1 of its tools on two pages" in drained.fault


async def test_a_list_without_faults_has_none() -> None:
    drained = await _drained(Pages([named("a"), [], named("b")]))
    assert drained == DrainedList(named("a", "b"), None, None, False)


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
    drained = await _drained(connection)
    assert drained.items == []
    assert drained.fault is not None
    assert "does not stop paging" in drained.fault
    assert len(connection.asked) == EMPTY_PAGES


async def test_some_empty_pages_are_passed_over() -> None:
    """C5: a server that filters its pages may have many."""
    assert await _drain(Pages([named("a"), *([[]] * (EMPTY_PAGES - 1)), named("b")])) == named("a", "b")


class Growing(Endless):
    """As many items on each page as there were given, none of them like another."""

    def page(self, number: int) -> Any:
        items = [{"page": number, "at": at} for at in range(len(self.pages))]
        return {"tools": items, "nextCursor": str(number + 1)}


async def test_full_pages_for_ever_end_sooner() -> None:
    connection = Growing([{}] * 1_000)
    drained = await _drained(connection)
    assert drained.fault is not None
    assert "does not stop paging" in drained.fault
    assert len(connection.asked) <= ITEM_LIMIT // 1_000 + 1
    assert len(drained.items) == len(connection.asked) * 1_000


async def test_pages_of_one_item_for_ever_end() -> None:
    """Proves: E4"""
    connection = Growing([{}])
    drained = await _drained(connection)
    assert drained.fault is not None
    assert len(connection.asked) == len(drained.items) == PAGE_LIMIT
