"""The end of everything that belongs to a host whose session is over."""

from collections.abc import Mapping

from aggregator.gateway.ask.input_required import InputRequests
from aggregator.gateway.host import Host
from aggregator.gateway.reads.subscriptions import Subscriptions
from aggregator.upstream.upstream import Upstream


class HostCleanup:
    """A `HostObserver` that ends the subscriptions, parked calls and upstream connections of a host."""

    def __init__(
        self, subscriptions: Subscriptions, input_requests: InputRequests, upstreams: Mapping[str, Upstream]
    ) -> None:
        self._subscriptions = subscriptions
        self._input_requests = input_requests
        self._upstreams = upstreams

    def host_left(self, host: Host) -> None:
        """Drop the state of `host`."""
        self._subscriptions.remove_host(host)
        self._input_requests.parking.left(host)
        for upstream in self._upstreams.values():
            upstream.host_left(host)
