"""The asynchronous engines of SQLAlchemy, without its object-relational mapper: 7 MiB of memory, of which nothing here
is used.

Rule: everything in the package takes these names from here. If another program in this process uses the mapper, it
loads it as ever.
"""

import sys
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from threading import RLock
from typing import TYPE_CHECKING, Any, Final

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


if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio.engine import AsyncConnection, AsyncEngine, create_async_engine

# Its `__init__` imports the mapper; its `engine` does not.
_PACKAGE: Final = "sqlalchemy.ext.asyncio"


def _engines() -> Any:
    """Import the engines. The `__init__` of their package runs once something that it defines is asked for."""
    spec = find_spec(_PACKAGE)
    if spec is None or spec.loader is None or _PACKAGE in sys.modules:
        return import_module(f"{_PACKAGE}.engine")
    package, loader, running = module_from_spec(spec), spec.loader, RLock()

    def whole(name: str) -> Any:
        with running:
            if vars(package).pop("__getattr__", None) is not None:
                loader.exec_module(package)
        if name not in vars(package):
            raise AttributeError(f"module {_PACKAGE!r} has no attribute {name!r}")
        return vars(package)[name]

    sys.modules[_PACKAGE] = package
    engines = import_module(f"{_PACKAGE}.engine")
    package.__getattr__ = whole  # type: ignore[method-assign]
    vars(sys.modules[_PACKAGE.rpartition(".")[0]])["asyncio"] = package
    return engines


if not TYPE_CHECKING:
    _found = _engines()
    AsyncConnection, AsyncEngine = _found.AsyncConnection, _found.AsyncEngine
    create_async_engine = _found.create_async_engine

__all__ = ["AsyncConnection", "AsyncEngine", "create_async_engine"]
