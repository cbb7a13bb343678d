"""PostgreSQL: how to connect, and what its errors mean to an operator.

Rule: the driver is an extra and may be missing, so that nothing here imports it.
"""

import re
from inspect import signature
from pkgutil import resolve_name
from typing import Any, Final

from sqlalchemy import URL, ColumnElement, Integer, cast, func
from sqlalchemy.exc import DBAPIError

from aggregator.storage.errors import StorageBusy, StorageError, StorageFull, StorageReadOnly

DRIVER: Final = "asyncpg"
_OF_SQLALCHEMY: Final = frozenset({"prepared_statement_cache_size"})
# For a connection, in seconds; the driver's own patience is a minute.
_CONNECTING: Final = 10.0
# The server is starting or ending, or has no connection free (classes 57P and 53300), or the connection broke (08).
_AWAY: Final = ("57P", "53300", "08")
_REFUSED: Final = ("28",)
_NO_DATABASE: Final = ("3D",)
_FULL: Final = ("53100",)
_READ_ONLY: Final = ("25006", "42501")
_LOCKED: Final = ("55P03", "40")


def connect_options(url: URL) -> dict[str, Any]:
    """Return what the driver is told besides the URL.

    Raises:
        StorageError: the URL tells it something that it does not know.
    """
    if url.get_driver_name() != DRIVER:
        return {}
    known = signature(resolve_name(f"{DRIVER}:connect")).parameters.keys() | _OF_SQLALCHEMY
    unknown = sorted(url.query.keys() - known)
    if unknown:
        named = ", ".join(unknown)
        raise StorageError(f"The storage URL has options that {DRIVER} does not know ({named}); `ssl=require` is one.")
    return {"timeout": _CONNECTING}


def glob(column: ColumnElement[str], pattern: str) -> ColumnElement[bool]:
    """Return whether a column matches a pattern in which `*` and `?` stand for anything, case and all."""
    literal = re.sub(r"([\\%_])", r"\\\1", pattern)
    return column.like(literal.replace("*", "%").replace("?", "_"), escape="\\")


def whole(column: ColumnElement[float]) -> ColumnElement[int]:
    """Return a positive number without what is behind its point."""
    return cast(func.floor(column), Integer)


def translated(error: BaseException, url: URL) -> StorageError | None:
    """Return what an operator is told, without the password; None when it is no fault of the server's."""
    where = f"{url.host or 'this machine'}:{url.port or 5432}"
    cause = error.orig if isinstance(error, DBAPIError) else error
    state = str(getattr(cause, "sqlstate", None) or "")
    if isinstance(cause, OSError | TimeoutError) or state.startswith(_AWAY) or _broken(error):
        why = (cause.strerror if isinstance(cause, OSError) else None) or type(cause).__name__
        return StorageBusy(f"The database server {where} cannot be used now: {why}. Is it running?")
    if state.startswith(_REFUSED):
        return StorageError(f"The database server {where} refuses the user {url.username!r}: see `storage`.")
    if state.startswith(_NO_DATABASE):
        return StorageError(f"The database server {where} has no database {url.database!r}: make it, or see `storage`.")
    if state.startswith(_FULL):
        return StorageFull(f"There is no room left on the database server {where}: nothing was written.")
    if state.startswith(_READ_ONLY):
        return StorageReadOnly(f"The user {url.username!r} may not write the database on {where}: see `storage`.")
    if state.startswith(_LOCKED):
        return StorageBusy(f"The database on {where} was kept locked by another process.")
    return None


def _broken(error: BaseException) -> bool:
    """Return whether the connection ended in the middle."""
    return isinstance(error, DBAPIError) and error.connection_invalidated
