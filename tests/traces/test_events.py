"""What happens besides calls stands in the log between them: who was kept out, what changed, and who changed it."""

import asyncio
import json
from collections.abc import Callable
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
from aggregator.upstream.lifecycle import backoff
from tests.access.played import Box
from tests.access.rooms import write
from tests.access.waiting import until
from tests.faults.raw_http import raw_http
from tests.journeys.hosts import LEGACY, MODERN
from tests.journeys.house import local_peer, written
from tests.peers.serving import Background
from tests.peers.toolbox import Json, tool
from tests.telemetry.receiver import Receiver
from tests.traces.scene import Scene, calls_in, events_in
from tests.traces.ways import CONVERSATION

POLICY: Final = {"agents": {"shop": {"allow": ["*"], "confirm": ["crm.pay"], "confirm_fallback": "queue"}}}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is looked at or tried now and then, is so at once."""
    monkeypatch.setattr("aggregator.app.policy_reload.EVERY", 0.02)
    monkeypatch.setattr(catalog_cache, "COALESCE", 0.01)
    monkeypatch.setattr(backoff, "FIRST", 0.02)


@pytest.fixture
def opened(background: Background, receiver: Receiver, tmp_path: Path) -> Callable[..., Scene]:
    def opened(servers: dict[str, Json], policy: object = POLICY, **settings: Any) -> Scene:
        return Scene(background, tmp_path, receiver, servers, policy, ["shop"], **settings)

    return opened


async def noted(scene: Scene, kind: str, count: int = 1) -> list[Json]:
    """The events of a kind, once there are so many."""
    await until(lambda: len(events_in(scene.database, kind)) >= count)
    found = events_in(scene.database, kind)
    assert len(found) == count, found
    return found


WRONG: Final = "agk_" + "x" * 60


async def knock(scene: Scene, times: int) -> None:
    """With a key that is none."""
    async with scene.client() as client:
        for _ in range(times):
            answer = await client.post("/mcp", json={}, headers={"authorization": f"Bearer {WRONG}"})
            assert answer.status_code in (401, 429)


def knocks(rows: list[Json]) -> int:
    """How often somebody was not let in."""
    return sum(row["details"].get("more", 1) for row in rows)


async def test_who_is_not_let_in(background: Background, receiver: Receiver, tmp_path: Path) -> None:
    """Proves: E13. A row at once for each reason, and one for all that came after: nobody fills the log by knocking."""
    with Background() as own:
        scene = Scene(own, tmp_path, receiver, {"crm": Box([]).upstream()}, POLICY, ["shop"])
        await knock(scene, 30)
        async with scene.client() as client:
            assert (await client.post("/v1/tool_calls", json={})).status_code == 401
        at_once = await noted(scene, "login_refused", 3)
    rows = events_in(scene.database, "login_refused")
    assert rows[:3] == at_once
    assert {row["details"]["status"] for row in rows} == {401, 429}
    assert {row["details"]["door"] for row in rows} == {"http", "v1"}
    assert {row["details"]["address"] for row in rows} == {"127.0.0.1"}
    assert (len(rows), knocks(rows)) == (5, 31)
    assert WRONG not in json.dumps(rows)


async def test_knocks_are_told_of_while_they_go_on(
    opened: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proves: E13. Not only at the end."""
    monkeypatch.setattr(events, "KNOCKS", 0.05)
    scene = opened({"crm": Box([]).upstream()})
    await knock(scene, 20)
    await until(lambda: knocks(events_in(scene.database, "login_refused")) == 20)


async def test_policies_that_come_into_force_and_those_that_do_not(opened: Callable[..., Scene]) -> None:
    """Proves: E13, D5. With what changes for whom, and where the mistake is."""
    scene = opened({"crm": Box([tool("get", "Gets.")]).upstream()})
    before = scene.revision
    scene.put({"agents": {"shop": {"allow": ["crm.*"], "deny": ["crm.get"]}}})
    (reloaded,) = await noted(scene, "policy_reloaded")
    assert reloaded["details"]["revision"] == scene.revision != before
    assert any("crm.get" in line for line in reloaded["details"]["changes"])
    scene.put("agents:\n  shop:\n    allwo: [crm.*]\n")
    (broken,) = await noted(scene, "policy_broken")
    assert any("main.yaml:3" in problem for problem in broken["details"]["problems"])
    assert len(await noted(scene, "policy_reloaded")) == 1


async def test_servers_that_go_and_come_back(opened: Callable[..., Scene]) -> None:
    """Proves: E13. From which state to which, and why."""
    async with raw_http() as raw:
        scene = await asyncio.to_thread(opened, {"raw": {"url": raw.url, "grace": "100ms"}})
        async with scene.guest(("http", LEGACY[-1]), "shop") as host:
            await host.call("raw.echo").result()
            await raw.stop()
            await host.call("raw.echo").result()
            await noted_states(scene, "ready", "reconnecting", "unavailable")
            await raw.start()
            states = await noted_states(scene, "ready", "reconnecting", "unavailable", "ready")
    assert {row["server_id"] for row in states} == {"raw"}
    assert states[1]["summary"].startswith("raw is reconnecting: ")


async def noted_states(scene: Scene, *expected: str) -> list[Json]:
    rows = await noted(scene, "upstream_state", len(expected))
    assert [row["details"]["to"] for row in rows] == list(expected)
    assert [row["details"]["from"] for row in rows] == ["starting", *expected[:-1]]
    return rows


async def test_a_server_whose_tools_change(opened: Callable[..., Scene]) -> None:
    """Proves: E13, E4. Which were added, by name and digest."""
    scene = opened({"peer": local_peer(protocol="legacy")})
    async with scene.guest(("http", MODERN), "shop") as host:
        cache = scene.app._cache
        assert cache is not None
        await until(lambda: "peer" in cache._kept)
        await host.call("peer.grow", {"name": "younger"}).result()
        (changed,) = await noted(scene, "tools_changed")
    assert changed["server_id"] == "peer"
    assert changed["details"]["added"].keys() == {"younger"}
    assert changed["details"]["removed"] == {}


async def test_what_admins_do_stands_between_the_calls(
    opened: Callable[..., Scene], capsys: pytest.CaptureFixture[str]
) -> None:
    """Proves: B6, E13. Who made a key, who ended it, which call waited for a person and who said yes to it: each once,
    all in one chain that holds."""
    scene = opened({"crm": Box([tool("pay", "Pays.", {"amount": {"type": "integer"}})]).upstream()})
    url = f"sqlite+aiosqlite:///{scene.database}"
    async with scene.guest(("http", MODERN), "shop") as host:
        waits = (await host.call("crm.pay", {"amount": 3}, **{CONVERSATION: "c"}).result())["_meta"]["aggregator/error"]
        await host.call("crm.pay", {"amount": 3}, **{CONVERSATION: "c"}).result()
        await scene.settle()
        await asyncio.to_thread(keys.new, url, "other", label="Ada's laptop", expires="90d")
        secret = capsys.readouterr().out.strip()
        key_id = secret.split("_")[1]
        await asyncio.to_thread(keys.expire, url, key_id, "30d")
        await asyncio.to_thread(keys.revoke, url, key_id)
        await asyncio.to_thread(approvals.grant, url, waits["approval"], "ada")
        assert "isError" not in await host.call("crm.pay", {"amount": 3}, **{CONVERSATION: "c"}).result()
        await scene.settle()
    capsys.readouterr()
    changes = events_in(scene.database, "key_changed")
    assert [row["agent_id"] for row in changes] == ["other"] * 3
    assert {row["details"]["key_id"] for row in changes} == {key_id}
    assert changes[0]["details"]["label"] == "Ada's laptop"
    assert all(row["details"]["by"].startswith("cli:") for row in changes)
    assert changes[2]["summary"] == f"The key {key_id} of other is revoked."
    queued, granted = events_in(scene.database, "approval")
    asked, again, done = scene.rows("c")
    assert (asked["status"], again["status"], done["status"]) == ("pending", "pending", "ok")
    assert {row["details"]["approval"] for row in (queued, granted)} == {waits["approval"]}
    assert [row.get("approved_by") for row in (asked, again, done)] == [None, None, "ada"]
    assert (queued["details"]["answer"], queued["agent_id"]) == ("pending", "shop")
    assert (granted["details"]["answer"], granted["details"]["by"]) == ("granted", "ada")
    assert len({row["arguments_digest"] for row in (queued["details"], granted["details"], asked, again, done)}) == 1
    assert queued["seq"] < asked["seq"] < changes[0]["seq"] < granted["seq"] < done["seq"]
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


def test_without_an_audit_log_nothing_is_written_there(tmp_path: Path) -> None:
    """E13: What a command does is not noted where the configuration wants no log."""
    database = tmp_path / "a.db"
    for enabled in (False, True):
        config = written(tmp_path, {}, storage=f"sqlite+aiosqlite:///{database}", audit={"enabled": enabled})
        done = CliRunner().invoke(commands, ["keys", "new", "shop", "--config", str(config)])
        assert done.exit_code == 0, done.output
        assert len(events_in(database, "key_changed")) == int(enabled)


async def test_calls_on_the_command_line_leave_a_trace(tmp_path: Path) -> None:
    """Proves: D9. One that is answered, one that is refused, one of a tool that is not there."""
    database = tmp_path / "a.db"
    write(tmp_path / "policies", {"agents": {"local": {"allow": ["crm.*"], "deny": ["crm.wipe"]}}})
    box = Box([tool("get", "Gets."), tool("wipe", "Wipes.")])
    config = written(tmp_path, {"crm": box.upstream()}, storage=f"sqlite+aiosqlite:///{database}")
    loaded = load(config, {})
    assert "isError" not in await call._call(loaded, None, "crm.get", [], None)
    assert (await call._call(loaded, None, "crm.wipe", [], None))["isError"] is True
    with pytest.raises(UnknownTool):
        await call._call(loaded, None, "crm.nothing", [], None)
    rows = calls_in(database)
    assert [row["asked_name"] for row in rows] == ["crm.get", "crm.wipe", "crm.nothing"]
    assert [row["status"] for row in rows] == ["ok", "denied", "invalid"]
    assert {row["door"] for row in rows} == {"cli"}
    assert rows[1]["rule_source"].endswith("main.yaml:1")
