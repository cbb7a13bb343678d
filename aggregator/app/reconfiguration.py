"""The change to another configuration while the program runs: every part takes it, in one step."""

from aggregator.app.audit_events import AuditEvents
from aggregator.app.catalog_sync import CatalogSync
from aggregator.app.catalog_updates import CatalogUpdates
from aggregator.app.policies import trusted_servers
from aggregator.app.telemetry import CallTelemetry
from aggregator.config.difference import ConfigChanges
from aggregator.config.model import Config
from aggregator.gateway.dispatcher import Dispatcher
from aggregator.gateway.views.finder import check_search
from aggregator.gateway.views.views import Views
from aggregator.upstream.supervisor import Supervisor


class Reconfiguration:
    """A `ConfigTarget`: `config` is the configuration in force."""

    def __init__(
        self,
        config: Config,
        supervisor: Supervisor,
        gateway: Dispatcher,
        updates: CatalogUpdates,
        views: Views,
        telemetry: CallTelemetry,
        events: AuditEvents,
        catalog_sync: CatalogSync | None,
    ) -> None:
        self.config = config
        self._supervisor = supervisor
        self._gateway = gateway
        self._updates = updates
        self._views = views
        self._telemetry = telemetry
        self._events = events
        self._catalog_sync = catalog_sync

    async def prepare(self, config: Config) -> None:
        """Do ahead, in slices, what takes long before `apply`."""
        await self._updates.prepare(config)

    def apply(self, found: ConfigChanges) -> None:
        """Put another configuration into force, whole: nothing is awaited in between.

        Raises:
            OperatorError: it cannot be used; nothing has changed.
        """
        config = found.config
        check_search(config)
        self.config = config
        self._views.trusted = trusted_servers(config)
        self._telemetry.reconfigure(config.audit)
        self._supervisor.reconfigure(config.servers, found.replaced, config.shutdown_timeout)
        if self._catalog_sync is not None:
            self._catalog_sync.reconfigure()
        self._gateway.reconfigure(config)
        self._updates.reconfigure(config)
        self._events.upstreams_changed()
