"""The audit log and its readers on a real server: the same answers as on SQLite, and a chain that holds."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import pytest

from aggregator.audit.capture import Capture
from aggregator.audit.rows import RowMaker
from aggregator.cli.audit import proof, show
from aggregator.domain.call_record import AuditEvent, BegunCall, CallRecord
from aggregator.storage.audit.chain import ChainBatch
from aggregator.storage.audit.query import parse
from aggregator.storage.audit.read import ALL, AuditReader, open_reader
from aggregator.storage.audit.recent import calls_of_agent, events_of_server
from aggregator.storage.audit.refusals import refusals_by_rule
from aggregator.storage.audit.rule_counts import RuleCounts
from aggregator.storage.audit.verify import verify
from aggregator.storage.database import open_database
from aggregator.storage.opening import Database
from tests.audit.logs import AT, make_call
from tests.audit.test_search import NOW
from tests.storage.processes import other_process

FULL: Final = Capture("full", lambda value: value, 1000)
HOSTILE: Final = "a\0b\ud800\u202e'\";--" + "\U0001f40d" * 300
QUERIES: Final = (
    "",
    "agent:desk",
    "-agent:desk",
    "agent:desk,shop status:ok",
    "status:refused",
    "-server:crm",
    "tool:crm.*",
    "tool:*[1]",
    "tool:crm_?sold*",
    "tool:e?p.*",
    "tool:*\\%*",
    "rule:*delete*",
    "-rule:*",
    "took:>1s",
    "size:<1",
    "NOT",
    "100%_sure",
    "-allowed",
    "ORDER",
    f"trace:{'0' * 31}",
    "since:2025-11-21T08:00:02.6",
    "until:2025-11-21T08:00:02.6 -agent:desk",
    "tool:crm.* took:<1s -status:denied order",
)


async def fill(database: Database) -> None:
    maker = RowMaker(FULL, lambda: "process")
    calls: list[CallRecord | AuditEvent | BegunCall] = [
        make_call(1, agent_id="desk", duration=2.0),
        make_call(2, status="denied", rule='deny "*.delete_*"', error_message="It is 100%_sure not allowed."),
        AuditEvent("tools_changed", AT, "crm has other tools", server="crm"),
        make_call(3, status="timeout", tool="erp.get", server="erp", answered_by="crm", result=None),
        make_call(4, tool=None, asked_name="crm__sold[1]", server=None, status="invalid"),
        make_call(5, asked_name=HOSTILE, error_message=HOSTILE, status="error", conversation_id=HOSTILE),
        make_call(6, tool="crm.back\\slash%", duration=86400.123456, arguments={HOSTILE[:2]: [1.5, None, "ß"]}),
        make_call(7, status="denied", rule="limit", error_code="limit_reached", rule_source="a.yaml:3"),
        BegunCall(make_call(8)),
    ]
    await database.audit.append(ChainBatch([maker.row(call) for call in calls]))


async def found(database: Database, text: str) -> Any:
    page = await database.calls.find(parse(text, NOW), values=True)
    counts = await database.calls.count(parse(text, NOW), AT, values=True)
    return page, sorted(counts.counted), counts.since


async def uses(database: Database) -> Any:
    return (await RuleCounts(database.engine).calls())[1]


READS: Final[dict[str, Callable[[Database], Awaitable[Any]]]] = {
    "one": lambda database: database.calls.one(6),
    "newest": lambda database: database.calls.newest(),
    "arrived": lambda database: database.calls.arrived({0: 1}),
    "some": lambda database: database.calls.some([1, 5, 99]),
    "revision": lambda database: database.calls.revision_before(9),
    "events of a server": lambda database: events_of_server(database.engine, "crm", 10),
    "calls of an agent": lambda database: calls_of_agent(database.engine, "shop", 10),
    "refused calls": lambda database: calls_of_agent(database.engine, "shop", 10, refused=True),
    "refusals by rule": lambda database: refusals_by_rule(database.engine, AT, 10),
    "uses": uses,
    "refusals": lambda database: RuleCounts(database.engine).refusals(),
}


@pytest.fixture
async def both(tmp_path: Path, postgres_url: str) -> AsyncIterator[tuple[Database, Database]]:
    """The same rows on SQLite and on PostgreSQL."""
    async with open_database(f"sqlite:///{tmp_path}/a.db") as file, open_database(postgres_url) as server:
        await fill(file)
        await fill(server)
        yield file, server


async def test_searches_find_the_same(both: tuple[Database, Database]) -> None:
    for text in QUERIES:
        on_file, on_server = [await found(database, text) for database in both]
        assert on_server == on_file, text


async def test_pages_read_the_same(both: tuple[Database, Database]) -> None:
    for name, read in READS.items():
        on_file, on_server = [await read(database) for database in both]
        if isinstance(on_file, list):
            on_file, on_server = sorted(map(repr, on_file)), sorted(map(repr, on_server))
        assert on_server == on_file, name


async def _read(reader: AuditReader) -> list[Any]:
    verdict = await verify(reader)
    return [await reader.newest(ALL, 50), await reader.find("3"), await reader.heads(), verdict.faults, verdict]


async def test_the_chain_is_the_same(both: tuple[Database, Database], tmp_path: Path, postgres_url: str) -> None:
    """D9: row by row, with its digests; nothing in it depends on the database."""
    async with open_reader(f"sqlite:///{tmp_path}/a.db") as one, open_reader(postgres_url) as other:
        on_file, on_server = await _read(one), await _read(other)
    assert on_server == on_file
    assert on_server[3] == ()


async def test_retention_and_processes_that_ended(both: tuple[Database, Database], postgres_url: str) -> None:
    """D9: what was removed is told, calls of a dead process are closed, and the rest verifies."""
    _, server = both
    assert await server.audit.interrupt(lambda owner: owner == "process") == 1
    assert await server.audit.trim(before=AT + 3.5, keep_bytes=None, now=NOW) == 4
    async with open_reader(postgres_url) as reader:
        verdict = await verify(reader)
    assert verdict.faults == ()


async def test_writers_of_several_processes_make_one_chain(postgres_url: str) -> None:
    script = """
        from aggregator.audit.capture import Capture
        from aggregator.audit.rows import RowMaker
        from aggregator.storage.audit.chain import ChainBatch
        from tests.audit.logs import make_call
        maker = RowMaker(Capture("none", lambda value: value, 1000))
        async with open_database(url) as database:
            say("ready")
            hear()
            for number in range(20):
                await database.audit.append(ChainBatch([maker.row(make_call(number)) for _ in range(5)]))
            say("done")
    """
    with other_process(postgres_url, script) as one, other_process(postgres_url, script) as other:
        for process in (one, other):
            assert await asyncio.to_thread(process.read) == "ready"
        for process in (one, other):
            process.write()
        for process in (one, other):
            assert await asyncio.to_thread(process.read) == "done"
    async with open_reader(postgres_url) as reader:
        verdict = await verify(reader)
        assert (await reader.heads())[0].seq == 200
    assert verdict.faults == ()


def test_the_commands_read_a_server(postgres_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """E9: as they read a file."""

    async def make() -> None:
        async with open_database(postgres_url) as database:
            await fill(database)

    asyncio.run(make())
    show.tail(postgres_url)
    assert "crm has other tools" in capsys.readouterr().out
    assert show.show(postgres_url, "1", as_json=True) == 0
    assert json.loads(capsys.readouterr().out)["agent_id"] == "desk"
    show.export(postgres_url, output=tmp_path / "log.jsonl")
    assert len((tmp_path / "log.jsonl").read_text().splitlines()) == 8
    show.stats(postgres_url, "agent")
    assert "desk" in capsys.readouterr().out
    assert proof.verify(postgres_url) == 0
