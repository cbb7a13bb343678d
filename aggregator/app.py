"""Puts the house together: upstreams, policies, keys, gateway. The doors are opened by the commands that need them."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, closing, nullcontext
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from aggregator.audit.metrics_snapshot import ListTokens, Snapshot, Upstream
from aggregator.config.model import Config
from aggregator.domain.redact import Redactor
from aggregator.domain.tasks import Tasks
from aggregator.gateway import reload
from aggregator.gateway.access import Access
from aggregator.gateway.catalog_cache import CatalogCache
from aggregator.gateway.consent import Consent
from aggregator.gateway.events import Events
from aggregator.gateway.gateway import Gateway
from aggregator.gateway.observing import Observing
from aggregator.gateway.reload import PolicyWatch
from aggregator.gateway.views import Views
from aggregator.identity.keyring import FOLLOW_EVERY, Keyring
from aggregator.identity.keys import parse_policy_line
from aggregator.policy.live import Live, Reloaded
from aggregator.schemas.checks import ENGINE
from aggregator.schemas.fault import UnusableSchema
from aggregator.storage.database import open_database
from aggregator.storage.errors import StorageError
from aggregator.storage.locate import FILE, data_folder, full_url, sqlite_path
from aggregator.upstream.link import Link
from aggregator.upstream.supervisor import Supervisor

if TYPE_CHECKING:
    from aggregator.storage.approvals import Approvals
    from aggregator.storage.audit_log import AuditRows
    from aggregator.storage.catalogs import Catalogs
    from aggregator.storage.opening import Database

log = logging.getLogger(__name__)


class App:
    """Everything but the doors, for one configuration.

    `policies` is the folder of the policy files, `storage` the URL of the database: without them nobody is asked for
    anything, and nothing can be queued. With `caches` what the servers have is kept there for the next start, and every
    call recorded. `redactor` takes out of that what must not be written.
    """

    def __init__(
        self,
        config: Config,
        policies: Path | None = None,
        storage: str | None = None,
        *,
        caches: bool = False,
        redactor: Redactor | None = None,
    ) -> None:
        self.config = config
        trusted = {server.id: server.trusted for server in config.servers}
        self.live = Live(policies, _check_schema) if policies is not None else None
        redactor = redactor or Redactor()
        self.supervisor = Supervisor(config.servers, self._restock, redactor)
        self._views = Views(self.live, trusted)
        self._storage = storage
        self._database: Database | None = None
        self._opening = asyncio.Lock()
        self._asks_for_keys = False
        self._knows_keys = False
        self._stack = AsyncExitStack()
        self.gateway = Gateway(config, self.supervisor, self._views, Consent(self._approvals, redactor.value))
        kept = storage if caches else None
        rows = self._audit if kept is not None else None
        self.observing = Observing(config.audit, redactor, self.gateway.journal, rows, _base(kept))
        self._events = Events(self.observing, self.supervisor.links)
        self._cache = (
            CatalogCache(self.supervisor, kept, self._catalogs, self._events.tools_changed)
            if kept is not None
            else None
        )
        self.access = Access(self._views)
        self.access.refused = self._events.login_refused
        self._watch = (
            PolicyWatch(self.live, lambda: self.gateway.catalog.tools, trusted, self._policies_read)
            if self.live is not None
            else None
        )

    @property
    def links(self) -> Mapping[str, Link]:
        """The upstreams by server id, in config order."""
        return self.supervisor.links

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The upstreams are connected inside, the policies watched; all is ended on the way out."""
        async with self._stack, self.observing.running(), Tasks("the app") as tasks:
            if self._watch is not None:
                tasks.start(self._watch.run())
            tasks.start(self.gateway.work())
            if self._asks_for_keys:
                tasks.start(self._follow_keys())
            async with self.supervisor.running(), self._cache.running() if self._cache is not None else nullcontext():
                with closing(self._events):
                    yield

    async def learn_keys(self) -> None:
        """Read the keys of the database and of the policy files. Before a door is opened that asks for one.

        Raises:
            StorageError: the database cannot be used; to open the door all the same would let anybody in.
        """
        self._asks_for_keys = True
        database = await self._open() if self._kept or self._views.rulebook is not None else None
        if database is not None:
            self.access.keyring = Keyring(database.keys)
            self.access.locked = bool(database.set_aside)
            await self.access.keyring.refresh()
            self._knows_keys = True
        self._use_policy_keys()

    async def _follow_keys(self) -> None:
        """Keep up with the keys; the first one may be made while we run."""
        while not self._knows_keys:
            try:
                if self._kept:
                    await self.learn_keys()
                    break
                self.access.locked = False
            except StorageError as error:
                # There may be keys in it by now: until that is known, whoever has none stays outside.
                if self._kept and not self.access.locked:
                    log.error("keys cannot be read, so the doors are closed to whoever has none: %s", error)
                self.access.locked = self._kept
            await asyncio.sleep(FOLLOW_EVERY)
        await self.access.keyring.follow()

    @property
    def _kept(self) -> bool:
        """Whether somebody has made the database; it is not made only to find it empty."""
        path = sqlite_path(full_url(self._storage)) if self._storage is not None else None
        return self._storage is not None and (path is None or path.exists())

    def report(self) -> tuple[bool, Mapping[str, Any]]:
        """Whether every upstream has come up or failed by now, and how each is."""
        servers = {
            name: {"state": link.state, "reason": link.reason, "tools": len(link.definitions)}
            for name, link in self.links.items()
        }
        ready = all(link.state != "starting" for link in self.links.values())
        details = {"ready": ready, "tools": len(self.gateway.catalog), "servers": servers}
        if self.live is not None:
            details["policies"] = reload.report(self.live)
        if self.access.keyring.problem is not None:
            details["keys"] = self.access.keyring.problem
        if self._cache is not None and self._cache.problem is not None:
            details["catalogs"] = self._cache.problem
        return ready, details | self.observing.report()

    def snapshot(self) -> Snapshot:
        """What is read at each scrape of the metrics."""
        queues, lost = self.observing.queues()
        spans = self.observing.spans
        return Snapshot(
            upstreams={
                name: Upstream(link.state, len(link.definitions), link.reconnects, link.in_flight)
                for name, link in self.links.items()
            },
            sessions=self.gateway.changes.sessions(),
            queues=queues,
            lost=lost,
            lists={agent: ListTokens(*costs) for agent, costs in self.gateway.list_costs().items()},
            spans=spans.figures() if spans is not None else None,
        )

    def _restock(self) -> None:
        self.gateway.restock()
        self._events.links_changed()
        if self._cache is not None:
            self._cache.note()

    def _policies_read(self, reloaded: Reloaded) -> None:
        assert self.live is not None
        self._events.policies_read(self.live, reloaded)
        if reloaded.changed:
            self._use_policy_keys()
            self.gateway.changes.announce()

    def _use_policy_keys(self) -> None:
        book = self._views.rulebook
        keys = []
        for agent_id, key in book.keys if book is not None else ():
            try:
                keys.append(parse_policy_line(key.line, agent_id))
            except ValueError as error:
                log.error("policies: a key of agent %s is not used: %s", agent_id, error)
        self.access.keyring.use_policy_keys(keys)

    async def _approvals(self) -> "Approvals | None":
        try:
            database = await self._open()
        except StorageError as error:
            log.error("approvals cannot be queued: %s", error)
            return None
        return database.approvals if database is not None else None

    async def _catalogs(self) -> "Catalogs":
        database = await self._open()
        assert database is not None, "what is kept is kept in one"
        return database.catalogs

    async def _audit(self) -> "AuditRows":
        database = await self._open()
        assert database is not None, "what is recorded is kept in one"
        return database.audit

    async def _open(self) -> "Database | None":
        async with self._opening:
            if self._database is None and self._storage is not None:
                self._database = await self._stack.enter_async_context(open_database(self._storage))
            return self._database


def _check_schema(schema: Mapping[str, Any]) -> str | None:
    """What is wrong with a JSON Schema in a policy file."""
    try:
        resolve_name(ENGINE)(schema)
    except UnusableSchema as problem:
        return str(problem)
    return None


def _base(storage: str | None) -> Path:
    """Where files beside the database go: beside it, or in our folder for data when it is no file."""
    path = sqlite_path(full_url(storage)) if storage is not None else None
    return path or data_folder(os.environ) / "aggregator" / FILE
