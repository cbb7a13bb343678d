"""The connections of one database that are kept open; none is left to the garbage collector, which cannot close it."""

from sqlalchemy import AsyncAdaptedQueuePool
from sqlalchemy.pool import ConnectionPoolEntry


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
