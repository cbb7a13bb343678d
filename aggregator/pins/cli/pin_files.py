"""The pins of a configuration for the commands: rows of the database, and the lock file beside the configuration."""

import os
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from aggregator.cli.runtime.setup import load_config, storage_url
from aggregator.cli.runtime.tables import one_line
from aggregator.config.load import Loaded
from aggregator.config.server_config import ServerConfig
from aggregator.domain.errors import OperatorError
from aggregator.editing.replace import read_file, replace_file
from aggregator.pins.app.locked import lock_beside
from aggregator.pins.decide.comparison import item_change
from aggregator.pins.decide.lock_file import LockFileError, read_lock, write_lock
from aggregator.pins.decide.spelling import said_of_respelled
from aggregator.pins.decide.upgrade import OpenCounts, between
from aggregator.pins.decide.values import FLAGS, Flag, ItemChange, ItemKey, PinKind, PinnedItem
from aggregator.storage.database import open_database
from aggregator.storage.locate import full_url, sqlite_path
from aggregator.storage.opening import Database
from aggregator.storage.records import SERVED, TAKES_LESS, PinRow

Locked = dict[str, dict[ItemKey, PinnedItem]]


@dataclass(frozen=True)
class PinFiles:
    """A configuration with its lock file: `was` is the file's content, None if it does not exist; `locked` are its
    pins.
    """

    loaded: Loaded
    lock: Path
    was: bytes | None
    locked: Locked

    @property
    def storage(self) -> str:
        """The URL of the database."""
        return storage_url(self.loaded)

    def server(self, name: str) -> ServerConfig:
        """Return an entry by its id or its key.

        Raises:
            OperatorError: there is none such.
        """
        for server in self.loaded.config.servers:
            if name in (server.id, server.key):
                return server
        known = ", ".join(server.id for server in self.loaded.config.servers) or "none"
        raise OperatorError(f"{self.loaded.path} has no server {name!r:.80}; there are: {known}.")

    async def rows(self, server: str | None = None) -> list[PinRow]:
        """Return the rows of one server, or of all; none without a database.

        Raises:
            OperatorError: the database cannot be read.
        """
        path = sqlite_path(full_url(self.storage))
        if path is not None and not path.exists():
            return []
        async with self.database() as database:
            return await database.pins.all(server)

    async def faults(self) -> dict[str, str]:
        """Return by server why a running aggregator cannot write its pins; none if there is no database yet.

        Raises:
            OperatorError: the database cannot be read.
        """
        path = sqlite_path(full_url(self.storage))
        if path is not None and not path.exists():
            return {}
        async with self.database() as database:
            return await database.pins.faults()

    async def versions(self) -> dict[str, tuple[str, str]]:
        """Return by server its version when all was approved, and its last known one; none without a database.

        Raises:
            OperatorError: the database cannot be read.
        """
        path = sqlite_path(full_url(self.storage))
        if path is not None and not path.exists():
            return {}
        async with self.database() as database:
            return await database.pins.versions()

    @asynccontextmanager
    async def database(self) -> AsyncIterator[Database]:
        """Open the database, with the pins of the entries of this configuration."""
        audit, entries = self.loaded.config.audit, {one.id: one.entry for one in self.loaded.config.servers}
        async with open_database(self.storage, audit.chain_key) as database:
            database.pins.entries = lambda: entries
            yield database

    def change(self, row: PinRow, rows: Mapping[ItemKey, PinRow]) -> ItemChange | None:
        """Return the difference of an item from its approved definition, or None.

        rows: all rows of its server, which include the item before a renaming.
        """
        if row.seen_digest is None:
            return None
        kind = cast("PinKind", row.kind)
        before = self._pin(row)
        if before is not None and before.digest == row.seen_digest:
            return None
        after = PinnedItem(kind, row.name, row.seen_digest, row.seen_version or "", row.seen_definition or "null")
        source = None
        if row.renamed_from is not None:
            old = rows.get((kind, row.renamed_from))
            locked = self.locked.get(row.server, {}).get((kind, row.renamed_from))
            source = locked or (self._pin(old) if old is not None else None)
        flags: frozenset[Flag] = frozenset(flag for flag in FLAGS if flag in row.flags)
        return item_change(before, after, flags, source)

    def _pin(self, row: PinRow) -> PinnedItem | None:
        key: ItemKey = (cast("PinKind", row.kind), row.name)
        if row.server in self.locked:
            return self.locked[row.server].get(key)
        if row.digest is None:
            return None
        return PinnedItem(key[0], row.name, row.digest, row.version or "", row.definition or "null")

    def write(self, locked: Mapping[str, Iterable[PinnedItem]]) -> None:
        """Write the lock file.

        Raises:
            OperatorError: it was changed meanwhile, or cannot be written.
        """
        content = write_lock(locked)
        if content == self.was:
            return
        backup = replace_file(self.lock, content, self.was)
        if backup is not None:
            # Version control has the former content.
            backup.unlink(missing_ok=True)


def pin_files(path: Path | None, *, lock_counts: bool = True) -> PinFiles:
    """Read the configuration and its lock file. Without `lock_counts`, one that cannot be used has no pins.

    Raises:
        OperatorError: there is no configuration, or one of the two cannot be used.
    """
    loaded = load_config(path, log_level="error", report=False)
    lock = lock_beside(loaded.path)
    assert lock is not None, "a command reads a file"
    if not lock.exists():
        return PinFiles(loaded, lock, None, {})
    was = read_file(lock)
    try:
        return PinFiles(loaded, lock, was, read_lock(was, shown(lock)))
    except LockFileError:
        if lock_counts:
            raise
        return PinFiles(loaded, lock, was, {})


def shown(path: Path) -> str:
    """Return a path as it would be typed in the working folder."""
    here = Path(os.path.abspath(path))
    return str(here.relative_to(Path.cwd()) if here.is_relative_to(Path.cwd()) else here)


def by_key(rows: Iterable[PinRow]) -> dict[str, dict[ItemKey, PinRow]]:
    """Return rows by server, and by kind and name."""
    found: dict[str, dict[ItemKey, PinRow]] = {}
    for row in rows:
        found.setdefault(row.server, {})[cast("PinKind", row.kind), row.name] = row
    return found


def waits(row: PinRow) -> bool:
    """Return whether an item is served as it was approved, while its current definition waits for an approval."""
    return row.held and SERVED in row.classes


def served_under(row: PinRow) -> str | None:
    """Return the approved name under which a tool is served that its server spells otherwise now; None for others."""
    return row.renamed_from if waits(row) else None


def state_of(row: PinRow) -> str:
    """Return in words what hosts are shown of an item that changed."""
    if waits(row):
        return waiting_state(served_under(row), row.name, takes_less=TAKES_LESS in row.classes)
    if row.held:
        return "held"
    return "served as approved" if SERVED in row.classes else "shown"


def waiting_state(before: str | None, name: str, *, takes_less: bool) -> str:
    """Return in words the state of an item that is served as it was approved, while its current definition waits.

    before: the name under which it is served, if the server spells it otherwise now.
    """
    served = f"waits; {said_of_respelled(before, name)}" if before is not None else "waits, served as approved"
    return served + (", calls that the server no longer takes are refused" if takes_less else "")


def upgrades(rows: Iterable[PinRow], versions: Mapping[str, tuple[str, str]]) -> dict[str, str]:
    """Return, for each server with rows of open items that wait, one sentence about all of them."""
    found: dict[str, list[tuple[str, ...]]] = {}
    for row in rows:
        if row.held:
            found.setdefault(row.server, []).append(row.classes)
    return {
        server: f"{server} {between(*versions.get(server, ('', '')))}".rstrip() + f": {OpenCounts.of(classes).words()}."
        for server, classes in found.items()
    }


def label(server: str, kind: str, name: str) -> str:
    """Return the printed name of an item: `github.create_issue`, `github.review (prompt)`."""
    if kind == "instructions":
        return f"{server} (instructions)"
    between = ": " if kind in ("template", "skill") else "."
    plain = f"{server}{between}{one_line(name)}"
    return plain if kind == "tool" else f"{plain} ({kind})"
