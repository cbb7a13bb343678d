"""The catalogs of servers from their last connection, and every definition that their tools ever had.

Rule: a catalog changes in one transaction, so that a reader finds an old list or a new one, never a mixture.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, TypeVar

from sqlalchemy import ColumnElement, Connection, Table, Update, delete, func, insert, select, update

from aggregator.storage.engine import postgres
from aggregator.storage.engine.engine import Engine
from aggregator.storage.errors import ValueTooLong
from aggregator.storage.records import (
    HABITS,
    SEEN_TO_THE,
    Definition,
    KeptCatalog,
    ServerCatalog,
    ToolVersion,
    VersionSeen,
)
from aggregator.storage.tables import mcp_item_lists, mcp_servers, mcp_tool_versions, mcp_tools

SUBJECT: Final = "mcp_servers"
# A catalog whose tools take more is not kept, nor is another list that takes more: no real one comes near, and an
# endless one must not fill the disk.
CATALOG_BYTES: Final = 16 * 2**20
# Bytes of former tool definitions kept of a server; the oldest goes first.
HISTORY_BYTES: Final = 32 * 2**20
# Configurations of one server whose lists are kept, and for how long after the last connection.
CONFIGURATIONS: Final = 4
KEPT: Final = 90 * 86400.0
# In one statement, so that none holds up the loop for long.
_ROWS: Final = 200
_NAME_LENGTH: Final = 200
T = TypeVar("T")


class Catalogs:
    """The lists by server, and the history of the tools. `now` is the time in seconds since 1970."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def fitting(self, fingerprints: Iterable[str]) -> dict[str, KeptCatalog]:
        """Return the lists that were kept under these fingerprints, by fingerprint; one that is missing was not kept.

        Raises:
            StorageError: the database cannot be read.
        """
        kept = (
            select(mcp_servers.c.connected, mcp_tools.c.name, mcp_tools.c.digest, mcp_tool_versions.c.definition)
            .select_from(mcp_servers.outerjoin(mcp_tools).outerjoin(mcp_tool_versions))
            .order_by(mcp_tools.c.position)
        )
        lists = select(mcp_item_lists.c.kind, mcp_item_lists.c.definitions).select_from(
            mcp_servers.join(mcp_item_lists)
        )
        found = {}
        async with self._engine.read() as connection:
            for fingerprint in fingerprints:
                rows = (await connection.execute(kept.where(mcp_servers.c.fingerprint == fingerprint))).all()
                if rows:
                    listed = tuple(Definition(*row[1:]) for row in rows if row[1] is not None)
                    items = await connection.execute(lists.where(mcp_servers.c.fingerprint == fingerprint))
                    found[fingerprint] = KeptCatalog(rows[0][0], listed, {kind: text for kind, text in items})
        return found

    async def habits(self, fingerprints: Iterable[str]) -> dict[str, frozenset[str]]:
        """Return the kinds of the rows about the habits of servers, by fingerprint.

        Raises:
            StorageError: the database cannot be read.
        """
        columns = mcp_item_lists.c
        query = select(columns.fingerprint, columns.kind).where(
            columns.fingerprint.in_(list(fingerprints)), columns.kind.in_(sorted(HABITS))
        )
        found: dict[str, frozenset[str]] = {}
        async with self._engine.read() as connection:
            for fingerprint, kind in await connection.execute(query):
                found[fingerprint] = found.get(fingerprint, frozenset()) | {kind}
        return found

    async def keep(self, catalog: ServerCatalog, *, now: float) -> list[str]:
        """Replace the stored catalog; an unchanged one is only marked as seen.

        Lists missing in `catalog` stay unchanged. Return the kinds of lists that are too long, which are not stored.

        Raises:
            ValueTooLong: the list of tools is too long; nothing was written.
            StorageError: the database failed; nothing was written.
        """
        if _size(catalog) > CATALOG_BYTES:
            raise ValueTooLong(f"it takes more than {CATALOG_BYTES // 2**20} MiB")
        # Another file may be in the place of the one that our connections have open.
        await self._engine.version(SUBJECT)
        mine = (mcp_tools.c.server == catalog.server) & (mcp_tools.c.fingerprint == catalog.fingerprint)
        listed = select(mcp_tools.c.name, mcp_tools.c.digest).where(mine).order_by(mcp_tools.c.position)
        entries = [(_name(tool.name), tool.digest) for tool in catalog.tools]
        too_long = [one.kind for one in catalog.items if len(one.text) > CATALOG_BYTES]

        def work(connection: Connection) -> None:
            if self._engine.path is None:
                # Replicas connect the same servers at the same time.
                connection.execute(postgres.lock(f"catalog {catalog.server}"))
            before = [tuple(row) for row in connection.execute(listed)]
            _note_server(connection, catalog, now)
            if before != entries:
                connection.execute(delete(mcp_tools).where(mine))
            _put_versions(connection, catalog, now)
            if before != entries:
                _insert(connection, mcp_tools, _rows(catalog, entries))
                _forget(connection, catalog.server, now)
            _put_items(connection, catalog, too_long)
            connection.execute(_seen_again(catalog, now))

        # As one piece of work: going back and forth for each part, a busy program would take seconds, and who writes
        # after it would have to wait.
        await self._engine.write_in_thread(work)
        return too_long

    async def by_digest(self, server: str, digest: str) -> ToolVersion | None:
        """Return one definition of a server by its digest.

        Raises:
            StorageError: the database cannot be read.
        """
        columns = mcp_tool_versions.c
        query = select(
            columns.server, columns.name, columns.digest, columns.definition, columns.first_seen, columns.last_seen
        ).where(columns.server == server, columns.digest == digest)
        async with self._engine.read() as connection:
            row = (await connection.execute(query)).first()
        return None if row is None else ToolVersion(*row)

    async def versions(self, server: str, name: str) -> list[ToolVersion]:
        """Return every definition that a tool has or had, by the server's id and the tool's own name, the newest first.

        Raises:
            StorageError: the database cannot be read.
        """
        columns = mcp_tool_versions.c
        query = select(
            columns.server, columns.name, columns.digest, columns.definition, columns.first_seen, columns.last_seen
        ).where(columns.server == server, columns.name == _name(name))
        async with self._engine.read() as connection:
            rows = await connection.execute(query.order_by(columns.first_seen.desc(), columns.digest))
            return [ToolVersion(*row) for row in rows]

    async def history(self, server: str, name: str, limit: int) -> list[VersionSeen]:
        """Return the newest `limit` definitions of a tool, without their texts, the newest first.

        Raises:
            StorageError: the database cannot be read.
        """
        columns = mcp_tool_versions.c
        query = select(columns.digest, columns.first_seen, columns.last_seen, columns.size).where(
            columns.server == server, columns.name == _name(name)
        )
        newest = query.order_by(columns.first_seen.desc(), columns.digest).limit(limit)
        async with self._engine.read() as connection:
            return [VersionSeen(*row) for row in await connection.execute(newest)]

    async def definition(self, server: str, name: str, digest: str, at_most: int) -> str | None:
        """Return one definition that a tool has or had, as JSON; None if it is not kept, or longer than `at_most`.

        Raises:
            StorageError: the database cannot be read.
        """
        columns = mcp_tool_versions.c
        query = select(columns.definition).where(
            columns.server == server,
            columns.name == _name(name),
            columns.digest == digest,
            columns.size <= at_most,
        )
        async with self._engine.read() as connection:
            return (await connection.execute(query)).scalars().first()


def _note_server(connection: Connection, catalog: ServerCatalog, now: float) -> None:
    mine = (mcp_servers.c.id == catalog.server) & (mcp_servers.c.fingerprint == catalog.fingerprint)
    values = {
        "transport": catalog.transport,
        "protocol": catalog.protocol,
        "server_info": catalog.server_info,
        "capabilities": catalog.capabilities,
        "instructions": None if catalog.instructions is None else _plain(catalog.instructions),
        "connected": now,
        "tools": len(catalog.tools),
    }
    known = connection.execute(update(mcp_servers).where(mine).values(values))
    if known.rowcount == 0:
        key = {"id": catalog.server, "fingerprint": catalog.fingerprint}
        connection.execute(insert(mcp_servers).values(key | values))


def _put_versions(connection: Connection, catalog: ServerCatalog, now: float) -> None:
    """Add the definitions that are not kept, and replace those whose rows were damaged."""
    columns = mcp_tool_versions.c
    new = {tool.digest: tool for tool in reversed(catalog.tools)}
    for some in _by(_ROWS, list(new)):
        mine = (columns.server == catalog.server) & columns.digest.in_(some)
        for digest, text in connection.execute(select(columns.digest, columns.definition).where(mine)).all():
            tool = new.pop(digest)
            # The text itself is compared: a damaged row has no definition, or the wrong one.
            if text != tool.text:
                row = (columns.server == catalog.server) & (columns.digest == digest)
                values = {"name": _name(tool.name), "size": len(tool.text), "definition": tool.text}
                connection.execute(update(mcp_tool_versions).where(row).values(values))
    rows = (
        {
            "server": catalog.server,
            "digest": tool.digest,
            "name": _name(tool.name),
            "first_seen": now,
            "last_seen": now,
            "size": len(tool.text),
            "definition": tool.text,
        }
        for tool in new.values()
    )
    _insert(connection, mcp_tool_versions, rows)


def _insert(connection: Connection, table: Table, rows: Iterable[dict[str, Any]]) -> None:
    for some in _by(_ROWS, rows):
        connection.execute(insert(table), some)


def _rows(catalog: ServerCatalog, entries: Sequence[tuple[str, str]]) -> Iterator[dict[str, Any]]:
    for position, (name, digest) in enumerate(entries):
        yield {
            "server": catalog.server,
            "fingerprint": catalog.fingerprint,
            "position": position,
            "name": name,
            "digest": digest,
        }


def _put_items(connection: Connection, catalog: ServerCatalog, too_long: Collection[str]) -> None:
    """Replace the lists of items that are others now; remove those that are too long."""
    columns = mcp_item_lists.c
    mine = (columns.server == catalog.server) & (columns.fingerprint == catalog.fingerprint)
    for one in catalog.items:
        of_kind = mine & (columns.kind == one.kind)
        # The text itself is compared: one that was damaged is replaced.
        same = select(1).where(of_kind, columns.definitions == one.text)
        if one.kind in too_long or connection.execute(same).first() is None:
            connection.execute(delete(mcp_item_lists).where(of_kind))
            if one.kind not in too_long:
                row = {"server": catalog.server, "fingerprint": catalog.fingerprint, "kind": one.kind}
                connection.execute(insert(mcp_item_lists).values(row | {"definitions": one.text}))


def _seen_again(catalog: ServerCatalog, now: float) -> Update:
    mine = (mcp_tools.c.server == catalog.server) & (mcp_tools.c.fingerprint == catalog.fingerprint)
    columns = mcp_tool_versions.c
    return (
        update(mcp_tool_versions)
        .where(
            columns.server == catalog.server,
            columns.last_seen < now - SEEN_TO_THE,
            columns.digest.in_(select(mcp_tools.c.digest).where(mine)),
        )
        .values(last_seen=now)
    )


def _forget(connection: Connection, server: str, now: float) -> None:
    """Remove lists of removed configurations, then unlisted definitions if there are too many."""
    own = mcp_servers.c.id == server
    newest = select(mcp_servers.c.fingerprint).where(own).order_by(mcp_servers.c.connected.desc()).limit(CONFIGURATIONS)
    connection.execute(
        delete(mcp_servers).where(
            (own & mcp_servers.c.fingerprint.not_in(newest.scalar_subquery())) | (mcp_servers.c.connected < now - KEPT)
        )
    )
    columns = mcp_tool_versions.c
    listed = select(mcp_tools.c.digest).where(mcp_tools.c.server == server)
    gone: ColumnElement[bool] = (columns.server == server) & columns.digest.not_in(listed)
    newer = func.sum(columns.size).over(order_by=(columns.last_seen.desc(), columns.first_seen.desc(), columns.digest))
    ranked = select(columns.digest, newer.label("newer")).where(gone).subquery()
    too_old = select(ranked.c.digest).where(ranked.c.newer > HISTORY_BYTES)
    connection.execute(delete(mcp_tool_versions).where(gone, columns.digest.in_(too_old)))


def _size(catalog: ServerCatalog) -> int:
    about = (catalog.server_info, catalog.capabilities, catalog.instructions or "")
    return sum(map(len, about)) + sum(len(tool.text) for tool in catalog.tools)


def _name(name: str) -> str:
    """Return a tool's own name in the form that is searched; the definition has the full name."""
    return _plain(name[:_NAME_LENGTH])


def _plain(text: str) -> str:
    """Return the text as every database takes it."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\u0000")


def _by(size: int, items: Iterable[T]) -> Iterator[list[T]]:
    rest = iter(items)
    while some := list(islice(rest, size)):
        yield some
