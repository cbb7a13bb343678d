"""The change to another configuration, or of one server, while the program runs: every part takes it, in one step."""

from aggregator.app.audit_events import AuditEvents
from aggregator.app.catalog_sync import CatalogSync
from aggregator.app.catalog_updates import CatalogUpdates
from aggregator.app.policies import trusted_servers
from aggregator.app.telemetry import CallTelemetry
from aggregator.code.programs import check_code
from aggregator.config.difference import ConfigChanges
from aggregator.config.model import Config
from aggregator.gateway.access import Access
from aggregator.gateway.dispatcher import Dispatcher
from aggregator.gateway.views.finder import check_search
from aggregator.gateway.views.views import Views
from aggregator.notify.app import NoticeEvents
from aggregator.pins.app.sync import PinSync
from aggregator.upstream.server_actions import ActionRefused
from aggregator.upstream.supervisor import Supervisor


class Reconfiguration:
    """A `ConfigTarget`: `config` is the configuration in force.

    It also performs an operator's actions on one server; `by` is the operator's name, for the audit.
    """

    def __init__(
        self,
        config: Config,
        supervisor: Supervisor,
        gateway: Dispatcher,
        updates: CatalogUpdates,
        views: Views,
        access: Access,
        telemetry: CallTelemetry,
        events: AuditEvents,
        notices: NoticeEvents,
        catalog_sync: CatalogSync | None,
        pin_sync: PinSync | None = None,
    ) -> None:
        self._pin_sync = pin_sync
        self.config = config
        self._supervisor = supervisor
        self._gateway = gateway
        self._updates = updates
        self._views = views
        self._access = access
        self._telemetry = telemetry
        self._events = events
        self._notices = notices
        self._catalog_sync = catalog_sync

    async def prepare(self, config: Config) -> None:
        """Do slow work in slices, before `apply`."""
        await self._updates.prepare(config)

    def apply(self, found: ConfigChanges) -> None:
        """Put another configuration into force, whole: nothing is awaited in between.

        Raises:
            OperatorError: it cannot be used; nothing has changed.
        """
        config = found.config
        check_search(config)
        check_code(self._views, config)
        self.config = config
        self._views.trusted = trusted_servers(config)
        self._access.reconfigure(config.auth)
        self._telemetry.reconfigure(config.audit)
        self._supervisor.secrets.limit = config.secrets.timeout
        self._supervisor.reconfigure(config.servers, found.replaced, config.shutdown_timeout)
        if self._catalog_sync is not None:
            self._catalog_sync.reconfigure()
        self._gateway.reconfigure(config)
        self._updates.reconfigure(config)
        if self._pin_sync is not None:
            self._pin_sync.reconfigure()
        self._notices.reconfigure(config.notify)
        self._events.upstreams_changed()

    # -- one server

    def restart_server(self, server: str, by: str) -> None:
        """Give a server a new connection now; calls under way have `shutdown_timeout` to end.

        Raises:
            ActionRefused: it cannot be restarted now.
        """
        self._check_running()
        self._supervisor.restart(server, self.config.shutdown_timeout)
        self._take_replaced()
        self._events.server_action(server, "restarted", by)

    def switch_server_off(self, server: str, by: str) -> bool:
        """Switch a server off until the next start, or until its entry in the configuration is another one.

        Return False if it is switched off already.

        Raises:
            ActionRefused: it cannot be switched off now.
        """
        self._check_running()
        if not self._supervisor.switch_off(server, by, self.config.shutdown_timeout):
            return False
        self._take_replaced()
        self._events.server_action(server, "switched off until the next start", by)
        return True

    def switch_server_on(self, server: str, by: str) -> bool:
        """Start a server that was switched off; return False if it is not.

        Raises:
            ActionRefused: it cannot be started now.
        """
        self._check_running()
        if not self._supervisor.switch_on(server, self.config.shutdown_timeout):
            return False
        self._take_replaced()
        self._events.server_action(server, "switched on", by)
        return True

    def _check_running(self) -> None:
        if self._gateway.drain.started:
            raise ActionRefused("The aggregator is ending.")

    def _take_replaced(self) -> None:
        """Make every part use the upstream that replaced another."""
        if self._catalog_sync is not None:
            self._catalog_sync.reconfigure()
        self._gateway.upstreams_replaced()
        self._updates.rebuild()
        self._events.upstreams_changed()
