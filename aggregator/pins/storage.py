"""The pinned definitions of servers, and their current ones if they differ.

Rule 1: approved definitions change only by `take_baseline`, `approve` and `reset`. Each is one transaction, which other
processes notice. Rule 2: rows belong to an entry of a configuration, not to the name of a server. The first
configuration that claims rows from before entries had keys takes them over.
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from math import inf
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, RowMapping, delete, exists, insert, select, update

from aggregator.domain.bounds.remembered import MOST_ITEMS
from aggregator.pins.rows import (
    COMPARED,
    NOTHING_SEEN,
    changed_columns,
    digests,
    fits,
    item_key,
    pin_row,
    pinned_row,
    stays,
    without_repetitions,
)
from aggregator.storage.engine import postgres
from aggregator.storage.engine.engine import Engine, Version
from aggregator.storage.records import (
    BASELINE,
    PART,
    PIN_FAULT,
    PIN_VERSION,
    PINS_SUBJECT,
    SERVED,
    ItemText,
    PinRow,
    SeenItem,
)
from aggregator.storage.tables import pinned_items

# In one statement.
_ROWS: Final = 200

# Kinds of rows that are no items.
_MARKERS: Final = (BASELINE, PIN_FAULT, PIN_VERSION)
_GONE: Final = "removed"
_TEXTS: Final = ("definition", "seen_definition")

# The table under another name, for a condition about its other rows. Making one copies all columns.
_OTHERS: Final = pinned_items.alias()


class Pins:
    """The rows of all servers. `now` is the time in seconds since 1970.

    entries: the key of the entry of each server, by its id; only rows of these are seen. None: all rows are.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.entries: Callable[[], Mapping[str, str]] | None = None

    def _entry(self, server: str) -> str:
        return self.entries().get(server, "") if self.entries is not None else ""

    def fixed(self) -> "Pins":
        """Return the rows for the current entries, for a write in several steps."""
        fixed = Pins(self._engine)
        if self.entries is not None:
            entries = dict(self.entries())
            fixed.entries = lambda: entries
        return fixed

    def _of(self, server: str, entry: str | None = None) -> ColumnElement[bool]:
        """Return the condition for the rows of a server, by default under the entry that it has now."""
        mine: ColumnElement[bool] = pinned_items.c.server == server
        if self.entries is None:
            return mine
        entry = self._entry(server) if entry is None else entry
        claimed = exists().where(_OTHERS.c.server == server, _OTHERS.c.entry == entry)
        return mine & ((pinned_items.c.entry == entry) | ((pinned_items.c.entry == "") & ~claimed))

    def _ours(self, rows: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
        """Return the servers and entries of this configuration, or that it may claim."""
        found = set(rows)
        if self.entries is None:
            return found
        entries = self.entries()
        own = {(server, entry) for server, entry in found if entries.get(server) == entry}
        claimed = {server for server, _ in own}
        return own | {(server, "") for server, entry in found if not entry and server in entries.keys() - claimed}

    async def claim(self) -> None:
        """Assign rows that belong to a name alone to the entry with that name now, if this entry has none.

        Raises:
            StorageError: the database failed; nothing was written.
        """
        found = pinned_items.c
        async with self._engine.read() as connection:
            named = select(found.server).where(found.entry == "").distinct()
            found_servers = (await connection.scalars(named)).all()
        servers = {server: entry for server in found_servers if (entry := self._entry(server))}
        if not servers:
            return

        def work(connection: Connection) -> None:
            for server, entry in servers.items():
                self._lock(connection, server)
                own = select(found.item).where(found.server == server, found.entry == entry).limit(1)
                old = select(found.item, found.kind, found.name).where(found.server == server, found.entry == "")
                if connection.execute(own).first() is not None:
                    continue
                for item, kind, name in connection.execute(old).all():
                    mine = (found.server == server) & (found.item == item)
                    key = item_key(entry, kind, "" if kind == PIN_FAULT else name)
                    connection.execute(update(pinned_items).where(mine).values(entry=entry, item=key))

        async with self._engine.write(PINS_SUBJECT) as connection:
            await connection.run_sync(work)

    async def before(self, server: str) -> int:
        """Return how many items are pinned for another entry that the configuration had under this name.

        Raises:
            StorageError: the database cannot be read.
        """
        found, entry = pinned_items.c, self._entry(server)
        query = select(found.entry).where(found.server == server, found.entry != entry, found.digest.is_not(None))
        async with self._engine.read() as connection:
            others = (await connection.scalars(query)).all()
        return sum(one[: len(entry) // 2] == entry[: len(entry) // 2] for one in others) if entry else 0

    async def version(self) -> Version:
        """Return a value that changes after any process changed a pin or a seen definition.

        Raises:
            StorageError: the database cannot be read.
        """
        return await self._engine.version(PINS_SUBJECT)

    async def all(self, server: str | None = None, *, texts: bool = True) -> list[PinRow]:
        """Return the rows of one server, or of all, by server, kind and name. Without `texts`, no definitions are read.

        Raises:
            StorageError: the database cannot be read.
        """
        columns = [column for column in pinned_items.c if texts or column.name not in _TEXTS]
        query = select(*columns).where(pinned_items.c.kind.not_in(_MARKERS))
        if server is not None:
            query = query.where(self._of(server))
        async with self._engine.read() as connection:
            rows = (await connection.execute(query)).mappings().all()
        ours = self._ours((row["server"], row["entry"]) for row in rows)
        mine = [pin_row(row) for row in rows if (row["server"], row["entry"]) in ours]
        return sorted(mine, key=lambda row: (row.server, row.kind, row.name))

    async def baselines(self) -> dict[str, frozenset[str]]:
        """Return by server the kinds of items with a baseline; it may be an empty list.

        Raises:
            StorageError: the database cannot be read.
        """
        found: dict[str, set[str]] = {}
        for server, kind in await self._markers(BASELINE):
            found.setdefault(server, set()).add(kind)
        return {server: frozenset(kinds) for server, kinds in found.items()}

    async def faults(self) -> dict[str, str]:
        """Return, by server, why its pins cannot be written; servers whose pins can be written are left out.

        Raises:
            StorageError: the database cannot be read.
        """
        return dict(await self._markers(PIN_FAULT))

    async def versions(self) -> dict[str, tuple[str, str]]:
        """Return by server its version when all that it listed was approved, and its last known one.

        Raises:
            StorageError: the database cannot be read.
        """
        found = pinned_items.c
        query = select(found.server, found.entry, found.version, found.seen_version).where(found.kind == PIN_VERSION)
        async with self._engine.read() as connection:
            rows = (await connection.execute(query)).all()
        ours = self._ours((row.server, row.entry) for row in rows)
        return {
            row.server: (row.version or "", row.seen_version or "") for row in rows if (row.server, row.entry) in ours
        }

    async def note_version(self, server: str, version: str, now: float) -> str:
        """Store the current version of a server; return its version when all that it listed was approved.

        Raises:
            StorageError: the database failed; nothing was written.
        """
        entry, found = self._entry(server), pinned_items.c
        own = self._of(server, entry)
        mine = own & (found.kind == PIN_VERSION)

        def known(connection: Connection) -> tuple[str, str, bool]:
            row = connection.execute(select(found.version, found.seen_version).where(mine)).first()
            is_open = connection.execute(select(found.item).where(own, found.held == 1).limit(1)).first() is not None
            approved, seen = (row.version or "", row.seen_version or "") if row is not None else ("", "")
            return approved, approved if approved and is_open else version, seen == version

        def write(connection: Connection) -> None:
            self._lock(connection, server)
            _, approved, _ = known(connection)
            connection.execute(delete(pinned_items).where(mine))
            marker = pinned_row(server, entry, ItemText(PIN_VERSION, "", "", approved, ""), "", now)
            values = {**marker, "digest": None, "definition": None, "seen_version": version}
            connection.execute(insert(pinned_items).values(values))

        async with self._engine.read() as connection:
            before, approved, is_seen = await connection.run_sync(known)
        if not is_seen or before != approved:
            async with self._engine.write(PINS_SUBJECT) as connection:
                await connection.run_sync(write)
        return before

    async def _markers(self, kind: str) -> list[tuple[str, str]]:
        """Return server and name of the rows of a kind that stands for no item."""
        columns = pinned_items.c
        query = select(columns.server, columns.name, columns.entry).where(columns.kind == kind)
        async with self._engine.read() as connection:
            rows = (await connection.execute(query)).all()
        ours = self._ours((server, entry) for server, _, entry in rows)
        return [(server, name) for server, name, entry in rows if (server, entry) in ours]

    async def note_fault(self, server: str, why: str | None, now: float) -> None:
        """Put it on record that pins of a server cannot be written; None: that they can.

        Raises:
            StorageError: the database cannot do it; nothing was written.
        """
        entry = self._entry(server)
        mine = self._of(server, entry) & (pinned_items.c.kind == PIN_FAULT)
        async with self._engine.write(PINS_SUBJECT) as connection:
            await connection.run_sync(self._lock, server)
            await connection.execute(delete(pinned_items).where(mine))
            if why is not None:
                marker = pinned_row(server, entry, ItemText(PIN_FAULT, why, "", "", ""), "", now)
                key = {"item": item_key(entry, PIN_FAULT, ""), "digest": None}
                await connection.execute(insert(pinned_items).values({**marker, **key}))

    async def take_baseline(
        self, server: str, items: Iterable[ItemText], by: str, now: float, kinds: Iterable[str] = ()
    ) -> list[PinRow]:
        """Pin the unpinned items; return the resulting rows of the server, without definitions.

        If two processes do this at a time, the first counts for both. `kinds`: the kinds whose first list this is, so
        that all their items are pinned; if another process has taken a baseline of a kind before, no item of it is
        pinned. With `PART` after it, the first list of a kind came in part. An item of another kind that waits for an
        approval stays unchanged.

        Raises:
            StorageError: the database failed; nothing was written.
        """
        items, kinds, entry = [item for item in items if fits(item)], frozenset(kinds), self._entry(server)
        own = self._of(server, entry)

        def work(connection: Connection) -> None:
            self._lock(connection, server)
            known = {row["item"]: row for row in _rows_of(connection, own, "item", "kind", "digest")}
            taken = {kind for kind in kinds if item_key(entry, BASELINE, kind) in known}
            taken |= {whole for kind in kinds if item_key(entry, BASELINE, whole := kind.removesuffix(PART)) in known}
            waiting = [
                key for key, row in known.items() if row["digest"] is None and row["kind"] in kinds.difference(taken)
            ]
            for key in waiting:
                mine = (pinned_items.c.server == server) & (pinned_items.c.item == key)
                connection.execute(delete(pinned_items).where(mine))
                del known[key]
            room = MOST_ITEMS - sum(row["kind"] not in _MARKERS for row in known.values())
            new = [
                item for item in items if item_key(entry, item.kind, item.name) not in known and item.kind not in taken
            ]
            rows = [pinned_row(server, entry, item, by, now) for item in without_repetitions(new)[: max(room, 0)]]
            for kind in sorted(kinds - taken):
                marker = ItemText(BASELINE, kind, "", "", "")
                rows.append({**pinned_row(server, entry, marker, by, now), "digest": None, "definition": None})
            for begin in range(0, len(rows), _ROWS):
                connection.execute(insert(pinned_items), rows[begin : begin + _ROWS])

        async with self._engine.write(PINS_SUBJECT) as connection:
            await connection.run_sync(work)
        return await self.all(server, texts=False)

    async def note_seen(
        self,
        server: str,
        seen: Sequence[SeenItem],
        now: float,
        *,
        read_at: float = inf,
        said: Container[tuple[str, str]] = frozenset(),
    ) -> list[SeenItem]:
        """Store a server's current definitions; return the members of `seen` that no process had stored, digest for
        digest.

        An item that has its pinned digest again is seen no more. An item without a digest is removed, which is new if
        it has classes (`removed`) that it had not before.

        Processes whose servers have different versions each see something else. read_at: when the list was read; what
        another process has seen since then stays seen. said: kinds and names of items of which this process stored the
        same of this list before; what another one has seen instead stays, and nothing is new.

        Raises:
            StorageError: the database failed; nothing was written.
        """
        new: list[SeenItem] = []
        entry = self._entry(server)
        own = self._of(server, entry)

        def changed(one: SeenItem, before: Mapping[str, Any] | None) -> dict[str, Any] | None:
            if before is not None and stays(one, before, now, read_at, said=(one.kind, one.name) in said):
                return None
            return changed_columns(one, before, now)

        async with self._engine.read() as connection:
            rows = await connection.run_sync(lambda sync: _rows_of(sync, own, *COMPARED))
        stored = {row["item"]: dict(row) for row in rows}
        if all(changed(one, stored.get(item_key(entry, one.kind, one.name))) is None for one in seen):
            # Most often another process has.
            return new

        def work(connection: Connection) -> None:
            self._lock(connection, server)
            known = {row["item"]: dict(row) for row in _rows_of(connection, own, *COMPARED)}
            for one in seen:
                item = item_key(entry, one.kind, one.name)
                before = known.get(item)
                values = changed(one, before)
                if values is None or (before is None and len(known) >= MOST_ITEMS):
                    continue
                mine = (pinned_items.c.server == server) & (pinned_items.c.item == item)
                is_told = (one.kind, one.name) in said or (one.digest is not None and one.digest in digests(before))
                if one.classes and not is_told:
                    new.append(one)
                if before is None:
                    key = {"server": server, "item": item, "kind": one.kind, "name": one.name, "entry": entry}
                    connection.execute(insert(pinned_items).values({**key, **values}))
                    known[item] = {**dict.fromkeys(COMPARED), "digest": None, **key, **values}
                elif before["digest"] is None and values["seen_digest"] is None:
                    # What was never approved, and is gone, is forgotten.
                    connection.execute(delete(pinned_items).where(mine))
                else:
                    connection.execute(update(pinned_items).where(mine).values(values))

        async with self._engine.write(PINS_SUBJECT) as connection:
            await connection.run_sync(work)
        return new

    async def approve(self, server: str, kind: str, name: str, digest: str | None, by: str, now: float) -> bool:
        """Pin the seen definition of an item. Return False if there is none, or it differs from `digest`.

        `digest` None: pin it in any case. If it was another item before, which is gone or was served in its place, that
        one is forgotten.

        Raises:
            StorageError: the database failed; nothing was written.
        """
        columns = pinned_items.c
        mine = self._of(server) & (columns.kind == kind) & (columns.name == name) & columns.seen_digest.is_not(None)
        if digest is not None:
            mine &= columns.seen_digest == digest
        async with self._engine.write(PINS_SUBJECT) as connection:
            await connection.run_sync(self._lock, server)
            was = (await connection.execute(select(columns.renamed_from, columns.classes).where(mine))).first()
            done = await connection.execute(
                update(pinned_items)
                .where(mine)
                .values(
                    {
                        **NOTHING_SEEN,
                        "digest": columns.seen_digest,
                        "version": columns.seen_version,
                        "definition": columns.seen_definition,
                        "approved": now,
                        "approved_by": by[:128],
                    }
                )
            )
            if done.rowcount and was is not None and was.renamed_from is not None:
                old = self._of(server) & (columns.kind == kind) & (columns.name == was.renamed_from)
                # What was served in its place is not noted as gone.
                gone = old if SERVED in (was.classes or "").split(",") else old & (columns.classes == _GONE)
                await connection.execute(delete(pinned_items).where(gone))
            if done.rowcount:
                still = (
                    await connection.execute(select(columns.item).where(self._of(server), columns.held == 1))
                ).first()
                if still is None:
                    marker = self._of(server) & (columns.kind == PIN_VERSION)
                    await connection.execute(update(pinned_items).where(marker).values(version=columns.seen_version))
        return bool(done.rowcount)

    async def reset(self, server: str) -> int:
        """Forget the pins of a server, so that the next sight is the baseline; return how many items had one.

        Raises:
            StorageError: the database cannot do it; nothing was written.
        """
        mine = self._of(server)
        async with self._engine.write(PINS_SUBJECT) as connection:
            await connection.run_sync(self._lock, server)
            done = await connection.execute(delete(pinned_items).where(mine, pinned_items.c.kind.not_in(_MARKERS)))
            await connection.execute(delete(pinned_items).where(mine))
        return done.rowcount

    def _lock(self, connection: Connection, server: str) -> None:
        """Have processes take turns that write of one server; writers of a file do in any case."""
        if self._engine.path is None:
            connection.execute(postgres.lock(f"pins {server}"))


def _rows_of(connection: Connection, mine: ColumnElement[bool], *names: str) -> Sequence[RowMapping]:
    columns = [pinned_items.c[name] for name in names]
    return connection.execute(select(*columns).where(mine)).mappings().all()
