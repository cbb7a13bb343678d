"""The durations of sessions, as the OpenTelemetry semantic conventions for MCP have them, for Prometheus.

`mcp.server.session.duration` is of the sessions of hosts, `mcp.client.session.duration` of those with upstreams. In
names for Prometheus, dots are underscores and the unit stands behind.

Law: no label is an id or a text of a host or an upstream, so that a metric has few rows.
"""

from collections.abc import Iterator
from typing import Final

from aggregator.telemetry.hops import HTTP, OF_FRONTEND, FindHop, NetworkHop
from aggregator.telemetry.operations import BOUNDS, ROWS_AT_MOST
from aggregator.telemetry.series import Family, Histogram, Key, Series

_LABELS: Final = (
    "error_type",
    "mcp_protocol_version",
    "network_transport",
    "network_protocol_name",
    "server_address",
    "server_port",
)


class SessionDurations:
    """The histograms of sessions; `find_hop` says how a server is reached."""

    def __init__(self, find_hop: FindHop) -> None:
        self._find_hop = find_hop
        self._server = Series(lambda key: Histogram(BOUNDS), ROWS_AT_MOST, _without_address)
        self._client = Series(lambda key: Histogram(BOUNDS), ROWS_AT_MOST, _without_address)

    def host_over(self, frontend: str, version: str, seconds: float, failure: str | None) -> None:
        """Count a session of a host; see `SessionSink`."""
        self._server.at(_key(version, failure, OF_FRONTEND.get(frontend, HTTP))).observe(seconds)

    def upstream_over(self, server: str, version: str, seconds: float, failure: str | None) -> None:
        """Count a session with an upstream; see `SessionSink`."""
        self._client.at(_key(version, failure, self._find_hop(server))).observe(seconds)

    def families(self) -> Iterator[Family]:
        """Yield both metrics."""
        for name, series, help in (
            ("server", self._server, "From the begin of a session of a host to its end."),
            ("client", self._client, "From the begin of a session with an upstream to its end."),
        ):
            rows = (
                ({label: value for label, value in zip(_LABELS, key, strict=True) if value}, histogram)
                for key, histogram in list(series.rows.items())
            )
            yield Family(f"mcp_{name}_session_duration_seconds", "histogram", help, rows)


def _key(version: str, failure: str | None, hop: NetworkHop) -> Key:
    port = str(hop.port) if hop.address and hop.port else ""
    return (failure or "", version, hop.transport or "", hop.protocol or "", hop.address or "", port)


def _without_address(key: Key) -> Key:
    """Return the key of the row that surplus sessions share."""
    return (*key[:-2], "", "")
