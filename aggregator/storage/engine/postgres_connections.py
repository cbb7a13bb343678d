"""Connections to PostgreSQL through its driver: opened, checked before use, and closed in bounded time.

Rule: the driver is an extra, which the first connection loads.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pkgutil import resolve_name
from typing import Any, Final

from sqlalchemy import event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import DBAPIError, InvalidatePoolError

from aggregator.secret_sources.reference import SecretUnavailable
from aggregator.storage.engine.async_engine import AsyncEngine, ClosingPool, create_async_engine
from aggregator.storage.engine.postgres import is_away, moved_away
from aggregator.storage.engine.postgres_url import SCHEME, PostgresUrl
from aggregator.storage.errors import StorageError

DRIVER: Final = "asyncpg"
# Of each process: with one more that waits for changes, fourteen processes fit into the hundred of a new server.
CONNECTIONS: Final = 4
MORE: Final = 2
# Seconds: for one statement, for the lock of a row, and for an idle transaction.
STATEMENT: Final = 10.0
_LOCK: Final = 8.0
_IDLE: Final = 15.0
# Seconds that a free connection is in a condition to be used without a look at it, and that the look may take.
_FRESH: Final = 1.0
_LOOK: Final = 3.0
_CLOSING: Final = 1.0
_FREE_FOR: Final = 10.0
_USED: Final = "aggregator_used"

Connect = Callable[[], Awaitable[Any]]


def postgres_engine(url: PostgresUrl, *, bounded: bool = True) -> AsyncEngine:
    """Return an engine on a server; unless `bounded`, its statements may take any time.

    Raises:
        ImportError: the driver is not installed.
    """
    connect = connector(url, STATEMENT if bounded else None)

    def connected() -> Any:
        cached = 0 if url.pooled else 100
        return made.sync_engine.dialect.dbapi.connect(  # type: ignore[union-attr]
            async_creator_fn=connect, prepared_statement_cache_size=cached
        )

    made = create_async_engine(
        f"{SCHEME}://",
        creator=connected,
        hide_parameters=True,
        poolclass=ClosingPool,
        pool_size=CONNECTIONS,
        max_overflow=MORE,
        pool_timeout=_FREE_FOR,
    )
    event.listen(made.sync_engine, "handle_error", _give_up)
    event.listen(made.sync_engine, "checkin", _note_use)
    event.listen(made.sync_engine, "checkout", _look)
    return made


def connector(url: PostgresUrl, statement: float | None) -> Connect:
    """Return a function that makes a connection: to the first host that takes writes, beginning with the last such.

    `statement` bounds each statement in seconds.
    """
    hosts = list(url.hosts)
    options: dict[str, Any] = {"dsn": url.dsn, "timeout": url.connecting}
    if statement is not None:
        options["command_timeout"] = statement
    if url.trusted:
        options["ssl"] = True
    if url.pooled:
        # A pooler takes no settings, and gives the next transaction another session.
        options["statement_cache_size"] = 0
    else:
        options["server_settings"] = _settings(statement)

    async def connect() -> Any:
        driver = resolve_name(DRIVER)
        password = await _password(url)
        fault: Exception | None = None
        for host, port in list(hosts):
            try:
                made = await driver.connect(
                    host=host, port=port, password=password, connection_class=_bounded(driver), **options
                )
            except Exception as error:
                if not is_away(error):
                    raise
                fault = fault or error
            else:
                hosts.remove((host, port))
                hosts.insert(0, (host, port))
                return made
        assert fault is not None
        raise fault

    return connect


def _settings(statement: float | None) -> dict[str, str]:
    """Return the server's bounds on the work of a client that hangs or is gone."""
    bounds = {"lock_timeout": _LOCK, "idle_in_transaction_session_timeout": _IDLE} if statement is not None else {}
    if statement is not None:
        bounds["statement_timeout"] = statement + 2.0
    return {name: str(int(seconds * 1000)) for name, seconds in bounds.items()} | {"jit": "off"}


async def _password(url: PostgresUrl) -> str | None:
    if url.ask is None:
        return url.password
    try:
        async with asyncio.timeout(60.0):
            return await asyncio.to_thread(url.ask)
    except SecretUnavailable as error:
        raise StorageError(f"The password of the database cannot be had. {error.message} {error.fix}") from None


_classes: dict[Any, Any] = {}


def _bounded(driver: Any) -> Any:
    """Return the driver's connection, made to end in bounded time beside a server that does not answer."""
    if driver not in _classes:

        class BoundedConnection(driver.Connection):  # type: ignore[misc]
            """A connection whose closing does not wait for the server without end."""

            async def close(self, *, timeout: float | None = None) -> None:  # noqa: ASYNC109 - the driver's signature
                """Tell the server, or leave it at that."""
                try:
                    await super().close(timeout=timeout or _CLOSING)
                except TimeoutError:
                    self.terminate()

        _classes[driver] = BoundedConnection
    return _classes[driver]


def _give_up(context: ExceptionContext) -> None:
    """Use a connection no more once a statement took too long, or the server behind it became a standby."""
    error = context.original_exception
    cause = error.orig if isinstance(error, DBAPIError) else error
    if context.connection is not None and (isinstance(cause, TimeoutError) or moved_away(cause)):
        context.is_disconnect = True


def _note_use(_connection: Any, record: Any) -> None:
    record.info[_USED] = time.monotonic()


def _look(connection: Any, record: Any, _fairy: Any) -> None:
    """See whether a connection that was free for a while still is one: otherwise all others are not either."""
    driver = connection.driver_connection
    if not driver.is_closed():
        if time.monotonic() - record.info.get(_USED, time.monotonic()) < _FRESH:
            return
        errors = resolve_name(DRIVER)
        try:
            connection.run_async(lambda taken: taken.execute("SELECT 1", timeout=_LOOK))
        except (OSError, errors.PostgresError, errors.InterfaceError, errors.InternalClientError):
            driver.terminate()
    if driver.is_closed():
        raise InvalidatePoolError
