"""Puts the house together: upstreams, policies, keys, gateway. The doors are opened by the commands that need them."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, closing, nullcontext
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Final

from aggregator.app import policy_reload as reload
from aggregator.app.audit_events import AuditEvents
from aggregator.app.catalog_sync import SETTLE, CatalogSync
from aggregator.app.config_reload import ConfigReload
from aggregator.app.key_sync import KeySync
from aggregator.app.policy_reload import PolicyReload
from aggregator.app.status import condition, measured
from aggregator.app.telemetry import CallTelemetry
from aggregator.config.difference import ConfigChanges
from aggregator.config.load import Loaded
from aggregator.config.model import Config
from aggregator.domain.bounds.tasks import Tasks
from aggregator.gateway.access import Access
from aggregator.gateway.ask.approval import ApprovalStep
from aggregator.gateway.dispatcher import Dispatcher
from aggregator.gateway.views.finder import check_search
from aggregator.gateway.views.views import Views
from aggregator.policy.live import LivePolicies, Reloaded
from aggregator.redaction.redactor import Redactor
from aggregator.schemas.checks import ENGINE
from aggregator.schemas.fault import UnusableSchema
from aggregator.storage.database import open_database
from aggregator.storage.errors import StorageError
from aggregator.storage.locate import FILE, data_folder, full_url, sqlite_path
from aggregator.telemetry.snapshot import ListTokens, Snapshot
from aggregator.upstream.supervisor import Supervisor
from aggregator.upstream.upstream import Upstream

if TYPE_CHECKING:
    from aggregator.storage.approvals import Approvals
    from aggregator.storage.audit.log import AuditRows
    from aggregator.storage.catalogs import Catalogs
    from aggregator.storage.opening import Database

log = logging.getLogger(__name__)

# How long the answers may take to requests that were ended.
LAST_WORDS: Final = 1.0


class App:
    """Everything but the doors, for one configuration.

    `policies` is the folder of the policy files, `storage` the URL of the database: without them nobody is asked for
    anything, and nothing can be queued. With `keeps_records` it also gets what the servers have, for the next start,
    and a row of every call. `redactor` takes out of that what must not be written.
    """

    def __init__(
        self,
        config: Config,
        policies: Path | None = None,
        storage: str | None = None,
        *,
        keeps_records: bool = False,
        redactor: Redactor | None = None,
    ) -> None:
        self.config = config
        self.live = LivePolicies(policies, _check_schema) if policies is not None else None
        redactor = self._redactor = redactor or Redactor()
        recalls = keeps_records and storage is not None
        self.supervisor = Supervisor(config.servers, self._restock, redactor, recalls=recalls)
        self._views = Views(self.live, _trusted(config))
        self._storage = storage
        self._database: Database | None = None
        self._opening = asyncio.Lock()
        self._stack = AsyncExitStack()
        consent = ApprovalStep(self._approvals, redactor.value)
        self.gateway = Dispatcher(config, self.supervisor, self._views, consent)
        kept = storage if keeps_records else None
        rows = self._audit if kept is not None else None
        self.observing = CallTelemetry(config.audit, redactor, self.gateway.journal, rows, _base(kept))
        self._events = AuditEvents(self.observing, self.supervisor.links)
        self._cache = (
            CatalogSync(self.supervisor, kept, self._catalogs, self._events.tools_changed) if kept is not None else None
        )
        self.access = Access(self._views)
        self.access.refused = self._events.login_refused
        path = sqlite_path(full_url(storage)) if storage is not None else None
        self._keys = KeySync(self.access, self._views, path, self._open, stored=storage is not None)
        consent.queued = self._events.approval_queued
        self._watch = (
            PolicyReload(self.live, lambda: self.gateway.catalog.tools, self._trusts, self._policies_read)
            if self.live is not None
            else None
        )
        self._config_watch: ConfigReload | None = None

    @property
    def links(self) -> Mapping[str, Upstream]:
        """The upstreams by server id, in config order."""
        return self.supervisor.links

    @property
    def hurry(self) -> asyncio.Event:
        """Once it is set, the end of the program waits for nothing."""
        return self.supervisor.hurry

    def follow(self, loaded: Loaded, read: Callable[[], Loaded], applied: Callable[[Config], None]) -> None:
        """Keep up with the file that the configuration came from; before `running`. `read` reads it again, as it is
        now, in a thread; `applied` hears of each configuration that came into force.
        """

        def apply(found: ConfigChanges) -> None:
            self._reconfigure(found)
            applied(found.config)

        self._config_watch = ConfigReload(
            loaded, read, self._redactor, self.gateway.prepare, apply, self._events.config_read
        )

    def reload(self) -> None:
        """Read the configuration again now, if it is kept up with."""
        if self._config_watch is not None:
            self._config_watch.ask()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The upstreams are connected inside, the policies watched; all is ended on the way out."""
        async with self._stack, self.observing.running(self._started), Tasks("the app") as tasks:
            if self._watch is not None:
                tasks.start(self._watch.run())
            if self._config_watch is not None:
                tasks.start(self._config_watch.run())
            tasks.start(self.gateway.work())
            if self._keys.wanted:
                tasks.start(self._keys.follow())
            async with self.supervisor.running(), self._cache.running() if self._cache is not None else nullcontext():
                with closing(self._events):
                    yield

    async def _started(self) -> None:
        await self.supervisor.all_tried(SETTLE)

    async def drain(self, enough: asyncio.Event | None = None) -> None:
        """Take nothing new, and wait for what is under way: for `shutdown_timeout` at most, not in a hurry, and not
        once somebody has had `enough`.

        What is left then hears from the end of its upstream that nobody knows what became of it.
        """
        under_way, limit = self.gateway.closing, self.config.shutdown_timeout
        under_way.begin(limit)
        self.gateway.changes.close()
        async with Tasks("the end") as tasks:
            ends = {tasks.start(event.wait()) for event in (self.hurry, enough) if event is not None}
            ends.add(tasks.start(under_way.quiet(limit)))
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if len(under_way):
                log.warning("%d requests are still under way; they are ended", len(under_way))
                tasks.start(self.supervisor.stop())
                await under_way.quiet(LAST_WORDS)

    def _reconfigure(self, found: ConfigChanges) -> None:
        """Put another configuration into force, whole: nothing is awaited in between.

        Raises:
            OperatorError: it cannot be; nothing has changed.
        """
        config = found.config
        check_search(config)
        self.config = config
        self._views.trusted = _trusted(config)
        self.observing.reconfigure(config.audit)
        self.supervisor.reconfigure(config.servers, found.replaced, config.shutdown_timeout)
        if self._cache is not None:
            self._cache.reconfigure()
        self.gateway.reconfigure(config)
        self._events.links_changed()

    def _trusts(self, server: str) -> bool:
        return self._views.trusted.get(server, False)

    async def learn_keys(self) -> None:
        """Read the keys of the database and of the policy files. Before a door is opened that asks for one.

        Raises:
            StorageError: the database cannot be used; to open the door all the same would let anybody in.
        """
        await self._keys.learn()

    def report(self) -> tuple[bool, Mapping[str, Any]]:
        """Whether every upstream has come up or failed by now, and how each is."""
        answering = self.gateway.failover.answering
        servers = {
            name: {**condition(link, len(self.gateway.tools_of(link))), "answered_by": answering(name)}
            for name, link in self.links.items()
        }
        stopping = self.gateway.closing.begun
        ready = not stopping and all(link.life.tried for link in self.links.values())
        details = {"ready": ready, "tools": len(self.gateway.catalog), "servers": servers}
        if stopping:
            details["stopping"] = True
        if self._config_watch is not None:
            details["config"] = self._config_watch.report()
        if self.live is not None:
            details["policies"] = reload.report(self.live)
        keys = self.access.keyring.problem or self.access.locked
        if keys is not None:
            details["keys"] = keys
        if self._cache is not None and self._cache.problem is not None:
            details["catalogs"] = self._cache.problem
        return ready, details | self.observing.report()

    def snapshot(self) -> Snapshot:
        """What is read at each scrape of the metrics."""
        queues, lost = self.observing.queues()
        spans = self.observing.spans
        return Snapshot(
            upstreams={name: measured(link, len(self.gateway.tools_of(link))) for name, link in self.links.items()},
            sessions=self.gateway.changes.sessions(),
            open=self.gateway.room.open,
            refused=self.gateway.room.refused,
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
            self._keys.use_policies()
            self.gateway.changes.announce()

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
                self._database = await self._stack.enter_async_context(
                    open_database(self._storage, self.config.audit.chain_key)
                )
            return self._database


def _trusted(config: Config) -> dict[str, bool]:
    return {server.id: server.trusted for server in config.servers}


def _check_schema(schema: Mapping[str, Any]) -> str | None:
    """What is wrong with a JSON Schema in a policy file."""
    try:
        resolve_name(ENGINE)(schema)
    except UnusableSchema as problem:
        return str(problem)
    return None


def _base(storage: str | None) -> Path:
    """Where files beside the database go: beside it, or in our folder for data when it is no file. Without a database
    there are none.
    """
    if storage is None:
        return Path(FILE)
    path = sqlite_path(full_url(storage))
    return path or data_folder(os.environ) / "aggregator" / FILE
