"""PostgreSQL: what its errors and those of the way to it mean. No server is needed, nor the driver."""

import sys

import pytest
from sqlalchemy.exc import DBAPIError

from aggregator.cli import keys
from aggregator.cli.audit import show as audit
from aggregator.storage.engine import postgres
from aggregator.storage.engine.engine import Engine
from aggregator.storage.engine.postgres_url import postgres_url
from aggregator.storage.errors import StorageBusy, StorageError, StorageFull, StorageReadOnly, StorageRefused
from aggregator.storage.locate import full_url

PASSWORD = "hunter2-hunter2"
URL = f"postgresql+asyncpg://ada:{PASSWORD}@db.example:5433/house"


def of_state(sqlstate: str, *, invalidated: bool = False, wrapped: bool = True) -> Exception:
    """Return the driver's error with this state; SQLAlchemy wraps errors of an open connection."""
    raised = type("RaisedError", (Exception,), {"sqlstate": sqlstate})("said by the server")
    return DBAPIError("SELECT 1", None, raised, connection_invalidated=invalidated) if wrapped else raised


# By its name, as the driver may be missing: a statement on a connection that is ending.
MISTAKEN = type("InternalClientError", (Exception,), {})("cannot switch to state 11; another operation is in progress")


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (MISTAKEN, StorageBusy, "5433 cannot be used now: InternalClientError"),
        (ConnectionRefusedError(111, "Connection refused"), StorageBusy, "5433 cannot be used now: Connection refused"),
        (TimeoutError(), StorageBusy, "cannot be used now: it does not answer in time. Is it running?"),
        (of_state("57P03", wrapped=False), StorageBusy, "cannot be used now"),
        (of_state("53300", wrapped=False), StorageBusy, "cannot be used now"),
        (of_state("08006"), StorageBusy, "cannot be used now"),
        (of_state("", invalidated=True), StorageBusy, "cannot be used now"),
        (of_state("28P01", wrapped=False), StorageRefused, "refuses the user 'ada'"),
        (of_state("3D000", wrapped=False), StorageRefused, "has no database 'house'"),
        (of_state("53100"), StorageFull, "no room left"),
        (of_state("42501"), StorageReadOnly, "may not make or write tables"),
        (of_state("25006"), StorageReadOnly, "takes no writes now"),
        (of_state("55P03"), StorageBusy, "locked"),
    ],
)
def test_errors_are_one_line_for_an_operator(error: Exception, kind: type[StorageError], said: str) -> None:
    """Proves: E1."""
    found = postgres.translated(error, postgres_url(URL))
    assert type(found) is kind
    assert said in str(found)
    assert PASSWORD not in str(found)


@pytest.mark.parametrize("error", [of_state("42601"), RuntimeError("a bug")])
def test_a_fault_of_ours_is_none_of_the_servers(error: Exception) -> None:
    assert postgres.translated(error, postgres_url(URL)) is None


async def test_an_error_that_comes_past_sqlalchemy_is_one_of_the_database() -> None:
    engine = Engine(f"postgresql+asyncpg://ada:{PASSWORD}@127.0.0.1:1/house", None)
    with pytest.raises(StorageBusy, match="cannot be used now"):
        async with engine._faults():
            raise MISTAKEN
    with pytest.raises(RuntimeError, match="a bug"):
        async with engine._faults():
            raise RuntimeError("a bug")


async def test_a_server_that_is_down_is_no_traceback() -> None:
    """In anything that is asked of it.

    Proves: E1
    """
    engine = Engine(f"postgresql+asyncpg://ada:{PASSWORD}@127.0.0.1:1/house", None)
    with pytest.raises(StorageBusy, match="Connection refused"):
        async with engine.read():
            pass
    with pytest.raises(StorageBusy, match="Connection refused"):
        async with engine.write("keys"):
            pass
    with pytest.raises(StorageBusy, match="Connection refused"):
        await engine.write_in_thread(lambda connection: None)
    with pytest.raises(StorageBusy, match="Connection refused"):
        await engine.read_in_thread(lambda connection: None)


def test_without_its_driver_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: E1."""
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    for command in (keys.listed, audit.tail):
        with pytest.raises(
            StorageError, match=r"asyncpg, which is not installed: pip install 'aggregator-mcp\[postgres\]'"
        ):
            command(URL)


@pytest.mark.parametrize(
    ("written", "hosts", "who"),
    [
        ("postgresql://ada@db/house", (("db", 5432),), ("ada", "house", None)),
        ("postgres://ada:pw@db:5433/house", (("db", 5433),), ("ada", "house", "pw")),
        ("postgresql://a%40b:p%40%2F%3F%23@db/h%20x", (("db", 5432),), ("a@b", "h x", "p@/?#")),
        ("postgresql://ada:p:w@[::1]:6000/house", (("::1", 6000),), ("ada", "house", "p:w")),
        ("postgresql://ada@one,two:6/house", (("one", 5432), ("two", 6)), ("ada", "house", None)),
        ("postgresql://ada@/house?host=/run/pg&port=6", (("/run/pg", 6),), ("ada", "house", None)),
        ("postgresql://%2Frun%2Fpg/house", (("/run/pg", 5432),), ("", "house", None)),
        ("postgresql:///house?host=a&host=b&port=1&port=2", (("a", 1), ("b", 2)), ("", "house", None)),
        ("postgresql://?user=ada&password=x%26y&dbname=h", (("localhost", 5432),), ("ada", "h", "x&y")),
    ],
)
def test_urls_as_people_write_them(
    written: str, hosts: tuple[tuple[str, int], ...], who: tuple[str, str, str | None]
) -> None:
    """As libpq takes them, and its programs."""
    found = postgres_url(full_url(written))
    assert (found.hosts, (found.user, found.database, found.password)) == (hosts, who)
    assert found.password is None or found.password not in f"{found!r} {found.where}"


@pytest.mark.parametrize(
    ("query", "kept", "pooled", "trusted"),
    [
        ("", "target_session_attrs=read-write", False, False),
        ("?ssl=require", "sslmode=require", False, False),
        ("?ssl=true&sslmode=prefer", "sslmode=require", False, False),
        ("?sslmode=verify-full&sslrootcert=system", "target_session_attrs=read-write", False, True),
        ("?pgbouncer=true&channel_binding=prefer", "target_session_attrs=read-write", True, False),
        ("?statement_cache_size=0", "target_session_attrs=read-write", True, False),
        ("?prepared_statement_cache_size=0", "target_session_attrs=read-write", True, False),
        ("?target_session_attrs=any&application_name=gate", "application_name=gate", False, False),
    ],
)
def test_options_as_people_write_them(query: str, kept: str, pooled: bool, trusted: bool) -> None:
    found = postgres_url(f"{URL}{query}")
    assert (kept in found.dsn, found.pooled, found.trusted) == (True, pooled, trusted)
    assert "cache" not in found.dsn


@pytest.mark.parametrize(
    ("url", "said"),
    [
        (f"{URL}?sslmod=require&whatever=1", r"not known \(sslmod, whatever\); `sslmode=require` is one"),
        (f"{URL}?sslmode=full", "unknown `sslmode`"),
        (f"{URL}?sslmode=verify-full&sslrootcert=/no/ca.pem", "`sslrootcert` that cannot be read: /no/ca.pem"),
        (f"{URL}?sslrootcert=system", "needs `sslmode=verify-full`"),
        (f"{URL}?channel_binding=require", "demands channel_binding=require"),
        (f"{URL}?connect_timeout=soon", "no number of seconds"),
        (f"postgresql+asyncpg://ada:{PASSWORD}/x@db/house", "%40 %3A"),
        (f"postgresql+asyncpg://ada:{PASSWORD}@x@db/house", "%40 %3A"),
        (f"postgresql+asyncpg://ada:{PASSWORD}#x@db/house", "%40 %3A"),
        (f"postgresql+asyncpg://ada:{PASSWORD}?x@db/house", "%40 %3A"),
        (f"postgresql+asyncpg://ada:x?{PASSWORD}@db/house", "%40 %3A"),
        (f"postgresql+asyncpg://ada:x?{PASSWORD}=y@db/house", "%40 %3A"),
        ("postgresql+asyncpg://db:0/house", "no host with a port"),
        ("postgresql+psycopg://db/house", "cannot be used; sqlite"),
    ],
)
def test_urls_that_cannot_be_meant(url: str, said: str) -> None:
    """Proves: E1."""
    with pytest.raises(StorageError, match=said) as raised:
        postgres_url(url)
    assert PASSWORD not in str(raised.value)
