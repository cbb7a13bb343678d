"""Flow labels at the console: with a call, and on the page of an agent."""

from pathlib import Path
from typing import Final

import pytest

from tests.access.recording_toolbox import RecordingToolbox
from tests.console.console_harness import SHOP, ConsoleHarness
from tests.end_to_end.scripted_host import LEGACY
from tests.peers.serving import BackgroundLoop
from tests.polling import until

POLICIES: Final = {
    "labels": {"untrusted": ["shop.get"], "outward": ["shop.put"]},
    "flow": [{"after": "untrusted", "calls": "outward", "then": "deny"}],
    "agents": {"clerk": {"allow": ["shop.*"]}, "reader": {"allow": ["shop.get"]}},
}


@pytest.fixture
def console(background: BackgroundLoop, tmp_path: Path) -> ConsoleHarness:
    servers = {"shop": RecordingToolbox(SHOP, {}).config_entry()}
    return ConsoleHarness(background, tmp_path, servers, POLICIES, ("clerk", "reader"))


async def test_what_was_read_is_shown(console: ConsoleHarness) -> None:
    """A call says what its conversation had read and what it brought; an agent's page what counts now, and by what."""
    async with console.connect_as(("http", LEGACY[-1]), "clerk") as host:
        await host.call("shop.get", {"id": "a"}).result()
        refused = await host.call("shop.put", {"amount": 1}).result()
    assert refused["isError"] is True
    async with console.signed_in("viewer") as client:

        async def written() -> bool:
            return len((await client.get("/console/calls.json")).json()["rows"]) == 2

        await until(written)
        rows = (await client.get("/console/calls.json")).json()["rows"]
        assert [row["flow"] for row in rows] == ["untrusted", "+untrusted"]
        page = (await client.get(f"/console/calls/{rows[0]['seq']}")).text
        assert "<dt>Had read</dt><dd>" in page
        assert "untrusted" in page.partition("<dt>Had read</dt>")[2].partition("</dd>")[0]
        agent = (await client.get("/console/agents/clerk.json")).json()
        assert {(one["kind"], one["label"], one["tool"]) for one in agent["read"]} == {
            ("session", "untrusted", "shop.get"),
            ("key", "untrusted", "shop.get"),
        }
        page = (await client.get("/console/agents/clerk")).text
        assert "What it has read" in page
        assert "aggregator flow clear" in page
        assert "What it has read" not in (await client.get("/console/agents/reader")).text
