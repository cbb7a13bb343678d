"""The database is used without SQLAlchemy's object-relational mapper, which another program may use all the same."""

import subprocess
import sys
from typing import Final

import pytest

# What runs in a fresh interpreter; each prints `True` if all is well.
CASES: Final = {
    "everything of the storage": (
        "import sys, aggregator.app.build, aggregator.storage.database, aggregator.storage.audit.read, "
        "aggregator.flow.storage, aggregator.replicas.storage, aggregator.storage.tool_vectors\n"
        "print(not any(name.startswith(('sqlalchemy.orm', 'sqlalchemy.dialects.postgresql')) for name in sys.modules))"
    ),
    "the mapper afterwards, by name": (
        "from aggregator.storage.engine.async_engine import AsyncEngine as ours\n"
        "from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker\n"
        "import sqlalchemy.orm\n"
        "print(ours is AsyncEngine and AsyncSession.__module__ == 'sqlalchemy.ext.asyncio.session')"
    ),
    "the mapper afterwards, by attribute": (
        "import aggregator.storage.engine.async_engine, sqlalchemy.ext\n"
        "print(callable(sqlalchemy.ext.asyncio.async_sessionmaker) and hasattr(sqlalchemy.ext.asyncio, 'AsyncSession'))"
    ),
    "a name that is none": (
        "import aggregator.storage.engine.async_engine, sqlalchemy.ext.asyncio as one\n"
        "print(not hasattr(one, 'nothing') and not hasattr(one, 'nothing') and hasattr(one, 'AsyncSession'))"
    ),
    "the mapper before": (
        "from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession\n"
        "from aggregator.storage.engine.async_engine import AsyncEngine as ours\n"
        "print(ours is AsyncEngine)"
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_mapper(case: str) -> None:
    ran = subprocess.run([sys.executable, "-c", CASES[case]], capture_output=True, text=True, check=False)
    assert (ran.stdout.strip(), ran.stderr) == ("True", "")
