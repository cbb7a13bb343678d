"""Call records as the pipeline fills them, and a snapshot of a small aggregator."""

from typing import Any, Final, get_args

from hypothesis import strategies as st

from aggregator.domain.call_record import CallRecord, Stage, Status, TraceContext
from aggregator.domain.trace_context import begin
from aggregator.telemetry.snapshot import (
    ListTokens,
    ReceiverCounts,
    RecentCalls,
    Snapshot,
    SpanCounts,
    UpstreamSnapshot,
)
from tests.call_records import record_of

STATUSES: Final[tuple[Status, ...]] = get_args(Status)
# Ended by a caller's mistake or a rule before anything is sent.
UNSENT: Final = ("denied", "invalid", "pending")


def step_times(status: Status) -> list[Stage]:
    """The steps of a call that ended so."""
    steps = [Stage("policy", 0.0001, 0.0001), Stage("check", 0.0002, 0.0002)]
    if status not in UNSENT:
        steps.append(Stage("upstream", 0.001, 0.04))
    if status == "ok":
        steps.append(Stage("output", 0.042, 0.001))
    return steps


def call(status: Status = "ok", **given: Any) -> CallRecord:
    """A call of `weather.get_forecast` that took 50 ms."""
    fields: dict[str, Any] = {
        "trace": begin(),
        "started": 1_800_000_000.5,
        "began": 4_711.25,
        "agent_id": "shop",
        "asked_name": "weather__get_forecast",
        "frontend": "http",
        "host_version": "2026-07-28",
        "server": "weather",
        "tool": "weather.get_forecast",
        "own_name": "get_forecast",
        "schema_version": "5f0c",
        "upstream_version": "2025-11-25",
        "duration": 0.05,
        "steps": step_times(status),
        "status": status,
    }
    fields |= given
    return record_of(**fields)


def unknown_tool(name: str = "nobody.knows", **given: Any) -> CallRecord:
    """A call of a name that no tool has."""
    nothing = {"server": None, "tool": None, "own_name": None, "schema_version": None, "upstream_version": None}
    return call("invalid", asked_name=name, error_code="unknown_tool", steps=[], **nothing, **given)


ITEMS: Final = {
    "resources/read": ("mcp.resource.uri", "note://weather/graz"),
    "prompts/get": ("gen_ai.prompt.name", "weather.greet"),
    "completion/complete": ("aggregator.completion.ref", "weather.greet"),
}


def item(method: str, **given: Any) -> CallRecord:
    """A request that is no call of a tool."""
    asked, steps = ITEMS[method][1], [Stage("upstream", 0.001, 0.04)]
    fields = {"tool": method, "asked_name": asked, "own_name": "own", "schema_version": None, "steps": steps}
    return call(method=method, **(fields | given))


NAMES: Final = st.text(st.sampled_from('abc._-"\\\n 天'), max_size=6)
MOMENTS: Final = st.floats(-1.0, 400.0)


@st.composite
def calls(draw: st.DrawFn) -> CallRecord:
    """Any record a pipeline could leave, and some that only a broken clock could."""
    parent = draw(st.sampled_from([None, "00f067aa0ba902b7"]))
    steps = st.builds(Stage, st.sampled_from(["policy", "check", "confirm", "upstream", "output"]), MOMENTS, MOMENTS)
    return call(
        draw(st.sampled_from(STATUSES)),
        trace=TraceContext("4bf92f3577b34da6a3ce929d0e0e4736", "53995c3f42cd8ad8", parent),
        agent_id=draw(NAMES),
        server=draw(st.none() | NAMES),
        tool=draw(st.none() | NAMES),
        duration=draw(MOMENTS),
        steps=draw(st.lists(steps, max_size=6)),
        retries=draw(st.integers(0, 3)),
        queued=draw(st.floats(0.0, 3.0)),
        error_code=draw(st.none() | st.sampled_from(["-32603", "upstream_timeout"])),
    )


SNAPSHOT: Final = Snapshot(
    upstreams={
        "weather": UpstreamSnapshot("ready", 12, 3, 2, lately=RecentCalls(4, 1, (("p50", 0.25),))),
        'odd"\\\nname': UpstreamSnapshot("unavailable"),
    },
    sessions={"http": 4, "sse": 1, "stdio": 0},
    open={"sessions": 5, "streams": 1, "pending": 3},
    refused={"pending": 2},
    queues={"audit": 17, "approvals": 2},
    lost={"audit": 0},
    lists={"shop": ListTokens(9_000, 350)},
    spans=SpanCounts(100, 5, 2, 7),
    receivers={"on-call": ReceiverCounts(3, 2, 1, 4)},
)
