"""`aggregator restore`: fills an empty database from a backup, and prints its new content."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from aggregator.cli.runtime.event_loop import run_loop
from aggregator.cli.runtime.record_change import noted, operator
from aggregator.cli.runtime.tables import one_line, print_rows
from aggregator.cli.runtime.writer import say
from aggregator.cli.store.backup import STREAM
from aggregator.cli.store.printing import ShownProgress, audit_report, progress, rows_text
from aggregator.storage.audit.chain import ChainKey
from aggregator.storage.backup.archive import ByteSource
from aggregator.storage.backup.copying import CopyReport
from aggregator.storage.backup.copying import restore as restore_into
from aggregator.storage.backup.errors import BackupError
from aggregator.storage.database import open_database
from aggregator.storage.locate import default_url

if TYPE_CHECKING:
    from aggregator.cli.runtime.setup import DatabaseSettings


def run(settings: "DatabaseSettings", file: Path, replace: bool, unproven: bool, as_json: bool) -> int:
    """Restore a backup and print the new content of the database.

    Raises:
        OperatorError: the backup or the database cannot be used; nothing was changed.
    """
    with progress() as said, _source(file) as source:
        report = run_loop(_restored(settings, source, file, replace, unproven, said))
    _print(report, file, unproven, as_json)
    return 0


@contextmanager
def _source(file: Path) -> Iterator[IO[bytes]]:
    if file == STREAM:
        yield sys.stdin.buffer
        return
    try:
        if not file.is_file():
            raise BackupError(f"There is no file {file}: name that of a backup, or - for stdin.")
        with file.open("rb") as opened:
            yield opened
    except PermissionError as error:
        raise BackupError(f"{file} cannot be read: {error.strerror}.") from error


async def _restored(
    settings: "DatabaseSettings", source: ByteSource, file: Path, replace: bool, unproven: bool, said: ShownProgress
) -> CopyReport:
    url = settings.url or default_url(os.environ)
    key = ChainKey(settings.chain_key) if settings.chain_key is not None else None
    report = await restore_into(url, source, replace=replace, key=key, unproven=unproven, said=said)
    if settings.audited and report.header is not None:
        async with open_database(url, settings.chain_key) as database:
            summary = f"The database was restored from a backup of {report.header.made} by {operator()}."
            await noted(database, "database_restored", summary, None, made=report.header.made, replaced=report.replaced)
    return report


def _print(report: CopyReport, file: Path, unproven: bool, as_json: bool) -> None:
    header = report.header
    assert header is not None
    if as_json:
        told: dict[str, Any] = {
            "file": str(file),
            "made": header.made,
            "schema": header.schema,
            "tables": report.tables,
            "audit": audit_report(report.audit),
            "replaced": report.replaced,
        }
        say(json.dumps(told, indent=2))
        return
    print_rows(rows_text(report.tables))
    if report.audit is not None:
        say(f"The audit log is whole: {report.audit.rows} rows, none missing, none changed.")
    elif header.audit and unproven:
        say("The audit log was taken as it is: `aggregator audit verify` says what is wrong with it.")
    else:
        say("The backup has no audit log: a new one begins.")
    if report.replaced is not None:
        say(f"What was there before is now {report.replaced}: remove it when you are sure.")
    say(f"Restored from a backup of {one_line(header.made)}.")
