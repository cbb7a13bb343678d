"""Servers at the console: what they said last, and what an operator does to them."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from aggregator.app.app import App
from aggregator.config.difference import difference
from aggregator.config.load import load_mapping
from aggregator.frontends.server import WebServer
from aggregator.upstream.stderr_tail import LINES, SIZE
from tests.access.gateway_harness import tool
from tests.access.recording_toolbox import RecordingToolbox
from tests.console.console_harness import SHOP, ConsoleHarness, post
from tests.console.page_reader import words
from tests.end_to_end.scripted_host import LEGACY
from tests.meta.test_indexing import breaks_for
from tests.peers.serving import BackgroundLoop
from tests.peers.toolbox import Json
from tests.polling import until

HTTP: Final = ("http", LEGACY[-1])
CANARY: Final = "sk-canary-0123456789abcdef"
POLICY: Final = {"agents": {"clerk": {"allow": ["*"]}, "reader": {"allow": ["shop.get"]}}}
TALKER: Final = Path(__file__).with_name("talking_server.py")


def talking(folder: Path, *lines: str, **fields: Any) -> Json:
    """Return an entry for a server that writes these lines to stderr."""
    tools = folder / "tools.json"
    tools.write_text(json.dumps([tool("look"), tool("die")]))
    return {"command": sys.executable, "args": [str(TALKER), str(tools), *lines], **fields}


@pytest.fixture
def own(background: BackgroundLoop, tmp_path: Path) -> ConsoleHarness:
    """A gateway for one test, with a shop whose calls can be held."""
    tools = [*SHOP, tool("hold", {"key": {"type": "string"}}), tool("release", {"key": {"type": "string"}})]
    servers = {
        "shop": RecordingToolbox(tools, {}).config_entry(),
        "talker": talking(tmp_path, "<script>alert(1)</script>\x1b[31m", f"key {CANARY}", env={"TOKEN": CANARY}),
    }
    return ConsoleHarness(background, tmp_path, servers, POLICY)


async def shown(own: ConsoleHarness, server: str) -> Json:
    async with own.signed_in("approver") as approver:
        answer = await approver.get(f"/console/servers/{server}.json")
        assert answer.status_code == 200, answer.text
        found: Json = answer.json()
        return found


async def ready(own: ConsoleHarness, server: str) -> None:
    await until(lambda: own.app.upstreams[server].state == "ready", f"{server} is ready")


async def test_a_restart_finishes_running_calls_and_is_one_at_a_time(own: ConsoleHarness) -> None:
    """Proves: E5"""
    async with own.connect_as(HTTP, "clerk") as host, own.signed_in("operator", "maria") as maria:
        held = host.call("shop.hold", {"key": "a"})
        await until(lambda: own.app.upstreams["shop"].in_flight == 1)
        before = own.app.upstreams["shop"]
        flood = await asyncio.gather(*(post(maria, "/console/servers/shop/restart") for _ in range(6)))
        assert sorted(one.status_code for one in flood) == [303] + [409] * 5
        assert all("1 of its calls are under way" in one.text for one in flood if one.status_code == 409)
        await ready(own, "shop")
        assert own.app.upstreams["shop"] is not before
        assert (await host.call("shop.release", {"key": "a"}).result())["content"][0]["text"]
        assert "isError" not in await held.result()
        await until(lambda: not own.app.supervisor.upstreams.leaving)  # type: ignore[attr-defined]
        assert (await post(maria, "/console/servers/shop/restart")).status_code == 303
    said = [one["summary"] for one in (await shown(own, "shop"))["events"]]
    assert said.count("shop was restarted by maria") <= 2


async def test_a_server_that_is_switched_off_says_so_everywhere_until_its_entry_changes(own: ConsoleHarness) -> None:
    """Proves: E5"""
    why = "an operator switched it off until the next start of the aggregator"
    async with own.connect_as(HTTP, "clerk") as host, own.signed_in("operator", "maria") as maria:
        for _ in range(3):
            assert (await post(maria, "/console/servers/shop/disable")).status_code == 303
        refused = await host.call("shop.get", {"id": "1"}).result()
        assert refused["isError"]
        assert f"shop is disabled: {why}." in refused["content"][0]["text"]
        assert "maria" not in json.dumps(refused), "an agent learns no person's name"
        listed = await host.call("list_servers").result()
        assert why in json.dumps(listed)
        assert (await own.ready())["servers"]["shop"]["reason"] == why
        page = await maria.get("/console/servers/shop")
        assert "maria" in page.text
        assert why in page.text
        assert (await post(maria, "/console/servers/shop/restart")).status_code == 409
        missing = await maria.get("/console/tools/shop.get")
        assert missing.status_code == 404
        assert why in missing.text

        config = own.config
        other = config.model_copy(update={"startup_wait": config.startup_wait + 1})
        await own.background.elsewhere(_reload(own, other))
        assert own.app.upstreams["shop"].state == "disabled", "a reload of something else leaves it off"
        entries = [one.model_copy(update={"description": "new"}) if one.id == "shop" else one for one in other.servers]
        await own.background.elsewhere(_reload(own, other.model_copy(update={"servers": tuple(entries)})))
        await ready(own, "shop")

        await post(maria, "/console/servers/shop/disable")
        assert own.app.upstreams["shop"].state == "disabled"
        await until(lambda: not own.app.supervisor.upstreams.leaving)  # type: ignore[attr-defined]
        assert (await post(maria, "/console/servers/shop/enable")).status_code == 303
        await ready(own, "shop")
        assert "isError" not in await host.call("shop.get", {"id": "1"}).result()


async def _reload(own: ConsoleHarness, config: Any) -> None:
    own.app.servers.apply(difference(own.app.config, config))


async def test_who_is_no_operator_changes_nothing(own: ConsoleHarness) -> None:
    before = own.app.upstreams["shop"]
    async with own.signed_in("approver", "jonas") as jonas:
        page = await jonas.get("/console/servers/shop")
        assert "Restart" not in page.text
        for action in ("restart", "disable", "enable"):
            assert (await post(jonas, f"/console/servers/shop/{action}")).status_code == 403
    async with own.signed_in("operator") as maria:
        assert (await maria.post("/console/servers/shop/restart", data={"csrf": "0"})).status_code == 400
        assert (await post(maria, "/console/servers/nowhere/restart")).status_code == 404
    assert own.app.upstreams["shop"] is before


@pytest.mark.parametrize("action", ["restart", "disable", "enable"])
async def test_a_server_that_is_disabled_in_the_configuration_is_enabled_there(
    background: BackgroundLoop, tmp_path: Path, action: str
) -> None:
    """Proves: E5. The console says so, for each of its buttons, and starts nothing."""
    entry = {**RecordingToolbox(SHOP, {}).config_entry(), "enabled": False}
    own = ConsoleHarness(background, tmp_path, {"shop": entry}, POLICY)
    before = own.app.upstreams["shop"]
    async with own.signed_in("operator", "maria") as maria:
        refused = await post(maria, f"/console/servers/shop/{action}")
    assert refused.status_code == 409
    assert "shop is disabled in the configuration" in refused.text
    assert own.app.upstreams["shop"] is before
    assert before.state == "disabled"
    assert "maria" not in str((await shown(own, "shop"))["events"])


async def test_nothing_is_restarted_while_the_program_ends(own: ConsoleHarness) -> None:
    async with own.signed_in("operator") as maria:
        await own.background.elsewhere(_drain(own))
        refused = await post(maria, "/console/servers/shop/restart")
    assert refused.status_code == 409
    assert "The aggregator is ending." in refused.text


async def _drain(own: ConsoleHarness) -> None:
    own.app.gateway.drain.start(20)


async def test_last_words_are_kept_without_secrets_and_inert(own: ConsoleHarness) -> None:
    """Proves: E5"""
    async with own.connect_as(HTTP, "clerk") as host:
        assert "isError" not in await host.call("talker.look").result()
        assert (await host.call("talker.die").result())["isError"]
    found = await shown(own, "talker")
    words = [one["text"] for one in found["stderr_tail"]]
    assert "<script>alert(1)</script>\x1b[31m" in words
    assert "key [redacted]" in words
    assert "its process ended with exit code 3" in found["failure"]["text"]
    assert found["server_name"] == "<b>talker</b>"
    assert {"name": "env", "value": "TOKEN; values not shown"} in found["configuration"]
    async with own.signed_in("viewer") as viewer:
        assert "alert(1)" not in (await viewer.get("/console/servers/talker")).text
    async with own.signed_in("approver") as approver:
        page = (await approver.get("/console/servers/talker")).text
    assert CANARY not in page + json.dumps(found)
    assert "<script>alert" not in page
    assert "<b>talker" not in page
    assert "U+001B" in page


async def test_last_words_outlive_a_restart_and_stay_small(background: BackgroundLoop, tmp_path: Path) -> None:
    lines = [f"line {number} " + "x" * 300 for number in range(200)]
    own = ConsoleHarness(background, tmp_path, {"talker": talking(tmp_path, *lines)}, POLICY)
    await until(lambda: any("line 199" in one.text for one in own.app.upstreams["talker"].stderr_tail.lines(str)))
    async with own.signed_in() as maria:
        assert (await post(maria, "/console/servers/talker/restart")).status_code == 303
    kept = (await shown(own, "talker"))["stderr_tail"]
    assert len(kept) <= LINES
    assert 0 < sum(len(one["text"]) for one in kept) <= SIZE


async def test_the_last_failure_of_an_address_is_told(background: BackgroundLoop, tmp_path: Path) -> None:
    """Proves: E5"""
    away = {"url": f"http://127.0.0.1:1/{CANARY}/mcp", "headers": {"Authorization": f"Bearer {CANARY}"}}
    away |= {"limits": {"max_pending": 7, "grace": "30s"}}
    own = ConsoleHarness(background, tmp_path, {"away": away}, POLICY)
    found = await shown(own, "away")
    assert found["failure"]["text"]
    assert found["state"] == "unavailable"
    assert {"name": "url", "value": "http://127.0.0.1:1"} in found["configuration"]
    limits = [one for one in found["configuration"] if one["name"].startswith("limits.")]
    assert limits == [{"name": "limits.max_pending", "value": "7"}], "a default is not shown"
    async with own.signed_in("viewer") as viewer:
        page = (await viewer.get("/console/servers/away")).text
    assert "Last failure" not in page
    assert CANARY not in page + json.dumps(found)


async def test_a_server_that_asks_during_calls_says_so(background: BackgroundLoop, tmp_path: Path) -> None:
    """In the words of `list_servers`, with the connections of single hosts; no other server does."""
    servers = {name: RecordingToolbox(SHOP, {}).config_entry() for name in ("asks", "quiet")}
    own = ConsoleHarness(background, tmp_path, servers, POLICY)
    own.app.upstreams["asks"].recall_asking()
    async with own.signed_in("viewer") as viewer:
        pages = [(await viewer.get(f"/console/servers/{name}")).text for name in servers]
        data = (await viewer.get("/console/servers/asks.json")).json()
    words = "It asks during calls: hosts at the same time have connections of their own, 0 now"
    assert [words in page for page in pages] == [True, False]
    assert data["own_connections"] == 0


async def test_faults_of_lists_and_tools_that_no_words_find_are_shown(
    background: BackgroundLoop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the pages of servers and tools, and at /v1: names of items, which are the server's, from the approver on."""
    breaks_for(monkeypatch, {"talker"})
    odd = {**tool(f"odd{CANARY}"), "inputSchema": {"type": "object", "properties": {"a": {"type": "int"}}}}
    left_out = {**tool("lost<b>"), "inputSchema": {"type": "array"}}
    entry = talking(tmp_path)
    (tmp_path / "tools.json").write_text(json.dumps([tool("look"), odd, left_out]))
    own = ConsoleHarness(
        background, tmp_path, {"talker": entry, "shop": RecordingToolbox(SHOP, {}).config_entry()}, POLICY
    )
    await ready(own, "talker")
    async with own.signed_in("approver") as approver, own.signed_in("viewer", "vera") as viewer:
        await viewer.get("/console/tools.json", params={"q": "goods"})
        await until(lambda: own.app.gateway._finder.index.unsearchable.keys() == {"talker"})
        data = (await approver.get("/console/servers/talker.json")).json()
        assert (data["faults"], data["unsearchable"]) == (2, True)
        assert any("odd" in said and "was mended" in said for said in data["faults_said"])
        assert not any(said.startswith("talker") for said in data["faults_said"])
        assert any("lost<b>" in said and "is left out" in said for said in data["faults_said"])
        page = (await approver.get("/console/servers/talker")).text
        assert "<h3>Faults</h3>" in page
        assert "lost&lt;b&gt;" in page
        assert "Its tools cannot be found by words" in page
        for read in ("/console/servers/talker", "/console/servers/talker.json", "/console/servers"):
            said = (await viewer.get(read)).text
            assert "lost" not in said
            assert CANARY not in said
        seen = (await viewer.get("/console/servers/talker.json")).json()
        assert seen["faults_said"] == ["1 tool left out: faulty as listed", "1 tool mended: faulty as listed"]
        listed = (await viewer.get("/console/servers")).text
        assert "2 faults" in listed
        assert listed.count("not searchable") == 1
        well = (await approver.get("/console/servers/shop")).text
        assert "<h3>Faults</h3>" not in well
        for query, server, found in (
            ("goods", "", ["talker"]),
            ("goods", "shop", []),
            ("", "", []),
            ("a", "talker", ["talker"]),
        ):
            answer = (await viewer.get("/console/tools.json", params={"q": query, "server": server})).json()
            assert [one["name"] for one in answer["unsearchable"]] == found
        assert "cannot be found by words" in (await viewer.get("/console/tools", params={"q": "goods"})).text
    async with own.client("clerk") as client:
        notes = {one["name"]: one["notes"] for one in (await client.get("/v1/servers")).json()["servers"]}
    assert notes["shop"] == []
    assert notes["talker"] == [*seen["faults_said"], "its tools cannot be found by words"]


@pytest.mark.parametrize("good", [{}, {"shop": {"command": "never"}}], ids=["alone", "beside another"])
async def test_an_entry_of_a_wrong_form_is_named(background: BackgroundLoop, tmp_path: Path, good: Json) -> None:
    """Without the value, which may be a secret; no page says that no server is configured."""
    entries = {**good, "time": {"command": "x", "auth": CANARY}}

    class WithFault(ConsoleHarness):
        def build_app(self) -> tuple[App, WebServer]:
            read = load_mapping({"mcpServers": entries}, {}).config
            self.config = self.config.with_entries(read.servers, read.left_out)
            return super().build_app()

    faulty = WithFault(background, tmp_path, policies=POLICY)
    async with faulty.signed_in("viewer") as viewer:
        for page in ("servers", "pins"):
            said = words((await viewer.get(f"/console/{page}")).text)
            assert "time is left out: `auth` cannot be used; run `aggregator doctor`." in said
            assert "No server is configured" not in said
            assert CANARY not in said
