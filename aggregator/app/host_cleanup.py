"""The end of everything that belongs to a host whose session is over."""

from collections.abc import Mapping

from aggregator.gateway.ask.input_required import InputRequests
from aggregator.gateway.call_log import CallObservers
from aggregator.gateway.host import Host
from aggregator.gateway.reads.subscriptions import Subscriptions
from aggregator.gateway.views.list_changed import SessionFailure
from aggregator.upstream.upstream import Upstream


class HostCleanup:
    """A `HostObserver` that counts the session of a host, and ends its subscriptions, parked calls and upstream
    connections.
    """

    def __init__(
        self,
        subscriptions: Subscriptions,
        input_requests: InputRequests,
        upstreams: Mapping[str, Upstream],
        observers: CallObservers,
    ) -> None:
        self._observers = observers
        self._subscriptions = subscriptions
        self._input_requests = input_requests
        self._upstreams = upstreams

    def session_over(self, host: Host, seconds: float, failure: SessionFailure | None) -> None:
        """Count a session. A host that has not finished its handshake has none, nor has one of 2026-07-28."""
        count = self._observers.host_session_over
        if count is not None and host.version is not None:
            count(host.frontend, host.version, seconds, failure)

    def host_left(self, host: Host) -> None:
        """Drop the state of `host`."""
        self._subscriptions.remove_host(host)
        self._input_requests.parking.left(host)
        for upstream in self._upstreams.values():
            upstream.host_left(host)
