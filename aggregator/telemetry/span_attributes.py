"""The spans of one finished call: a server span for the host's hop, below it one for every step.

Law: decides only; every span of a call lies within the call's own span, and each has an end.

Sources: OpenTelemetry semantic conventions for MCP and for GenAI tools (in development, so names may still move), and
the attributes that Langfuse reads (its OpenTelemetry property mapping).
"""

import re
from collections.abc import Callable, Mapping
from typing import Final, Literal, NamedTuple

from aggregator.domain.call_record import TOOL_CALL, CallRecord, Stage, Status
from aggregator.domain.trace_context import step_span_id, upstream_span_id
from aggregator.telemetry.hops import HTTP, OF_FRONTEND, FindHop, NetworkHop, nowhere

Kind = Literal["server", "client", "internal"]
Value = str | int | float | list[str]
Captured = tuple[str | None, str | None]
"""Arguments and result as text that may be shown; None if it may not."""

# Targets other than tools, and whether they are few enough to name a span after.
_ASKED_FOR: Final[Mapping[str, tuple[str, bool]]] = {
    "prompts/get": ("gen_ai.prompt.name", True),
    "resources/read": ("mcp.resource.uri", False),
    "completion/complete": ("aggregator.completion.ref", False),
    "skills/get": ("mcp.resource.uri", False),
    "resources/directory/read": ("mcp.resource.uri", False),
}
# What went wrong if the record has no code of its own. With None, nothing did: no one is to be alerted.
FAILURES: Final[Mapping[Status, str | None]] = {
    "ok": None,
    "pending": None,
    "cancelled": None,
    "error": "tool_error",
    "timeout": "timeout",
    "unavailable": "upstream_unavailable",
    "denied": "tool_not_allowed",
    "invalid": "invalid_arguments",
}
# The caller's own doing: Langfuse shows it as a warning.
_WARNINGS: Final = frozenset({"denied", "invalid", "cancelled"})
OF_UPSTREAM: Final = frozenset({"error", "timeout", "unavailable"})
# An attempt that was followed by another failed; how, is not known any more.
SOME_FAILURE: Final = "_OTHER"

# The frontends that hosts send JSON-RPC to, and the one that does not speak MCP.
_JSON_RPC: Final = frozenset({"stdio", "http", "sse"})
PLAIN: Final = "v1"

_SHORT: Final = 200
_MESSAGE: Final = 500
RPC_CODE: Final = re.compile(r"-?[0-9]{1,10}")
_NANO: Final = 1_000_000_000

# Takes secrets out of a text.
TextRedactor = Callable[[str], str]


class Span(NamedTuple):
    """Times in nanoseconds since 1970. `error` is what went wrong, in few words, for a span that failed."""

    name: str
    kind: Kind
    span_id: str
    parent_id: str | None
    began: int
    ended: int
    attributes: Mapping[str, Value]
    error: str | None = None
    message: str | None = None


def spans_of(
    record: CallRecord, redact: TextRedactor, captured: Captured = (None, None), find_hop: FindHop = nowhere
) -> list[Span]:
    """Return the call's span, then its steps' in their order. `redact` takes secrets out of what others wrote;
    `find_hop` says how a server is reached.
    """
    began = round(record.started * _NANO)
    ended = began + max(round(record.duration * _NANO), 0)
    failure = failure_of(record)
    message = redact(record.outcome.error_message)[:_MESSAGE] if failure and record.outcome.error_message else None
    whole = Span(
        _name(record, "execute_tool" if record.caller.frontend == PLAIN else record.called.method, record.called.tool),
        "server",
        record.trace.span_id,
        record.trace.parent_id,
        began,
        ended,
        _with_failure(_of_call(record, redact) | _for_langfuse(record, captured, redact), failure),
        failure,
        message,
    )
    spans = [whole]
    attempts = len([step for step in record.steps if step.name == "upstream"])
    attempt = 0
    for index, step in enumerate(record.steps):
        if step.name == "upstream":
            last = attempt == attempts - 1
            spans.append(_upstream(record, index, attempt, whole, redact, find_hop, last=last))
            attempt += 1
        else:
            rule = record.decision.rule if step.name == "policy" else None
            attributes: Mapping[str, Value] = {"aggregator.rule": rule} if rule is not None else {}
            span_id = step_span_id(record.trace, index)
            spans.append(Span(step.name, "internal", span_id, whole.span_id, *_times(step, whole), attributes))
    return spans


def _upstream(
    record: CallRecord,
    index: int,
    attempt: int,
    whole: Span,
    redact: TextRedactor,
    find_hop: FindHop,
    *,
    last: bool,
) -> Span:
    server = (record.sending.answered_by or record.called.server) if last else record.called.server
    request_id, sent_name = _sent(record, index, last=last)
    hop = find_hop(server) if server is not None else NetworkHop()
    step = record.steps[index]
    failure = (whole.error if record.outcome.status in OF_UPSTREAM else None) if last else SOME_FAILURE
    attributes: dict[str, Value | None] = {
        "mcp.method.name": record.called.method,
        "mcp.protocol.version": record.sending.upstream_version,
        **_what(record, record.called.own_name, record.called.own_name, redact),
        "jsonrpc.request.id": str(request_id) if request_id is not None else None,
        "network.transport": hop.transport,
        "network.protocol.name": hop.protocol,
        "server.address": _named(hop.address, redact),
        "server.port": hop.port if hop.address else None,
        "aggregator.server.id": server,
        "aggregator.tool.sent": sent_name,
        "aggregator.attempt": attempt + 1 if attempt else None,
    }
    return Span(
        _name(record, record.called.method, record.called.own_name),
        "client",
        upstream_span_id(record.trace, attempt),
        whole.span_id,
        *_times(step, whole),
        _with_failure(attributes, failure),
        failure,
        whole.message if last and failure else None,
    )


def _sent(record: CallRecord, index: int, *, last: bool) -> tuple[int | None, str | None]:
    """Return the id of an attempt's request, and the tool's name in it if its server spells the approved one otherwise.

    `index` is that of its step. None is unknown.
    """
    if last:
        return record.sending.upstream_request_id, record.sending.sent_name
    found = next((attempt for attempt in record.sending.attempts if attempt.step == index), None)
    return (found.request_id, found.sent_name) if found is not None else (None, None)


def _of_call(record: CallRecord, redact: TextRedactor) -> dict[str, Value | None]:
    caller = record.caller
    hop = OF_FRONTEND.get(caller.frontend, HTTP)
    session = _named(caller.session_id, redact)
    return {
        "mcp.method.name": None if caller.frontend == PLAIN else record.called.method,
        "mcp.protocol.version": caller.host_version,
        "mcp.session.id": session,
        **_what(record, record.called.tool, record.asked_name, redact),
        "gen_ai.agent.id": _short(caller.agent_id),
        "gen_ai.conversation.id": _named(caller.conversation_id, redact),
        "user.id": _named(caller.user_id, redact),
        "session.id": session,
        "jsonrpc.request.id": _request_id(record, redact),
        "network.transport": hop.transport,
        "network.protocol.name": hop.protocol,
        "aggregator.frontend": caller.frontend,
        "aggregator.via": caller.via,
        "aggregator.tenant": caller.tenant,
        "aggregator.key.id": caller.key_id,
        "aggregator.server.id": record.called.server,
        "aggregator.answered_by": record.sending.answered_by,
        "aggregator.tool.version": record.called.schema_version,
        # The requested name, if no tool has it. It is not used as a span's name, since those must stay few.
        "aggregator.tool.asked": redact(record.asked_name)[:_SHORT] if record.called.tool is None else None,
        "aggregator.status": record.outcome.status,
        "aggregator.rule": record.decision.rule,
        "aggregator.rule.source": record.decision.rule_source,
        "aggregator.flow": record.flow,
        "aggregator.retries": record.sending.retries or None,
        "aggregator.queued": record.sending.queued or None,
    }


def _request_id(record: CallRecord, redact: TextRedactor) -> str | None:
    """Return the host's request id; None if it does not speak JSON-RPC."""
    if record.request_id is None or record.caller.frontend not in _JSON_RPC:
        return None
    return redact(str(record.request_id))[:_SHORT]


def _for_langfuse(record: CallRecord, captured: Captured, redact: TextRedactor) -> dict[str, Value | None]:
    """Return the attributes that Langfuse reads. A trace of the host has its own session and tags."""
    caller = record.caller
    arguments, result = captured
    at_root = record.trace.parent_id is None
    return {
        "gen_ai.tool.call.arguments": arguments,
        "gen_ai.tool.call.result": result,
        "langfuse.observation.input": arguments,
        "langfuse.observation.output": result,
        "langfuse.observation.level": "WARNING" if record.outcome.status in _WARNINGS else None,
        "langfuse.user.id": _named(caller.user_id, redact),
        "langfuse.session.id": _named(caller.conversation_id or (caller.session_id if at_root else None), redact),
        "langfuse.trace.tags": [f"agent:{_short(caller.agent_id)}"] if at_root else None,
    }


def failure_of(record: CallRecord) -> str | None:
    """Return the word for what went wrong; None if nothing did."""
    default = FAILURES[record.outcome.status]
    return (record.outcome.error_code or default) if default is not None else None


def _with_failure(attributes: dict[str, Value | None], failure: str | None) -> dict[str, Value]:
    if failure is not None:
        attributes["error.type"] = failure
        if RPC_CODE.fullmatch(failure):
            attributes["rpc.response.status_code"] = failure
    return _present(attributes)


def _present(attributes: Mapping[str, Value | None]) -> dict[str, Value]:
    return {key: value for key, value in attributes.items() if value is not None}


def _what(record: CallRecord, tool: str | None, requested: str | None, redact: TextRedactor) -> dict[str, Value | None]:
    """Return the attributes of the target, by its name on one hop."""
    if record.called.method == TOOL_CALL:
        return {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool}
    return {_ASKED_FOR[record.called.method][0]: _named(requested, redact)}


def _name(record: CallRecord, method: str, tool: str | None) -> str:
    """Return the name of a span, without names invented by a host: names of spans must stay few."""
    if record.called.method == TOOL_CALL:
        return f"{method} {tool}" if tool else method
    own_name = record.called.own_name
    return f"{method} {own_name}" if own_name and _ASKED_FOR[record.called.method][1] else method


def _named(text: str | None, redact: TextRedactor) -> str | None:
    """Return a name that a host made up, which may hold anything, without secrets."""
    return redact(text)[:_SHORT] if text else None


def _short(text: str | None) -> str | None:
    return text[:_SHORT] if text else None


def _times(step: Stage, whole: Span) -> tuple[int, int]:
    """Return begin and end of a step on the wall clock, always within the call's own."""
    first, last = whole.began, whole.ended
    _, after, seconds = step
    began = first + round(after * _NANO)
    began = first if began < first else last if began > last else began
    ended = began + round(seconds * _NANO)
    return began, began if ended < began else last if ended > last else ended
