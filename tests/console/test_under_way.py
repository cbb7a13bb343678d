"""Calls that have not ended, as rows of the list and pages of their own, also those that wait for a person."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import httpx2
import pytest
import pytest_asyncio

from aggregator.frontends.console.calls.running import fits
from aggregator.gateway.calls.running_calls import OpenCall
from aggregator.storage.audit.query import parse
from tests.access.gateway_harness import tool
from tests.access.recording_toolbox import RecordingToolbox
from tests.console.console_harness import SHOP, ConsoleHarness, post
from tests.console.page_reader import words
from tests.console.test_live import watching
from tests.end_to_end.scripted_host import LEGACY, MODERN
from tests.peers.serving import BackgroundLoop
from tests.peers.toolbox import Json
from tests.polling import until

POLICIES: Final = {
    "agents": {
        "clerk": {"allow": ["*"], "confirm": ["shop.put"], "confirm_by": "queue", "confirm_wait": 60},
        "reader": {"allow": ["shop.get", "shop.hold"]},
    }
}
HTTP: Final = ("http", MODERN)
NOW: Final = 1_800_000_000.0
CALL: Final = OpenCall(
    "ab12", "clerk", "shop.hold", "shop", "http", "f" * 32, NOW, 3.0, "upstream", tenant="acme", via="call_tool"
)


@pytest_asyncio.fixture
async def own(background: BackgroundLoop, tmp_path: Path) -> AsyncIterator[ConsoleHarness]:
    """Run a gateway with a tool that answers when it is told to."""
    tools = [*SHOP, tool("hold", {"key": {"type": "string"}}), tool("release", {"key": {"type": "string"}})]
    entry = RecordingToolbox(tools, {}).config_entry()
    yield ConsoleHarness(background, tmp_path, {"shop": entry}, POLICIES, audit={"flush_interval": "10ms"})


async def running(client: httpx2.AsyncClient, query: str = "") -> list[Json]:
    """Return the calls under way that a query finds."""
    found: list[Json] = (await client.get("/console/calls.json", params={"q": query})).json()["running"]["calls"]
    return found


@pytest.mark.parametrize("version", [MODERN, LEGACY[-1]])
async def test_a_call_is_a_row_from_its_beginning(own: ConsoleHarness, version: str) -> None:
    """With a task and without: listed by its query, openable, told by the stream, and a row of the log at its end."""
    async with own.connect_as(("http", version), "clerk") as host, own.signed_in("viewer") as client:
        async with watching(client, q="agent:clerk") as stream:
            held = host.call("shop.hold", {"key": "a"})

            async def is_there() -> bool:
                return [one["name"] for one in await running(client, "agent:clerk tool:shop.*")] == ["shop.hold"]

            await until(is_there, "it is listed")
            html = ""
            while "shop." not in html:
                _, html = await stream.next("running")
            (call,) = await running(client, "agent:clerk")
            assert not call["waits"]
            assert await running(client, "agent:reader") == []
            assert await running(client, "status:ok") == []
            address = f"/console/calls/running/{call['id']}"
            text = words((await client.get(address)).text)
            links = (await client.get(f"{address}.json")).json()["call"]["links"]
            assert {name: links[name] for name in ("agent", "server")} == {
                "agent": "/agents/clerk",
                "server": "/servers/shop",
            }
            assert "approval" not in links
            assert "Called by clerk" in text
            assert "the server was asked" in text or "the arguments were checked" in text
            overview = (await client.get("/console/overview.json")).json()["running"]
            assert (overview["count"], overview["id"]) == (1, call["id"])
            await host.call("shop.release", {"key": "a"}).result()
            await held.result()

        async def is_on_record() -> bool:
            answer = await client.get(address)
            return answer.status_code == 303 and answer.headers["location"].startswith("/console/calls/")

        await until(is_on_record, "its address leads to its row")
        assert await running(client, "tool:shop.hold") == []
        assert (await client.get("/console/calls/running/none")).status_code == 404


async def test_a_call_that_waits_for_a_person_says_so(own: ConsoleHarness) -> None:
    async with own.connect_as(HTTP, "clerk") as host, own.signed_in("approver") as client:
        asking = host.call("shop.put", {"amount": 1})

        async def waits() -> bool:
            return [one["waits"] for one in await running(client, "status:pending")] == [True]

        await until(waits, "it waits for a person")
        (call,) = await running(client)
        text = words((await client.get("/console/calls")).text)
        assert "waits clerk shop.put waits for a person" in text
        for query, count in (("", 1), ("agent:clerk status:pending", 1), ("agent:reader", 0)):
            found = (await client.get("/console/calls.json", params={"q": query})).json()["hour"]["facets"]
            assert [one["count"] for one in found if one["name"] == "Pending"] == [count]
        async with watching(client, q="agent:clerk") as stream:
            html = ""
            while "Pending 1<" not in html:
                _, html = await stream.next("pulse")
        page = (await client.get(f"/console/calls/running/{call['id']}")).text
        assert f"/console/approvals/{call['approval_id']}" in page
        question = (await client.get(f"/console/approvals/{call['approval_id']}.json")).json()["question"]
        answered = await post(
            client,
            f"/console/approvals/{question['id']}",
            answer="approve",
            digest=question["digest"],
            status="pending",
        )
        assert answered.status_code == 303
        assert "isError" not in await asking.result()
        await until(lambda: nothing_runs(client), "it has ended")


async def nothing_runs(client: httpx2.AsyncClient) -> bool:
    return not await running(client)


async def test_the_hour_is_that_of_the_rows_and_outlives_a_restart(
    background: BackgroundLoop, tmp_path: Path, own: ConsoleHarness
) -> None:
    """Another process on the same database has the calls of the first; a refused call makes no tool slow."""
    async with own.connect_as(HTTP, "clerk") as host, own.connect_as(HTTP, "reader") as reader:
        await host.call("shop.get", {"id": "1"}).result()
        await reader.call("shop.wipe").message()
    log = own.app.telemetry.audit
    assert log is not None
    await until(lambda: log.report()["waiting"] == 0, "they are on record")
    entry = RecordingToolbox(SHOP, {}).config_entry()
    after = await asyncio.to_thread(ConsoleHarness, background, tmp_path, {"shop": entry}, POLICIES)
    async with after.signed_in("viewer") as client:
        found = (await client.get("/console/overview.json")).json()
    assert (found["calls"]["total"], found["calls"]["refused"]) == (2, 1)
    assert [one["name"] for one in found["slowest"]] == ["shop.get"]
    assert found["failing"] == []


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", True),
        ("agent:clerk", True),
        ("agent:desk", False),
        ("-agent:clerk", False),
        ("-agent:desk", True),
        ("tool:shop.*", True),
        ("tool:s*.ho?d", True),
        ("tool:[s]hop.hold", False),
        ("server:shop tenant:acme frontend:http via:call_tool", True),
        ("server:shop tenant:other", False),
        ("user:ada", False),
        ("-user:ada", True),
        ("trace:ffff", True),
        ("trace:0000", False),
        ("status:ok", False),
        ("status:pending", False),
        ("-status:ok", True),
        ("code:tool_error", False),
        ("rule:deny", False),
        ("hold", True),
        ("-hold", False),
        ("absent", False),
        ("took:>1s", True),
        ("took:>5s", False),
        ("took:<5s", False),
        ("size:>1", False),
        ("since:2020-01-01", True),
        ("until:2020-01-01", False),
    ],
)
def test_what_a_query_finds_among_what_runs(query: str, found: bool) -> None:
    assert fits(parse(query, NOW + 10), CALL) is found


@pytest.mark.parametrize(
    ("since", "until", "found"), [(0, None, True), (1, None, False), (None, 0, False), (None, 1, True)]
)
def test_the_moment_of_a_call_is_within_its_own_second(since: int | None, until: int | None, found: bool) -> None:
    """As in the log: from the first moment on, and before the last one."""
    first, last = (None if more is None else CALL.started + more for more in (since, until))
    assert fits(replace(parse("", NOW), since=first, until=last), CALL) is found


def test_what_waits_is_pending() -> None:
    waiting = OpenCall(**{**CALL.as_data(), "approval_id": "apr_1", "step": "confirm"})
    assert fits(parse("status:pending", NOW), waiting)
    assert not fits(parse("-status:pending", NOW), waiting)
    assert not OpenCall(**{**waiting.as_data(), "step": "upstream"}).waits
