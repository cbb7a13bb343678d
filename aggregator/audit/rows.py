"""A call, closed or begun, or another event, as a row of the audit log. Made on a thread of its own, many at a time."""

import json
import logging
from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import Any, Final

from aggregator.audit.capture import CUT, Capture
from aggregator.audit.sizes import measure
from aggregator.domain.call_record import TOOL_CALL, AuditEvent, BegunCall, CallRecord
from aggregator.storage.audit.chain import BEGUN, CALL, MICRO, ChainEntry, entry
from aggregator.storage.digest import canonical_json

log = logging.getLogger(__name__)

# What a host chose itself is kept to this length.
_NAME: Final = 200
_MESSAGE: Final = 1000
# The columns of short texts that are our own, or were checked before.
_TEXTS: Final = (
    "trace_id",
    "span_id",
    "parent_id",
    "agent_id",
    "key_id",
    "tenant",
    "server_id",
    "answered_by",
    "tool_name",
    "schema_version",
    "frontend",
    "via",
    "host_version",
    "upstream_version",
    "error_code",
    "rule",
    "rule_source",
)


def row(what: CallRecord | AuditEvent | BegunCall, capture: Capture, owner: str = "") -> ChainEntry:
    """Return the row of a record. Nothing is raised: what cannot be digested or kept is left out.

    `owner` names the process that makes the calls.
    """
    if isinstance(what, BegunCall):
        return begun_row(what.call, capture, owner)
    return call_row(what, capture) if isinstance(what, CallRecord) else event_row(what, capture)


def call_row(call: CallRecord, capture: Capture) -> ChainEntry:
    """Return a row of `mcp_tool_call_log`. Times are rounded to the microsecond, which survives being printed."""
    trace, own_name = call.trace, call.own_name
    started, duration = _microseconds(call.started), _microseconds(call.duration)
    texts = (
        trace.trace_id,
        trace.span_id,
        trace.parent_id,
        call.agent_id,
        call.key_id,
        call.tenant,
        call.server,
        call.answered_by,
        call.tool,
        call.schema_version,
        call.frontend,
        call.via,
        call.host_version,
        call.upstream_version,
        call.error_code,
        call.rule,
        call.rule_source,
    )
    values: dict[str, Any] = dict(zip(_TEXTS, texts if _all_fit(texts) else map(_text, texts), strict=True))
    values["started"] = started / MICRO
    values["ended"] = (started + duration) / MICRO
    values["duration"] = duration / MICRO
    values["queued"] = _microseconds(call.queued) / MICRO
    values["upstream_seconds"] = _microseconds(call.upstream_seconds) / MICRO
    values["status"] = call.status
    values["retries"] = call.retries
    for name, chosen in (
        ("user_id", call.user_id),
        ("session_id", call.session_id),
        ("conversation_id", call.conversation_id),
        ("asked_name", call.asked_name),
        ("approved_by", call.approved_by),
    ):
        if chosen is not None:
            values[name] = _named(chosen, capture)
    values["own_name"] = _text(own_name) if call.method == TOOL_CALL else _named(own_name, capture)
    if call.error_message is not None:
        values["error_message"] = _redacted(call.error_message, capture)
    if call.arguments is not None:
        values["arguments_bytes"], values["arguments_digest"] = _arguments(call.arguments)
        values["arguments"] = _kept(capture.arguments, call.arguments)
    if call.result is not None:
        values["result_bytes"], values["result_digest"] = _measured(call.result)
        values["result"] = _kept(capture.result, call.result)
    return entry(CALL, values)


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


def _microseconds(seconds: float) -> int:
    return round(float(seconds) * MICRO)


def _all_fit(texts: Iterable[str | None]) -> bool:
    """Return whether `_text` would change none of these."""
    given = list(filter(None, texts))
    return max(map(len, given), default=0) <= _NAME and "".join(given).isprintable()


def _text(text: str | None, most: int = _NAME) -> str | None:
    """Return a text that every database takes: of a bounded length, without NUL and half characters."""
    if text is None or (len(text) <= most and text.isprintable()):
        return text
    cut = text if len(text) <= most else text[: most - 1] + CUT
    return cut.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()
