"""A log that was begun when a column had another name goes on under the new one, and is whole."""

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from aggregator.audit.rows import row
from aggregator.audit.spill import Spill
from aggregator.domain.call_record import BegunCall
from aggregator.storage.audit.chain import GENESIS, ChainEntry, ChainKey, Head, digested, link, with_first_names
from aggregator.storage.audit.read import ALL, open_reader
from aggregator.storage.audit.verify import Verdict, verify
from aggregator.storage.database import open_database
from aggregator.storage.engine import migrate
from aggregator.storage.engine.files import make_file
from aggregator.storage.errors import StorageError
from tests.audit.logs import NOTHING, make_call, rows, running_log
from tests.polling import until

SECRET = "correct horse battery staple"
CALLS = 3
# Its process, which has no file beside the database, is gone.
OWNER = "0" * 16


def _as_it_was(one: ChainEntry) -> ChainEntry:
    """The row as the first versions made it."""
    values = with_first_names(one.values)
    if "details" in values:
        details = json.loads(values["details"])
        values["details"] = json.dumps({**details, "call": with_first_names(details["call"])})
    return ChainEntry(one.kind, values, *digested(one.kind, values))


async def _old_log(path: Path, url: str, key: ChainKey | None) -> None:
    """Three calls, and the beginning of a fourth."""
    make_file(path)
    await asyncio.to_thread(migrate.upgrade, url, path, None, "0005")
    begun = row(BegunCall(make_call(CALLS)), NOTHING, OWNER)
    entries = [_as_it_was(one) for one in (*(row(make_call(number), NOTHING) for number in range(CALLS)), begun)]
    head = Head(0, GENESIS)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for one in entries:
            seq, digest = head.seq + 1, link(head.digest, head.seq + 1, one.content, key)
            values = {**one.values, "seq": seq, "bytes": one.size, "previous": head.digest, "digest": digest}
            table = "mcp_tool_call_log"
            if one.kind != "call":
                table, values["kind"] = "audit_events", one.kind
            marks = ", ".join("?" * len(values))
            connection.execute(f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})", [*values.values()])  # noqa: S608
            head = Head(seq, digest)
        place = (f"{CALLS:032x}", f"{CALLS:016x}", head.seq, OWNER)
        connection.execute("INSERT INTO audit_under_way VALUES (?, ?, ?, ?)", place)
        size = sum(one.size for one in entries)
        proof = (key.id, key.sign_ends(head, Head(0, GENESIS))) if key is not None else (None, None)
        change = "UPDATE audit_heads SET seq = ?, digest = ?, bytes = ?, key_id = ?, mac = ?"
        connection.execute(change, (*head, size, *proof))


async def _verdict(url: str, key: ChainKey | None) -> Verdict:
    async with open_reader(url) as reader:
        return await verify(reader, key=key)


@pytest.mark.parametrize("secret", [None, SECRET])
async def test_an_older_log_goes_on_and_is_whole(path: Path, url: str, secret: str | None) -> None:
    """D9: Its rows, what lies in a file beside it, and a call that its process was killed with."""
    key = ChainKey(secret) if secret is not None else None
    await _old_log(path, url, key)
    with pytest.raises(StorageError, match="older version"):
        await _verdict(url, key)
    Spill(path, 2**20).keep([_as_it_was(row(make_call(8), NOTHING))], None, 1.0)
    async with open_database(url, secret) as database, running_log(database) as log:
        log.record(make_call(9))
        await until(lambda: len(rows(path)) == CALLS + 3)
    verdict = await _verdict(url, key)
    assert verdict.faults == ()
    assert verdict.keyed_from == (1 if key is not None else None)
    async with open_reader(url) as reader:
        calls = [one.values for one in await reader.after(0, ALL) if one.kind == "call"]
    assert {(call["status"], call["frontend"]) for call in calls} == {("ok", "http"), ("interrupted", "http")}


async def test_a_change_to_an_older_row_shows(path: Path, url: str) -> None:
    await _old_log(path, url, None)
    async with open_database(url):
        pass
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE mcp_tool_call_log SET frontend = 'stdio' WHERE seq = 2")
    assert [fault.seq for fault in (await _verdict(url, None)).faults] == [2]
