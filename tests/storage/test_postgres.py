"""PostgreSQL: what its errors and those of the way to it mean. No server is needed, nor the driver."""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import event, make_url
from sqlalchemy.exc import DBAPIError

from aggregator.cli import keys
from aggregator.cli.audit import show as audit
from aggregator.storage.database import open_database
from aggregator.storage.engine import postgres
from aggregator.storage.engine.engine import Engine
from aggregator.storage.errors import StorageBusy, StorageError, StorageFull, StorageReadOnly

PASSWORD = "hunter2-hunter2"
URL = f"postgresql+asyncpg://ada:{PASSWORD}@db.example:5433/house"


class Driver(ModuleType):
    """A fake of the driver, as far as SQLAlchemy looks at it before it connects."""

    def __init__(self) -> None:
        super().__init__("asyncpg")
        self.PostgresError = type("PostgresError", (Exception,), {})
        self.exceptions = SimpleNamespace()

    async def connect(self, *, host: str, ssl: str = "prefer", timeout: float = 60.0) -> None:  # noqa: ASYNC109
        raise ConnectionRefusedError(111, "Connection refused")


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "asyncpg", Driver())


def of_state(sqlstate: str, *, invalidated: bool = False, wrapped: bool = True) -> Exception:
    """Return the driver's error with this state; SQLAlchemy wraps errors of an open connection."""
    raised = type("RaisedError", (Exception,), {"sqlstate": sqlstate})("said by the server")
    return DBAPIError("SELECT 1", None, raised, connection_invalidated=invalidated) if wrapped else raised


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (ConnectionRefusedError(111, "Connection refused"), StorageBusy, "5433 cannot be used now: Connection refused"),
        (TimeoutError(), StorageBusy, "cannot be used now: TimeoutError. Is it running?"),
        (of_state("57P03", wrapped=False), StorageBusy, "cannot be used now"),
        (of_state("53300", wrapped=False), StorageBusy, "cannot be used now"),
        (of_state("08006"), StorageBusy, "cannot be used now"),
        (of_state("", invalidated=True), StorageBusy, "cannot be used now"),
        (of_state("28P01", wrapped=False), StorageError, "refuses the user 'ada'"),
        (of_state("3D000", wrapped=False), StorageError, "has no database 'house'"),
        (of_state("53100"), StorageFull, "no room left"),
        (of_state("42501"), StorageReadOnly, "may not write"),
        (of_state("25006"), StorageReadOnly, "may not write"),
        (of_state("55P03"), StorageBusy, "locked"),
    ],
)
def test_errors_are_one_line_for_an_operator(error: Exception, kind: type[StorageError], said: str) -> None:
    """Proves: E1."""
    found = postgres.translated(error, make_url(URL))
    assert type(found) is kind
    assert said in str(found)
    assert PASSWORD not in str(found)


@pytest.mark.parametrize("error", [of_state("42601"), RuntimeError("a bug")])
def test_a_fault_of_ours_is_none_of_the_servers(error: Exception) -> None:
    assert postgres.translated(error, make_url(URL)) is None


async def test_a_server_that_is_down_is_no_traceback(tmp_path: Path) -> None:
    """Whatever is asked of it; here by a driver that cannot connect.

    Proves: E1
    """
    engine = Engine(f"sqlite+aiosqlite:///{tmp_path}/a.db", None)

    def refuse(*_: Any) -> None:
        raise ConnectionRefusedError(111, "Connection refused")

    event.listen(engine.raw.sync_engine, "do_connect", refuse)
    with pytest.raises(StorageBusy, match="Connection refused"):
        async with engine.read():
            pass
    with pytest.raises(StorageBusy, match="Connection refused"):
        async with engine.write("keys"):
            pass
    with pytest.raises(StorageBusy, match="Connection refused"):
        await engine.write_in_thread(lambda connection: None)


def test_without_its_driver_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: E1."""
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    for command in (keys.listed, audit.tail):
        with pytest.raises(
            StorageError, match=r"asyncpg, which is not installed: pip install 'aggregator-mcp\[postgres\]'"
        ):
            command(URL)


@pytest.mark.parametrize("query", ["sslmode=require", "ssl=require&whatever=1"])
async def test_options_that_the_driver_does_not_know(driver: None, query: str) -> None:
    """Before it is connected to, and with the names of them.

    Proves: E1
    """
    with pytest.raises(StorageError, match=r"\((sslmode|whatever)\); `ssl=require` is one") as raised:
        async with open_database(f"{URL}?{query}"):
            pass
    assert PASSWORD not in str(raised.value)


def test_a_connection_is_not_waited_for_long(driver: None) -> None:
    assert postgres.connect_options(make_url(f"{URL}?ssl=require")) == {"timeout": 10.0}
    assert postgres.connect_options(make_url("postgresql+psycopg://db/a")) == {}
