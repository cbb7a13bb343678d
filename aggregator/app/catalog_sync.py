"""Definitions of upstreams, kept in the database for the next start: tools, prompts, resources and templates.

Rule: nothing waits for this. Lists and calls go on even if the database fails.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from hashlib import sha256
from math import inf
from typing import TYPE_CHECKING, Any, Final, Protocol

from aggregator.catalog.difference import ToolChanges, difference
from aggregator.catalog.validate import definition_digest
from aggregator.config.server_config import ServerConfig
from aggregator.domain.bounds.kept_work import KeptWork
from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.text.error_text import error_text
from aggregator.storage.digest import canonical_json
from aggregator.storage.errors import StorageDamaged, StorageError, ValueTooLong
from aggregator.storage.locate import full_url, sqlite_path
from aggregator.storage.quick_read import glance
from aggregator.storage.records import (
    ASKS,
    GROWS,
    HABITS,
    SEEN_TO_THE,
    Definition,
    ItemList,
    KeptCatalog,
    ServerCatalog,
)
from aggregator.upstream.list_kinds import KEPT, Kind
from aggregator.upstream.sessions.negotiate import Negotiated
from aggregator.upstream.supervisor import SETTLE, Supervisor
from aggregator.upstream.upstream import Upstream
from aggregator.wire.codec import TooDeep, decode, encode

if TYPE_CHECKING:
    from aggregator.storage.catalogs import Catalogs

log = logging.getLogger(__name__)

Lists = Mapping[Kind, list[Any]]
"""Lists of one server; those of tools are among them."""

# Seconds that writing waits for further changes.
COALESCE: Final = 1.0
# Seconds until a changed server is written again, and until the database is tried again after a failure.
AGAIN: Final = 30.0
# Seconds for the last write when the process ends.
LAST_MOMENT: Final = 1.0

_FIX: Final = (
    " To have them kept again, move it away while no aggregator runs; keys and approvals then have to be made again."
)

# The settings that identify an upstream. The other settings shape how its tools are shown.
_PLACE: Final = {"command", "args", "env", "cwd", "url", "headers", "proxy", "launch", "target"}
_IDENTITY: Final = {"id", "type", "protocol"} | _PLACE


def fingerprint(server: ServerConfig) -> str:
    """Return a SHA-256 over the settings that identify an upstream, and its configuration. Secrets are included, since
    another token may open another catalog.
    """
    return sha256(canonical_json(server.model_dump(include=_IDENTITY | {"entry"}))).hexdigest()


_NO_LISTS: Final[Lists] = {}


class CatalogStore(Protocol):
    """The database that keeps definitions."""

    async def catalogs(self) -> "Catalogs": ...


class CatalogEvents(Protocol):
    """The audit of changed tools."""

    def tools_changed(self, server: str, changes: ToolChanges) -> None:
        """Record that a server's tools have changed since it was last seen."""


class CatalogSync:
    """The writer and reader of kept definitions. The database is opened when there is something to write."""

    def __init__(
        self,
        supervisor: Supervisor,
        storage: str,
        store: CatalogStore,
        changed: asyncio.Event,
        events: CatalogEvents | None = None,
    ) -> None:
        self._supervisor = supervisor
        self._storage = storage
        self._store = store
        self._events = events
        self._fingerprints: dict[str, str] = {}
        self._changed = changed
        self._turn = asyncio.Lock()
        self._known: dict[str, Mapping[str, str]] = {}
        self._kept: dict[str, tuple[Lists, float]] = {}
        self._not_before: dict[str, float] = {}
        # By server: the kinds of the rows that are kept about its habits.
        self._habits: dict[str, frozenset[str]] = {}
        # Called once, with the lists that were kept.
        self.on_restored: Callable[[Mapping[str, Lists]], None] = _nothing
        # Whether the kept lists of a server may be replaced.
        self.may_replace: Callable[[str], bool] = _always
        self._fault: str | None = None
        self._failed: dict[str, str] = {}
        self.reconfigure()

    @property
    def _upstreams(self) -> list[Upstream]:
        """The currently enabled upstreams: a restarted one is another object."""
        return [upstream for upstream in self._supervisor.upstreams.values() if upstream.config.enabled]

    @property
    def problem(self) -> str | None:
        """The reason why catalogs, or those of some servers, are not stored, or None."""
        return self._fault or "; ".join(f"{server}: {why}" for server, why in self._failed.items()) or None

    def __repr__(self) -> str:
        problem = f", {self.problem}" if self.problem else ""
        return f"<CatalogSync {len(self._kept)} of {len(self._upstreams)} kept{problem}>"

    @asynccontextmanager
    async def running(self, kept: KeptWork) -> AsyncIterator[None]:
        """Restore the kept definitions, then write changes inside; on the way out, write the rest within a moment."""
        async with Tasks("the catalog cache") as tasks:
            tasks.start(kept.keep("the kept catalogs", self._run))
            try:
                yield
            finally:
                if self._fault is None and self._pending():
                    with suppress(TimeoutError):
                        async with asyncio.timeout(LAST_MOMENT):
                            await self._keep(self._pending())

    def reconfigure(self) -> None:
        """Take the upstreams of a new configuration."""
        before = self._fingerprints
        self._fingerprints = {upstream.config.id: fingerprint(upstream.config) for upstream in self._upstreams}
        for server in before:
            if self._fingerprints.get(server) != before[server]:
                self._kept.pop(server, None)
                self._known.pop(server, None)
                self._failed.pop(server, None)
                self._habits.pop(server, None)
        self._changed.set()

    async def _run(self) -> None:
        await self._restore()
        await self._supervisor.wait_all_tried(SETTLE)
        complete = True
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(SEEN_TO_THE if complete else AGAIN):
                    await self._changed.wait()
            self._changed.clear()
            await asyncio.sleep(COALESCE)
            pending, now = self._pending(), asyncio.get_running_loop().time()
            due = [upstream for upstream in pending if self._not_before.get(upstream.config.id, now) <= now]
            complete = await self._keep(due) and len(due) == len(pending)

    async def _restore(self) -> None:
        found: Mapping[str, KeptCatalog] = {}
        lists: Mapping[str, Lists] = {}
        try:
            path = sqlite_path(full_url(self._storage))
            if path is not None:
                found = await asyncio.to_thread(glance, path, self._fingerprints.values())
            else:
                found = await (await self._store.catalogs()).fitting(self._fingerprints.values())
            lists = await asyncio.to_thread(lists_of, found)
            lists = await asyncio.to_thread(self._without_secrets, lists)
        except Exception as error:  # the servers themselves still list their tools
            self._report_problem(error)
        recalled = {server: lists[one] for server, one in self._fingerprints.items() if one in lists}
        for server, had in recalled.items():
            kept = found[self._fingerprints[server]]
            self._known[server] = _versions(kept.tools)
            self._kept[server] = had, kept.connected
            self._recall(server, HABITS.intersection(kept.items))
        self.on_restored(recalled)
        await self._supervisor.restore(recalled)

    def _without_secrets(self, lists: Mapping[str, Lists]) -> dict[str, Lists]:
        """Return the lists without values that are now known as secrets; lists that cannot be searched are left out."""
        upstreams = {self._fingerprints[upstream.config.id]: upstream for upstream in self._upstreams}
        found: dict[str, Lists] = {}
        for one, had in lists.items():
            if one in upstreams:
                clean = upstreams[one].redaction.definitions
                try:
                    found[one] = {kind: clean(had[kind], named=kind in ("tool", "prompt")) for kind in had}
                except Exception as error:  # it costs this server its kept lists, no other
                    log.error("%s: its kept lists are not used", upstreams[one].config.id, exc_info=error)
        return found

    def _recall(self, server: str, habits: frozenset[str]) -> None:
        upstream = self._supervisor.upstreams.get(server)
        if upstream is not None and habits:
            self._habits[server] = habits
            if ASKS in habits:
                upstream.recall_asking()
            upstream.lists.grows |= GROWS in habits

    async def recall_habits(self) -> None:
        """Tell each server of its habits that the database has: that it asks hosts, or adds tools.

        Raises:
            StorageError: the database cannot be read.
        """
        found = await (await self._store.catalogs()).habits(self._fingerprints.values())
        for server, one in self._fingerprints.items():
            self._recall(server, found.get(one, frozenset()))

    async def keep_seen(self) -> None:
        """Write the lists of connected servers; a failed write costs only its own server.

        Raises:
            StorageError: nothing can be written.
        """
        for upstream in self._pending():
            try:
                await self._keep_one(upstream)
            except StorageError:
                raise
            except Exception as error:  # it costs this server its kept list
                log.debug("%s: its lists are not kept: %s", upstream.config.id, error)

    def _pending(self) -> list[Upstream]:
        seen = (
            upstream
            for upstream in self._upstreams
            if upstream.negotiated is not None and upstream.state in ("ready", "stopped")
        )
        return [upstream for upstream in seen if not self._is_kept(upstream)]

    def _is_kept(self, upstream: Upstream) -> bool:
        kept, noted = self._kept.get(upstream.config.id, (_NO_LISTS, 0.0))
        # A stopped server has nothing newer.
        old = upstream.state == "ready" and time.time() - noted >= SEEN_TO_THE
        old |= not _habits(upstream) <= self._habits.get(upstream.config.id, frozenset())
        return all(kept.get(kind) is one for kind, one in _answered(upstream).items()) and not old

    async def _keep(self, upstreams: Iterable[Upstream]) -> bool:
        """Write the definitions of these upstreams; return whether all are written. One that cannot be written costs
        no other.
        """
        complete = True
        async with self._turn:
            for upstream in upstreams:
                try:
                    complete &= await self._keep_one(upstream)
                    self._failed.pop(upstream.config.id, None)
                except StorageError as error:  # nothing can be written; it is tried again
                    self._report_problem(error)
                    return False
                except Exception as error:
                    self._report_one(upstream.config.id, error)
                    complete = False
        return complete

    async def _keep_one(self, upstream: Upstream) -> bool:
        """Write the lists of one server; return False, and write nothing, if they have to wait."""
        server, lists = upstream.config.id, _answered(upstream)
        current = self._supervisor.upstreams.get(server)
        if upstream.negotiated is None or current is not upstream or self._is_kept(upstream):
            return True
        if server in self._kept and not self.may_replace(server):
            return False
        transport = upstream.transport or upstream.config.type
        about = (server, self._fingerprints[server], transport, upstream.negotiated, lists)
        habits = _habits(upstream)
        catalog = await asyncio.to_thread(catalog_of, *about)
        catalog = replace(catalog, items=(*catalog.items, *(ItemList(habit, "[]") for habit in sorted(habits))))
        before, versions = self._known.get(server), await asyncio.to_thread(_versions, catalog.tools)
        self._known[server] = versions
        if before is not None:
            self._record_changes(server, await asyncio.to_thread(difference, before, versions))
        catalogs, now = await self._store.catalogs(), time.time()
        try:
            for kind in await catalogs.keep(catalog, now=now):
                log.warning("%s: its list of %ss is too long to be kept", server, kind)
        except ValueTooLong as error:
            log.warning("%s: its lists are not kept: %s", server, error)
        kept, _ = self._kept.get(server, (_NO_LISTS, 0.0))
        if any(kind in kept and kept[kind] is not one for kind, one in lists.items()):
            self._not_before[server] = asyncio.get_running_loop().time() + AGAIN
        self._kept[server] = {**kept, **lists}, now
        self._habits[server] = habits
        if self._fault is not None:
            log.info("catalogs are kept again")
            self._fault = None
        return True

    def _record_changes(self, server: str, changes: ToolChanges) -> None:
        if changes:
            log.info("server %s has other tools than before: %s", server, changes)
            if self._events is not None:
                self._events.tools_changed(server, changes)

    def _report_one(self, server: str, error: Exception) -> None:
        """Tell once that one server's catalog cannot be kept."""
        if server not in self._failed:
            log.error("%s: its lists cannot be kept; this is tried again", server, exc_info=error)
        self._failed[server] = f"its lists cannot be kept: {type(error).__name__}"

    def _report_problem(self, error: Exception) -> None:
        known = isinstance(error, StorageError)
        if self._fault is None:
            fix = _FIX if isinstance(error, StorageDamaged) else ""
            log.error("catalogs are not kept: %s%s", error, fix, exc_info=None if known else error)
        self._fault = error_text(error) if known else "an error of ours; the log says more"


def _answered(upstream: Upstream) -> dict[Kind, list[Any]]:
    """Return the lists to keep: the tools, and those others that this connection or an earlier one has answered."""
    return {kind: upstream.lists[kind] for kind in KEPT if kind == "tool" or upstream.lists.was_read(kind)}


def _habits(upstream: Upstream) -> frozenset[str]:
    """Return the kinds of the rows to keep about the habits of a server."""
    habits = {ASKS: upstream.asks_in_calls, GROWS: upstream.lists.grows}
    return frozenset(kind for kind, has in habits.items() if has)


def _nothing(lists: Mapping[str, Lists]) -> None:
    """Do nothing: no part of the program waits for kept lists."""


def _always(server: str) -> bool:
    """Return True: without pins the kept lists of every server may be replaced."""
    return True


def catalog_of(server: str, fingerprint: str, transport: str, negotiated: Negotiated, lists: Lists) -> ServerCatalog:
    """Return the database record of a server's lists. A large one takes long: call it in a thread."""
    return ServerCatalog(
        server,
        fingerprint,
        transport,
        negotiated.version,
        _text(negotiated.server_info),
        _text(negotiated.capabilities),
        negotiated.instructions,
        tuple(Definition(_own_name(one), definition_digest(one), _text(one)) for one in lists["tool"]),
        tuple(_item_list(kind, items) for kind, items in lists.items() if kind != "tool"),
    )


def _item_list(kind: Kind, items: Iterable[Any]) -> ItemList:
    return ItemList(kind, f"[{','.join(map(_text, items))}]")


def lists_of(kept: Mapping[str, KeptCatalog]) -> dict[str, Lists]:
    """Return the lists by fingerprint. One that cannot be read is left out; without its tools a server has none."""
    found: dict[str, Lists] = {}
    for fingerprint, one in kept.items():
        with suppress(ValueError):
            lists: dict[Kind, list[Any]] = {"tool": [_decoded(tool.text) for tool in one.tools]}
            for kind in KEPT:
                with suppress(ValueError):
                    if kind in one.items and isinstance(items := _decoded(one.items[kind]), list):
                        lists[kind] = items
            found[fingerprint] = lists
    return found


def _decoded(text: Any) -> Any:
    """Return the value of a text of a row.

    Raises:
        ValueError: it is no JSON, or no text: a row of SQLite can hold anything.
    """
    if not isinstance(text, str):
        raise ValueError(f"a definition is {type(text).__name__}")
    return decode(text.encode(), inf)


def _text(value: Any) -> str:
    """Return JSON that reads back as what hosts are sent; null for values nested too deeply to be sent."""
    try:
        return encode(value).decode()
    except TooDeep:
        return "null"


def _own_name(definition: Any) -> str:
    name = definition.get("name") if isinstance(definition, dict) else None
    return name if isinstance(name, str) else ""


def _versions(tools: Iterable[Definition]) -> dict[str, str]:
    """Return digests by tool name; of two tools with one name the first counts."""
    versions: dict[str, str] = {}
    for tool in tools:
        if tool.name:
            versions.setdefault(tool.name, tool.digest)
    return versions
