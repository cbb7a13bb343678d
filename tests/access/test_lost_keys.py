"""A database that is locked, damaged or deleted: who is let in meanwhile, and who is told why and what to do."""

# ruff: noqa: ASYNC240 - nothing else runs on the loop of a test

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

import httpx2 as httpx
import pytest

from aggregator.identity.keys import new_key
from aggregator.storage.database import open_database
from tests.end_to_end.programs import ServingProgram, run, serving
from tests.end_to_end.scripted_host import ACCEPT, ENVELOPE, MODERN, http_client
from tests.end_to_end.server_harness import local_entry, write_config
from tests.peers.toolbox import Json
from tests.polling import until

LIST: Final = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": ENVELOPE}}
HEADERS: Final = {**ACCEPT, "mcp-protocol-version": MODERN, "mcp-method": "tools/list"}


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "k.db"


@pytest.fixture
def config(tmp_path: Path, database: Path) -> Path:
    return write_config(tmp_path, {"shop": local_entry(protocol="legacy")}, storage=f"sqlite+aiosqlite:///{database}")


async def a_key(database: Path) -> str:
    made = new_key("bot", now=1.0)
    async with open_database(f"sqlite+aiosqlite:///{database}") as opened:
        await opened.keys.add(made.record)
    return made.text


async def asked(served: ServingProgram, key: str | None = None) -> httpx.Response:
    more = {"authorization": f"Bearer {key}"} if key is not None else {}
    async with http_client(served.url) as client:
        return await client.post("/mcp", json=LIST, headers={**HEADERS, **more})


async def health(served: ServingProgram) -> Json:
    async with http_client(served.url) as client:
        found: Json = (await client.get("/readyz")).json()
        return found


async def test_it_starts_while_another_program_keeps_the_database_locked(config: Path, database: Path) -> None:
    """D4: Nobody is let in whose key is not known, and everybody who has one once it can be read.

    Proves: E1
    """
    key = await a_key(database)
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        async with serving(config) as served:
            for _ in range(10):
                refused = await asked(served, key)
                assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
            assert "locked" in refused.text
            assert (await asked(served)).status_code == 401
            assert "locked" in (await health(served))["keys"]
            connection.execute("ROLLBACK")
            statuses = [503]

            async def is_known() -> bool:
                statuses.append((await asked(served, key)).status_code)
                return statuses[-1] != 503

            await until(is_known, "the keys can be read")
            assert statuses[-1] == 200, "what was refused meanwhile was no guess"
            assert (await asked(served)).status_code == 401
            assert "keys" not in await health(served)
    assert "Traceback" not in "".join(served.log)
    assert any("keys can be read again: requests without a key are refused" in line for line in served.log)


async def test_the_log_says_who_gets_in_once_the_keys_are_read(config: Path, database: Path) -> None:
    """D4: It said at the start that nobody is let in without a key, and with no key in the database that is over."""
    async with open_database(f"sqlite+aiosqlite:///{database}"):
        pass
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        async with serving(config) as served:
            assert any("requests without a key are refused" in line for line in served.log)
            connection.execute("ROLLBACK")
            await until(lambda: is_open(served))
    said = "keys can be read again: without a key, only requests from this machine are accepted"
    assert any(said in line for line in served.log)


async def test_keys_that_were_lost_with_a_damaged_file(config: Path, database: Path) -> None:
    """D4: The log, the health page, `status`, `keys` and whoever is refused on this machine say which file it is,

    Proves: E1
    and what to do; that works while the program runs."""
    database.write_bytes(b"This is no database. " * 500)
    async with serving(config) as served:
        (aside,) = database.parent.glob("k.db.damaged-*")
        refused = await asked(served)
        assert refused.status_code == 401
        for told in (refused.text, (await health(served))["keys"], "".join(served.log)):
            assert str(aside) in told
            assert "aggregator keys new AGENT" in told
            assert "move that file to another folder" in told
        code, out, _ = await run("status", "--url", served.url)
        assert (code, str(aside) in out) == (1, True)
        code, _, said = await run("keys", "list", "--config", str(config))
        assert (code, str(aside) in said) == (0, True)
        aside.rename(config.parent / "elsewhere.db")
        await until(lambda: is_open(served))
    assert "Traceback" not in "".join(served.log)


async def test_a_database_that_is_deleted_lets_nobody_in(config: Path, database: Path) -> None:
    """D4: It is made anew at once; that there is no key in it lets no request pass.

    Proves: E1
    """
    key = await a_key(database)
    async with serving(config) as served:
        assert (await asked(served, key)).status_code == 200
        for file in database.parent.glob("k.db*"):
            file.unlink()
        await until(lambda: is_refused(served, key))
        assert database.exists()
        refused = await asked(served)
        assert (refused.status_code, "was deleted and made anew" in refused.text) == (401, True)
        assert "was deleted and made anew" in (await health(served))["keys"]
        other = await a_key(database)
        await until(lambda: is_served(served, other))
    assert "Traceback" not in "".join(served.log)


async def is_open(served: ServingProgram) -> bool:
    return (await asked(served)).status_code == 200


async def is_served(served: ServingProgram, key: str) -> bool:
    return (await asked(served, key)).status_code == 200


async def is_refused(served: ServingProgram, key: str) -> bool:
    return (await asked(served, key)).status_code == 401
