"""`aggregator backup`: writes the database into one file, which is there whole or not at all."""

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from typing import IO, Any, Final

from aggregator.audit.spill import waiting_beside
from aggregator.cli.runtime.event_loop import run_loop
from aggregator.cli.runtime.tables import print_rows
from aggregator.cli.runtime.writer import say
from aggregator.cli.store.printing import left_out_text, progress, rows_text, size_text
from aggregator.domain.patient_files import move_over
from aggregator.storage.backup.contents import LEFT_OUT
from aggregator.storage.backup.copying import BackupReport, back_up
from aggregator.storage.backup.errors import BackupError
from aggregator.storage.locate import default_url, full_url, sqlite_path

STREAM: Final = Path("-")
_SECRETS: Final = (
    "It holds the hashes of API keys, what the audit kept of calls, and the key that seals sessions: keep it as secret "
    "as the database. The configuration and the policies are files of yours, and not in it."
)


def run(storage: str | None, file: Path | None, audit: bool, force: bool, as_json: bool) -> int:
    """Write a backup and print its content. With stdout as the file, messages go to stderr.

    Raises:
        OperatorError: the database cannot be read, or the file cannot be written.
    """
    url, now = storage or default_url(os.environ), time.time()
    to_stdout = file == STREAM
    if to_stdout and sys.stdout.isatty():
        raise BackupError("A backup is no text for a terminal: pipe it on, or name a file.")
    target = None if to_stdout else _target(file, now, force)
    try:
        with progress() as said, _sink(target) as sink:
            report = run_loop(back_up(url, sink, audit=audit, now=now, said=said))
    except OSError as error:
        raise BackupError(f"{target or 'stdout'} cannot be written: {error.strerror or error}.") from error
    _print(report, target, _beside(url) if audit else [], as_json, sys.stderr if to_stdout else sys.stdout)
    return 0


def _target(file: Path | None, now: float, force: bool) -> Path:
    """Return the file to write."""
    name = datetime.fromtimestamp(now, UTC).strftime("aggregator-backup-%Y%m%dT%H%M%SZ.tar.gz")
    target = file or Path.cwd()
    if target.is_dir():
        target /= name
    if target.exists() and not target.is_file():
        raise BackupError(f"{target} is no file. Name a file, a folder, or - for stdout.")
    if target.exists() and not force:
        raise BackupError(f"{target} is there already. --force replaces it.")
    return target


@contextmanager
def _sink(target: Path | None) -> Iterator[IO[bytes]]:
    """Give the sink of the backup: stdout, or a new file that replaces the target at the end."""
    if target is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    part = target.with_name(f".{target.name}.{token_hex(4)}.part")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        move_over(part, target)
    finally:
        part.unlink(missing_ok=True)


def _beside(url: str) -> list[Path]:
    """Return the files whose rows are not in the database yet, and so not in the backup."""
    path = sqlite_path(full_url(url))
    return waiting_beside(path if path is not None else _base_of_server())


def _base_of_server() -> Path:
    """Return the path beside which rows are kept that a database server did not take."""
    path = sqlite_path(full_url(default_url(os.environ)))
    assert path is not None
    return path


def _print(report: BackupReport, target: Path | None, beside: list[Path], as_json: bool, out: IO[str]) -> None:
    header = report.header
    if as_json:
        told: dict[str, Any] = {
            "file": str(target) if target is not None else "-",
            "bytes": report.bytes,
            "sha256": report.sha256,
            "schema": header.schema,
            "store": header.store,
            "made": header.made,
            "audit": header.audit,
            "tables": report.tables,
            "left_out": dict(LEFT_OUT),
            "not_yet_in_the_log": [str(file) for file in beside],
        }
        say(json.dumps(told, indent=2), file=out)
        return
    print_rows(rows_text(report.tables), out)
    say(left_out_text(), file=out)
    if not header.audit:
        say("Left out by --no-audit: the audit log.", file=out)
    say(f"{target or 'stdout'}: {size_text(report.bytes)}, SHA-256 {report.sha256}", file=out)
    for file in beside:
        say(f"{file} holds audit rows that are not in the database yet, and so not in the backup.", file=out)
    say(_SECRETS, file=out)
