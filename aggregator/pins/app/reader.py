"""The pins as they were read last: from the database, or straight from its file."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from aggregator.pins.app.writing import PinDatabase, error_named
from aggregator.storage.errors import StorageError
from aggregator.storage.locate import full_url, sqlite_path
from aggregator.storage.quick_read import pin_rows
from aggregator.storage.records import PinRow

if TYPE_CHECKING:
    from aggregator.pins.storage import Pins
    from aggregator.storage.engine.engine import Version


# Notes for a server, with a problem and its error, that pins cannot be used, and holds its items without a pin.
Withhold = Callable[[str, str, Exception], None]


class PinReader:
    """The reader of pins. `entries` returns the key of the entry of each server.

    rows: the pins by server. with_texts: the servers whose rows have their definitions.
    taken: the kinds with a baseline, by server. marked: the faults that are on record, by server.
    is_read: the rows were read once, or there is no database.
    """

    def __init__(self, database: PinDatabase, entries: Callable[[], dict[str, str]], withhold: Withhold) -> None:
        self._database = database
        self._path = sqlite_path(full_url(database.url)) if database.url is not None else None
        self._entries = entries
        self._withhold = withhold
        self.rows: dict[str, list[PinRow]] = {}
        self.with_texts: set[str] = set()
        self.taken: Mapping[str, frozenset[str]] = {}
        self.marked: dict[str, str] = {}
        self.is_read = False
        self._version: Version | None = None
        self._claimed: dict[str, str] = {}
        # How often servers got other entries.
        self._generation = 0

    async def open(self) -> "Pins | None":
        """Return the pins in the database, claimed for the current entries; None without a database."""
        database = await self._database.open()
        if database is None:
            return None
        entries = self._entries()
        if entries != self._claimed:
            await database.pins.claim()
            self._claimed = entries
        return database.pins

    def forget(self, server: str) -> None:
        """Forget the pins of a server that has another entry; those of the new one are to be read."""
        self.rows.pop(server, None)
        self.with_texts.discard(server)
        self._version = None
        self._generation += 1

    def take_baseline(self, server: str, kind: str, rows: list[PinRow]) -> None:
        """Take the rows of a server, without definitions, as they are after a baseline of this kind was written."""
        self.rows[server] = rows
        self.with_texts.discard(server)
        self.taken = {**self.taken, server: self.taken.get(server, frozenset()) | {kind}}

    async def read_file(self) -> bool:
        """Read all rows straight from the file of the database, without loading it; return whether it could be read."""
        if self._path is None:
            return False
        quick = await asyncio.to_thread(pin_rows, self._path, self._entries())
        if quick is None:
            return False
        self._group(*quick)
        self.is_read = True
        return True

    async def read_rows(self) -> bool:
        """Read all rows if another process has changed any; return whether they were read."""
        pins = await self.open()
        if pins is None:
            self.is_read = True
            return False
        version = await pins.version()
        if version == self._version:
            return False
        entries = None
        while entries != self._generation:
            # Entries that changed meanwhile have other rows.
            entries = self._generation
            rows, taken, faults = await pins.all(texts=False), await pins.baselines(), await pins.faults()
            texts = await self._texts_of(pins)
        self._group(rows, taken, faults)
        self.rows |= texts
        self._version, self.is_read = version, True
        return True

    async def read_texts(self, servers: Iterable[str]) -> None:
        """Read the pinned definitions of these servers, which have changed."""
        for server in servers:
            try:
                # Straight from the file, as at the start: a writer that locks it holds up no list.
                path, entries = self._path, self._entries()
                quick = await asyncio.to_thread(pin_rows, path, entries, server) if path is not None else None
                if quick is not None:
                    self.rows[server] = quick[0]
                elif (pins := await self.open()) is not None:
                    self.rows[server] = await pins.all(server)
            except StorageError:
                raise
            except Exception as error:  # what differs stays held: only this server has such a row
                self._withhold(server, f"its pins cannot be read: {error_named(error)}", error)
                continue
            self.with_texts.add(server)

    async def _texts_of(self, pins: "Pins") -> dict[str, list[PinRow]]:
        """Return the rows of each server whose definitions are read; what cannot be read costs its own server only."""
        found: dict[str, list[PinRow]] = {}
        for server in sorted(self.with_texts):
            try:
                found[server] = await pins.all(server)
            except StorageError:
                raise
            except Exception as error:  # what differs stays held
                self.with_texts.discard(server)
                self._withhold(server, f"its pins cannot be read: {error_named(error)}", error)
        return found

    def _group(self, rows: Iterable[PinRow], taken: Mapping[str, frozenset[str]], marked: Mapping[str, str]) -> None:
        self.rows, self.taken, self.marked = {}, taken, dict(marked)
        for row in rows:
            self.rows.setdefault(row.server, []).append(row)
