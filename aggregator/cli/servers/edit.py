"""The configuration file that a command edits: its servers by name, edits of them, and the file written back."""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aggregator.config.errors import ConfigError, ConfigMissing
from aggregator.config.files.find import find_config, own_file, trust_list
from aggregator.config.files.report import did_you_mean
from aggregator.config.load import ROOTS
from aggregator.config.servers.foreign import is_comment
from aggregator.config.servers.names import usable
from aggregator.domain.errors import OperatorError
from aggregator.editing.document import EditableDocument
from aggregator.editing.edited_file import EditedFile, open_file
from aggregator.editing.errors import EditError

# A command that was slow, such as by a download, lets those that were faster go first so often.
_ATTEMPTS: Final = 8

_LISTED: Final = 10


@dataclass(frozen=True, slots=True)
class ConfigEdit:
    """A configuration that is being edited; nothing is written before `write`."""

    file: EditedFile
    trusted: bool = False

    @property
    def path(self) -> Path:
        """The file, which may not be there yet."""
        return self.file.path

    @property
    def is_new(self) -> bool:
        """Tell whether the file will be created."""
        return self.file.was is None

    @property
    def document(self) -> EditableDocument:
        """The document, for edits outside of the servers."""
        return self.file.document

    @property
    def servers(self) -> Mapping[str, object]:
        """The entries by their keys, in their written form, with all edits so far."""
        return {
            key: entry
            for where in ROOTS
            for key, entry in self._entries(where).items()
            if not is_comment(key) or isinstance(entry, dict)
        }

    def key_of(self, name: str) -> str:
        """Return the key of a server that is named by its key or its id. Raises OperatorError for an unknown one."""
        servers = self.servers
        if name in servers:
            return name
        by_id = {usable(key) or key: key for key in servers}
        if name in by_id:
            return by_id[name]
        listed = ", ".join(json.dumps(key, ensure_ascii=True) for key in list(servers)[:_LISTED])
        hint = did_you_mean(name, servers) or (f"It has {listed}." if servers else "It has none.")
        raise OperatorError(f"{self.path} has no server {name!r:.80}. {hint}")

    def path_to(self, key: str) -> tuple[str, str]:
        """Return the path of an entry, existing or new."""
        root = self.document.root
        for where in reversed(ROOTS):
            if key in self._entries(where):
                return where, key
        return next((where for where in ROOTS if where in root), ROOTS[0]), key

    def add_entry(self, key: str, entry: Mapping[str, object], *, replace: bool = False) -> None:
        """Add an entry after the others; with `replace`, one of the same key may be there.

        Raises:
            OperatorError: there is a server of this key, or the file cannot be edited safely.
        """
        if not replace and key in self.servers:
            raise OperatorError(f"{self.path} has a server {key!r:.80} already. Choose another name, or remove it.")
        self.document.put(self.path_to(key), dict(entry))

    def write(self) -> Path | None:
        """Write the file, and return the backup of its former content; a trusted file stays trusted.

        Raises:
            OperatorError: the file was changed meanwhile, or it cannot be written.
        """
        backup = self.file.write()
        if self.trusted:
            trust_list(os.environ).add(self.path, self.file.content)
        return backup

    def write_entry(self, key: str, *, replace: bool = False) -> Path | None:
        """Write the file with the one entry that was added; where others changed it meanwhile, with their edits.

        Raises:
            OperatorError: there is a server of this key by now, or the file cannot be written.
        """
        entry, edit = self.servers[key], self
        if not isinstance(entry, Mapping):
            return self.write()
        for _ in range(_ATTEMPTS):
            try:
                return edit.write()
            except EditError:
                now = _opened(self.path)
                if now.file.was == edit.file.was:
                    raise
                edit = now
                edit.add_entry(key, entry, replace=replace)
        return edit.write()

    def _entries(self, where: str) -> Mapping[str, object]:
        entries = self.document.root.get(where)
        return entries if isinstance(entries, dict) else {}


def open_config(path: Path | None, *, make: bool = True) -> ConfigEdit:
    """Open the configuration that a command edits: the named file, else the one that is found.

    If there is none, and `make` is set, the named one, else the user's own, is created at the write.

    Raises:
        OperatorError: the file does not exist, cannot be read, is not trusted, or is not JSON.
    """
    if path is not None and make:
        named = Path.cwd() / os.path.expanduser(path)
        if not os.path.lexists(named):
            return ConfigEdit(open_file(named, "json", missing=True))
    try:
        found = find_config(path, Path.cwd(), os.environ).path
    except ConfigMissing:
        if not make:
            raise
        return ConfigEdit(open_file(own_file(os.environ), "json", missing=True))
    return _opened(found)


def begin_config(path: Path | None) -> Path | None:
    """Create a configuration without servers if there is none, and return its path.

    Raises:
        OperatorError: as `open_config`, or the file cannot be written.
    """
    edit = open_config(path)
    if not edit.is_new:
        return None
    edit.document.put(("mcpServers",), {})
    edit.write()
    return edit.path


def _opened(path: Path) -> ConfigEdit:
    file = open_file(path, "json", missing=True)
    trusted = False
    if file.was is not None:
        with suppress(ConfigError):
            trust_list(os.environ).check(path, file.was)
            trusted = True
    return ConfigEdit(file, trusted)
