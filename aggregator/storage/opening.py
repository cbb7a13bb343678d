"""Opening of the one database: checks it, sets a damaged file aside, brings the schema up to date."""

import asyncio
import logging
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from sqlalchemy import select

from aggregator.accounts.storage.vault import Vault
from aggregator.flow.storage import FlowLabels
from aggregator.pins.storage import Pins
from aggregator.replicas.storage import ChangeLog, LeaseRows, LimitUsage, ReplicaRows, SharedKeys
from aggregator.results.storage import KeptResults
from aggregator.storage.approvals import Approvals
from aggregator.storage.audit.chain import ChainKey
from aggregator.storage.audit.log import AuditRows
from aggregator.storage.audit.search import CallSearch
from aggregator.storage.catalogs import Catalogs
from aggregator.storage.console_sessions import ConsoleSessions
from aggregator.storage.engine import postgres, sqlite
from aggregator.storage.engine.create import create_tables
from aggregator.storage.engine.engine import Engine, RemakeFile
from aggregator.storage.engine.files import is_empty, make_file, make_folder, set_aside, set_aside_before, unmake
from aggregator.storage.engine.lockfile import locked
from aggregator.storage.engine.postgres import SCHEMA
from aggregator.storage.engine.stamp import STAMP, refuse_unusable
from aggregator.storage.errors import StorageDamaged, StorageError
from aggregator.storage.hosts import HostSessions, UsedStates
from aggregator.storage.keys import ApiKeys
from aggregator.storage.locate import SQLITE, full_url, sqlite_path
from aggregator.storage.retention import RetentionRules, prune
from aggregator.storage.tables import REVISION, metadata
from aggregator.storage.tool_vectors import ToolVectors
from aggregator.tool_reports.storage import ToolReports

log = logging.getLogger(__name__)

_PATIENCE: Final = 30.0
_CHECKED: Final = tuple(table.name for table in metadata.sorted_tables if table.info.get("checked"))


@dataclass(frozen=True, slots=True)
class Database:
    """The open database: one attribute for each store in it.

    `set_aside` are the damaged files beside it. While there are any, keys may have been lost: access that is open
    without keys must stay closed.
    """

    engine: Engine
    keys: ApiKeys
    approvals: Approvals
    catalogs: Catalogs
    audit: AuditRows
    calls: CallSearch
    console: ConsoleSessions
    changes: ChangeLog
    shared_keys: SharedKeys
    host_sessions: HostSessions
    used_states: UsedStates
    limit_usage: LimitUsage
    vault: Vault
    results: KeptResults
    tool_vectors: ToolVectors
    tool_reports: ToolReports
    pins: Pins
    flow: FlowLabels
    set_aside: tuple[Path, ...] = ()

    def __repr__(self) -> str:
        return f"<Database {self.engine.path or self.engine.raw.dialect.name}>"

    def replicas(self, group: str, lease: float) -> ReplicaRows:
        """Return the replicas of a group; one that was not heard of for `lease` seconds is gone."""
        return ReplicaRows(self.engine, group, lease)

    async def prune(self, keep_for: float | None, keep_bytes: int | None, *, now: float) -> int:
        """Remove expired rows except audit rows; return the number of removed rows.

        `keep_for` and `keep_bytes` are the audit's, whose rows name definitions of tools.

        Raises:
            StorageError: the database failed.
        """
        rules = RetentionRules(keep_for, keep_bytes, audited=False)
        return sum(one.rows for one in await prune(self.engine, self.audit, rules, now=now))

    def leases(self, group: str) -> LeaseRows:
        """Return the leases of a group."""
        return LeaseRows(self.engine, group)

    async def close(self) -> None:
        """End every connection."""
        await self.engine.close()


async def open_here(url: str, chain_key: str | None = None) -> Database:
    """Return the database behind `url`, ready for use; `chain_key` is the audit's.

    Raises:
        StorageError: it cannot be used; the message contains the fix.
    """
    url = full_url(url)
    path = sqlite_path(url)
    if path is None:
        engine = await _ready(url, None)
        return _around(engine, chain_key)
    await asyncio.to_thread(make_file, path)
    async with locked(Path(f"{path}.lock"), _PATIENCE):
        engine = await _made_ready(url, path, partial(_make_anew, url, path))
        lost = await asyncio.to_thread(set_aside_before, path)
    return _around(engine, chain_key, lost)


async def _make_anew(url: str, path: Path) -> None:
    """Make the file that was deleted while it was open, or get ready what another process put in its place.

    A new one is there whole or not at all: who opens it meanwhile finds no half of one.
    """
    await asyncio.to_thread(make_folder, path)
    async with locked(Path(f"{path}.lock"), _PATIENCE):
        if await asyncio.to_thread(path.exists):
            engine = await _made_ready(url, path)
            await engine.close()
            return
        new = Path(f"{path}.new")
        await asyncio.to_thread(unmake, new)
        engine = await _made_ready(f"{SQLITE}{new}", new)
        await engine.close()
        await asyncio.to_thread(new.rename, path)
    log.error("The database %s was deleted: it was made anew, and what was in it is lost.", path)


def _around(engine: Engine, chain_key: str | None, lost: tuple[Path, ...] = ()) -> Database:
    audit = AuditRows(engine, ChainKey(chain_key) if chain_key is not None else None)
    calls, console = CallSearch(engine), ConsoleSessions(engine)
    return Database(
        engine,
        ApiKeys(engine),
        Approvals(engine),
        Catalogs(engine),
        audit,
        calls,
        console,
        ChangeLog(engine),
        SharedKeys(engine),
        HostSessions(engine),
        UsedStates(engine),
        LimitUsage(engine),
        Vault(engine),
        KeptResults(engine),
        ToolVectors(engine),
        ToolReports(engine),
        Pins(engine),
        FlowLabels(engine),
        lost,
    )


async def _made_ready(url: str, path: Path, remake: RemakeFile | None = None) -> Engine:
    # The process that held the lock before may have taken the file away.
    await asyncio.to_thread(make_file, path)
    empty = await asyncio.to_thread(is_empty, path)
    try:
        return await _mended(url, path, remake)
    except StorageError:
        if empty:
            # What holds nothing must not look as if keys might be in it.
            await asyncio.to_thread(unmake, path)
        raise


async def _mended(url: str, path: Path, remake: RemakeFile | None) -> Engine:
    try:
        return await _ready(url, path, remake)
    except StorageDamaged as error:
        target = await asyncio.to_thread(set_aside, path)
        log.error("%s It is now %s, and a new one was made: keys and approvals have to be made again.", error, target)
        await asyncio.to_thread(make_file, path)
        return await _ready(url, path, remake)


async def _ready(url: str, path: Path | None, remake: RemakeFile | None = None) -> Engine:
    """Return the engine, once the file is sound and its schema is ours."""
    engine = Engine(url, path, remake)
    try:
        if path is not None:
            await sqlite.check(engine.raw, _CHECKED)
            await sqlite.use_write_ahead_log(engine.raw, path)
        stamp = await _stamp(engine)
        if stamp is None and not await _is_created(engine):
            # Another process may have made them meanwhile.
            stamp = await _stamp(engine)
        elif stamp is None:
            stamp = REVISION
        if stamp is not None:
            refuse_unusable(stamp, path, engine.database)
        if stamp != REVISION:
            await asyncio.to_thread(_upgrade, url, path)
    except BaseException as error:
        await engine.close()
        fault = engine.fault(error) if not isinstance(error, StorageError) else None
        if fault is not None:
            raise fault from error
        raise
    return engine


async def _is_created(engine: Engine) -> bool:
    """Create the tables of a new database; return False if it is not new. Processes of one server take turns."""
    async with engine.write() as connection:
        if engine.path is None:
            await connection.execute(postgres.lock(SCHEMA))
        return await connection.run_sync(create_tables)


def _upgrade(url: str, path: Path | None) -> None:
    """Bring the schema up to date; a thread runs this, since Alembic is slow to import."""
    from aggregator.storage.engine.migrate import upgrade

    upgrade(url, path, REVISION)


async def _stamp(engine: Engine) -> str | None:
    async with engine.raw.connect() as connection:
        if not await connection.run_sync(lambda sync: sync.dialect.has_table(sync, STAMP.name)):
            return None
        stamps = (await connection.execute(select(STAMP.c.version_num))).scalars().all()
    if len(stamps) > 1:
        raise StorageError("The database carries more than one schema version; it was changed by something else.")
    return stamps[0] if stamps else None
