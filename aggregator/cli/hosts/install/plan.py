"""The plan of an install, made before anything is written: the edits of both files, and the messages about them."""

import os
import stat
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from aggregator.cli.hosts.install.host_files import entries, new_text, put_entry, remove_entry
from aggregator.cli.hosts.install.preview import HiddenValues, Preview, hidden_values, preview
from aggregator.cli.hosts.install.records import FileChange, InstallRecord, digest
from aggregator.cli.hosts.install.writing import content_of, missing_folders
from aggregator.cli.servers.edit import ConfigEdit
from aggregator.domain.errors import OperatorError
from aggregator.domain.shell import let_write
from aggregator.editing.edited_file import EditedFile, open_content, open_file
from aggregator.editing.open_document import open_document
from aggregator.editing.replace import backup_path
from aggregator.hosts.model import HostFile, HostProgram


@dataclass(frozen=True, slots=True)
class ServerMove:
    """A server of the host's own: moved into our configuration as `key`, or left in place for a reason.

    `fields` is its entry in our form; None if our configuration has the server already. `secrets` counts the plain-text
    secrets in it.
    """

    name: str
    key: str | None
    fields: Mapping[str, Any] | None = field(default=None, repr=False)
    said: str = ""
    secrets: int = 0


@dataclass(frozen=True, slots=True)
class InstallPlan:
    """The host's file and our configuration with their edits; `config` is None if nothing is moved into it.

    `found` are the entries that the host's file had at the time of the plan.
    """

    host: HostProgram
    file: HostFile
    name: str
    entry: Mapping[str, Any] = field(repr=False)
    edited: EditedFile = field(repr=False)
    found: Mapping[str, Any] = field(repr=False)
    config: ConfigEdit | None = field(default=None, repr=False)
    moves: tuple[ServerMove, ...] = ()
    remarks: tuple[str, ...] = ()
    key_id: str | None = None
    secrets: frozenset[str] = field(default=frozenset(), repr=False)

    @property
    def moved(self) -> tuple[str, ...]:
        """The names of the entries that leave the host's file."""
        return tuple(move.name for move in self.moves if move.key is not None)

    @property
    def changes_nothing(self) -> bool:
        """Tell whether both files already have their planned content."""
        return not self.edited.changed and (self.config is None or not self.config.file.changed)

    def previews(self) -> tuple[Preview, ...]:
        """Return the diffs of the files that change, ours first."""
        files = [*([self.config.file] if self.config is not None else []), self.edited]
        hidden = self._hidden()
        return tuple(preview(file.path, text_of(file), file.document.text, hidden) for file in files if file.changed)

    def record(self) -> InstallRecord:
        """Return the record of this install, with the changes in the order of writing."""
        at = time.time()
        changes = []
        if self.config is not None and self.config.file.changed:
            added = {move.key: move.fields for move in self.moves if move.key is not None and move.fields is not None}
            where = self.config.path_to(next(iter(added), ""))[:-1]
            ours = HostFile(self.config.path, "user", "json", where)
            changes.append(_change(self.config.file, ours, added, is_host=False))
        given: dict[str, Any] = dict.fromkeys(self.moved) | {self.name: self.entry}
        changes.append(_change(self.edited, self.file, given, is_host=True))
        return InstallRecord(self.host.id, self.host.title, self.name, at, tuple(changes), self.key_id)

    def contents(self) -> tuple[bytes, ...]:
        """Return the new contents of the files, in the order of writing."""
        ours = [self.config.file.content] if self.config is not None and self.config.file.changed else []
        return (*ours, self.edited.content)

    def again(self) -> "InstallPlan | None":
        """Return this plan for the host's current file; None if its entries have changed."""
        edited = open_host_file(self.host, self.file)
        if entries(edited.document.root, self.file) != self.found:
            return None
        edit_host_file(edited, self.file, self.name, self.entry, self.moved)
        return replace(self, edited=edited)

    def _hidden(self) -> HiddenValues:
        before = self.edited.was
        # The former content: the preview must show our own new entry, whose key is among `secrets`.
        roots: list[object] = []
        if before is not None:
            roots.append(open_content(self.file.path, self.file.format, before).document.every_value)
        if self.config is not None:
            roots.append(self.config.document.every_value)
        return hidden_values(*roots, own=self.secrets)


def open_host_file(host: HostProgram, file: HostFile) -> EditedFile:
    """Open the file of a host for an edit, as an empty one if it does not exist.

    Raises:
        EditError: it cannot be read, or has an invalid format.
        OperatorError: it is read-only.
    """
    if os.path.exists(file.path):
        check_not_read_only(file.path)
        return open_file(file.path, file.format)
    return EditedFile(file.path, open_document(new_text(host, file), file.format, str(file.path)), None)


def check_not_read_only(path: Path) -> None:
    """Refuse a file that is read-only: a replacement would get past that. Raises OperatorError."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return  # said where it is read
    if not mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH):
        raise OperatorError(f"{path} is read-only, so it is left as it is. Make it writable: `{let_write(path)}`.")


def edit_host_file(
    edited: EditedFile, file: HostFile, name: str, entry: Mapping[str, Any], moved: tuple[str, ...]
) -> None:
    """Set our entry in a host's file, and remove those that are moved."""
    if entries(edited.document.root, file).get(name) != entry:
        put_entry(edited.document, file, name, entry)
    for gone in moved:
        if gone != name:
            remove_entry(edited.document, file, gone)


def text_of(file: EditedFile) -> str | None:
    """Return the text of a file before its edits; None if it does not exist."""
    return None if file.was is None else file.was.decode(file.encoding)


def _change(edited: EditedFile, file: HostFile, given: Mapping[str, Any], *, is_host: bool) -> FileChange:
    path = Path(os.path.abspath(edited.path))
    return FileChange(
        path,
        edited.was,
        digest(edited.content),
        file.format,
        tuple(file.servers),
        file.is_list,
        is_host,
        given,
        missing_folders(path),
        content_of(backup_path(path)),
    )
