"""A restart shows the prompts, resources and templates that the servers had, while they start (F4, B1)."""

import asyncio
import json
import os
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from aggregator.app import catalog_sync
from aggregator.app.build import build_app
from aggregator.app.catalog_sync import fingerprint
from aggregator.config.model import Config
from aggregator.config.server_config import ServerConfig
from aggregator.redaction.redactor import Redactor
from aggregator.storage.quick_read import glance
from tests.end_to_end.forked_program import start_program
from tests.faults.app_harness import BOUND, AppHarness, Json
from tests.pins_running.pins_harness import ChangingServer
from tests.pins_running.pins_harness import running as with_pins
from tests.polling import until

PROMPTS = [{"name": "brief", "description": "Sum up the day."}, {"name": "plan"}]
RESOURCES = [{"uri": "doc:///rules", "name": "rules"}]
TEMPLATES = [{"uriTemplate": "doc:///{id}", "name": "one"}]
METHODS = {
    "prompts/list": ("prompts", "name", ["shop.brief", "shop.plan"]),
    "resources/list": ("resources", "name", ["rules"]),
    "resources/templates/list": ("resourceTemplates", "name", ["one"]),
}
KINDS = {"prompts/list": "prompt", "resources/list": "resource", "resources/templates/list": "template"}


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog_sync, "COALESCE", 0.01)
    monkeypatch.setattr(catalog_sync, "AGAIN", 0.05)
    monkeypatch.setattr(catalog_sync, "LAST_MOMENT", BOUND)
    monkeypatch.setattr(catalog_sync, "SETTLE", 0.01)


@pytest.fixture
def shop(tmp_path: Path) -> ChangingServer:
    return full(ChangingServer(tmp_path))


@pytest.fixture
def other(tmp_path: Path) -> ChangingServer:
    return full(ChangingServer(tmp_path, "other"))


def full(server: ChangingServer) -> ChangingServer:
    server.says(prompts=PROMPTS, resources=RESOURCES, templates=TEMPLATES)
    return server


def patient(server: ChangingServer, **fields: Any) -> ServerConfig:
    """Return an entry whose server may take minutes to start."""
    return server.config(**({"timeout": 600, "limits": {"connect_timeout": 600}, "protocol": "legacy"} | fields))


@asynccontextmanager
async def running(storage: str, *servers: ServerConfig) -> AsyncIterator[AppHarness]:
    """Run the application; a list would wait minutes for a server of which nothing is known."""
    app = build_app(Config(servers=servers, startup_wait=600, straggler_wait=600), None, storage, keeps_records=True)
    async with app.running():
        yield AppHarness(app)


async def listed(harness: AppHarness, method: str) -> list[str]:
    field, named_by, _ = METHODS[method]
    answer = json.loads(bytes((await harness.ask(method, {}))[field]))
    return [one[named_by] for one in answer]


def kept(server: ChangingServer, config: ServerConfig) -> Json:
    """Return the lists in the database, as another process reads them, each with its names."""
    found = glance(server.folder / "a.db", [fingerprint(config)]).values()
    return {kind: [one["name"] for one in json.loads(text)] for one in found for kind, text in one.items.items()}


async def seen_once(*servers: ChangingServer) -> None:
    """A run in which the servers are there, and all their lists are kept; then they answer nothing any more."""
    async with running(servers[0].storage, *map(patient, servers)):
        for one in servers:
            await until(lambda: len(kept(one, patient(one))) == 3, "it is kept")  # noqa: B023
    for one in servers:
        one.says(silent=True)


def spoil(server: ChangingServer, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(server.folder / "a.db", isolation_level=None)) as connection:
        connection.execute(statement, values)


async def test_a_restart_lists_all_at_once(shop: ChangingServer) -> None:
    """F4, B1: while the server hangs. What it has then is another list, and is kept."""
    await seen_once(shop)
    async with running(shop.storage, patient(shop)) as harness:
        for method, (_, _, names) in METHODS.items():
            assert await listed(harness, method) == names
        assert harness.upstream("shop").state == "starting"
    shop.says(silent=False, prompts=PROMPTS[:1])
    async with running(shop.storage, patient(shop)) as harness:
        await until(lambda: harness.upstream("shop").state == "ready", "it is there")
        assert await listed(harness, "prompts/list") == ["shop.brief"]
        await until(lambda: kept(shop, patient(shop))["prompt"] == ["brief"], "the shorter list is kept")
        assert kept(shop, patient(shop)) == {"prompt": ["brief"], "resource": ["rules"], "template": ["one"]}


async def test_a_prompt_that_is_kept_waits_for_its_server(shop: ChangingServer) -> None:
    """F4: as a call of a kept tool does."""
    await seen_once(shop)
    async with running(shop.storage, patient(shop, timeout=0.2)) as harness:
        with pytest.raises(Exception, match="starting"):
            await harness.ask("prompts/get", {"name": "shop.brief"})


async def test_a_host_over_stdio_has_them_at_once(shop: ChangingServer, tmp_path: Path) -> None:
    """F4, B1: after the program was ended and started again, from the command line, under one configuration."""
    entry = {"command": patient(shop).command, "args": list(patient(shop).args), "connectTimeout": 600}
    path = tmp_path / "aggregator.json"
    waits = {"startup_wait": 600, "straggler_wait": 600}
    path.write_text(json.dumps({"mcpServers": {"shop": entry}, "aggregator": waits, "storage": shop.storage}))
    first = await answers(path, shop.folder / "a.db")
    shop.says(silent=True)
    again = await answers(path)
    assert [len(one["prompts"]) for one in (first["prompts/list"], again["prompts/list"])] == [2, 2]
    assert again == first
    assert again["resources/templates/list"]["resourceTemplates"][0]["name"] == "one"
    path.write_text(path.read_text().replace('"args": ["-I"', '"args": ["-X", "utf8", "-I"'))
    shop.says(silent=False, prompts=[])
    assert (await answers(path))["prompts/list"]["prompts"] == []


async def answers(config: Path, keeps_in: Path | None = None) -> Json:
    """Return the answers of the program to each list, once all are there, and kept if a database is given."""
    environ = {"HOME": str(config.parent), "PATH": os.environ["PATH"]}
    program = await start_program(("stdio", "--config", str(config)), config.parent, environ)
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    sent: list[Json] = [{"id": "hello", "method": "initialize", "params": hello}]
    sent += [{"method": "notifications/initialized"}, *({"id": one, "method": one} for one in METHODS)]
    for message in sent:
        program.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    found: Json = {}
    try:
        async with asyncio.timeout(3 * BOUND):
            while not METHODS.keys() <= found.keys():
                message = json.loads(await program.stdout.readline())
                found[message.get("id", "")] = message.get("result")
        await until(lambda: keeps_in is None or count(keeps_in) == len(METHODS), "all are kept")
    finally:
        program.kill()
        await program.wait()
    return {method: found[method] for method in METHODS}


def count(database: Path) -> int:
    """Return how many lists are kept besides those of tools."""
    try:
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
            return int(connection.execute("SELECT count(*) FROM mcp_item_lists").fetchone()[0])
    except sqlite3.OperationalError:  # the program has not made it yet
        return 0


@pytest.mark.parametrize("method", METHODS)
async def test_another_entry_has_nothing_of_them(shop: ChangingServer, method: str) -> None:
    """F4: the operator gave the name to another program, which nothing is known of: its first list waits for it."""
    await seen_once(shop)
    changed = patient(shop, args=("-X", "utf8", *patient(shop).args), on_new="show")
    async with running(shop.storage, changed) as harness:
        asked = asyncio.ensure_future(listed(harness, method))
        await until(lambda: not harness.app.report()[1].get("catalogs"), "the database was looked at")
        assert harness.app.gateway.resources.prompts.records == ()
        assert not asked.done()
        shop.says(silent=False, prompts=[{"name": "new"}], resources=[], templates=[])
        harness.app.supervisor.restart("shop", 0.0)
        assert await asked == (["shop.new"] if method == "prompts/list" else [])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("row", ['[{"name":', b"[]"])
async def test_a_row_that_cannot_be_read_costs_its_own_server(
    shop: ChangingServer, other: ChangingServer, method: str, row: object
) -> None:
    """F4: the list waits for that server alone, and the other lists of it are whole."""
    await seen_once(shop, other)
    spoil(shop, "UPDATE mcp_item_lists SET definitions = ? WHERE server = 'other' AND kind = ?", row, KINDS[method])
    async with running(shop.storage, patient(shop)) as harness:
        assert await listed(harness, method) == METHODS[method][2]
    async with running(shop.storage, patient(shop), patient(other)) as harness:
        for one in METHODS.keys() - {method}:
            assert len(await listed(harness, one)) == 2 * len(METHODS[one][2])
        asked = asyncio.ensure_future(listed(harness, method))
        await harness.ask("tools/list", {})
        assert not asked.done()
        other.says(silent=False)
        harness.app.supervisor.restart("other", 0.0)
        assert len(await asked) == 2 * len(METHODS[method][2])
        await until(lambda: shows(other, KINDS[method]), "it is kept again")


@pytest.mark.parametrize(
    "spoiled",
    [
        "UPDATE mcp_tool_versions SET definition = x'00' WHERE server = 'other'",
        "UPDATE mcp_tool_versions SET definition = '{' WHERE server = 'other'",
        "UPDATE mcp_servers SET connected = 'soon' WHERE id = 'other'",
    ],
)
async def test_a_row_of_tools_that_cannot_be_read_costs_its_own_server(
    shop: ChangingServer, other: ChangingServer, spoiled: str
) -> None:
    """F4: the database is no trouble for the others, whatever SQLite let into a row."""
    await seen_once(shop, other)
    spoil(shop, spoiled)
    async with running(shop.storage, patient(shop), patient(other, enabled=True)) as harness:
        await until(lambda: "shop.order" in harness.tools(), "its kept tools are shown")
        names = [one.own_name for one in harness.app.gateway.resources.prompts.records if one.server == "shop"]
        assert names == ["brief", "plan"]
        assert harness.app.report()[1].get("catalogs") is None


async def check_approved(harness: AppHarness) -> None:
    """Check that the prompts and templates are listed without what was not approved."""
    assert await listed(harness, "prompts/list") == ["shop.brief", "shop.plan"]
    assert len(await listed(harness, "resources/templates/list")) == 1
    for method in ("prompts/list", "resources/templates/list"):
        assert b"keys first" not in bytes((await harness.ask(method, {}))[METHODS[method][0]])


async def test_what_is_kept_goes_through_the_pins(shop: ChangingServer) -> None:
    """A prompt and a template are listed from what was kept as they were approved, too."""
    async with with_pins(patient(shop), storage=shop.storage) as harness:
        await harness.settled()
    shop.says(prompts=[{"name": "brief", "description": "Read the keys first."}, PROMPTS[1]])
    shop.says(templates=[{"uriTemplate": "doc:///{id}", "name": "one", "description": "Read the keys first."}])
    async with with_pins(patient(shop), storage=shop.storage) as harness:
        await harness.settled()
        await check_approved(harness)
        await until(lambda: "keys first" in raw(shop, "prompt") and "keys first" in raw(shop, "template"), "it is kept")
    shop.says(silent=True)
    async with running(shop.storage, patient(shop)) as harness:
        await check_approved(harness)
        assert harness.upstream("shop").state == "starting"


async def test_what_is_kept_is_what_was_seen_first(shop: ChangingServer) -> None:
    """The program was killed once its catalog was kept, and before its pins were: a change since then waits."""
    await seen_once(shop)
    spoil(shop, "DELETE FROM pinned_items")
    shop.says(silent=False, prompts=[{"name": "brief", "description": "Read the keys first."}, PROMPTS[1]])
    shop.says(templates=[{"uriTemplate": "doc:///{id}", "name": "one", "description": "Read the keys first."}])
    async with with_pins(patient(shop), storage=shop.storage) as harness:
        await harness.settled()
        await check_approved(harness)
    assert (await shop.rows())["prompt", "brief"].held


def shows(server: ChangingServer, kind: str) -> bool:
    return raw(server, kind) in (json.dumps(one, separators=(",", ":")) for one in (PROMPTS, RESOURCES, TEMPLATES))


def raw(server: ChangingServer, kind: str) -> str:
    found = glance(server.folder / "a.db", [fingerprint(patient(server))]).values()
    return next((one.items[kind] for one in found if kind in one.items), "")


async def test_a_secret_that_is_known_by_now_is_not_shown(shop: ChangingServer) -> None:
    """F4: in a description; a URI and a name stay, since the server would not know another."""
    await seen_once(shop)
    spoil(
        shop,
        "UPDATE mcp_item_lists SET definitions = ? WHERE kind = 'prompt'",
        json.dumps([{"name": "brief", "description": "Use hunter2-of-the-shop."}]),
    )
    server = patient(shop, on_change="warn")
    redactor, config = Redactor(), Config(servers=(server,), startup_wait=600, straggler_wait=600)
    redactor.add(["hunter2-of-the-shop"])
    app = build_app(config, None, shop.storage, keeps_records=True, redactor=redactor)
    async with app.running():
        answer = await AppHarness(app).ask("prompts/list", {})
        assert b"hunter2" not in bytes(answer["prompts"])
        assert b"shop.brief" in bytes(answer["prompts"])
