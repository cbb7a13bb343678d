"""Reports of agents through every frontend, and what the console shows of them."""

import html
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from aggregator.tool_reports import book
from tests.access.gateway_harness import tool
from tests.access.recording_toolbox import RecordingToolbox
from tests.access.secured_harness import HOST_KINDS
from tests.console.console_harness import SHOP, ConsoleHarness, post
from tests.observability.observed_harness import calls_in
from tests.peers.serving import BackgroundLoop
from tests.polling import until

POLICIES: Final = {
    "agents": {
        "clerk": {"allow": ["*"], "deny": ["shop.wipe"], "expose": "search"},
        "reader": {"allow": ["shop.get"], "expose": "all"},
        "coder": {"allow": ["*"], "expose": "code"},
    }
}
HOSTILE: Final = "<b>broken</b>\u202e\x1b[31m since\nMonday"
CLEAN: Final = "<b>broken</b> [31m since Monday"


def open_console(background: BackgroundLoop, folder: Path, **settings: Any) -> ConsoleHarness:
    # Another server has a tool of the same name, which keeps its own.
    servers = {
        "shop": RecordingToolbox(SHOP, {}).config_entry(),
        "desk": RecordingToolbox([tool("report_tool", {"name": {"type": "string"}})], {}).config_entry(),
    }
    settings = {"report_tool": True, "audit": {"flush_interval": "10ms"}, **settings}
    return ConsoleHarness(background, folder, servers, POLICIES, tuple(POLICIES["agents"]), **settings)


@pytest.fixture(scope="module")
def background() -> Iterator[BackgroundLoop]:
    with BackgroundLoop() as running:
        yield running


@pytest.fixture
def console(background: BackgroundLoop, tmp_path: Path) -> ConsoleHarness:
    return open_console(background, tmp_path)


def calls_of(console: ConsoleHarness) -> list[Any]:
    return list(calls_in(Path(console.database_url.partition("///")[2])))


def text_of(result: Mapping[str, Any]) -> str:
    return "".join(block["text"] for block in result["content"])


async def reported(console: ConsoleHarness) -> list[Any]:
    async with console.signed_in("approver") as client:
        found: list[Any] = (await client.get("/console/reports.json")).json()["tools"]
        return found


@pytest.mark.parametrize("host_kind", HOST_KINDS, ids=lambda kind: f"{kind[0]}-{kind[1]}")
async def test_an_agent_reports_a_tool(console: ConsoleHarness, host_kind: tuple[str, str]) -> None:
    """In every spelling of the name, once directly and once through `call_tool`; each is one row of the audit."""
    async with console.connect_as(host_kind, "clerk") as host:
        names = [one["name"] for one in await host.list()]
        assert "report_tool" in names
        first = await host.call("report_tool", {"name": "shop__get", "why": HOSTILE}).result()
        assert text_of(first) == "Reported to the operators: shop.get. It is not mended yet; go on without it."
        again = {"name": "report_tool", "arguments": {"tool": "shop.get", "reason": HOSTILE}}
        second = await host.call("call_tool", again).result()
        assert text_of(second).startswith("Reported to the operators: shop.get (2 reports by you).")
        for name in ("shop.wipe", "shop.none", "search_tools", "shop"):
            refused = await host.call("report_tool", {"name": name, "why": "it is broken"}).result()
            assert refused["isError"] is True, name
            assert ("Go on without reporting it." in text_of(refused)) == (name == "shop.wipe"), text_of(refused)
    (one,) = await reported(console)
    assert (one["name"], one["times"], one["agent_count"]) == ("shop.get", 2, 1)
    (by,) = one["agents"]
    assert [(reason["text"], reason["times"]) for reason in by["reasons"]] == [(CLEAN, 2)]
    await until(lambda: len(calls_of(console)) == 6, "the audit has all")
    assert {row["tool_name"] for row in calls_of(console)} == {"report_tool"}


async def test_whole_lists_have_it_behind_all_tools(console: ConsoleHarness) -> None:
    """`expose: all` lists it too; a server's own tool of this name stays the server's."""
    async with console.connect_as(HOST_KINDS[-1], "reader") as host:
        names = [one["name"] for one in await host.list()]
        assert names == ["shop.get", "report_tool"]
    async with console.connect_as(HOST_KINDS[-1], "clerk") as host:
        await host.call("desk.report_tool", {"name": "x"}).result()
        assert text_of(await host.call("report_tool", {"name": "desk.report_tool", "why": "odd"}).result()).startswith(
            "Reported to the operators: desk.report_tool."
        )


async def test_a_program_reports(console: ConsoleHarness) -> None:
    program = "print(call_tool('report_tool', {'name': 'shop.get', 'why': 'it gives nothing'}))"
    async with console.connect_as(HOST_KINDS[-1], "coder") as host:
        assert "Reported to the operators" in text_of(await host.call("run_code", {"code": program}).result())
    (one,) = await reported(console)
    assert one["agents"][0]["agent"] == "coder"


async def test_reports_over_v1(console: ConsoleHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """The path of its own, and a call like that of every tool; each mistake has its status."""
    async with console.client("clerk") as client:
        answer = await client.post("/v1/reports", json={"name": "shop.get", "why": "empty"})
        assert (answer.status_code, answer.json()["content"].split(":")[0]) == (200, "Reported to the operators")
        call = {"tool_call": {"name": "report_tool", "arguments": {"name": "shop.get", "why": "empty"}}}
        assert (await client.post("/v1/tool_calls", json=call)).status_code == 200
        bodies: list[tuple[Any, int]] = [
            ({"name": "shop.wipe", "why": "empty"}, 403),
            ({"name": "shop.none", "why": "empty"}, 400),
            ({"name": "shop.get", "why": " "}, 400),
            ({"name": "shop.get"}, 400),
            ([], 400),
        ]
        for body, status in bodies:
            assert (await client.post("/v1/reports", json=body)).status_code == status, body
        monkeypatch.setattr(book, "MOST_A_MINUTE", 0)
        over = await client.post("/v1/reports", json={"name": "shop.get", "why": "empty"})
        assert (over.status_code, over.headers["retry-after"].isdigit()) == (429, True)
        paths = (await client.get("/v1/openapi.json")).json()["paths"]
        assert "/v1/reports" in paths


async def test_no_half_of_a_secret_is_kept(console: ConsoleHarness) -> None:
    """E12: neither where a reason is cut, nor where many blanks stand before it."""
    key = console.keys["clerk"]
    for blanks in (0, 3_990, 460):
        await _report(console, ("x" if blanks == 460 else " ") * blanks + f" {key}")
    (one,) = await reported(console)
    secret = key.rpartition("_")[2]
    kept = [reason["text"] for by in one["agents"] for reason in by["reasons"]]
    assert len(kept) == 2, kept
    assert not [text for text in kept if secret[:6] in text]


async def test_reports_are_off_by_default(background: BackgroundLoop, tmp_path: Path) -> None:
    console = open_console(background, tmp_path, report_tool=False)
    async with console.connect_as(HOST_KINDS[-1], "clerk") as host:
        names = [one["name"] for one in await host.list()]
        assert "report_tool" not in names
        # Without ours, the name means the tool of the server.
        assert (await host.call("call_tool", {"name": "report_tool", "arguments": {"name": "x"}}).result()).get(
            "isError"
        ) is not True
    async with console.client("clerk") as client:
        assert (await client.post("/v1/reports", json={"name": "shop.get", "why": "empty"})).status_code == 404
    async with console.signed_in() as client:
        assert "report_tool" in (await client.get("/console/reports")).text


async def _report(console: ConsoleHarness, why: str) -> None:
    async with console.client("clerk") as client:
        assert (await client.post("/v1/reports", json={"name": "shop.get", "why": why})).status_code == 200


async def test_the_console_shows_and_clears_reports(console: ConsoleHarness) -> None:
    """E12: beside the tool, among what needs a person, and on a page of its own; the text is an agent's."""
    await _report(console, HOSTILE)
    shown = html.escape(CLEAN)
    async with console.signed_in("viewer", "petra") as client:

        async def is_told() -> bool:
            said: Any = (await client.get("/console/overview.json")).json()["reported"]
            return [(one["name"], one["times"]) for one in said] == [("shop.get", 1)]

        await until(is_told)
        overview = (await client.get("/console/")).text
        assert "reported 1 time by 1 agent" in overview
        assert "/console/tools/shop.get" in overview
        for page in ("/console/reports", "/console/tools/shop.get"):
            text = (await client.get(page)).text
            assert "Reported 1 time by 1 agent" in text, page
            assert "since Monday" not in text, page
            assert "Clear these reports" not in text, page
    async with console.signed_in() as client:
        for page in ("/console/reports", "/console/tools/shop.get"):
            text = (await client.get(page)).text
            assert shown in text, page
            assert "Clear these reports" in text, page
        assert await _status(client) == 303
        assert await _status(client) == 404
        assert (await post(client, "/console/reports/clear", server="shop")).status_code == 400
        assert (await client.get("/console/reports.json")).json()["tools"] == []
        assert "Reported 1 time" not in (await client.get("/console/tools/shop.get")).text


async def _status(client: httpx2.AsyncClient) -> int:
    return (await post(client, "/console/reports/clear", server="shop", tool="get")).status_code
