"""A call, closed or begun, or another event, as a row of the audit log. Made on a thread of its own, many at a time."""

import json
import logging
from collections.abc import Callable
from hashlib import sha256
from typing import Any, Final

from aggregator.audit.capture import CUT, Capture
from aggregator.audit.sizes import measure
from aggregator.domain.call_record import TOOL_CALL, AuditEvent, BegunCall, CallRecord
from aggregator.storage.audit.chain import BEGUN, CALL, ChainEntry, entry
from aggregator.storage.digest import canonical_json

log = logging.getLogger(__name__)

# What a host chose itself is kept to this length.
_NAME: Final = 200
_MESSAGE: Final = 1000


def row(what: CallRecord | AuditEvent | BegunCall, capture: Capture, owner: str = "") -> ChainEntry:
    """Return the row of a record. Nothing is raised: what cannot be digested or kept is left out.

    `owner` names the process that makes the calls.
    """
    if isinstance(what, BegunCall):
        return begun_row(what.call, capture, owner)
    return call_row(what, capture) if isinstance(what, CallRecord) else event_row(what, capture)


def call_row(call: CallRecord, capture: Capture) -> ChainEntry:
    """Return a row of `mcp_tool_call_log`. Times are rounded to the microsecond, which survives being printed."""
    trace = call.trace
    started, duration = round(float(call.started), 6), round(float(call.duration), 6)
    arguments, result = call.arguments, call.result
    arguments_bytes, arguments_digest = _arguments(arguments) if arguments is not None else (None, None)
    result_bytes, result_digest = _measured(result) if result is not None else (None, None)
    return entry(
        CALL,
        {
            "trace_id": _text(trace.trace_id),
            "span_id": _text(trace.span_id),
            "parent_id": _text(trace.parent_id),
            "user_id": _named(call.user_id, capture),
            "session_id": _named(call.session_id, capture),
            "conversation_id": _named(call.conversation_id, capture),
            "agent_id": _text(call.agent_id),
            "key_id": _text(call.key_id),
            "tenant": _text(call.tenant),
            "server_id": _text(call.server),
            "answered_by": _text(call.answered_by),
            "tool_name": _text(call.tool),
            "asked_name": _named(call.asked_name, capture),
            "own_name": _text(call.own_name) if call.method == TOOL_CALL else _named(call.own_name, capture),
            "schema_version": _text(call.schema_version),
            "frontend": _text(call.frontend),
            "via": _text(call.via),
            "host_version": _text(call.host_version),
            "upstream_version": _text(call.upstream_version),
            "started": started,
            "ended": round(started + duration, 6),
            "duration": duration,
            "queued": round(float(call.queued), 6),
            "upstream_seconds": round(float(call.upstream_seconds), 6),
            "status": call.status,
            "error_code": _text(call.error_code),
            "error_message": _redacted(call.error_message, capture),
            "rule": _text(call.rule),
            "rule_source": _text(call.rule_source),
            "approved_by": _named(call.approved_by, capture),
            "retries": call.retries,
            "arguments_bytes": arguments_bytes,
            "arguments_digest": arguments_digest,
            "result_bytes": result_bytes,
            "result_digest": result_digest,
            "arguments": _kept(capture.arguments, arguments),
            "result": _kept(capture.result, result),
        },
    )


def begun_row(call: CallRecord, capture: Capture, owner: str) -> ChainEntry:
    """Return the event of a call that is about to be made; its details are the columns of the call, as far as known."""
    known = call_row(call, capture).values
    return entry(
        BEGUN,
        {
            "at": known["ended"],
            "summary": f"The call of {known.get('tool_name') or known['asked_name']} by {known['agent_id']} begins.",
            "agent_id": known["agent_id"],
            "server_id": known.get("server_id"),
            "details": json.dumps({"owner": owner, "call": dict(known)}),
        },
    )


def event_row(event: AuditEvent, capture: Capture) -> ChainEntry:
    """Return a row of `audit_events`."""
    return entry(
        event.kind,
        {
            "at": round(float(event.at), 6),
            "summary": _redacted(event.summary, capture),
            "agent_id": _text(event.agent_id),
            "server_id": _text(event.server),
            "details": _kept(capture.details, event.details) if event.details else None,
        },
    )


def _arguments(value: Any) -> tuple[int | None, str | None]:
    """Return the size and the digest of arguments; approvals have the same digest."""
    try:
        text = canonical_json(value)
    except (ValueError, TypeError, RecursionError):
        return _measured(value)
    return len(text), sha256(text).hexdigest()


def _measured(value: Any) -> tuple[int | None, str | None]:
    try:
        return measure(value)
    except (ValueError, TypeError, RecursionError):
        return None, None


def _kept(keep: Callable[[Any], str | None], value: Any) -> str | None:
    """Return what is kept of a value; None where it cannot be redacted."""
    try:
        return keep(value)
    except Exception:
        log.exception("a value could not be redacted for the audit log, and is left out of it")
        return None


def _redacted(text: str | None, capture: Capture) -> str | None:
    return _short(capture.message, text, _MESSAGE)


def _named(text: str | None, capture: Capture) -> str | None:
    """Return a name that a host made up, which may hold anything, without secrets."""
    return _short(capture.name, text, _NAME)


def _short(keep: Callable[[Any], str | None], text: str | None, most: int) -> str | None:
    """Return a text without secrets; empty stays empty, and a mark stands for what cannot be redacted."""
    kept = _kept(keep, text) if text else text
    return _text(CUT if text and kept is None else kept, most)


def _text(text: str | None, most: int = _NAME) -> str | None:
    """Return a text that every database takes: of a bounded length, without NUL and half characters."""
    if text is None or (len(text) <= most and text.isprintable()):
        return text
    cut = text if len(text) <= most else text[: most - 1] + CUT
    return cut.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()
