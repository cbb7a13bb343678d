"""The durations of operations, as the OpenTelemetry semantic conventions for MCP have them, for Prometheus.

`mcp.server.operation.duration` is what hosts waited for, `mcp.client.operation.duration` what each attempt at a server
took. In names for Prometheus, dots are underscores and the unit stands behind.

Law: nothing a caller writes can make a metric grow beyond its bound.
"""

from collections.abc import Iterator
from typing import Final

from aggregator.domain.call_record import TOOL_CALL, CallRecord
from aggregator.telemetry.hops import HTTP, OF_FRONTEND, FindHop, NetworkHop
from aggregator.telemetry.series import Family, Histogram, Key, Labels, Series
from aggregator.telemetry.span_attributes import OF_UPSTREAM, PLAIN, RPC_CODE, SOME_FAILURE, failure_of

# In seconds, as the conventions say.
BOUNDS: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
ROWS_AT_MOST: Final = 500
OTHER: Final = "other"

_LABELS: Final = (
    "mcp_method_name",
    "gen_ai_operation_name",
    "gen_ai_tool_name",
    "gen_ai_prompt_name",
    "error_type",
    "rpc_response_status_code",
    "mcp_protocol_version",
    "network_transport",
    "network_protocol_name",
    "server_address",
    "server_port",
)
_OPERATION: Final = "execute_tool"
PROMPT: Final = "prompts/get"


class OperationDurations:
    """The histograms of operations; `find_hop` says how a server is reached."""

    def __init__(self, find_hop: FindHop) -> None:
        self._find_hop = find_hop
        self._server = Series(lambda key: Histogram(BOUNDS), ROWS_AT_MOST, _without_tool)
        self._client = Series(lambda key: Histogram(BOUNDS), ROWS_AT_MOST, _without_tool)

    def of_host(self, record: CallRecord) -> Histogram | None:
        """Return the histogram of the host's waiting time; None if it does not speak MCP."""
        if record.caller.frontend == PLAIN:
            return None
        hop = OF_FRONTEND.get(record.caller.frontend, HTTP)
        return self._server.at(_key(record, record.called.tool, failure_of(record), record.caller.host_version, hop))

    def of_request(self, method: str, frontend: str, version: str | None, failure: str | None) -> Histogram:
        """Return the histogram of a request without a record, such as a list or a handshake."""
        hop = OF_FRONTEND.get(frontend, HTTP)
        code = failure if failure is not None and RPC_CODE.fullmatch(failure) else ""
        named = (
            method,
            "",
            "",
            "",
            failure or "",
            code,
            version or "",
            hop.transport or "",
            hop.protocol or "",
            "",
            "",
        )
        return self._server.at(named)

    def at_server(self, record: CallRecord) -> Histogram:
        """Return the histogram of the last attempt at a server."""
        failure = failure_of(record) if record.outcome.status in OF_UPSTREAM else None
        return self._client.at(self._to_server(record, failure, record.sending.answered_by or record.called.server))

    def attempts(self, record: CallRecord, last: Histogram) -> None:
        """Observe each of several attempts at servers, the last one by `last`."""
        before = None
        for name, _, seconds in record.steps:
            if name == "upstream":
                if before is not None:
                    self._client.at(self._to_server(record, SOME_FAILURE, record.called.server)).observe(before)
                before = seconds
        if before is not None:
            last.observe(before)

    def families(self) -> Iterator[Family]:
        """Yield both metrics."""
        for name, series, help in (
            ("server", self._server, "From the arrival of a request of a host to its answer."),
            (
                "client",
                self._client,
                "From the sending of a request to a server to its answer, each attempt by itself.",
            ),
        ):
            rows = ((_labels(key), histogram) for key, histogram in list(series.rows.items()))
            yield Family(f"mcp_{name}_operation_duration_seconds", "histogram", help, rows)

    def _to_server(self, record: CallRecord, failure: str | None, server: str | None) -> Key:
        hop = self._find_hop(server) if server is not None else NetworkHop()
        return _key(record, record.called.own_name, failure, record.sending.upstream_version, hop)


def _key(record: CallRecord, tool: str | None, failure: str | None, version: str | None, hop: NetworkHop) -> Key:
    is_tool = record.called.method == TOOL_CALL
    return (
        record.called.method,
        _OPERATION if is_tool else "",
        (tool or "") if is_tool else "",
        (record.called.own_name or "") if record.called.method == PROMPT else "",
        failure or "",
        failure if failure is not None and RPC_CODE.fullmatch(failure) else "",
        version or "",
        hop.transport or "",
        hop.protocol or "",
        hop.address or "",
        str(hop.port) if hop.address and hop.port else "",
    )


def _without_tool(key: Key) -> Key:
    """Return the key of the row that surplus requests of one method share."""
    method, operation, tool, prompt, failure, *_ = key
    named = [OTHER if text else "" for text in (tool, prompt, failure)]
    return (method, operation, *named, *[""] * (len(_LABELS) - 5))


def _labels(key: Key) -> Labels:
    """Return the labels of a row, without empty ones."""
    return {name: value for name, value in zip(_LABELS, key, strict=True) if value}
