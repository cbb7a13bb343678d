"""The asynchronous engines of SQLAlchemy, without its object-relational mapper: 7 MiB of memory, of which nothing here
is used.

Rule: everything in the package takes these names from here. If another program in this process uses the mapper, it
loads it as ever.
"""

from typing import TYPE_CHECKING

from sqlalchemy import AsyncAdaptedQueuePool
from sqlalchemy.pool import ConnectionPoolEntry

from aggregator.domain.bare_package import import_alone


class ClosingPool(AsyncAdaptedQueuePool):
    """A pool that closes connections returned after its end, since nothing would use them again."""

    _ended = False
    # Where SQLAlchemy logs what this class does: below its own name, and not below ours.
    _sqla_logger_namespace = "sqlalchemy.pool.ClosingPool"

    def dispose(self) -> None:
        self._ended = True
        super().dispose()

    def _do_return_conn(self, record: ConnectionPoolEntry) -> None:
        super()._do_return_conn(record)
        if self._ended:
            super().dispose()


if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio.engine import AsyncConnection, AsyncEngine, create_async_engine
else:
    # The `__init__` of the package imports the mapper; `engine` does not.
    (_found,) = import_alone("sqlalchemy.ext.asyncio", "engine")
    AsyncConnection, AsyncEngine = _found.AsyncConnection, _found.AsyncEngine
    create_async_engine = _found.create_async_engine

__all__ = ["AsyncConnection", "AsyncEngine", "create_async_engine"]
