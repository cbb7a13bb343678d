"""The files of an install written and restored, in the order that loses no server.

Law: the record is written first, then our configuration, then the host's file; an undo goes the other way round.
"""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from aggregator.cli.hosts.install.records import FileChange, InstallRecord, InstallRecords, digest
from aggregator.domain.errors import OperatorError
from aggregator.domain.patient_files import patiently
from aggregator.editing.errors import EditError
from aggregator.editing.replace import backup_path, read_file, replace_file


def content_of(path: Path) -> bytes | None:
    """Return the content of a file; None if there is none. Raises EditError if it cannot be read."""
    return read_file(path) if os.path.exists(path) else None


def missing_folders(path: Path) -> tuple[Path, ...]:
    """Return the folders to create for a file, the innermost first."""
    return tuple(folder for folder in Path(os.path.realpath(path)).parents if not os.path.isdir(folder))


def write_changes(records: InstallRecords, record: InstallRecord, contents: Iterable[bytes]) -> InstallRecord:
    """Write the new contents of the files of a record, and return the stored record.

    If one cannot be written, the earlier ones are restored and the record is removed.

    Raises:
        OperatorError: a file was changed meanwhile or cannot be written.
    """
    kept = records.add(record)
    written: list[FileChange] = []
    try:
        for change, content in zip(kept.changes, contents, strict=True):
            written.append(change)
            replace_file(change.path, content, change.before)
    except OperatorError as error:
        try:
            restore(written)
        except OperatorError as second:
            raise OperatorError(
                f"{error} The files written before could not be restored: {second} Servers to be moved are now in both "
                f"files: run `aggregator install {record.host} --undo`."
            ) from None
        records.remove(kept)
        for change in written:
            remove_made_folders(change)
        raise
    return kept


def restore(changes: Iterable[FileChange]) -> None:
    """Restore files with the content of an install, the last first; others stay unchanged.

    Raises:
        OperatorError: a file cannot be read or written, or was changed at this moment.
    """
    for change in reversed(tuple(changes)):
        content = content_of(change.path)
        if content is not None and change.state(content) == "after":
            _restore_one(change, content)
        _restore_backup(change)


def remove_made_folders(change: FileChange) -> None:
    """Remove the folders made for a file, if they are empty and the file did not exist before."""
    for folder in change.folders:
        with suppress(OSError):
            folder.rmdir()


def _restore_one(change: FileChange, content: bytes) -> None:
    if change.before is not None:
        replace_file(change.path, change.before, content)
        return
    target = Path(os.path.realpath(change.path))
    try:
        if read_file(target) != content:
            raise EditError(f"{change.path} was changed in the meantime. Run the command again.")
        patiently(target.unlink)
    except OSError as error:
        raise EditError(f"{change.path} cannot be removed: {error.strerror or error}.") from None
    remove_made_folders(change)


def _restore_backup(change: FileChange) -> None:
    """Restore the backup beside a file, if it has the content left by the install or the undo."""
    backup = backup_path(change.path)
    with suppress(EditError, OSError):
        content = content_of(backup)
        if content is None or (digest(content) != change.after and content != change.before):
            return
        if change.backup is None:
            patiently(backup.unlink)
        elif change.backup != content:
            patiently(backup.unlink)
            replace_file(backup, change.backup, None)
