"""What happens besides calls stands in the log between them: who was kept out, what changed, and who changed it."""

import asyncio
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from typer.testing import CliRunner

from aggregator.app import audit_events as events
from aggregator.app import catalog_sync as catalog_cache
from aggregator.cli import approvals, call, keys
from aggregator.cli.audit import proof as audit_proof
from aggregator.cli.audit import show as audit
from aggregator.cli.commands import app as commands
from aggregator.config.load import load
from aggregator.domain.errors import UnknownTool
from aggregator.flow.storage import FlowRow
from aggregator.storage.database import open_database
from aggregator.upstream.lifecycle import backoff
from tests.access.recording_toolbox import RecordingToolbox
from tests.access.secured_harness import write_policies
from tests.end_to_end.scripted_host import LEGACY, MODERN
from tests.end_to_end.server_harness import local_entry, write_config
from tests.faults.raw_http import raw_http
from tests.observability.agent_clients import CONVERSATION
from tests.observability.observed_harness import ObservedHarness, calls_in, events_in
from tests.peers.serving import BackgroundLoop
from tests.peers.toolbox import Json, tool
from tests.polling import until
from tests.telemetry.receiver import Receiver

POLICY: Final = {
    "agents": {"shop": {"allow": ["*"], "confirm": ["crm.pay"], "confirm_fallback": "queue", "confirm_wait": 0}}
}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the pauses of what is polled or tried again."""
    monkeypatch.setattr("aggregator.app.reload.policy_reload.EVERY", 0.02)
    monkeypatch.setattr(catalog_cache, "COALESCE", 0.01)
    monkeypatch.setattr(backoff, "FIRST", 0.02)


@pytest.fixture
def opened(background: BackgroundLoop, receiver: Receiver, tmp_path: Path) -> Callable[..., ObservedHarness]:
    def opened(servers: dict[str, Json], policy: object = POLICY, **settings: Any) -> ObservedHarness:
        return ObservedHarness(background, tmp_path, receiver, servers, policy, ["shop"], **settings)

    return opened


async def noted(harness: ObservedHarness, kind: str, count: int = 1) -> list[Json]:
    """The events of a kind, once there are so many."""
    await until(lambda: len(events_in(harness.database, kind)) >= count)
    found = events_in(harness.database, kind)
    assert len(found) == count, found
    return found


WRONG: Final = "agk_" + "x" * 60


async def try_wrong_key(harness: ObservedHarness, times: int) -> None:
    """Send `times` requests with an unknown key."""
    async with harness.client() as client:
        for _ in range(times):
            answer = await client.post("/mcp", json={}, headers={"authorization": f"Bearer {WRONG}"})
            assert answer.status_code in (401, 429)


def refusals_in(rows: list[Json]) -> int:
    """Return how many refused requests the rows count."""
    return sum(row["details"].get("more", 1) for row in rows)


async def test_who_is_not_let_in(background: BackgroundLoop, receiver: Receiver, tmp_path: Path) -> None:
    """Proves: E13. A row at once for each reason and one for all later attempts, so that these do not fill the log."""
    with BackgroundLoop() as own:
        harness = ObservedHarness(
            own, tmp_path, receiver, {"crm": RecordingToolbox([]).config_entry()}, POLICY, ["shop"]
        )
        await try_wrong_key(harness, 30)
        async with harness.client() as client:
            assert (await client.post("/v1/tool_calls", json={})).status_code == 401
        at_once = await noted(harness, "login_refused", 3)
    rows = events_in(harness.database, "login_refused")
    assert rows[:3] == at_once
    assert {row["details"]["status"] for row in rows} == {401, 429}
    assert {row["details"]["frontend"] for row in rows} == {"http", "v1"}
    assert {row["details"]["address"] for row in rows} == {"127.0.0.1"}
    assert (len(rows), refusals_in(rows)) == (5, 31)
    assert WRONG not in json.dumps(rows)


async def test_wrong_keys_are_reported_while_they_go_on(
    opened: Callable[..., ObservedHarness], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proves: E13. Not only at the end."""
    monkeypatch.setattr(events, "REPEATED_AFTER", 0.05)
    harness = opened({"crm": RecordingToolbox([]).config_entry()})
    await try_wrong_key(harness, 20)
    await until(lambda: refusals_in(events_in(harness.database, "login_refused")) == 20)


async def test_policies_that_come_into_force_and_those_that_do_not(opened: Callable[..., ObservedHarness]) -> None:
    """Proves: E13, D5. With what changes for whom, and where the mistake is."""
    harness = opened({"crm": RecordingToolbox([tool("get", "Gets.")]).config_entry()})
    before = harness.revision
    harness.set_policies({"agents": {"shop": {"allow": ["crm.*"], "deny": ["crm.get"]}}})
    (reloaded,) = await noted(harness, "policy_reloaded")
    assert reloaded["details"]["revision"] == harness.revision != before
    assert any("crm.get" in line for line in reloaded["details"]["changes"])
    harness.set_policies("agents:\n  shop:\n    allwo: [crm.*]\n")
    (broken,) = await noted(harness, "policy_broken")
    assert any("main.yaml:3" in problem for problem in broken["details"]["problems"])
    assert len(await noted(harness, "policy_reloaded")) == 1


async def test_servers_that_go_and_come_back(opened: Callable[..., ObservedHarness]) -> None:
    """Proves: E13. From which state to which, and why."""
    async with raw_http() as raw:
        harness = await asyncio.to_thread(opened, {"raw": {"url": raw.url, "limits": {"grace": "100ms"}}})
        async with harness.connect_as(("http", LEGACY[-1]), "shop") as host:
            await host.call("raw.echo").result()
            await raw.stop()
            await host.call("raw.echo").result()
            await noted_states(harness, "ready", "reconnecting", "unavailable")
            await raw.start()
            states = await noted_states(harness, "ready", "reconnecting", "unavailable", "ready")
    assert {row["server_id"] for row in states} == {"raw"}
    assert states[1]["summary"].startswith("raw is reconnecting: ")


async def noted_states(harness: ObservedHarness, *expected: str) -> list[Json]:
    rows = await noted(harness, "upstream_state", len(expected))
    assert [row["details"]["to"] for row in rows] == list(expected)
    assert [row["details"]["from"] for row in rows] == ["starting", *expected[:-1]]
    return rows


async def test_a_server_whose_tools_change(
    opened: Callable[..., ObservedHarness], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proves: E13, E4. Which were added, by name and digest."""
    # A list that was kept a moment ago is kept again after so long.
    monkeypatch.setattr("aggregator.app.catalog_sync.AGAIN", 0.05)
    harness = opened({"peer": local_entry(protocol="legacy")})
    async with harness.connect_as(("http", MODERN), "shop") as host:
        cache = harness.app.catalog_sync
        assert cache is not None
        await until(lambda: "peer" in cache._kept)
        await host.call("peer.grow", {"name": "younger"}).result()
        (changed,) = await noted(harness, "tools_changed")
    assert changed["server_id"] == "peer"
    assert changed["details"]["added"].keys() == {"younger"}
    assert changed["details"]["removed"] == {}


async def test_what_admins_do_stands_between_the_calls(
    opened: Callable[..., ObservedHarness], capsys: pytest.CaptureFixture[str]
) -> None:
    """Proves: B6, E13. Who made a key, who ended it, which call waited for a person and who said yes to it: each once,
    all in one chain that holds."""
    harness = opened({"crm": RecordingToolbox([tool("pay", "Pays.", {"amount": {"type": "integer"}})]).config_entry()})
    url = f"sqlite+aiosqlite:///{harness.database}"
    async with harness.connect_as(("http", MODERN), "shop") as host:
        waits = (await host.call("crm.pay", {"amount": 3}, **{CONVERSATION: "c"}).result())["_meta"]["aggregator/error"]
        await host.call("crm.pay", {"amount": 3}, **{CONVERSATION: "c"}).result()
        await harness.flush()
        await asyncio.to_thread(keys.new, url, "other", label="Ada's laptop", expires="90d")
        secret = capsys.readouterr().out.strip()
        key_id = secret.split("_")[1]
        await asyncio.to_thread(keys.expire, url, key_id, "30d")
        await asyncio.to_thread(keys.revoke, url, key_id)
        await asyncio.to_thread(approvals.approve, url, waits["approval"], "ada")
        assert "isError" not in await host.call("crm.pay", {"amount": 3}, **{CONVERSATION: "c"}).result()
        await harness.flush()
    capsys.readouterr()
    changes = events_in(harness.database, "key_changed")
    assert [row["agent_id"] for row in changes] == ["other"] * 3
    assert {row["details"]["key_id"] for row in changes} == {key_id}
    assert changes[0]["details"]["label"] == "Ada's laptop"
    assert all(row["details"]["by"].startswith("cli:") for row in changes)
    assert changes[2]["summary"] == f"The key {key_id} of other is revoked."
    queued, approved = events_in(harness.database, "approval")
    asked, again, done = harness.rows("c")
    assert (asked["status"], again["status"], done["status"]) == ("pending", "pending", "ok")
    assert {row["details"]["approval"] for row in (queued, approved)} == {waits["approval"]}
    assert [row.get("approved_by") for row in (asked, again, done)] == [None, None, "ada"]
    assert (queued["details"]["answer"], queued["agent_id"]) == ("pending", "shop")
    assert (approved["details"]["answer"], approved["details"]["by"]) == ("approved", "ada")
    assert len({row["arguments_digest"] for row in (queued["details"], approved["details"], asked, again, done)}) == 1
    assert queued["seq"] < asked["seq"] < changes[0]["seq"] < approved["seq"] < done["seq"]
    assert await asyncio.to_thread(audit.tail, url, 100) == 0
    shown = capsys.readouterr().out
    assert "approved by ada" in shown
    assert await asyncio.to_thread(audit.export, url) == 0
    exported = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    for kind in ("key_changed", "approval", "upstream_state"):
        assert kind in shown
        assert kind in {row["kind"] for row in exported}
    assert [row["seq"] for row in exported] == list(range(1, len(exported) + 1))
    assert secret not in shown + json.dumps(exported)
    assert await asyncio.to_thread(audit_proof.verify, url) == 0


@pytest.mark.parametrize("enabled", [False, True])
def test_without_an_audit_log_nothing_is_written_there(tmp_path: Path, enabled: bool) -> None:
    """E13: What a command does is not noted where the configuration wants no log."""
    database, now = tmp_path / "a.db", time.time()
    url = f"sqlite+aiosqlite:///{database}"
    config = write_config(tmp_path, {"crm": {"command": "crm"}}, storage=url, audit={"enabled": enabled})
    read = FlowRow("1" * 64, "private", "shop", "key", "k1", "crm.get", None, now, now, now + 900)

    async def fill() -> tuple[str, str, str]:
        async with open_database(url) as opened:
            await opened.flow.note([read])
            await opened.tool_reports.add("crm", "get", "shop", "always empty", now=now)
            ask = partial(opened.approvals.ask, "shop", "crm.pay", arguments="{}", expires=now + 60, now=now)
            (key,) = await opened.keys.all()
            return key.key_id, (await ask("a", "pay")).id, (await ask("b", "pay more")).id

    def does(*words: str) -> None:
        done = CliRunner().invoke(commands, [*words, "--config", str(config)])
        assert done.exit_code == 0, done.output

    does("keys", "new", "shop")
    key, one, other = asyncio.run(fill())
    does("keys", "expire", key, "30d")
    does("keys", "revoke", key)
    does("approvals", "approve", one)
    does("approvals", "deny", other)
    does("flow", "clear", "shop")
    does("reports", "clear", "crm.get")
    does("pins", "reset", "crm")
    kinds = {"key_changed": 3, "approval": 2, "flow": 1, "tool_reports": 1, "pins": 1}
    assert {kind: len(events_in(database, kind)) for kind in kinds} == (kinds if enabled else dict.fromkeys(kinds, 0))


async def test_calls_on_the_command_line_leave_a_trace(tmp_path: Path) -> None:
    """Proves: D9. One that is answered, one that is refused, one of a tool that is not there."""
    database = tmp_path / "a.db"
    write_policies(tmp_path / "policies", {"agents": {"local": {"allow": ["crm.*"], "deny": ["crm.wipe"]}}})
    toolbox = RecordingToolbox([tool("get", "Gets."), tool("wipe", "Wipes.")])
    config = write_config(tmp_path, {"crm": toolbox.config_entry()}, storage=f"sqlite+aiosqlite:///{database}")
    loaded = load(config, {})
    assert "isError" not in await call._call(loaded, None, "crm.get", [], None)
    assert (await call._call(loaded, None, "crm.wipe", [], None))["isError"] is True
    with pytest.raises(UnknownTool):
        await call._call(loaded, None, "crm.nothing", [], None)
    rows = calls_in(database)
    assert [row["asked_name"] for row in rows] == ["crm.get", "crm.wipe", "crm.nothing"]
    assert [row["status"] for row in rows] == ["ok", "denied", "invalid"]
    assert {row["frontend"] for row in rows} == {"cli"}
    assert rows[1]["rule_source"].endswith("main.yaml:1")
