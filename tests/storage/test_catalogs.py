"""What the servers had: kept whole, in one step, once each, and for as long as there is room."""

# ruff: noqa: ASYNC240 - nothing else runs on the loop of a test

import asyncio
import re
import sqlite3
from collections.abc import Awaitable, Callable, Iterable
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import func, select, text

from aggregator.app.catalog_sync import catalog_of, lists_of
from aggregator.storage import catalogs as module
from aggregator.storage.database import open_database
from aggregator.storage.engine import sqlite
from aggregator.storage.errors import StorageBusy, StorageFull, ValueTooLong
from aggregator.storage.opening import Database, open_here
from aggregator.storage.quick_read import glance
from aggregator.storage.records import Definition, ItemList, KeptCatalog, KeyRecord, ServerCatalog
from aggregator.storage.tables import mcp_item_lists, mcp_servers, mcp_tool_versions, mcp_tools
from aggregator.upstream.list_kinds import KEPT
from aggregator.upstream.sessions.negotiate import Negotiated
from tests.storage.next_revision import add_next_revision
from tests.storage.processes import ROOT, other_process
from tests.unit.strategies import ANY_TEXT, json_values

DAY = 86400.0
Read = Callable[[Database, Iterable[str]], Awaitable[dict[str, KeptCatalog]]]


async def by_machinery(database: Database, fingerprints: Iterable[str]) -> dict[str, KeptCatalog]:
    return await database.catalogs.fitting(fingerprints)


async def at_a_glance(database: Database, fingerprints: Iterable[str]) -> dict[str, KeptCatalog]:
    if database.engine.path is None:
        return await by_machinery(database, fingerprints)
    return glance(database.engine.path, fingerprints)


def had(*tools: str | tuple[str, str], server: str = "srv", fingerprint: str = "f") -> ServerCatalog:
    """A catalog; a tool is its name, or its name and its digest."""
    pairs = [tool if isinstance(tool, tuple) else (tool, f"d-{tool}") for tool in tools]
    listed = tuple(Definition(name, digest, f'{{"name":"{name}","v":"{digest}"}}') for name, digest in pairs)
    return ServerCatalog(server, fingerprint, "stdio", "2025-11-25", '{"name":"s"}', "{}", "Be kind.", listed)


async def rows(database: Database, table: Any) -> int:
    async with database.engine.read() as connection:
        return await connection.scalar(select(func.count()).select_from(table)) or 0


def names(kept: KeptCatalog) -> list[str]:
    return [tool.name for tool in kept.tools]


@pytest.mark.parametrize("read", [by_machinery, at_a_glance])
async def test_a_list_comes_back_as_it_was(database: Database, read: Read) -> None:
    """Proves: D2, F4. In its order, with what is twice in it; another configuration of the server has its own."""
    one = had("b", "a", "b", ("", "odd"))
    none, different = had(server="empty", fingerprint="g"), had("c", fingerprint="h")
    for catalog in (one, none, different):
        await database.catalogs.keep(catalog, now=5.0)
    found = await read(database, ["f", "g", "nobody", "' OR 1=1 --"])
    assert found == {"f": KeptCatalog(5.0, one.tools), "g": KeptCatalog(5.0, ())}
    await database.catalogs.keep(had("a", "c"), now=6.0)
    assert names((await read(database, ["f"]))["f"]) == ["a", "c"]
    assert names((await read(database, ["h"]))["h"]) == ["c"]


def test_any_definition_comes_back_as_it_was(tmp_path: Path) -> None:
    """Proves: C6, D2, F4. Whatever JSON it is, and whatever its name, bit for bit."""
    entries = st.one_of(json_values(), st.builds(lambda name, rest: {**rest, "name": name}, ANY_TEXT, _objects()))
    negotiated = Negotiated("2025-11-25", {"name": "\ud800\0"}, {"tools": {}}, "\udfff\0")
    with asyncio.Runner() as runner:
        database = runner.run(open_here(f"sqlite+aiosqlite:///{tmp_path}/a.db"))

        @settings(max_examples=40, deadline=None)
        @given(st.lists(entries, max_size=4))
        def holds(definitions: list[Any]) -> None:
            catalog = catalog_of("srv", "f", "stdio", negotiated, dict.fromkeys(KEPT, definitions))
            runner.run(database.catalogs.keep(catalog, now=1.0))
            found = glance(tmp_path / "a.db", ["f"])
            # The order of names in an object is that in which a definition was first seen.
            lists = lists_of(found)["f"]
            assert lists == dict.fromkeys(KEPT, definitions)
            for kind in KEPT:
                assert [repr(_sorted(one)) for one in lists[kind]] == [repr(_sorted(one)) for one in definitions]
            assert runner.run(database.catalogs.fitting(["f"])) == found

        holds()
        runner.run(database.close())


def _objects() -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(ANY_TEXT, json_values(), max_size=3)


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


def test_what_is_no_json_and_what_has_no_bottom(tmp_path: Path) -> None:
    """Proves: F4. Numbers that some servers send and no one can write, and depths that no host is shown: both null."""
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    catalog = catalog_of(
        "srv", "f", "stdio", Negotiated("2025-11-25"), {"tool": [{"name": "t", "default": float("inf")}, deep]}
    )
    lists = lists_of({"f": KeptCatalog(1.0, catalog.tools)})
    assert lists == {"f": {"tool": [{"name": "t", "default": None}, None]}}
    spoiled = Definition("t", "d", '{"name":')
    assert lists_of({"f": KeptCatalog(1.0, (spoiled,)), "g": KeptCatalog(1.0, ())}) == {"g": {"tool": []}}


async def test_every_definition_is_there_once_with_its_times(database: Database) -> None:
    """Proves: D2. Whichever lists it is in; what a tool had before stays."""
    keep, versions = database.catalogs.keep, database.catalogs.versions
    await keep(had(("t", "1"), "u"), now=10.0)
    await keep(had(("t", "1"), "u", fingerprint="g"), now=20.0)
    await keep(had(("t", "2")), now=30.0)
    await keep(had(("t", "1"), "u"), now=40.0 + DAY)
    assert await rows(database, mcp_tool_versions) == 3
    assert await rows(database, mcp_tools) == 4
    newest, oldest = await versions("srv", "t")
    assert (newest.digest, newest.first_seen, newest.last_seen) == ("2", 30.0, 30.0)
    assert (oldest.digest, oldest.first_seen, oldest.last_seen) == ("1", 10.0, 40.0 + DAY)
    assert oldest.text == '{"name":"t","v":"1"}'
    assert await versions("srv", "nobody") == []
    assert await versions("other", "t") == []
    odd = "\ud800\0" * 500
    await keep(ServerCatalog("srv", "o", "http", "2", "{}", "{}", None, (Definition(odd, "3", "{}"),)), now=50.0)
    assert [version.digest for version in await versions("srv", odd)] == ["3"]


async def test_a_list_that_is_the_same_is_only_noted(database: Database) -> None:
    """Proves: D2. The definitions are not written again: when they were seen is right to the day."""
    await database.catalogs.keep(had("t"), now=10.0)
    await database.catalogs.keep(had("t", fingerprint="g"), now=10.0)
    async with database.engine.write() as connection:
        await connection.execute(text("UPDATE mcp_tool_versions SET first_seen = 5.0"))
    await database.catalogs.keep(had("t"), now=20.0)
    (version,) = await database.catalogs.versions("srv", "t")
    assert (version.first_seen, version.last_seen) == (5.0, 10.0)
    async with database.engine.read() as connection:
        found = await connection.execute(text("SELECT fingerprint FROM mcp_tools ORDER BY fingerprint"))
        assert found.scalars().all() == ["f", "g"]
    assert (await database.catalogs.fitting(["f"]))["f"].connected == 20.0


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE mcp_tool_versions SET definition = '{' WHERE name = 'a'",
        """UPDATE mcp_tool_versions SET definition = '{"name":"a","v":"x-a"}' WHERE name = 'a'""",
        "UPDATE mcp_tool_versions SET name = 'z', size = 0, definition = '' WHERE name = 'a'",
        "DELETE FROM mcp_tool_versions WHERE name = 'a'",
    ],
    ids=["no JSON", "another text", "another name", "gone"],
)
@pytest.mark.parametrize("tools", [("a", "b"), ("a", "b", "c")], ids=["the same list", "another list"])
async def test_a_damaged_definition_is_written_again(database: Database, damage: str, tools: tuple[str, ...]) -> None:
    """With the next list, be it the same: no later start reads it again."""
    await database.catalogs.keep(had("a", "b"), now=1.0)
    async with database.engine.write() as connection:
        if damage.startswith("DELETE"):
            await connection.execute(text("DELETE FROM mcp_tools WHERE name = 'a'"))
        await connection.execute(text(damage))
    await database.catalogs.keep(had(*tools), now=2.0)
    for read in (by_machinery, at_a_glance):
        assert (await read(database, ["f"]))["f"].tools == had(*tools).tools
    (kept,) = await database.catalogs.history("srv", "a", 10)
    assert (kept.digest, kept.size) == ("d-a", len(had("a").tools[0].text))
    assert await rows(database, mcp_tool_versions) == len(tools)


async def test_of_one_server_a_few_configurations_are_kept(database: Database) -> None:
    """Proves: F4. Those last connected; and none of a server that has been away for months."""
    for number in range(module.CONFIGURATIONS + 2):
        await database.catalogs.keep(had("t", fingerprint=f"f{number}"), now=float(number))
    await database.catalogs.keep(had("x", server="other", fingerprint="o"), now=3.0)
    kept = await database.catalogs.fitting([f"f{number}" for number in range(10)] + ["o"])
    assert list(kept) == [f"f{number}" for number in range(2, module.CONFIGURATIONS + 2)] + ["o"]
    await database.catalogs.keep(had("u", server="third", fingerprint="t"), now=module.KEPT + 4.5)
    assert set(await database.catalogs.fitting([*kept, "t"])) == {"f5", "t"}
    assert await rows(database, mcp_tools) == 2
    assert await rows(database, mcp_servers) == 2
    assert [version.digest for version in await database.catalogs.versions("other", "x")] == ["d-x"]


async def test_what_was_before_is_kept_within_bounds(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: D2. The oldest goes first; what is listed, and other servers' past, is untouched."""
    size = len(had(("t", "00")).tools[0].text)
    monkeypatch.setattr(module, "HISTORY_BYTES", 3 * size)
    await database.catalogs.keep(had(("t", "xx"), server="other", fingerprint="o"), now=1.0)
    await database.catalogs.keep(had(("t", "yy"), server="other", fingerprint="o"), now=2.0)
    for number in range(10, 20):
        await database.catalogs.keep(had(("t", str(number)), ("u", "00")), now=float(number))
    assert [version.digest for version in await database.catalogs.versions("srv", "t")] == ["19", "18", "17", "16"]
    assert [version.digest for version in await database.catalogs.versions("srv", "u")] == ["00"]
    assert len(await database.catalogs.versions("other", "t")) == 2
    monkeypatch.setattr(module, "CATALOG_BYTES", 100)
    with pytest.raises(ValueTooLong):
        await database.catalogs.keep(had(*"abcdefgh"), now=30.0)
    assert names((await database.catalogs.fitting(["f"]))["f"]) == ["t", "u"]


async def test_a_writer_that_is_killed_leaves_one_list_or_the_other(url: str, database: Database) -> None:
    """Proves: D2, F4. Never a mixture of the two, wherever it was."""
    script = """
        from aggregator.storage.records import Definition, ServerCatalog
        def had(which, count):
            tools = tuple(Definition(f"t{n}", f"{which}{n}", which * 2000) for n in range(count))
            return ServerCatalog("srv", "f", "stdio", "2025-11-25", "{}", "{}", None, tools)
        async with open_database(url) as database:
            for number in range(100_000):
                await database.catalogs.keep(had("ab"[number % 2] + str(number), 300 + number % 2), now=1.0)
                say(number)
    """
    for lines in (1, 3):
        with other_process(url, script) as process:
            for _ in range(lines):
                await asyncio.to_thread(process.read)
            await asyncio.to_thread(process.kill)
        for read in (by_machinery, at_a_glance):
            (kept,) = (await read(database, ["f"])).values()
            assert len({tool.text for tool in kept.tools}) == 1
            assert len(kept.tools) == 300 + (kept.tools[0].digest[0] == "b")
        if database.engine.path is not None:
            async with database.engine.read() as connection:
                assert (await connection.execute(text("PRAGMA integrity_check"))).scalar() == "ok"
                assert (await connection.execute(text("PRAGMA foreign_key_check"))).all() == []


async def test_processes_that_keep_the_same_at_once(url: str, database: Database) -> None:
    """Proves: F4. Each in its turn; nobody is refused."""
    script = """
        from aggregator.storage.records import Definition, ServerCatalog
        hear()
        async with open_database(url) as database:
            for number in range(10):
                tools = tuple(Definition(f"t{n}", f"d{n}", "x" * 500) for n in range(number, 50))
                for mark in ("one", "two"):
                    about = ("srv", mark, "stdio", "2025-11-25", "{}", "{}", None)
                    await database.catalogs.keep(ServerCatalog(*about, tools), now=float(number))
            say("done")
    """
    with ExitStack() as stack:
        processes = [stack.enter_context(other_process(url, script)) for _ in range(2)]
        for process in processes:
            process.write()
        for process in processes:
            assert await asyncio.to_thread(process.read) == "done"
    kept = await database.catalogs.fitting(["one", "two"])
    assert [len(one.tools) for one in kept.values()] == [41, 41]
    assert await rows(database, mcp_tool_versions) == 50


async def test_a_full_disk_leaves_the_list_before(path: Path, database: Database) -> None:
    """Proves: F4. And once there is room again, it is replaced."""
    await database.catalogs.keep(had("a"), now=1.0)
    large = ServerCatalog("srv", "f", "stdio", "2", "{}", "{}", None, (Definition("b", "d", "x" * 500_000),))
    await database.engine.write_in_thread(lambda connection: connection.execute(text("PRAGMA max_page_count = 1")))
    with pytest.raises(StorageFull, match="no room left"):
        await database.catalogs.keep(large, now=2.0)
    assert names((await database.catalogs.fitting(["f"]))["f"]) == ["a"]
    await database.engine.write_in_thread(lambda connection: connection.execute(text("PRAGMA max_page_count = 100000")))
    await database.catalogs.keep(large, now=3.0)
    assert names((await database.catalogs.fitting(["f"]))["f"]) == ["b"]


async def test_a_locked_file_can_be_read_and_not_written(path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: F4. A start does not wait for whoever writes."""
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 0.05)
    async with open_database(url) as database:
        await database.catalogs.keep(had("a"), now=1.0)
        async with open_database(url) as second, second.engine.write():
            assert names(glance(path, ["f"])["f"]) == ["a"]
            with pytest.raises(StorageBusy):
                await database.catalogs.keep(had("b"), now=2.0)
        await database.catalogs.keep(had("b"), now=2.0)
        assert names(glance(path, ["f"])["f"]) == ["b"]


@pytest.mark.parametrize("content", [None, b"", b"This is no database. " * 500])
def test_a_file_that_has_nothing_to_show(tmp_path: Path, content: bytes | None) -> None:
    """Proves: F4. A glance changes nothing, and finds nothing."""
    path = tmp_path / "a.db"
    if content is not None:
        path.write_bytes(content)
    assert glance(path, ["f"]) == {}
    assert {one.name: one.read_bytes() for one in tmp_path.iterdir()} == ({} if content is None else {"a.db": content})


async def test_an_older_file_keeps_what_is_in_it(
    path: Path, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proves: F4. Keys and catalogs outlive the step to the next schema."""
    async with open_database(url) as database:
        await database.keys.add(KeyRecord("k", "bot", "h"))
        await database.catalogs.keep(had("a"), now=1.0)
    add_next_revision(tmp_path / "migrations", monkeypatch)
    assert names(glance(path, ["f"])["f"]) == ["a"]
    async with open_database(url) as database:
        assert [found.key_id for found in await database.keys.all()] == ["k"]
        assert names((await database.catalogs.fitting(["f"]))["f"]) == ["a"]
        await database.catalogs.keep(had("b"), now=2.0)
    assert names(glance(path, ["f"])["f"]) == ["b"]


def test_a_file_that_could_not_be_begun_is_taken_away(path: Path, url: str) -> None:
    """Proves: F4. An empty file would look as if there might be keys in it."""
    script = """
        import resource
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
        from aggregator.storage.errors import StorageError
        try:
            async with open_database(url):
                say("opened")
        except StorageError as error:
            say(error)
    """
    with other_process(url, script) as process:
        assert str(path) in process.read()
    assert not path.exists()


async def test_a_file_in_the_place_of_ours_is_written(path: Path, url: str, database: Database) -> None:
    """Proves: F4. What another process set aside is not written on."""
    await database.catalogs.keep(had("a"), now=1.0)
    path.rename(path.with_name("elsewhere"))
    async with open_database(url):
        await database.catalogs.keep(had("c"), now=3.0)
    assert names(glance(path, ["f"])["f"]) == ["c"]


async def test_what_the_documentation_runs(path: Path, database: Database) -> None:
    """Proves: D2, F4. Its statements show the versions of a tool, and forget everything."""
    page = (ROOT / "docs" / "pins.md").read_text(encoding="utf-8")
    look, forget = re.findall(r'^sqlite3 .*?aggregator\.db "(.*?)"$', page, re.DOTALL | re.MULTILINE)
    for number in (1, 2):
        catalog = had(("create_issue", str(number)), server="github")
        await database.catalogs.keep(catalog, now=float(number))
    with closing(sqlite3.connect(path)) as connection:
        assert [row[:2] for row in connection.execute(look)] == [
            ("1970-01-01 00:00:01", "1"),
            ("1970-01-01 00:00:02", "2"),
        ]
        connection.executescript(forget)
    assert glance(path, ["f"]) == {}
    assert await database.catalogs.versions("github", "create_issue") == []


@pytest.mark.parametrize("read", [by_machinery, at_a_glance])
async def test_other_lists_are_kept_each_by_itself(database: Database, read: Read) -> None:
    """F4: one that is not given stays, one that is another replaces its own alone, and an empty one counts."""
    prompts, none = ItemList("prompt", '[{"name":"p"}]'), ItemList("resource", "[]")
    assert await database.catalogs.keep(replace(had("a"), items=(prompts, none)), now=1.0) == []
    await database.catalogs.keep(replace(had("a", server="other", fingerprint="o"), items=(none,)), now=1.0)
    found = await read(database, ["f", "o"])
    assert found["f"].items == {"prompt": prompts.text, "resource": "[]"}
    assert found["o"].items == {"resource": "[]"}
    await database.catalogs.keep(replace(had("a"), items=(replace(prompts, text="[1]"),)), now=2.0)
    found = await read(database, ["f", "o"])
    assert found["f"].items == {"prompt": "[1]", "resource": "[]"}
    assert found["o"].items == {"resource": "[]"}


@pytest.mark.parametrize("read", [by_machinery, at_a_glance])
async def test_another_list_that_is_too_long_is_not_kept(
    database: Database, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F4: it costs neither the tools nor the other lists; what it was before is kept no longer."""
    short, other = ItemList("prompt", "[]"), ItemList("template", "[]")
    await database.catalogs.keep(replace(had("a"), items=(short, other)), now=1.0)
    monkeypatch.setattr(module, "CATALOG_BYTES", 100)
    long = ItemList("prompt", f"[{'1' * 99}]")
    assert await database.catalogs.keep(replace(had("b"), items=(long,)), now=2.0) == ["prompt"]
    found = (await read(database, ["f"]))["f"]
    assert names(found) == ["b"]
    assert found.items == {"template": "[]"}


async def test_other_lists_go_with_their_server(database: Database) -> None:
    """F4: with the configuration that they were kept under."""
    for number in range(module.CONFIGURATIONS + 1):
        catalog = replace(had("t", fingerprint=f"f{number}"), items=(ItemList("prompt", "[]"),))
        await database.catalogs.keep(catalog, now=float(number))
    assert await rows(database, mcp_item_lists) == module.CONFIGURATIONS


async def test_a_table_of_other_lists_that_cannot_be_read_costs_them_alone(path: Path, url: str) -> None:
    """F4: a file that is damaged, or not ours, is read before it is opened."""
    async with open_database(url) as database:
        await database.catalogs.keep(replace(had("a"), items=(ItemList("prompt", "[]"),)), now=1.0)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE mcp_item_lists")
    found = glance(path, ["f"])["f"]
    assert names(found) == ["a"]
    assert found.items == {}


@pytest.mark.parametrize("text", ['{"name":', "{}", "null", b"[]", None, 5])
def test_a_list_that_cannot_be_read_costs_itself(text: Any) -> None:
    """F4: and without its tools a server has none."""
    tools = (Definition("t", "d", "{}"),)
    lists = lists_of({"f": KeptCatalog(1.0, tools, {"prompt": text, "resource": "[1]"}), "g": KeptCatalog(1.0, tools)})
    assert lists == {"f": {"tool": [{}], "resource": [1]}, "g": {"tool": [{}]}}
    if text not in ("{}", "null"):
        spoiled = KeptCatalog(1.0, (Definition("t", "d", text),), {"resource": "[1]"})
        assert lists_of({"f": spoiled, "g": KeptCatalog(1.0, tools)}) == {"g": {"tool": [{}]}}
