"""The first page: what needs a person, the last hour, and how to connect a host."""

import html
import re
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from tests.access.recording_toolbox import RecordingToolbox
from tests.console.console_harness import SHOP, ConsoleHarness
from tests.console.page_reader import PageReader
from tests.peers.serving import BackgroundLoop
from tests.polling import until

HOSTILE: Final = "evil</code><script>alert(1)</script>\u202e"
POLICIES: Final = {
    "agents": {
        "clerk": {
            "allow": ["shop.*"],
            "deny": ["shop.wipe"],
            "confirm": ["shop.put"],
            "confirm_by": "queue",
            "confirm_wait": 0,
            "limits": {"shop.get": {"per_minute": 1}},
        },
        "reader": {"allow": ["shop.get"]},
    }
}


@pytest.fixture
def console(background: BackgroundLoop, tmp_path: Path) -> ConsoleHarness:
    servers = {
        "shop": RecordingToolbox(SHOP, {}).config_entry(),
        "gone": {"command": "no-such-program-<b>x</b>", "description": "never there"},
    }
    return ConsoleHarness(background, tmp_path, servers, POLICIES, ("clerk", "reader"))


async def call(console: ConsoleHarness, agent: str, tool: str, **arguments: Any) -> httpx2.Response:
    async with console.client(agent) as client:
        return await client.post("/v1/tool_calls", json={"tool_calls": [{"name": tool, "arguments": arguments}]})


async def overview(client: httpx2.AsyncClient) -> Any:
    """Return the page as data, which is kept for a moment."""
    return (await client.get("/console/overview.json")).json()


def headings(page: str) -> list[str]:
    found = re.findall(r"<h2>(.*?)</h2>", page, re.DOTALL)
    return [html.unescape(re.sub(r"<[^>]*>", "", one)).strip() for one in found]


async def test_it_begins_with_how_to_connect_a_host(console: ConsoleHarness) -> None:
    """E12: without calls, the address and lines for hosts, each to copy; parts without content are left out."""
    async with console.signed_in("viewer") as client:
        page = await client.get("/console/")
        assert page.status_code == 200
        connect = (await overview(client))["connect"]
    assert headings(page.text) == ["Connect a host", "Needs you", "Servers 3 tools"]
    assert connect["url"] == f"{console.url}/mcp"
    assert connect["needs_key"] is True
    lines = {one["host"]: one["line"] for one in connect["lines"]}
    assert lines["Claude Code"] == (
        f'claude mcp add --transport http aggregator {console.url}/mcp --header "Authorization: Bearer agk_..."'
    )
    of_frameworks = lines["Agent frameworks, which pass names and schemas to a model API"]
    assert of_frameworks == f"{console.url}/mcp?names=compatible"
    assert all(html.escape(line, quote=False).replace('"', "&#34;").replace("'", "&#39;") in page.text
               for line in lines.values())  # fmt: skip


async def test_what_needs_a_person_comes_first(console: ConsoleHarness) -> None:
    """E12: calls that wait, servers away with their reasons, then the hour, refusals by rule, limits, last calls."""
    async with console.signed_in("approver") as client:
        await overview(client)
        for tool in ("shop.get", "shop.get", "shop.put", "shop.wipe"):
            await call(console, "clerk", tool)
        await call(console, "clerk", HOSTILE)
        await call(console, "clerk", "shop.get", key="canary-in-an-argument")

        async def is_all_there() -> bool:
            found = await overview(client)
            return len(found["last_calls"]) == 6 == found["calls"]["total"] and len(found["limits"]) == 1

        await until(is_all_there)
        found = await overview(client)
        page = (await client.get("/console/")).text
    assert found["connect"] is None
    (waits,) = found["approvals"]["oldest"]
    assert (found["approvals"]["waiting"], waits["agent"], waits["tool"]) == (1, "clerk", "shop.put")
    (away,) = found["away"]
    assert (away["id"], away["state"]) == ("gone", "unavailable")
    assert "was not found" in away["reason"]
    calls = found["calls"]
    assert (calls["total"], calls["refused"], calls["failed"]) == (6, 4, 0)
    assert sum(minute["calls"] for minute in calls["minutes"]) == 6
    refusals = {(one["rule"], one["times"], one["agents"]) for one in found["refusals"]}
    assert refusals == {('deny "shop.wipe"', 1, 1)}
    assert all("main.yaml:" in one["source"] for one in found["refusals"])
    (limit,) = found["limits"]
    assert (limit["times"], limit["agent"]) == (2, "clerk")
    # What was refused, or waits for a person, is no slow tool.
    assert {one["name"] for one in found["slowest"]} == {"shop.get"}
    assert headings(page)[:2] == ["Needs you", "Calls a minute"]
    assert f'href="/console/approvals/{waits["id"]}"' in page
    assert "canary" not in page
    assert "no-such-program-&lt;b&gt;" in page
    assert "<script>alert" not in page
    assert "U+202E" in page
    assert "\u202e" not in page
    assert PageReader("/console").read(page).problems == []


async def test_the_bars_fit_their_chart(console: ConsoleHarness) -> None:
    async with console.signed_in("viewer") as client:
        for tool in ("shop.get", "shop.wipe", "shop.wipe"):
            await call(console, "clerk", tool)

        async def has_bars() -> bool:
            return bool((await overview(client))["calls"]["bars"])

        await until(has_bars)
        bars = (await overview(client))["calls"]["bars"]
        page = (await client.get("/console/")).text
    assert all(0 <= bar["x"] <= 590 and bar["y"] >= 0 and bar["y"] + bar["height"] <= 32 for bar in bars)
    assert page.count("<rect") >= len(bars)


async def test_a_viewer_is_told_of_approvals_and_not_led_to_them(console: ConsoleHarness) -> None:
    await call(console, "clerk", "shop.put")
    async with console.signed_in("viewer") as client:

        async def waits() -> bool:
            return bool((await overview(client))["approvals"]["waiting"])

        await until(waits)
        page = (await client.get("/console/")).text
    assert "/console/approvals" not in page
    assert "put" in page


async def test_broken_files_are_problems(console: ConsoleHarness) -> None:
    """E9: the place in the file is named, and links lead to the health page."""
    (console.policies / "broken.yaml").write_text("agents: {clerk: {alow: ['*']}}\n")
    async with console.signed_in("viewer") as client:

        async def is_told() -> bool:
            return any("broken.yaml" in one["text"] for one in (await overview(client))["problems"])

        await until(is_told)
        health = (await client.get("/console/health.json")).json()
    assert any("broken.yaml" in one["text"] for one in health["problems"])
    assert health["policies"]["broken"] is True
