"""PostgreSQL: SQL that it alone understands, and what its errors mean to an operator.

Rule: the driver is an extra and may be missing, so that nothing here imports it.
"""

import os
import re
import ssl
from typing import Final

from sqlalchemy import ColumnElement, Double, Integer, Select, TextClause, cast, func, select, text
from sqlalchemy.exc import DBAPIError

from aggregator.domain.text.error_text import error_text
from aggregator.storage.engine.postgres_url import PostgresUrl
from aggregator.storage.errors import StorageBusy, StorageError, StorageFull, StorageReadOnly, StorageRefused

# Held by a process that makes the tables or changes them.
SCHEMA: Final = "schema"
# Seconds that a process waits for another one that changes the tables.
MIGRATING: Final = 60
# The server is starting or ending, or has no connection free (classes 57P and 53300), or the connection broke (08).
_AWAY: Final = ("57P", "53300", "08")
_NO_ENTRY: Final = "28000"
_REFUSED: Final = ("28",)
_NO_DATABASE: Final = ("3D",)
_FULL: Final = ("53100",)
_STANDBY: Final = ("25006",)
_NO_RIGHT: Final = ("42501",)
_LOCKED: Final = ("55P03", "40")
# A statement that was prepared before another process changed its table.
_CHANGED: Final = ("0A000",)
_TOO_LONG: Final = ("57014",)
# Errors of the driver without an SQLSTATE: by name, since the driver may be missing.
_NO_PRIMARY: Final = "TargetServerAttributeNotMatched"
_MISCONFIGURED: Final = "ClientConfigurationError"
# The last one: a statement on a connection that is ending, which the driver takes for a mistake of its own.
_GONE: Final = ("ConnectionDoesNotExistError", "ConnectionFailureError", "InternalClientError")


def lock(subject: str) -> Select[tuple[None]]:
    """Return the statement that waits for the lock of a subject and holds it to the end of the transaction."""
    return select(func.pg_advisory_xact_lock(func.hashtextextended(f"aggregator {subject}", 0)))


def wait_for_locks(seconds: int) -> TextClause:
    """Return the statement that bounds each wait for a lock in the rest of the transaction."""
    return text(f"SET LOCAL lock_timeout = '{int(seconds)}s'")


def now() -> ColumnElement[float]:
    """Return the server's clock at this moment, in seconds since 1970."""
    return cast(func.extract("epoch", func.clock_timestamp()), Double)


def glob(column: ColumnElement[str], pattern: str) -> ColumnElement[bool]:
    """Return whether a column matches a pattern in which `*` and `?` stand for anything, case and all."""
    literal = re.sub(r"([\\%_])", r"\\\1", pattern)
    return column.like(literal.replace("*", "%").replace("?", "_"), escape="\\")


def whole(column: ColumnElement[float]) -> ColumnElement[int]:
    """Return a positive number without its fraction."""
    return cast(func.floor(column), Integer)


def is_away(error: BaseException) -> bool:
    """Return whether a connection failed since its host cannot be used now: another may."""
    if isinstance(error, ssl.SSLError) or _without_tls(error):
        return False
    return isinstance(error, OSError) or _state(error).startswith(_AWAY) or type(error).__name__ == _NO_PRIMARY


def moved_away(error: BaseException | None) -> bool:
    """Return whether the server takes no writes, or none any more: another may be the primary by now."""
    return error is not None and _state(error).startswith(_STANDBY)


def translated(error: BaseException, url: PostgresUrl) -> StorageError | None:
    """Return the error for the operator, without the password; None if it is no fault of the server."""
    cause: BaseException = error
    if isinstance(error, DBAPIError) and error.orig is not None:
        # SQLAlchemy wraps the driver's error twice.
        cause = error.orig.__cause__ or error.orig
    return (
        _of_connecting(cause, url)
        or _of_state(_state(cause) or _state(error), cause, url)
        or _of_way(error, cause, url)
    )


def _of_connecting(cause: BaseException, url: PostgresUrl) -> StorageError | None:
    """Return the fault in TLS, or in the choice of the server."""
    where = url.where
    if isinstance(cause, ssl.SSLCertVerificationError):
        said = f"The certificate of the database server {where} is not accepted: {cause.verify_message}."
        return StorageRefused(f"{said} Name its authority with `sslrootcert` in `storage`, and the host as it has it.")
    if isinstance(cause, ssl.SSLError):
        return StorageRefused(f"No TLS can be agreed with the database server {where}: {cause.reason}.")
    if _without_tls(cause):
        return StorageRefused(f"The database server {where} does not offer TLS, which `sslmode` in `storage` demands.")
    if type(cause).__name__ == _NO_PRIMARY:
        said = f"The database server {where} takes no writes: it is a standby. Name the primary in `storage`"
        return StorageReadOnly(f"{said}, or each server, as in `postgresql://USER@ONE:5432,TWO:5432/DATABASE`.")
    if type(cause).__name__ == _MISCONFIGURED:
        # Its texts name files and options, never a password.
        return StorageError(f"The storage URL cannot be used: {error_text(cause).splitlines()[0]}.")
    return None


def _of_state(state: str, cause: BaseException, url: PostgresUrl) -> StorageError | None:
    where, user = url.where, url.user or "of the system"
    if state == _NO_ENTRY and "pg_hba.conf" in str(cause):
        with_tls = "" if "no encryption" not in str(cause) else ", or add `?sslmode=require` to `storage`"
        said = f"The database server {where} lets the user {user!r} in from here by no line of its pg_hba.conf"
        return StorageRefused(f"{said}: add one for the database {url.database!r}{with_tls}.")
    if state.startswith(_REFUSED):
        said = f"The database server {where} refuses the user {user!r}"
        return StorageRefused(f"{said}: its password is another, or there is no such user. See `storage`.")
    if state.startswith(_NO_DATABASE):
        made = f"`createdb --owner {user} {url.database}` makes it"
        return StorageRefused(
            f"The database server {where} has no database {url.database!r}: {made}, or see `storage`."
        )
    if state.startswith(_FULL):
        return StorageFull(f"There is no room left on the database server {where}: nothing was written.")
    if state.startswith(_STANDBY):
        return StorageReadOnly(f"The database server {where} takes no writes now: it is a standby, or was made one.")
    if state.startswith(_NO_RIGHT):
        granted = f"make it the owner: `ALTER DATABASE {url.database} OWNER TO {user}`"
        return StorageReadOnly(f"The user {user!r} may not make or write tables of the database on {where}: {granted}.")
    if state.startswith(_LOCKED):
        return StorageBusy(f"The database on {where} was kept locked by another process.")
    if state.startswith(_CHANGED) and "cached" in str(cause):
        return StorageBusy(f"The tables on the database server {where} were changed just now by another process.")
    if state.startswith(_TOO_LONG):
        return StorageBusy(f"The database server {where} took too long, and was told to stop.")
    return None


def _of_way(error: BaseException, cause: BaseException, url: PostgresUrl) -> StorageError | None:
    """Return that the server, or the way to it, is away; None if something else is wrong."""
    away = isinstance(cause, OSError) or _state(cause).startswith(_AWAY) or _broken(error)
    if not away and type(cause).__name__ not in _GONE:
        return None
    return StorageBusy(f"The database server {url.where} cannot be used now: {_why(cause)}. Is it running?")


def _why(cause: BaseException) -> str:
    if isinstance(cause, TimeoutError):
        return "it does not answer in time"
    if not isinstance(cause, OSError):
        return type(cause).__name__
    # In the words of the system: asyncio puts its own around them. Errors of names have numbers below 0.
    number = cause.errno or 0
    return os.strerror(number) if number > 0 else cause.strerror or type(cause).__name__


def _state(error: BaseException) -> str:
    cause = error.orig if isinstance(error, DBAPIError) else error
    return str(getattr(cause, "sqlstate", None) or "")


def _without_tls(error: BaseException) -> bool:
    return isinstance(error, ConnectionError) and "rejected SSL upgrade" in str(error)


def _broken(error: BaseException) -> bool:
    """Return whether the connection ended in the middle."""
    return isinstance(error, DBAPIError) and error.connection_invalidated
