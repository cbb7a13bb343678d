"""The metrics for Prometheus: calls counted as they end, the state of upstreams and queues read at each scrape.

Counted by hand rather than with `prometheus_client`, whose locks and label look-ups cost each call about four times as
much, and its page some ten times. A sink and its page are used by one event loop, so nothing is locked.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from aggregator import __version__
from aggregator.domain.call_record import CallRecord
from aggregator.telemetry.hops import FindHop, nowhere
from aggregator.telemetry.operations import PROMPT, OperationDurations
from aggregator.telemetry.series import CALL_BOUNDS, OWN_BOUNDS, Family, Histogram, Key, Labels, Series, exposed
from aggregator.telemetry.sessions import SessionDurations
from aggregator.telemetry.snapshot import Snapshot, TakeSnapshot

# Rows of one metric. Those of a histogram are some twenty lines each.
CALLS_AT_MOST: Final = 2_000
TOOLS_AT_MOST: Final = 500
SERVERS_AT_MOST: Final = 1_000
AGENTS_AT_MOST: Final = 500

# In place of a name that no tool has, and of all those beyond the bound.
UNKNOWN: Final = "unknown"
OTHER: Final = "other"

_CALL: Final = ("server", "tool", "agent", "status")


class _Count:
    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0


class _ServerSeries:
    """The counters of one server, all tools together."""

    __slots__ = ("own", "queued", "retries", "upstream")

    def __init__(self) -> None:
        self.upstream, self.own = Histogram(CALL_BOUNDS), Histogram(OWN_BOUNDS)
        self.retries = 0
        self.queued = 0.0


class _Gauges:
    """The counters of calls that are alike. `whole` is of what their hosts waited for, `attempt` of the last attempt at
    a server, if there was one.
    """

    __slots__ = ("attempt", "count", "own", "server", "total", "upstream", "whole")

    def __init__(
        self,
        count: _Count,
        total: Histogram,
        server: _ServerSeries,
        whole: Histogram | None,
    ) -> None:
        self.whole = whole
        self.attempt: Histogram | None = None
        self.count, self.total = count, total
        self.server, self.upstream, self.own = server, server.upstream, server.own


class Metrics:
    """A sink for call records, and the page. `snapshot` is called once a scrape, `find_hop` returns the hop to a
    server. `sessions` counts sessions that are over.
    """

    def __init__(self, snapshot: TakeSnapshot, find_hop: FindHop = nowhere) -> None:
        self._snapshot = snapshot
        self._operations = OperationDurations(find_hop)
        self.sessions = SessionDurations(find_hop)
        self._calls = Series(lambda key: _Count(), CALLS_AT_MOST, lambda key: (key[0], OTHER, OTHER, key[3]))
        self._tools = Series(lambda key: Histogram(CALL_BOUNDS), TOOLS_AT_MOST, lambda key: (key[0], OTHER))
        self._servers = Series(lambda key: _ServerSeries(), SERVERS_AT_MOST, lambda key: (OTHER,))
        self._others = Series(lambda key: _Count(), SERVERS_AT_MOST, lambda key: (OTHER, OTHER))
        # By the values as they stand in a record; as many as there may be rows.
        self._places: dict[tuple[str | None, ...], _Gauges] = {}

    def __call__(self, record: CallRecord) -> None:
        """Count one call that is over."""
        alike = (
            record.called.server,
            record.called.tool,
            record.caller.agent_id,
            record.outcome.status,
            record.outcome.error_code,
            record.caller.host_version,
            record.sending.upstream_version,
            record.caller.frontend,
            record.sending.answered_by,
            record.called.own_name if record.called.method == PROMPT else None,
        )
        places = self._places.get(alike) or self._find(record, alike)
        places.count.value += 1
        places.total.observe(record.duration)
        if places.whole is not None:
            places.whole.observe(record.duration)
        in_upstream, own, attempts = record.split()
        places.own.observe(own if own > 0.0 else 0.0)
        if in_upstream:
            places.upstream.observe(in_upstream)
            if places.attempt is None:
                places.attempt = self._operations.at_server(record)
            if attempts == 1:
                places.attempt.observe(in_upstream)
            else:
                self._operations.attempts(record, places.attempt)
        if record.sending.retries:
            places.server.retries += record.sending.retries
        if record.sending.queued:
            places.server.queued += record.sending.queued
        if record.sending.answered_by is not None:
            self._others.at((record.called.server or UNKNOWN, record.sending.answered_by)).value += 1

    def request_over(
        self, method: str, frontend: str, version: str | None, seconds: float, failure: str | None
    ) -> None:
        """Count a request of a host that leaves no record, such as a list or a handshake; `method` is one of ours."""
        self._operations.of_request(method, frontend, version, failure).observe(seconds)

    def page(self) -> Iterator[bytes]:
        """Yield the text of the page, in pieces between which other work may run."""
        counted = (*self._counted_families(), *self._operations.families(), *self.sessions.families())
        return exposed([*counted, *_state_families(self._snapshot())])

    def counted(self) -> Iterator[tuple[str, int]]:
        """Yield the numbers of calls that ended, each with how they did; a status may come many times."""
        return ((key[3], count.value) for key, count in self._calls.rows.items())

    def counted_by_tool(self) -> Iterator[tuple[tuple[str, str], str, int]]:
        """Yield server and tool, how calls of it ended, and how many."""
        return (((key[0], key[1]), key[3], count.value) for key, count in self._calls.rows.items())

    def durations(self) -> Iterator[tuple[tuple[str, str], list[int]]]:
        """Yield server and tool, and how many of its calls took how long, by `CALL_BOUNDS`."""
        return (((key[0], key[1]), histogram.buckets) for key, histogram in self._tools.rows.items())

    def _find(self, record: CallRecord, alike: tuple[str | None, ...]) -> _Gauges:
        server, tool = record.called.server or UNKNOWN, record.called.tool or UNKNOWN
        places = _Gauges(
            self._calls.at((server, tool, record.caller.agent_id, record.outcome.status)),
            self._tools.at((server, tool)),
            self._servers.at((server,)),
            self._operations.of_host(record),
        )
        if len(self._places) < CALLS_AT_MOST:
            self._places[alike] = places
        return places

    def _counted_families(self) -> Iterator[Family]:
        yield Family(
            "aggregator_calls_total",
            "counter",
            "Calls that are over, by how they ended.",
            ((dict(zip(_CALL, key, strict=True)), count.value) for key, count in list(self._calls.rows.items())),
        )
        yield Family(
            "aggregator_call_duration_seconds",
            "histogram",
            "From the arrival of a call to its answer, waiting for a person included.",
            ((_tool(key), histogram) for key, histogram in list(self._tools.rows.items())),
        )
        servers = [({"server": key[0]}, server) for key, server in self._servers.rows.items()]
        yield Family(
            "aggregator_call_upstream_seconds",
            "histogram",
            "The part of it that the upstream took, all attempts together.",
            ((labels, server.upstream) for labels, server in servers),
        )
        yield Family(
            "aggregator_call_own_seconds",
            "histogram",
            "The part of it that was the aggregator's own.",
            ((labels, server.own) for labels, server in servers),
        )
        yield Family(
            "aggregator_call_retries_total",
            "counter",
            "Attempts after the first.",
            ((labels, server.retries) for labels, server in servers),
        )
        yield Family(
            "aggregator_call_fallbacks_total",
            "counter",
            "Calls that another server answered, or was the last to be asked.",
            (
                ({"server": key[0], "answered_by": key[1]}, count.value)
                for key, count in list(self._others.rows.items())
            ),
        )
        yield Family(
            "aggregator_call_queued_seconds_total",
            "counter",
            "Time that calls waited for their turn.",
            ((labels, server.queued) for labels, server in servers),
        )


def _tool(key: Key) -> Labels:
    return {"server": key[0], "tool": key[1]}


def _state_families(now: Snapshot) -> Iterator[Family]:
    upstreams = [({"server": name}, upstream) for name, upstream in islice(now.upstreams.items(), SERVERS_AT_MOST)]
    lists = list(islice(now.lists.items(), AGENTS_AT_MOST))
    yield Family("aggregator_build_info", "gauge", "Always 1.", [({"version": __version__}, 1)])
    yield Family(
        "aggregator_upstream_up",
        "gauge",
        "1 while the upstream is ready, or stopped until it is called.",
        ((labels, int(upstream.state in ("ready", "stopped"))) for labels, upstream in upstreams),
    )
    yield Family(
        "aggregator_upstream_state",
        "gauge",
        "1 for the state the upstream is in.",
        (({**labels, "state": upstream.state}, 1) for labels, upstream in upstreams),
    )
    yield Family(
        "aggregator_upstream_since_seconds",
        "gauge",
        "Since when the upstream is in its state, in seconds since 1970.",
        ((labels, upstream.since) for labels, upstream in upstreams),
    )
    yield Family(
        "aggregator_upstream_answers",
        "gauge",
        "0 while calls are refused because the upstream does not answer.",
        ((labels, int(upstream.answers)) for labels, upstream in upstreams),
    )
    yield Family(
        "aggregator_upstream_recent_seconds",
        "gauge",
        "How long the upstream took for its calls of the last five minutes, by percentile.",
        (
            ({**labels, "percentile": percentile}, seconds)
            for labels, upstream in upstreams
            for percentile, seconds in upstream.lately.times
        ),
    )
    yield Family(
        "aggregator_upstream_recent_failures",
        "gauge",
        "The part of these calls that was not answered.",
        (
            (labels, upstream.lately.failed / upstream.lately.calls)
            for labels, upstream in upstreams
            if upstream.lately.calls
        ),
    )
    yield Family(
        "aggregator_upstream_reconnects_total",
        "counter",
        "Connections made after the first.",
        ((labels, upstream.reconnects) for labels, upstream in upstreams),
    )
    yield Family(
        "aggregator_upstream_in_flight",
        "gauge",
        "Requests the upstream has not answered yet.",
        ((labels, upstream.in_flight) for labels, upstream in upstreams),
    )
    yield Family(
        "aggregator_catalog_tools",
        "gauge",
        "Tools in the catalog.",
        ((labels, upstream.tools) for labels, upstream in upstreams),
    )
    yield Family(
        "aggregator_held_definitions",
        "gauge",
        "Definitions that changed since they were approved, and are not shown.",
        ((labels, upstream.held) for labels, upstream in upstreams),
    )
    yield Family(
        "aggregator_upstream_refused_total",
        "counter",
        "Calls refused because too many waited for the upstream.",
        ((labels, upstream.refused) for labels, upstream in upstreams),
    )
    yield Family("aggregator_open", "gauge", "What hosts have open, by limit.", _by("limit", now.open.items()))
    yield Family(
        "aggregator_refused_total", "counter", "What hosts were refused, by limit.", _by("limit", now.refused.items())
    )
    yield Family("aggregator_sessions", "gauge", "Open sessions.", _by("frontend", now.sessions.items()))
    yield Family("aggregator_queue_depth", "gauge", "What waits to be worked off.", _by("queue", now.queues.items()))
    yield Family(
        "aggregator_queue_lost_total", "counter", "What a queue had no room for.", _by("queue", now.lost.items())
    )
    yield Family(
        "aggregator_list_tokens",
        "gauge",
        "About how many tokens the tools an agent may call cost a model: all listed (whole), as they are (shown).",
        (
            sample
            for agent, tokens in lists
            for sample in (
                ({"agent": agent, "list": "whole"}, tokens.whole),
                ({"agent": agent, "list": "shown"}, tokens.shown),
            )
        ),
    )
    if now.receivers:
        yield Family(
            "aggregator_notices_total",
            "counter",
            "Notices by receiver, and by what became of them.",
            (
                ({"receiver": name, "outcome": outcome}, count)
                for name, counts in now.receivers.items()
                for outcome, count in (("sent", counts.sent), ("failed", counts.failed), ("dropped", counts.dropped))
            ),
        )
        yield Family(
            "aggregator_notices_waiting",
            "gauge",
            "Notices that are not handed over yet.",
            (({"receiver": name}, counts.waiting) for name, counts in now.receivers.items()),
        )
    if now.spans is not None:
        spans = now.spans
        ends = (("exported", spans.exported), ("failed", spans.failed), ("dropped", spans.dropped))
        yield Family("aggregator_spans_total", "counter", "Spans, by what became of them.", _by("outcome", ends))
        yield Family("aggregator_spans_waiting", "gauge", "Spans not sent yet.", [({}, spans.waiting)])


def _by(label: str, values: Iterable[tuple[str, int]]) -> list[tuple[Labels, float]]:
    return [({label: key}, value) for key, value in values]
