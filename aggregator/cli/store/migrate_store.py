"""`aggregator migrate-store`: copies the database into another one and prints the line to change."""

import json
import os
from typing import TYPE_CHECKING, Any

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from aggregator.audit.spill import waiting_beside
from aggregator.cli.runtime.event_loop import run_loop
from aggregator.cli.runtime.record_change import noted, operator
from aggregator.cli.runtime.tables import print_rows
from aggregator.cli.runtime.writer import say
from aggregator.cli.store.printing import ShownProgress, audit_report, left_out_text, progress, rows_text
from aggregator.storage.audit.chain import ChainKey
from aggregator.storage.backup.contents import LEFT_OUT
from aggregator.storage.backup.copying import CopyReport
from aggregator.storage.backup.copying import migrate_store as copy_into
from aggregator.storage.backup.errors import BackupError
from aggregator.storage.database import open_database
from aggregator.storage.locate import SQLITE, default_url, full_url, sqlite_path

if TYPE_CHECKING:
    from aggregator.cli.runtime.setup import DatabaseSettings


def run(settings: "DatabaseSettings", to: str, unproven: bool, as_json: bool) -> int:
    """Copy the database into the one at `to` and print the setting that names it.

    Raises:
        OperatorError: one of the two cannot be used; nothing was changed.
    """
    url = settings.url or default_url(os.environ)
    line = _setting(to)
    path = sqlite_path(full_url(url))
    if path is not None and (beside := waiting_beside(path)):
        raise BackupError(
            f"{beside[0]} holds audit rows that are not in the database yet: start `aggregator serve` once and stop "
            "it, then try again."
        )
    with progress() as said:
        report = run_loop(_copied(settings, url, to, unproven, said))
    if as_json:
        told: dict[str, Any] = {
            "tables": report.tables,
            "left_out": dict(LEFT_OUT),
            "audit": audit_report(report.audit),
            "storage": line,
        }
        say(json.dumps(told, indent=2))
        return 0
    print_rows(rows_text(report.tables))
    if report.audit is not None:
        say(f"The audit log is whole: {report.audit.rows} rows, none missing, none changed.")
    say(left_out_text())
    say("All else is in the other database. Change this line of the configuration, then start what you stopped:")
    say(f'  "storage": {json.dumps(line)}')
    say("The database so far is as it was; nothing uses it any more after that.")
    return 0


async def _copied(settings: "DatabaseSettings", url: str, to: str, unproven: bool, said: ShownProgress) -> CopyReport:
    key = ChainKey(settings.chain_key) if settings.chain_key is not None else None
    report = await copy_into(url, to, key=key, unproven=unproven, said=said)
    if settings.audited:
        async with open_database(to, settings.chain_key) as database:
            summary = f"Everything was copied here from another database by {operator()}."
            await noted(database, "database_restored", summary, None)
    return report


def _setting(to: str) -> str:
    """Return the URL for the configuration: a file by its absolute path, a server without the password.

    Raises:
        OperatorError: it is no URL of a database.
    """
    path = sqlite_path(full_url(to))
    if path is not None:
        return f"{SQLITE}{path}"
    try:
        url = make_url(to)
    except (ArgumentError, ValueError):
        # It may hold a password: it is not repeated.
        raise BackupError("--to is no URL of a database: sqlite:///PATH and postgresql://HOST/DATABASE are.") from None
    # SQLAlchemy writes three asterisks for it.
    hidden = url.render_as_string(hide_password=True)
    return to if url.password is None else hidden.replace(":***@", ":${DATABASE_PASSWORD}@", 1)
