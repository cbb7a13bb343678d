"""The stream of what happens, as pages get it: new rows, counts, what waits, and what many or slow readers cost."""

import asyncio
import gc
import json
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import httpx2
import pytest
import pytest_asyncio

from aggregator.app.app import App
from aggregator.frontends.console.calls import live
from aggregator.frontends.console.calls.live import LiveQuery, OpenPage
from aggregator.frontends.console.calls.rows import MinuteTable
from aggregator.frontends.server import WebServer
from aggregator.storage.audit.query import parse
from aggregator.storage.audit.search import ArrivedCall
from aggregator.storage.database import open_database
from tests.console.console_harness import ConsoleHarness
from tests.end_to_end.scripted_host import MODERN
from tests.peers.serving import BackgroundLoop
from tests.polling import BOUND, until

of_module = pytest.mark.asyncio(loop_scope="module")
ALL: Final = parse("", 0.0)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def calls(background: BackgroundLoop, tmp_path_factory: pytest.TempPathFactory) -> ConsoleHarness:
    """A gateway whose audit is written quickly."""
    return ConsoleHarness(background, tmp_path_factory.mktemp("live"), audit={"flush_interval": "10ms"})


class Stream:
    """The events of one stream, in order."""

    def __init__(self, lines: AsyncIterator[str]) -> None:
        self._lines = lines

    async def next(self, *names: str) -> tuple[str, str]:
        """Return the next event with one of these names."""
        name, data = "", []
        async with asyncio.timeout(BOUND):
            async for line in self._lines:
                if line.startswith("event: "):
                    name = line[7:]
                elif line.startswith("data: "):
                    data.append(line[6:])
                elif not line and name:
                    if name in names:
                        return name, "\n".join(data)
                    name, data = "", []
        raise AssertionError(f"the stream ended without {names}")


@asynccontextmanager
async def watching(client: httpx2.AsyncClient, **query: str) -> AsyncIterator[Stream]:
    """Open a stream, as a page does."""
    async with client.stream("GET", "/console/live", params=query, timeout=BOUND) as response:
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = response.aiter_lines()
        assert await anext(lines) == ": live"
        yield Stream(lines)


async def make(calls: ConsoleHarness, name: str = "shop.get", agent: str = "clerk") -> None:
    async with calls.connect_as(("http", MODERN), agent) as host:
        await host.ask("tools/call", {"name": name, "arguments": {}}, {}).message()


def seqs(html: str) -> list[int]:
    """Return the rows in an event."""
    return [int(seq) for seq in re.findall(r'<tr id="call-(\d+)"', html)]


@of_module
async def test_a_call_arrives_with_its_counts(calls: ConsoleHarness) -> None:
    """Proves: E13. A row and the counts of the query come without a request of the page."""
    async with calls.signed_in("viewer") as client, watching(client, q="agent:clerk") as stream:
        await make(calls, "shop.wipe")
        _, row = await stream.next("rows")
        pulse = ""
        while "Refused 1" not in pulse:
            _, pulse = await stream.next("pulse")
    assert "shop.</bdi></span><bdi>wipe" in row
    assert "denied" in row


@of_module
async def test_each_page_gets_the_rows_of_its_query(calls: ConsoleHarness) -> None:
    """E13: matching is for each query, and with what a person may search."""
    async with (
        calls.signed_in("viewer") as client,
        watching(client, q="agent:reader") as reader,
        watching(client, q="-agent:reader") as others,
    ):
        await make(calls, agent="reader")
        await make(calls, agent="clerk")
        (_, mine), (_, theirs) = await reader.next("rows"), await others.next("rows")
    assert "reader" in mine
    assert "clerk" not in mine
    assert "clerk" in theirs
    assert "reader" not in theirs


@of_module
async def test_a_page_gets_what_came_before_its_stream(calls: ConsoleHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """E13: nothing is missing between a page and its stream; of much, the page reads its list again."""
    async with calls.signed_in("viewer") as client:

        async def newest() -> int:
            return int((await client.get("/console/calls.json")).json()["newest"])

        before = await newest()
        await make(calls)

        async def written() -> bool:
            return await newest() > before

        await until(written)
        async with watching(client, q="", after=str(before)) as stream:
            _, row = await stream.next("rows")
            assert seqs(row)
            assert min(seqs(row)) > before
        monkeypatch.setattr(live, "_MISSED", 1)
        async with watching(client, q="", after=str(before)) as stream:
            await stream.next("gap")


@of_module
async def test_approvers_hear_of_what_waits(calls: ConsoleHarness) -> None:
    """Proves: E13. Count and newest question, without values; a viewer is told nothing of it."""
    async with calls.signed_in("approver") as client, watching(client) as stream:
        _, before = await stream.next("waiting")
        async with open_database(calls.database_url) as database:
            now = time.time()
            asked = await database.approvals.ask("clerk", "shop.put", "d" * 64, "?", expires=now + 60, now=now)
        _, told = await stream.next("waiting")
        async with open_database(calls.database_url) as database:
            await database.approvals.deny(asked.id, "cli:ada", now=time.time())
        _, after = await stream.next("waiting")
    assert json.loads(told) == {
        "count": json.loads(before)["count"] + 1,
        "id": asked.id,
        "agent": "clerk",
        "tool": "shop.put",
    }
    assert json.loads(after)["count"] == json.loads(before)["count"]


@of_module
async def test_a_stream_ends_with_the_session(calls: ConsoleHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: D9. Who is signed out sees nothing more."""
    monkeypatch.setattr("aggregator.frontends.console.console._LOOK_EVERY", 0.05)
    async with (
        calls.signed_in("viewer", "petra") as client,
        client.stream("GET", "/console/live", timeout=BOUND) as response,
    ):
        async with open_database(calls.database_url) as database:
            for session in await database.console.all(now=time.time()):
                if session.person == "petra":
                    await database.console.end(session.id)
        async with asyncio.timeout(BOUND):
            async for _ in response.aiter_lines():
                pass


@of_module
async def test_nobody_who_looks_costs_nothing(calls: ConsoleHarness) -> None:
    """Rule 1: once the last page is closed, nothing reads the audit and nothing is kept."""
    async with calls.signed_in("viewer") as client:
        async with watching(client, q="agent:clerk"), watching(client, q="agent:clerk"):
            page = _page(calls)
            # The pages of another test may still be on their way out.
            await until(lambda: repr(page) == "<LiveCalls 2 pages of 1 queries>")
        await until(lambda: repr(page) == "<LiveCalls 0 pages of 0 queries>")


@of_module
async def test_many_pages_of_many_queries_have_a_bound(calls: ConsoleHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule 2: beyond so many queries, pages read their lists again every few seconds."""
    monkeypatch.setattr(live, "QUERIES", 1)
    monkeypatch.setattr(live, "REFRESH", 0.1)
    async with (
        calls.signed_in("viewer") as client,
        watching(client, q="agent:clerk"),
        watching(client, q="agent:reader") as further,
    ):
        await further.next("gap")


def _page(calls: ConsoleHarness) -> live.LiveCalls:
    """Return the streams of the running console, which a first request makes."""
    found = [one for one in gc.get_objects() if type(one) is live.LiveCalls]
    (page,) = [one for one in found if one._parts.gateway is calls.app.gateway]
    return page


def arrived(count: int, status: str = "ok", first: int = 1) -> list[ArrivedCall]:
    return [ArrivedCall(first + number, status, 6000.0, 0.01) for number in range(count)]


def test_when_much_happens_only_what_is_not_ok_is_shown() -> None:
    """Rule 2: above four a second the rest is counted."""
    query = LiveQuery("", ALL, ALL, MinuteTable(), values=False)
    assert query.choose(arrived(3), 1.0) == ([1, 2, 3], 0)
    shown, left_out = query.choose([*arrived(500, first=10), *arrived(9, "denied", first=600)], 1.5)
    assert (shown, left_out) == ([605, 606, 607, 608], 505)
    assert query.choose(arrived(2, first=700), 9.0) == ([700, 701], 0)


def test_a_page_that_does_not_read_is_told_once_to_read_all() -> None:
    """Rule 2: what waits for one page has a bound, however much happens."""
    page = OpenPage("/console", approves=False, lists=True)
    for number in range(1000):
        page.add_rows([f"<tr>{number}</tr>" * 10] * 4, 7)
        page.set_latest("pulse", b"event: pulse\ndata: x\n\n")
    events = page.take()
    assert len(events) < 50_000
    assert b"event: gap" in events
    assert events.count(b"event: pulse") == 1
    assert page.take() == b""


def test_text_of_others_cannot_end_an_event() -> None:
    """Every kind of line break stays within the data of its event."""
    page = OpenPage("/console", approves=False, lists=True)
    page.add_rows(["a\r\nevent: gap\u2028\n\n\rdata: x\x0b\x1c"], 0)
    (event,) = page.take().decode().removesuffix("\n\n").split("\n\n")
    name, *lines = event.split("\n")
    assert name == "event: rows"
    assert all(line.startswith("data: ") and "\r" not in line for line in lines)


async def test_a_stream_ends_when_the_program_is_about_to(background: BackgroundLoop, tmp_path: Path) -> None:
    """A stream that is open then, and one that a page opens later: else the server would wait for both."""
    served: list[WebServer] = []

    class Kept(ConsoleHarness):
        def build_app(self) -> tuple[App, WebServer]:
            app, web = super().build_app()
            served.append(web)
            return app, web

    own = Kept(background, tmp_path)
    async with own.signed_in("viewer") as viewer, viewer.stream("GET", "/console/live", timeout=BOUND) as open_one:
        lines = open_one.aiter_lines()
        assert await anext(lines) == ": live"

        async def close_streams() -> None:
            served[0].close_streams()

        await background.elsewhere(close_streams())
        async with asyncio.timeout(BOUND):
            async for _ in lines:
                pass
            async with viewer.stream("GET", "/console/live", timeout=BOUND) as late:
                await late.aread()
