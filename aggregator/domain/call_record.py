"""The record of one call: the source of its audit row, span and metrics at its end."""

from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, Protocol

# What leaves a row, a span and a count: calls of tools, and what else makes an upstream do something for a host.
TOOL_CALL: Final = "tools/call"
ON_RECORD: Final = frozenset(
    {TOOL_CALL, "resources/read", "prompts/get", "completion/complete", "skills/get", "resources/directory/read"}
)

Status = Literal[
    "ok", "error", "timeout", "denied", "invalid", "cancelled", "unavailable", "pending"
]  # `error`: an `isError` result or a JSON-RPC error; `pending`: it waits for a confirmation or an answer
# The status in a row of the audit log: the next gateway writes `interrupted` if one ended before the call did.
RowStatus = Literal[Status, "interrupted"]


class TraceContext(NamedTuple):
    """The place of a call in its trace (W3C Trace Context): ids in lower-case hex, 32 and 16 digits.

    `parent_id` is the caller's span, None at the root. `sampled` is the caller's flag; without one, True.
    """

    trace_id: str
    span_id: str
    parent_id: str | None = None
    sampled: bool = True
    tracestate: str = ""


# The call that the running task works on, for the log.
current_trace: ContextVar[TraceContext | None] = ContextVar("current_trace", default=None)


class MemoryHold(Protocol):
    """Counts the memory that the results of one call take."""

    def take(self, size: int, agent: str | None, server: str) -> bool: ...


@dataclass(slots=True)
class LogContext:
    """The facts that a log line states of the call in whose task it is written.

    Kept small, and apart from the call's record: timers and tasks that outlive the call keep this alive with them.
    """

    trace: TraceContext
    agent: str | None = None
    server: str | None = None
    tool: str | None = None
    holding: "MemoryHold | None" = None


# The call's data for log lines, if there is more than its trace.
current_call: ContextVar[LogContext | None] = ContextVar("current_call", default=None)


class Stage(NamedTuple):
    """A part of the pipeline, for a child span: `policy`, `check`, `confirm`, `upstream`, `output`; in seconds."""

    name: str
    began: float
    seconds: float


class Attempt(NamedTuple):
    """One attempt to answer a call: `step` is its number among the steps of the call, counted from 0.

    `failure` is one sentence without values of the call; None if the server answered. `request_id` is the id of its
    request to the server; None if none was sent. `sent_name` is the tool's name in it, as in `RecordedSending`.
    """

    step: int
    server: str
    failure: str | None
    request_id: int | None = None
    sent_name: str | None = None


# What `_meta` of a result that is shown in part says of it; no upstream can set it.
SHORTENED_KEY: Final = "aggregator/shortened"


class ShownPart(NamedTuple):
    """The tokens of a result that was shown in part, as estimated: those that were shown, and all of them."""

    shown: int
    all: int


class RecordedCaller(NamedTuple):
    """The caller of a call, as its record has it: the same for all calls of a host with the same `_meta`.

    `frontend` is `stdio`, `sse`, `http`, `v1`, `inprocess`, `cli` or `console`; `host_version` the revision that the
    host speaks, None without MCP; `via` the meta tool that the call came by, if any. The other fields are None if they
    are not known.
    """

    agent_id: str
    frontend: str
    host_version: str | None = None
    tenant: str | None = None
    key_id: str | None = None
    user_id: str | None = None
    session_id: str | None = None
    conversation_id: str | None = None
    via: str | None = None


class CalledItem(NamedTuple):
    """The item that a call asked for, once it is resolved: None is unknown.

    `method` is that of the request; if it is not `tools/call`, it is also the `tool`, and there is no `schema_version`.
    `tool` is the canonical name, `own_name` the one that the server gave the item, of a tool the approved one.
    """

    method: str = TOOL_CALL
    server: str | None = None
    tool: str | None = None
    own_name: str | None = None
    schema_version: str | None = None


class RecordedDecision(NamedTuple):
    """The rule that decided about a call, with its source, and its confirmation.

    `approved_by` is the confirmer, if confirmation was required: `host:NAME`, or the approver; `approval_id` names the
    entry of the queue, if there was one.
    """

    rule: str | None = None
    rule_source: str | None = None
    approved_by: str | None = None
    approval_id: str | None = None


class RecordedSending(NamedTuple):
    """The requests of one call to upstreams.

    `sent`: a request was sent; `harmless`: repeating it changes nothing. `upstream_version` is the revision that the
    upstream speaks, `upstream_request_id` the id of the last attempt's request, if one was sent. `answered_by` is the
    server that answered, if a fallback did. `attempts` is filled if the first did not answer. `queued` is in seconds.
    `sent_name` is the tool's name in the last attempt's request, if its server spells the approved name otherwise.
    """

    sent: bool = False
    harmless: bool = False
    upstream_version: str | None = None
    upstream_request_id: int | None = None
    answered_by: str | None = None
    retries: int = 0
    attempts: tuple[Attempt, ...] = ()
    queued: float = 0.0
    sent_name: str | None = None


class RecordedOutcome(NamedTuple):
    """The way a call ended. `shown` is set for a shortened result."""

    status: Status = "ok"
    error_code: str | None = None
    error_message: str | None = None
    shown: ShownPart | None = None


# The parts of a record that has just begun.
_NO_ITEM: Final = CalledItem()
_UNDECIDED: Final = RecordedDecision()
_NOT_SENT: Final = RecordedSending()
_FINE: Final = RecordedOutcome()


@dataclass(slots=True)
class CallRecord:
    """The record of one call: filled while it runs, closed once.

    `started` is wall-clock time in seconds since 1970, `began` that moment on the clock of durations; every duration is
    in seconds.

    `asked_name` is the requested name, and `called` the item that it means. `flow` are the flow labels of its
    conversation, and after a `+` the labels from its result. `request_id` is the id that the host gave its request, if
    it speaks JSON-RPC. `arguments` and `result` refer to the sent and received objects, which must not be changed;
    without a result, `outcome` says why.
    """

    trace: TraceContext
    started: float
    caller: RecordedCaller
    asked_name: str
    began: float = 0.0
    called: CalledItem = _NO_ITEM
    decision: RecordedDecision = _UNDECIDED
    sending: RecordedSending = _NOT_SENT
    outcome: RecordedOutcome = _FINE
    duration: float = 0.0
    steps: list[Stage] = field(default_factory=list)
    arguments: Any = None
    result: Any = None
    flow: str | None = None
    request_id: str | int | None = None

    @property
    def upstream_seconds(self) -> float:
        """Return the time spent in upstreams, all attempts together, in seconds."""
        return self.split()[0]

    def split(self) -> tuple[float, float, int]:
        """Return `upstream_seconds`, the seconds that were neither an upstream's nor a person's, and the number of
        attempts at upstreams.
        """
        upstream = person = 0.0
        attempts = 0
        for name, _, seconds in self.steps:
            if name == "upstream":
                upstream += seconds
                attempts += 1
            elif name == "confirm":
                person += seconds
        return upstream, self.duration - upstream - person, attempts


class BegunCall(NamedTuple):
    """A call that is about to be sent to its upstream; `call` is a copy of its record that does not change."""

    call: CallRecord


EventKind = Literal[
    "account",
    "login_refused",
    "console",
    "policy_loaded",
    "policy_reloaded",
    "policy_broken",
    "config_reloaded",
    "config_refused",
    "key_changed",
    "approval",
    "upstream_state",
    "tools_changed",
    "pins",
    "flow",
    "tool_reports",
    "log_trimmed",
    "log_recovered",
    "log_gap",
    "log_mended",
    "database_restored",
    "call_begun",
    "chain_begun",
    "call_ended_late",
]


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """An event that is no call. `details` are short JSON values without secrets."""

    kind: EventKind
    at: float  # wall clock, seconds since 1970
    summary: str  # one sentence
    agent_id: str | None = None
    server: str | None = None
    details: dict[str, Any] = field(default_factory=dict)
