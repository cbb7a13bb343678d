"""Work that a program does once, and tests in one process did each time: a command line is built from 60 commands, a
new database from its tables, a client reads all certificates, and each new engine compiles its statements. Each costs
0.02 to 0.06 seconds of the processor.
"""

import os
import ssl
import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy.dialects.sqlite.base import SQLiteDialect
from sqlalchemy.util import LRUCache

from aggregator.storage.engine.files import is_empty


def build_commands_once(patch: pytest.MonkeyPatch) -> None:
    """Keep what Typer builds from the commands; it holds nothing of a call."""
    # Whoever calls commands has imported it; others need not pay for it.
    if typer := sys.modules.get("typer.main"):
        patch.setattr(typer, "get_command", cache(typer.get_command))


def read_certificates_once(patch: pytest.MonkeyPatch) -> None:
    """Let the HTTP clients of tests share what they trust by default; two variables of the environment change it."""
    # It loads its transport with the first client; whoever makes none need not pay for it.
    if "httpx2" not in sys.modules:
        return
    client: Any = import_module("httpcore2")
    read = client.default_ssl_context

    @cache
    def trusted(trust_env: bool, *_: str | None) -> ssl.SSLContext:
        made: ssl.SSLContext = read(_trust_env=trust_env)
        return made

    def shared(*, _trust_env: bool = True) -> ssl.SSLContext:
        return trusted(_trust_env, os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))

    patch.setattr(client, "default_ssl_context", shared)


def copy_new_databases(patch: pytest.MonkeyPatch, folder: Path) -> None:
    """Let a new SQLite database be a copy, from the second one on; opening checks it all the same.

    Tests of the making ask for the fixture `made_databases`.
    """
    opening: Any = sys.modules.get("aggregator.storage.opening")
    if opening is None:
        return
    make = opening._ready
    template: list[bytes] = []

    async def ready(url: str, path: Path | None, *more: Any) -> Any:
        if path is not None and is_empty(path):
            # Tests that give up the administrator's rights cannot use the folder.
            effective = os.access in os.supports_effective_ids
            if not template and os.access(folder, os.W_OK | os.X_OK, effective_ids=effective):
                unfinished = folder / "template.db"
                opening.make_file(unfinished)
                engine = await make(f"{opening.SQLITE}{unfinished}", unfinished)
                await engine.close()
                template.append(unfinished.read_bytes())
            if template:
                _fill(path, template[0])
        return await make(url, path, *more)

    ready.made = make  # type: ignore[attr-defined]
    patch.setattr(opening, "_ready", ready)


def _fill(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def share_statements(patch: pytest.MonkeyPatch) -> None:
    """Let the engines of all SQLite databases share what SQLAlchemy compiles from statements.

    A compiled statement belongs to a dialect; those of one class differ in nothing.
    """
    if "aggregator.storage.opening" not in sys.modules:
        return
    shared = LRUCache[Any, Any](1_000)
    own = "_own_cache"

    def cache_of(engine: sqlalchemy.Engine) -> Any:
        return shared if isinstance(engine.dialect, SQLiteDialect) else vars(engine)[own]

    patch.setattr(
        sqlalchemy.Engine,
        "_compiled_cache",
        property(cache_of, lambda engine, cache: vars(engine).update({own: cache})),
        raising=False,
    )
    patch.setattr(SQLiteDialect, "__eq__", lambda one, other: type(one) is type(other))
    patch.setattr(SQLiteDialect, "__hash__", lambda one: hash(type(one)))


def make_databases(patch: pytest.MonkeyPatch) -> None:
    """Make each new database as a program does."""
    opening: Any = sys.modules.get("aggregator.storage.opening")
    if opening is not None:
        patch.setattr(opening, "_ready", getattr(opening._ready, "made", opening._ready))
