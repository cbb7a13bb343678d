"""The work of the commands on backups: make one, restore one, copy a database into another."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from sqlalchemy import Table

from aggregator import __version__
from aggregator.storage.audit.chain import ChainKey
from aggregator.storage.audit.verify import Verdict
from aggregator.storage.backup.archive import ArchiveReader, ArchiveWriter, BackupHeader, ByteSink, ByteSource
from aggregator.storage.backup.contents import AUDIT
from aggregator.storage.backup.errors import ArchiveBroken, BackupError
from aggregator.storage.backup.rows import Row, RowFormat
from aggregator.storage.backup.source import PAGE, open_snapshot
from aggregator.storage.backup.target import FilledDatabase, open_target, refuse_serving
from aggregator.storage.locate import full_url, sqlite_path

_SQLITE: Final = "sqlite"

# Gets the number of rows of a table processed so far.
OnRows = Callable[[str, int], None]


@dataclass(frozen=True, slots=True)
class BackupReport:
    """A finished backup: its rows by table, its length and the SHA-256 of the file."""

    header: BackupHeader
    tables: dict[str, int]
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class CopyReport:
    """A filled database: its rows by table, the place of the replaced rows, and the proof of the audit log.

    `audit` is None without an audit log to copy.
    """

    tables: dict[str, int]
    schema: str
    replaced: str | None
    audit: Verdict | None
    header: BackupHeader | None = None


@dataclass(slots=True)
class _Filling:
    """Rows on their way into a target, and how many of each table are in it."""

    target: FilledDatabase
    said: OnRows
    counts: dict[str, int] = field(default_factory=dict)

    def table(self, name: str) -> Table:
        """Return the table of this name. Raises ArchiveBroken if the database has none."""
        found = self.target.tables.get(name)
        if found is None:
            raise ArchiveBroken(f"The backup has rows of a table {name}, which its schema has not. Use another one.")
        return found

    async def add(self, table: Table, rows: list[Row]) -> None:
        """Add some rows of a table."""
        if table.name not in self.counts:
            self.counts[table.name] = 0
            await self.target.begin(table)
        if rows:
            await self.target.add(table, rows)
        self.counts[table.name] += len(rows)
        self.said(table.name, self.counts[table.name])


async def back_up(url: str, sink: ByteSink, *, audit: bool, now: float, said: OnRows) -> BackupReport:
    """Write the current database behind `url` into `sink`. Processes may write meanwhile.

    Raises:
        StorageError: it cannot be read.
        BackupError: it contains invalid rows, or `sink` cannot be written.
    """
    made = datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds")
    async with open_snapshot(url, audit=audit) as snapshot:
        header = BackupHeader(__version__, snapshot.schema, made, snapshot.store, audit)
        writer = ArchiveWriter(sink, header, now)
        for table in snapshot.tables:
            writer.begin(table.name)
            line, count = RowFormat(table).line, 0
            async for page in snapshot.rows(table):
                for row in page:
                    writer.add(line(row))
                count += len(page)
                said(table.name, count)
        manifest = writer.end()
    return BackupReport(header, manifest.tables, writer.size, writer.sha256)


async def restore(
    url: str, source: ByteSource, *, replace: bool, key: ChainKey | None, unproven: bool, said: OnRows
) -> CopyReport:
    """Fill the database behind `url`, which must be empty, from an archive. `key` is the key of the audit's chain.

    With `replace`, a database that is not empty is moved aside. With `unproven`, an audit log without a valid proof is
    accepted.

    Raises:
        BackupError, StorageError: the archive or the database cannot be used. Nothing was changed.
    """
    reader = ArchiveReader(source)
    async with open_target(url, reader.header.schema, replace=replace) as target:
        filling = _Filling(target, said)
        table, form = None, None
        for name, lines in reader.parts():
            if name in AUDIT and not reader.header.audit:
                raise ArchiveBroken("The backup says that it has no audit log, and has one. Use another one.")
            if table is None or form is None or table.name != name:
                table = filling.table(name)
                form = RowFormat(table)
            rows = form.rows(lines, nul=target.store == _SQLITE)
            page: list[Row] = []
            for row in rows:
                page.append(row)
                if len(page) == PAGE:
                    await filling.add(table, page)
                    page = []
            await filling.add(table, page)
        assert reader.manifest is not None
        verdict = await _finish(filling, key, has_audit=reader.header.audit, unproven=unproven)
    return CopyReport(filling.counts, reader.header.schema, target.replaced, verdict, reader.header)


async def migrate_store(url: str, to: str, *, key: ChainKey | None, unproven: bool, said: OnRows) -> CopyReport:
    """Copy everything from the database behind `url` into the one behind `to`, which must be empty.

    Raises:
        BackupError, StorageError: one of the databases cannot be used, or is in use. Nothing was changed.
    """
    if full_url(url) == full_url(to) or (sqlite_path(full_url(url)) or url) == sqlite_path(full_url(to)):
        raise BackupError("--to names the database that the configuration has already. Name another one.")
    await refuse_serving(url)
    async with open_snapshot(url) as snapshot, open_target(to, snapshot.schema, replace=False) as target:
        filling = _Filling(target, said)
        for given in snapshot.tables:
            table, form = filling.table(given.name), RowFormat(given)
            await filling.add(table, [])
            async for page in snapshot.rows(given):
                lines = [form.line(row) for row in page]
                await filling.add(table, list(form.rows(lines, nul=target.store == _SQLITE)))
        verdict = await _finish(filling, key, has_audit=True, unproven=unproven)
    return CopyReport(filling.counts, snapshot.schema, target.replaced, verdict)


async def _finish(filling: _Filling, key: ChainKey | None, *, has_audit: bool, unproven: bool) -> Verdict | None:
    """Migrate the tables and verify their content; a failure ends the transaction.

    Raises:
        BackupError: rows are missing, or the audit log is not whole.
        StorageError: the audit log has a key that is not `key`.
    """
    target = filling.target
    counts = await target.counts()
    wrong = [name for name, count in filling.counts.items() if counts.get(name) != count]
    if wrong:
        raise BackupError(f"The database did not keep every row of the table {wrong[0]}. Nothing was changed.")
    await target.finish()
    if not has_audit or unproven:
        return None
    verdict = await target.proof(key)
    if verdict.fault_count:
        first = verdict.faults[0]
        raise BackupError(
            f"The audit log in it is NOT whole: row {first.seq}: {first.what} ({verdict.fault_count} faults.) "
            "--unproven restores it unverified. Nothing was changed."
        )
    return verdict
