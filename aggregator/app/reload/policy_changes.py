"""The reaction of the program to reloaded policies: audit events, keys and lists follow the rules in force."""

from aggregator.app.audit_events import AuditEvents
from aggregator.app.key_sync import KeySync
from aggregator.gateway.views.list_changed import ListChanges
from aggregator.policy.live import LivePolicies, Reloaded


class PolicyChanges:
    """A `PolicyObserver`."""

    def __init__(self, live: LivePolicies, events: AuditEvents, keys: KeySync, list_changed: ListChanges) -> None:
        self._live = live
        self._events = events
        self._keys = keys
        self._list_changed = list_changed

    def policies_read(self, reloaded: Reloaded) -> None:
        """Record the reload; if the rules changed, take their keys and notify the hosts whose lists differ."""
        self._events.policies_read(self._live, reloaded)
        if reloaded.changed:
            self._keys.use_policies()
            self._list_changed.announce()
