"""One running program: its parts started together, drained and ended together."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing, nullcontext, suppress
from functools import partial
from typing import Any, Final

from aggregator.accounts.grants.ports import RunningGrants
from aggregator.app.audit_events import AuditEvents
from aggregator.app.catalog_sync import CatalogSync
from aggregator.app.catalog_updates import CatalogUpdates
from aggregator.app.hook_parts import BuiltHook
from aggregator.app.key_sync import PATIENCE, PATIENCE_BESIDE_OTHERS, KeySync
from aggregator.app.reload.config_reload import ConfigReload
from aggregator.app.reload.policy_reload import PolicyReload
from aggregator.app.reload.reconfiguration import Reconfiguration
from aggregator.app.retention import Retention
from aggregator.app.status import Status
from aggregator.app.telemetry import CallTelemetry
from aggregator.config.model import Config
from aggregator.domain.bounds.kept_work import KeptWork
from aggregator.domain.bounds.tasks import Tasks
from aggregator.gateway.access import Access
from aggregator.gateway.ask.answer_watch import AnswerWatch
from aggregator.gateway.browse import ToolBrowser
from aggregator.gateway.calls.failover import Failover
from aggregator.gateway.dispatcher import Dispatcher
from aggregator.notify.app import NoticeEvents
from aggregator.pins.app.sync import PinSync
from aggregator.policy.live import LivePolicies
from aggregator.replicas.group.replication import Replication
from aggregator.storage.lazy_database import LazyDatabase
from aggregator.telemetry.snapshot import Snapshot
from aggregator.upstream.supervisor import SETTLE, Supervisor
from aggregator.upstream.upstream import Upstream

log = logging.getLogger(__name__)

# Seconds for the answers to requests that were ended.
LAST_WORDS: Final = 1.0


class App:
    """All parts of one process except the frontends; `build_app` makes it.

    `grants` has the accounts at servers with `auth`; `supervisor` runs the upstreams, `gateway` answers requests,
    `browser` shows users the tools, `access` authenticates requests, `live` has the policies, `telemetry` the audit,
    spans and metrics, `database` the stored data, `replication` the state of this process as a replica, `status` the
    health of all parts, `notices` the notices to operators, `pins` the approved definitions.
    """

    def __init__(
        self,
        *,
        supervisor: Supervisor,
        gateway: Dispatcher,
        answers: AnswerWatch,
        browser: ToolBrowser,
        access: Access,
        failover: Failover,
        updates: CatalogUpdates,
        live: LivePolicies | None,
        telemetry: CallTelemetry,
        database: LazyDatabase,
        replication: Replication,
        retention: Retention | None,
        status: Status,
        kept: KeptWork,
        reconfiguration: Reconfiguration,
        events: AuditEvents,
        notices: NoticeEvents,
        key_sync: KeySync,
        hooks: Sequence[BuiltHook],
        catalog_sync: CatalogSync | None,
        policy_reload: PolicyReload | None,
        config_reload: ConfigReload | None,
        grants: RunningGrants | None = None,
        pin_sync: PinSync | None = None,
    ) -> None:
        self.pins = pin_sync
        self.grants = grants
        self.supervisor = supervisor
        self.gateway = gateway
        self.answers = answers
        self.browser = browser
        self.access = access
        self.failover = failover
        self.updates = updates
        self.live = live
        self.telemetry = telemetry
        self.database = database
        self.replication = replication
        self.retention = retention
        self.status = status
        self._kept = kept
        self.catalog_sync = catalog_sync
        self.key_sync = key_sync
        self.hooks = hooks
        self.policy_reload = policy_reload
        self._reconfiguration = reconfiguration
        self._events = events
        self.notices = notices
        self._config_reload = config_reload

    @property
    def config(self) -> Config:
        """The configuration in force."""
        return self._reconfiguration.config

    @property
    def servers(self) -> Reconfiguration:
        """The actions on one server: restart, switch off, switch on."""
        return self._reconfiguration

    @property
    def upstreams(self) -> Mapping[str, Upstream]:
        """The upstreams by server id, in config order."""
        return self.supervisor.upstreams

    @property
    def hurry(self) -> asyncio.Event:
        """An event that, once set, makes the end of the process wait for nothing."""
        return self.supervisor.hurry

    def reload(self) -> None:
        """Read the configuration again now, if it is watched."""
        if self._config_reload is not None:
            self._config_reload.request_reload()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Connect the upstreams and watch the files inside; end everything on the way out."""
        async with (
            self.database,
            self.replication.running(self._kept),
            self.telemetry.running(self._started, self._kept),
            self.grants.running() if self.grants is not None else nullcontext(),
            Tasks("the app") as tasks,
        ):
            keep = self._kept.keep
            self._events.policies_loaded(self.live)
            if self.policy_reload is not None:
                tasks.start(keep("the reading of policy files", self.policy_reload.run))
            if self._config_reload is not None:
                tasks.start(keep("the reading of the configuration", self._config_reload.run))
            tasks.start(self.gateway.run(self._kept))
            tasks.start(keep("the catalog", self.updates.run))
            tasks.start(keep("the keys of issuers", self.access.run))
            for built in self.hooks:
                if built.background is not None:
                    tasks.start(keep(built.background.name, built.background.run))
            if self.key_sync.wanted:
                tasks.start(keep("the keys of agents", self.key_sync.run))
            if self.retention is not None:
                work = partial(keep, "retention", self.retention.run)
                tasks.start(self.replication.alone("retention", work))
            async with (
                # Before the servers run: judging their lists requires the pins.
                self.pins.running(self._started) if self.pins is not None else nullcontext(),
                self.supervisor.running(),
                self.catalog_sync.running(self._kept) if self.catalog_sync is not None else nullcontext(),
                # Before the upstreams end, since their end also ends the programs of notices.
                self.notices.running(self.hurry),
            ):
                with closing(self._events):
                    try:
                        yield
                    finally:
                        if self.pins is not None:
                            self.pins.write_rest()
                        await self.answers.end()

    async def _started(self) -> None:
        await self.supervisor.wait_all_tried(SETTLE)

    async def leave(self) -> bool:
        """Say at `/readyz` that the process ends, and go on serving for `shutdown_delay`, or until `hurry` is set.

        Returns whether there was such a time.
        """
        delay = self.config.shutdown_delay
        if delay is None:
            return False
        self.gateway.drain.leaving = True
        log.info("leaving: everything is served for another %g s, while hosts are sent elsewhere", delay)
        with suppress(TimeoutError):
            async with asyncio.timeout(delay):
                await self.hurry.wait()
        return True

    async def drain(self, enough: asyncio.Event | None = None) -> None:
        """Refuse new requests and wait for running ones: at most `shutdown_timeout` seconds, and only until `hurry` or
        `enough` is set.

        What still runs then is ended, each request with words for its host (`gateway/drain.py`).
        """
        drain, limit = self.gateway.drain, self.config.shutdown_timeout
        drain.start(limit)
        self.gateway.list_changes.close()
        self.answers.close()
        async with Tasks("the end") as tasks:
            ends = {tasks.start(event.wait()) for event in (self.hurry, enough) if event is not None}
            ends.add(tasks.start(drain.wait_idle(limit)))
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if len(drain):
                log.warning("%d requests are still under way; they are ended", len(drain))
                self.gateway.end_work()
                if not await drain.wait_idle(LAST_WORDS):
                    log.error("%d requests did not end, and are cut off", len(drain))

    async def load_keys(self, *, beside_others: bool = False) -> None:
        """Read the keys of the database and of the policy files, and accept the issuers' tokens, before a frontend that
        needs them opens.

        With `beside_others`, other processes serve meanwhile, so there is more time for it.

        Raises:
            StorageError: the database cannot be used; without its keys, requests without a key would be accepted.
        """
        self.access.accept(self.config.auth)
        await self.key_sync.load(PATIENCE_BESIDE_OTHERS if beside_others else PATIENCE)

    def report(self) -> tuple[bool, Mapping[str, Any]]:
        """Return whether every upstream has come up or failed by now, and the details for `/readyz`."""
        return self.status.report()

    def snapshot(self) -> Snapshot:
        """Return the measurements for one scrape of the metrics."""
        return self.status.snapshot()
