"""`aggregator install HOST --undo`: restores the files before an install, or removes our entry alone."""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from aggregator.cli.hosts.install.host_files import entries, put_entry, remove_entry
from aggregator.cli.hosts.install.preview import Preview, hidden_values, preview
from aggregator.cli.hosts.install.records import FileChange, InstallRecord, InstallRecords
from aggregator.cli.hosts.install.writing import content_of, remove_made_folders, restore
from aggregator.config.errors import ConfigError
from aggregator.config.files.find import trust_list
from aggregator.domain.errors import OperatorError
from aggregator.domain.patient_files import same_path
from aggregator.editing.edited_file import EditedFile, open_content
from aggregator.editing.open_document import open_document
from aggregator.hosts.model import HostFile


@dataclass(frozen=True, slots=True)
class EntryRemoval:
    """One file without our entries and with the former ones restored; `remarks` describe the rest."""

    change: FileChange
    edited: EditedFile = field(repr=False)
    remarks: tuple[str, ...] = ()


def newest(records: InstallRecords, host: str, title: str, path: Path | None, name: str | None) -> InstallRecord:
    """Return the last install into a host that can be undone; records of nothing are removed on the way.

    Raises:
        OperatorError: there is none.
    """
    wanted = None if path is None else Path(os.path.abspath(os.path.expanduser(path)))
    for record in reversed(records.all()):
        if record.host != host or (name is not None and record.entry != name):
            continue
        if wanted is not None and record.host_file != wanted and not same_path(record.host_file, wanted):
            continue
        if all(change.state(content_of(change.path)) == "before" for change in record.changes):
            # It was cut off before the first file, or restored by other means: its backups are all that may be left.
            restore(record.changes)
            records.remove(record)
            continue
        return record
    raise OperatorError(
        f"No install into {title} is on record here, so there is nothing to undo. `aggregator install` lists the "
        "hosts whose files point here; take an entry that was written by hand out by hand."
    )


def check_unchanged(record: InstallRecord, records: InstallRecords) -> None:
    """Refuse the undo of an install whose files were changed since.

    Raises:
        OperatorError: a file has neither the written nor the former content.
    """
    for change in record.changes:
        if change.state(content_of(change.path)) != "changed":
            continue
        for other in records.all():
            if other.name > record.name and any(theirs.path == change.path for theirs in other.changes):
                raise OperatorError(
                    f"{change.path} was changed by a later install into {other.title}. Undo that one first: "
                    f"aggregator install {other.host} --undo"
                )
        raise OperatorError(
            f"{change.path} was changed since the install, so it is not restored. Remove our entry "
            f"alone, and leave the rest: aggregator install {record.host} --undo --only-entry"
        )


def restored_previews(record: InstallRecord) -> tuple[Preview, ...]:
    """Return the diffs of the files that an undo restores, in the order of writing."""
    shown = []
    for change in reversed(record.changes):
        content = content_of(change.path)
        if content is None or change.state(content) != "after":
            continue
        now, before = _document(change, content), _document(change, change.before)
        hidden = hidden_values(now.document.every_value, before.document.every_value)
        text = None if change.before is None else before.document.text
        shown.append(preview(change.path, now.document.text, text, hidden))
    return tuple(shown)


def restore_all(record: InstallRecord, records: InstallRecords) -> None:
    """Restore every file of an install and remove its record. Raises OperatorError."""
    trusted = [change for change in record.changes if _is_trusted(change.path, content_of(change.path))]
    restore(record.changes)
    for change in trusted:
        if change.before is not None:
            trust_list(os.environ).add(change.path, change.before)
    records.remove(record)
    for change in record.changes:
        remove_made_folders(change)


def removals(record: InstallRecord) -> tuple[EntryRemoval, ...]:
    """Return the edits that remove our entries and restore the former ones, the host's file first."""
    return tuple(_removal(change) for change in reversed(record.changes))


def write_removals(edits: Iterable[EntryRemoval], record: InstallRecord, records: InstallRecords) -> list[Path]:
    """Write the edits, remove the record, and return the backups. Raises OperatorError."""
    backups = []
    for edit in edits:
        trusted = _is_trusted(edit.edited.path, edit.edited.was)
        backup = edit.edited.write()
        if trusted:
            trust_list(os.environ).add(edit.edited.path, edit.edited.content)
        backups += [backup] if backup is not None else []
    records.remove(record)
    return backups


def removal_previews(edits: Iterable[EntryRemoval]) -> tuple[Preview, ...]:
    """Return the diffs of the edits that change anything."""
    return tuple(
        preview(
            edit.edited.path,
            None if edit.edited.was is None else edit.edited.was.decode(edit.edited.encoding),
            edit.edited.document.text,
            hidden_values(
                edit.edited.document.every_value, _document(edit.change, edit.edited.was).document.every_value
            ),
        )
        for edit in edits
        if edit.edited.changed
    )


def _removal(change: FileChange) -> EntryRemoval:
    file = HostFile(change.path, "user", change.format, change.servers, change.is_list)
    edited = _document(change, content_of(change.path))
    before = entries(_document(change, change.before).document.root, file)
    remarks: list[str] = []
    for name, given in change.entries.items():
        now = entries(edited.document.root, file).get(name)
        if given is not None and now is not None and now != given:
            stays = not change.is_host
            remarks.append(
                f"{name} in {change.path} was edited since, {'so it stays there' if stays else 'and is taken out'}."
            )
            if stays:
                continue
        if name in before:
            if given is not None or now is None:
                put_entry(edited.document, file, name, before[name])
        elif now is not None:
            remove_entry(edited.document, file, name)
    return EntryRemoval(change, edited, tuple(remarks))


def _document(change: FileChange, content: bytes | None) -> EditedFile:
    if content is None:
        return EditedFile(change.path, open_document("", change.format, str(change.path)), None)
    return open_content(change.path, change.format, content)


def _is_trusted(path: Path, content: bytes | None) -> bool:
    """Return whether a file is in the list of trusted ones with this content."""
    if content is None:
        return False
    try:
        trust_list(os.environ).check(path, content)
    except ConfigError:
        return False
    return True
