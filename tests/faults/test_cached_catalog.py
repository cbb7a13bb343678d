"""A restart shows what the servers had while they start, and then what they have (F4, D2, A1)."""

import asyncio
import json
import logging
import os
import sqlite3
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

from aggregator.app import catalog_sync as catalog_cache
from aggregator.app.build import build_app
from aggregator.app.catalog_sync import CatalogSync, fingerprint
from aggregator.app.key_sync import KeySync
from aggregator.config.load import load
from aggregator.config.model import Config
from aggregator.config.server_config import ServerConfig
from aggregator.domain.principal import LOCAL
from aggregator.identity.identify import RequestFacts
from aggregator.identity.keys import new_key
from aggregator.identity.source import ClientSource
from aggregator.storage.database import open_database
from aggregator.storage.engine import sqlite
from aggregator.storage.lazy_database import LazyDatabase
from aggregator.storage.quick_read import glance
from aggregator.upstream.supervisor import Supervisor
from tests.end_to_end.forked_program import start_program
from tests.faults.app_harness import BOUND, AppHarness, Json, code_of, server_config, text_of
from tests.peers.fake_connection import FakeConnection
from tests.polling import until
from tests.tool_lists import of_servers

GATED = Path(__file__).with_name("gated_stdio.py")
ROOT = Path(__file__).parents[2]


class GatedServer:
    """One server with a gate, and the file of its tools; the database of the aggregator beside them."""

    def __init__(self, folder: Path) -> None:
        self.gate, self._tools, self.database = folder / "gate", folder / "tools.json", folder / "a.db"
        self.storage = f"sqlite+aiosqlite:///{self.database}"
        self.has("echo", "hang")

    def has(self, *tools: str | Json) -> None:
        """Set the tools that the server lists from now on; a name stands for a plain tool."""
        listed = [
            {"name": tool, "inputSchema": {"type": "object"}} if isinstance(tool, str) else tool for tool in tools
        ]
        self._tools.write_text(json.dumps({"tools": listed}))

    async def changes(self, harness: AppHarness, server: str, *tools: str) -> None:
        """Another list, of which a running server tells."""
        self.has(*tools)
        told = '{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}'
        answer = '{"jsonrpc": "2.0", "id": $ID, "result": {"content": []}}'
        await harness.call(f"{server}.raw", lines=[told, answer])

    def open(self, word: str = "yes") -> None:
        self.gate.write_text(word)

    def close(self) -> None:
        self.gate.unlink()

    def config(self, name: str = "shop", **rest: Any) -> ServerConfig:
        fields: Json = {
            "type": "stdio", "command": sys.executable, "args": ("-I", "-S", str(GATED), str(self.gate), "serve"),
            "env": {"RAW_TOOLS": str(self._tools)}, "protocol": "legacy", "timeout": 600,
            "limits": {"connect_timeout": 600}, "on_new": "show",
        }  # fmt: skip
        return server_config(name, **(fields | rest))

    def kept(self, name: str = "shop", **rest: Any) -> list[str]:
        """The names in the database, as another process reads them."""
        mark = fingerprint(self.config(name, **rest))
        found = glance(self.database, [mark])
        return [tool.name for tool in found[mark].tools] if found else []


@pytest.fixture
def gated(tmp_path: Path) -> GatedServer:
    return GatedServer(tmp_path)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write at once what is written in the background, and at the end without a time limit."""
    monkeypatch.setattr(catalog_cache, "COALESCE", 0.01)
    monkeypatch.setattr(catalog_cache, "AGAIN", 0.05)
    monkeypatch.setattr(catalog_cache, "LAST_MOMENT", BOUND)
    monkeypatch.setattr("aggregator.app.key_sync.REFRESH_EVERY", 0.02)


@asynccontextmanager
async def running(gated: GatedServer, *servers: ServerConfig, **rest: Any) -> AsyncIterator[AppHarness]:
    """Run the application on the server's database; a list would wait minutes for a server that is not shown."""
    app = build_app(
        Config(servers=servers or (gated.config(),), startup_wait=600, straggler_wait=600),
        None,
        gated.storage,
        keeps_records=True,
    )
    async with app.running():
        yield AppHarness(app)


async def listed(harness: AppHarness) -> list[str]:
    return of_servers(tool["name"] for tool in json.loads(bytes((await harness.ask("tools/list", {}))["tools"])))


async def seen_once(gated: GatedServer, *servers: ServerConfig) -> None:
    """A run in which the servers are there, and are kept."""
    gated.open()
    async with running(gated, *servers) as harness:
        await listed(harness)
        marks = [fingerprint(upstream.config) for upstream in harness.app.upstreams.values()]
        await until(lambda: len(glance(gated.database, marks)) == len(marks), "it is kept")
    gated.close()


def notified_methods(harness: AppHarness) -> list[str]:
    """Return a list of the methods that the host is notified of."""
    heard: list[str] = []
    harness.host.initialized = True
    harness.host.connection = FakeConnection(lambda method, params: heard.append(method))
    harness.app.gateway.list_changes.attach(harness.host)
    return heard


def complaints(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """Return what the log says of the database, without the lines of the audit."""
    ours = ("aggregator.app.catalog_sync", "aggregator.storage")
    return [line for line in caplog.records if line.levelname == "ERROR" and line.name.startswith(ours)]


async def test_a_number_that_no_host_can_read_does_not_cost_the_restart(
    gated: GatedServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Proves: F4, C5. A list with NaN in it is kept and shown like any other; nobody is told of a change."""
    gated.has("echo", {"name": "odd", "inputSchema": {"type": "object", "default": float("nan")}})
    await seen_once(gated)
    async with running(gated) as harness:
        heard = notified_methods(harness)
        assert await listed(harness) == ["shop.echo", "shop.odd"]
        had = harness.upstream("shop").definitions
        gated.open()
        await until(lambda: harness.upstream("shop").state == "ready", "it is there")
        assert await listed(harness) == ["shop.echo", "shop.odd"]
        assert harness.upstream("shop").definitions is had, "to hosts it is the same list"
        assert heard == []
    assert "other tools than before" not in caplog.text


async def test_a_restart_shows_what_they_had_at_once(gated: GatedServer) -> None:
    """Proves: F4, D2, A1. A call waits for its server; nobody is told of a change, for there is none."""
    await seen_once(gated)
    assert gated.kept() == ["echo", "hang"]
    async with running(gated) as harness:
        heard = notified_methods(harness)
        assert await listed(harness) == ["shop.echo", "shop.hang"]
        before, had = harness.app.gateway.catalog, harness.upstream("shop").definitions
        assert harness.upstream("shop").state == "starting"
        call = asyncio.create_task(harness.call("shop.echo", say="hello"))
        await asyncio.sleep(0)
        gated.open()
        assert text_of(await call) == "hello"
        assert await listed(harness) == ["shop.echo", "shop.hang"]
        assert harness.app.gateway.catalog is before
        assert harness.upstream("shop").definitions is had
        assert heard == []


async def test_what_differs_by_now_is_shown_and_told(gated: GatedServer, caplog: pytest.LogCaptureFixture) -> None:
    """Proves: F4, D2, C5. Hosts are told once, the log says what became of the tools, and the database has it."""
    caplog.set_level("INFO")
    gated.has("echo", "gone", "hang")
    await seen_once(gated)
    assert "other tools" not in caplog.text
    gated.has({"name": "echo", "inputSchema": {"type": "object"}, "description": "Says it."}, "hang", "new")
    async with running(gated, gated.config(on_change="warn")) as harness:
        heard = notified_methods(harness)
        assert await listed(harness) == ["shop.echo", "shop.gone", "shop.hang"]
        gated.open()
        await until(lambda: heard, "the host is told")
        assert await listed(harness) == ["shop.echo", "shop.hang", "shop.new"]
        await until(lambda: gated.kept() == ["echo", "hang", "new"], "it is kept")
        assert heard == ["notifications/tools/list_changed"]
    lines = [line.message for line in caplog.records if "other tools" in line.message]
    assert lines == ["server shop has other tools than before: added new; removed gone; changed echo"]
    async with open_database(gated.storage) as database:
        now, before = await database.catalogs.versions("shop", "echo")
        assert [json.loads(one.text).get("description") for one in (now, before)] == ["Says it.", None]
        assert now.first_seen >= before.last_seen
        assert len(await database.catalogs.versions("shop", "gone")) == 1


async def test_a_list_that_is_the_same_is_noted_once_a_day(gated: GatedServer) -> None:
    """Proves: D2, F4. A start that finds what it knew writes nothing."""
    await seen_once(gated)
    gated.open()
    with closing(sqlite3.connect(gated.database, isolation_level=None)) as connection:
        for days, written in ((0.9, False), (1.1, True)):
            then = time.time() - days * 86400
            connection.execute("UPDATE mcp_servers SET connected = ?", (then,))
            async with running(gated) as harness:
                await harness.check_echo("shop.echo")
            ((now,),) = connection.execute("SELECT connected FROM mcp_servers")
            assert (now != then) == written


async def test_one_that_keeps_changing_is_written_now_and_then(
    gated: GatedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proves: F4. Others are not held up by it, and at the end its last list is kept."""
    await seen_once(gated)
    gated.has("one", "raw")
    gated.open()
    async with running(gated, gated.config(), gated.config("other")) as harness:
        await until(lambda: gated.kept() == gated.kept("other") == ["one", "raw"], "the first change is kept")
        # A list that is read twice at the start counts as changed too.
        over = time.monotonic() + 4 * catalog_cache.AGAIN
        await until(lambda: time.monotonic() > over, "both may be written again")
        monkeypatch.setattr(catalog_cache, "AGAIN", 600)
        await gated.changes(harness, "shop", "two", "raw")
        await until(lambda: gated.kept() == ["two", "raw"], "the second change is kept")
        await gated.changes(harness, "shop", "three", "raw")
        await until(lambda: "shop.three" in harness.tools(), "it has changed again")
        await gated.changes(harness, "other", "three", "raw")
        await until(lambda: gated.kept("other") == ["three", "raw"], "the other is kept")
        assert gated.kept() == ["two", "raw"]
    assert gated.kept() == ["three", "raw"]


async def test_what_python_takes_for_the_same_is_told_too(gated: GatedServer) -> None:
    """Proves: C5, D2. True is not 1 to whoever reads the schema."""
    one, true = ({"name": "echo", "inputSchema": {"type": "object", "default": default}} for default in (1, True))
    gated.has(one)
    await seen_once(gated)
    gated.has(true)
    async with running(gated, gated.config(on_change="warn")) as harness:
        heard = notified_methods(harness)
        await listed(harness)
        gated.open()
        await until(lambda: heard, "the host is told")
        assert harness.upstream("shop").definitions[0]["inputSchema"]["default"] is True


async def test_one_that_does_not_come_up_stays_listed(gated: GatedServer) -> None:
    """Proves: A1, F4. Calls of it end in words with its first failure, and its list stays when it comes up."""
    await seen_once(gated)
    async with running(gated) as harness:
        assert await listed(harness) == ["shop.echo", "shop.hang"]
        call = asyncio.create_task(harness.call("shop.echo", say="hello"))
        await asyncio.sleep(0)
        gated.open("no")
        assert code_of(await call) == "upstream_unavailable"
        await until(lambda: harness.upstream("shop").state == "unavailable", "it has failed")
        assert await listed(harness) == ["shop.echo", "shop.hang"]
        gated.open()
        await until(lambda: harness.upstream("shop").state == "ready", "it comes up after all")
        assert await listed(harness) == ["shop.echo", "shop.hang"]


async def test_a_call_waits_as_long_as_it_may_take(gated: GatedServer) -> None:
    """Proves: F4, A7. And no longer: the answer says that the server is still starting."""
    config = gated.config(timeout=0.2)
    await seen_once(gated, config)
    async with running(gated, config) as harness:
        await listed(harness)
        answer = await harness.call("shop.echo", say="hello")
        assert code_of(answer) == "upstream_unavailable"
        assert "starting" in answer["content"][0]["text"]


@pytest.mark.parametrize(
    "other",
    [
        {"env": {"TOKEN": "another"}},
        {"command": "/nowhere/python"},
        {"cwd": "/"},
        {"type": "http", "url": "http://[::1]:9"},
    ],
    ids=lambda fields: next(iter(fields)),
)
async def test_another_configuration_has_nothing_yet(
    gated: GatedServer, other: Json, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proves: F4. What one account or program had is not shown as another's; and names and limits are no matter."""
    restored: list[Mapping[str, Any]] = []
    await seen_once(gated)
    same = gated.config(prefix="store", timeout=1, description="x", trusted=True)
    async with running(gated, same) as harness:
        assert await listed(harness) == ["store.echo", "store.hang"]

    async def restore(_: Supervisor, known: Mapping[str, Any]) -> None:
        restored.append(known)

    monkeypatch.setattr(Supervisor, "restore", restore)
    async with running(gated, gated.config(**other)) as harness:
        await until(lambda: restored, "the database has been looked at")
        assert restored == [{}]
        assert harness.tools() == []


async def test_one_that_is_switched_off_is_not_shown(gated: GatedServer) -> None:
    """Proves: A1, F4"""
    await seen_once(gated)
    async with running(gated, gated.config(enabled=False)) as harness:
        assert await listed(harness) == []


def test_no_limit_is_in_a_fingerprint(gated: GatedServer) -> None:
    """An operator who gives a server more time loses no list of it."""
    bounds: tuple[dict[str, int], ...] = (
        {},
        {"connect_timeout": 9, "grace": 9},
        {"max_message_bytes": 900, "memory_limit": 2**30},
    )
    assert len({fingerprint(gated.config(limits=limits)) for limits in bounds}) == 1


def test_no_secret_is_in_a_fingerprint(gated: GatedServer) -> None:
    """Proves: F4. It is a digest, and differs with each of them."""
    marks = {fingerprint(gated.config(env={"TOKEN": token})) for token in ("hunter2", "hunter3", "")}
    assert {len(mark) for mark in marks} == {64}
    assert len(marks) == 3


async def test_two_of_us_on_one_file(gated: GatedServer, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Proves: F4. One server of both, and one of each under the same name."""
    gated.open()
    mine, theirs = (gated.config("own", env={"RAW_LOG": str(tmp_path / name)}) for name in ("mine", "theirs"))
    async with AsyncExitStack() as stack:
        stages = [await stack.enter_async_context(running(gated, gated.config(), own)) for own in (mine, theirs, mine)]
        for harness in stages:
            await listed(harness)
        marks = [fingerprint(config) for config in (gated.config(), mine, theirs)]
        await until(lambda: len(glance(gated.database, marks)) == 3, "all are kept")
    assert gated.kept() == ["echo", "hang"]
    assert "not kept" not in caplog.text


def _garbage(gated: GatedServer) -> None:
    # Whole at once: a file that is still empty is made a database, and its log outlives what is written over it.
    written = gated.database.with_name("garbage")
    written.write_bytes(b"This is no database. " * 500)
    written.replace(gated.database)


def _folder_in_its_place(gated: GatedServer) -> None:
    gated.database.mkdir()


def _table_spoiled(gated: GatedServer) -> None:
    """Damage in what is kept here alone: the keys beside it are whole."""
    with closing(sqlite3.connect(gated.database)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
        page, size = connection.execute(
            "SELECT rootpage, (SELECT page_size FROM pragma_page_size) FROM sqlite_master WHERE name = 'mcp_tools'"
        ).fetchone()
    with gated.database.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)


@pytest.mark.parametrize("spoil", [_garbage, _folder_in_its_place, _table_spoiled])
async def test_without_its_database_it_runs_on(
    gated: GatedServer, spoil: Callable[[GatedServer], None], caplog: pytest.LogCaptureFixture
) -> None:
    """Proves: F4, A8. One line says which file and why; lists and calls are as if there never had been one.

    Where changes are only told of: else nothing is shown while the pins cannot be read.
    """
    gated.has("echo", "raw")
    if spoil is _table_spoiled:
        await seen_once(gated)
    spoil(gated)
    gated.open()
    async with running(gated, gated.config(on_change="warn")) as harness:
        assert await listed(harness) == ["shop.echo", "shop.raw"]
        await harness.check_echo("shop.echo")
        if spoil is _garbage:
            await until(lambda: gated.kept() == ["echo", "raw"], "a new file is made")
        else:
            await until(lambda: harness.app.report()[1].get("catalogs"), "the trouble is known")
            await gated.changes(harness, "shop", "new", "raw")
            await until(lambda: harness.tools() == ["shop.new", "shop.raw"], "the list follows its server")
    (line,) = complaints(caplog)
    assert str(gated.database) in line.message
    assert line.exc_info is None


async def test_a_disk_that_is_full_costs_the_catalogs_only(gated: GatedServer) -> None:
    """Proves: F4. In a process of its own, which may write but a few pages; no half of a file is left."""
    gated.open()
    entry = gated.config().model_dump(include={"command", "args", "env"})
    config = gated.gate.with_name("aggregator.json")
    config.write_text(json.dumps({"mcpServers": {"shop": entry}, "storage": gated.storage}))
    sent: list[Json] = [
        {"id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25", "capabilities": {}}},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/list"},
        {"id": 3, "method": "tools/call", "params": {"name": "shop__echo", "arguments": {"say": "hello"}}},
    ]
    limited = ["sh", "-c", 'ulimit -f 40; exec "$@"', "sh", sys.executable, "-m", "aggregator"]
    process = await asyncio.create_subprocess_exec(
        *limited, "stdio", "--config", str(config), cwd=ROOT, stdin=PIPE, stdout=PIPE, stderr=PIPE
    )
    assert process.stdin is not None
    assert process.stderr is not None
    for message in sent:
        process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    async with asyncio.timeout(3 * BOUND):
        log = b""
        while b"not kept" not in log:
            log = await process.stderr.readline()
            assert log
        process.stdin.close()
        out, rest = await process.communicate()
    answers = {message.get("id"): message for message in map(json.loads, out.splitlines())}
    assert of_servers(tool["name"] for tool in answers[2]["result"]["tools"]) == ["shop__echo", "shop__hang"]
    assert text_of(answers[3]["result"]) == "hello"
    assert str(gated.database) in log.decode()
    assert b"not kept" not in rest
    assert process.returncode == 0
    assert not gated.database.exists()


async def test_a_file_that_is_locked_delays_nothing(
    gated: GatedServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proves: F4. What was kept is shown all the same, and what is new is kept once that can be done."""
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 0.05)
    await seen_once(gated)
    gated.has("new")
    with closing(sqlite3.connect(gated.database, isolation_level=None)) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        async with running(gated) as harness:
            assert await listed(harness) == ["shop.echo", "shop.hang"]
            gated.open()
            await until(lambda: harness.tools() == ["shop.new"], "the new list is there")
            await until(lambda: harness.app.report()[1].get("catalogs"), "the trouble is known")
            holder.execute("ROLLBACK")
            await until(lambda: gated.kept() == ["new"], "it is kept in the end")
            await until(lambda: not harness.app.report()[1].get("catalogs"), "the trouble is over")
    (line,) = complaints(caplog)
    assert str(gated.database) in line.message


async def test_a_disk_that_does_not_answer_delays_nothing(gated: GatedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: F4. It is as if nothing had been kept."""

    async def never(_: CatalogSync) -> None:
        await asyncio.Event().wait()

    await seen_once(gated)
    monkeypatch.setattr(CatalogSync, "_restore", never)
    gated.open()
    async with running(gated) as harness:
        assert await listed(harness) == ["shop.echo", "shop.hang"]
        await harness.check_echo("shop.echo")


async def test_keys_made_later_are_noticed(gated: GatedServer) -> None:
    """Proves: D4, F4. Although the file was made by ourselves, for the catalogs, while there were no keys."""
    gated.open()
    app = build_app(Config(servers=(gated.config(),)), None, gated.storage, keeps_records=True)
    await app.load_keys()
    assert app.access.open
    async with app.running():
        await until(lambda: gated.kept() == ["echo", "hang"], "the file is made")
        assert (
            app.access.authenticate(
                RequestFacts("http", source=ClientSource("127.0.0.1", forwarded=False, named_here=True))
            )
            == LOCAL
        )
        async with open_database(gated.storage) as database:
            await database.keys.add(new_key("bot", now=1.0).record)
        await until(lambda: not app.access.open, "the key is noticed")


async def test_what_may_have_held_keys_admits_no_keyless_request(
    gated: GatedServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proves: D4, F4. A file that turns up damaged is set aside; one that cannot be opened may hold keys, and is tried
    until it can."""
    # Whoever had begun to open the folder, or opens what is not there, would make a database in its place.
    looking, opening, look, opened = asyncio.Lock(), asyncio.Lock(), KeySync._try, LazyDatabase.open

    async def look_in_turn(keys: KeySync) -> None:
        async with looking:
            await look(keys)

    async def open_in_turn(database: LazyDatabase) -> Any:
        async with opening:
            return await opened(database)

    monkeypatch.setattr(KeySync, "_try", look_in_turn)
    monkeypatch.setattr(LazyDatabase, "open", open_in_turn)
    app = build_app(Config(servers=(gated.config(),)), None, gated.storage, keeps_records=True)
    await app.load_keys()
    gated.database.mkdir()
    async with app.running():
        await until(lambda: not app.access.open, "requests without a key are refused")
        assert "keys cannot be read" in caplog.text
        async with looking:
            await opening.acquire()
            gated.database.rmdir()
        await until(lambda: app.access.open, "there is no file")
        _garbage(gated)
        opening.release()
        await until(lambda: not app.access.open, "it is set aside")
        assert len(list(gated.database.parent.glob("a.db.damaged-*"))) == 1
        await until(lambda: app.key_sync.known, "the new one is read")
        assert not app.access.open


async def test_commands_that_look_once_keep_nothing(gated: GatedServer) -> None:
    """Proves: F4. `check`, `tools` and `call` make no database."""
    gated.open()
    app = build_app(Config(servers=(gated.config(),), startup_wait=600), None, gated.storage)
    async with app.running():
        assert await listed(AppHarness(app)) == ["shop.echo", "shop.hang"]
    assert not gated.database.exists()


@pytest.mark.parametrize("method", ["prompts/list", "resources/list", "resources/templates/list", "skills/list"])
async def test_a_first_list_of_other_items_waits_for_a_server_whose_tools_alone_are_kept(
    gated: GatedServer, method: str
) -> None:
    """B1, F4: an empty list would say that there are none. Skills are never kept."""
    await seen_once(gated)
    if method != "skills/list":
        with closing(sqlite3.connect(gated.database)) as connection, connection:
            kind = {"prompts/list": "prompt", "resources/list": "resource"}.get(method, "template")
            connection.execute("DELETE FROM mcp_item_lists WHERE kind = ?", (kind,))
    async with running(gated) as harness:
        assert await listed(harness) == ["shop.echo", "shop.hang"]
        asked = asyncio.ensure_future(harness.ask(method, {}))
        await harness.ask("tools/list", {})
        assert not asked.done()
        gated.open()
        await asked


# A command that takes its time for the database, however busy the machine is, as the limits do for the server.
_WITH_TIME = f"""
from aggregator.app import keep_catalogs
from aggregator.cli import main
keep_catalogs._AT_MOST = {BOUND}
main()
"""


async def test_commands_keep_what_they_saw(gated: GatedServer, tmp_path: Path) -> None:
    """F4: so that the first list of a host is whole, although the server has not started by then."""
    gated.open()
    entry = gated.config().model_dump(mode="json", include={"type", "command", "args", "env", "protocol"})
    entry["limits"] = {"connect_timeout": BOUND}
    path = tmp_path / "aggregator.json"
    path.write_text(json.dumps({"mcpServers": {"shop": entry}, "storage": gated.storage, "startup_wait": BOUND}))
    for command in ("check", "tools", "doctor"):
        gated.database.unlink(missing_ok=True)
        program = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", _WITH_TIME, command, "--config", str(path)),
            cwd=ROOT, stdout=PIPE, stderr=PIPE, env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]},
        )  # fmt: skip
        await program.communicate()
        assert program.returncode in (0, 1)
        loaded = load(path, {})
        marks = [fingerprint(server) for server in loaded.config.servers]
        kept = glance(gated.database, marks)
        assert [tool.name for one in kept.values() for tool in one.tools] == ["echo", "hang"], command


async def test_a_database_that_cannot_be_written_costs_no_command(gated: GatedServer, tmp_path: Path) -> None:
    """F4"""
    gated.open()
    entry = gated.config().model_dump(mode="json", include={"type", "command", "args", "env", "protocol"})
    path = tmp_path / "aggregator.json"
    path.write_text(json.dumps({"mcpServers": {"shop": entry}, "storage": "sqlite:////dev/null/no.db"}))
    assert await run_program("tools", "--config", str(path), home=tmp_path) == 0


async def run_program(*words: str, home: Path) -> int:
    """Run one command of the program to its end; return its exit code."""
    program = await start_program(words, home, {"HOME": str(home), "PATH": os.environ["PATH"]})
    await program.communicate()
    assert program.returncode is not None
    return program.returncode
