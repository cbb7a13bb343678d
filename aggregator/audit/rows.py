"""A call, closed or begun, or another event, as a row of the audit log. Made on a thread of its own, many at a time."""

import json
import logging
from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import Any, Final

from aggregator.audit.capture import CUT, Capture
from aggregator.audit.sizes import measure
from aggregator.domain.call_record import TOOL_CALL, AuditEvent, BegunCall, CallRecord
from aggregator.storage.audit.chain import BEGUN, CALL, MICRO, ChainEntry, call_entry, entry
from aggregator.storage.digest import canonical_json
from aggregator.wire.codec import encode

log = logging.getLogger(__name__)

# What a host chose itself is kept to this length.
_NAME: Final = 200
_MESSAGE: Final = 1000
_NOTHING: Final = (None, None)
# Seconds: a call whose own time in the aggregator exceeds the first, or whose whole time exceeds the second, has its
# steps recorded. The times of any other call contain enough.
_LONG_OWN: Final = 0.001
_LONG: Final = 1.0
_STEPS: Final = 100
# The values that columns shared by many calls are made from, as `_call` lists them: texts alone, so that no record of a
# call lives on as part of a key.
_CommonKey = tuple[str | None, ...]
# So many kinds of calls are remembered.
_COMMON: Final = 1024


class RowMaker:
    """The maker of rows for the records of one process. `owner` returns the name of the calling process.

    The columns that many calls share are built, checked and redacted once.
    """

    def __init__(self, capture: Capture, owner: Callable[[], str] = str) -> None:
        self._capture = capture
        self._owner = owner
        self._common: dict[_CommonKey, dict[str, Any]] = {}

    def row(self, what: CallRecord | AuditEvent | BegunCall) -> ChainEntry:
        """Return the row of a record. What cannot be digested or kept is left out."""
        if isinstance(what, CallRecord):
            return self._call(what)
        return self._begun(what.call) if isinstance(what, BegunCall) else event_row(what, self._capture)

    def _call(self, call: CallRecord) -> ChainEntry:
        """Return a row of `mcp_tool_call_log`. Times are rounded to the microsecond, which survives being printed."""
        trace, decision, sending, outcome = call.trace, call.decision, call.sending, call.outcome
        key = (
            *call.caller,
            *call.called,
            sending.answered_by,
            sending.upstream_version,
            outcome.error_code,
            decision.rule,
            decision.rule_source,
            call.asked_name,
            decision.approved_by,
            outcome.status,
        )
        common = self._common.get(key)
        values = (common if common is not None else self._made_common(key, call)).copy()
        if (trace.trace_id + trace.span_id).isprintable() and len(trace.trace_id) <= _NAME >= len(trace.span_id):
            values["trace_id"], values["span_id"] = trace.trace_id, trace.span_id
        else:
            values["trace_id"], values["span_id"] = _text(trace.trace_id), _text(trace.span_id)
        values["retries"] = sending.retries
        if trace.parent_id is not None:
            values["parent_id"] = _text(trace.parent_id)
        if sending.sent_name is not None:
            values["sent_name"] = _text(sending.sent_name)
        if outcome.error_message is not None:
            values["error_message"] = _redacted(outcome.error_message, self._capture)
        size, digest = _arguments(call.arguments) if call.arguments is not None else _NOTHING
        values["arguments_bytes"], values["arguments_digest"] = size, digest
        if size is None:
            del values["arguments_bytes"], values["arguments_digest"]
        size, digest = _measured(call.result) if call.result is not None else _NOTHING
        values["result_bytes"], values["result_digest"] = size, digest
        if size is None:
            del values["result_bytes"], values["result_digest"]
        if self._capture.mode != "none":
            for name, keep, value in (
                ("arguments", self._capture.arguments, call.arguments),
                ("result", self._capture.result, call.result),
            ):
                if (kept := _kept(keep, value)) is not None:
                    values[name] = kept
        upstream = 0.0
        for name, _, seconds in call.steps:
            if name == "upstream":
                upstream += seconds
        duration = float(call.duration)
        if (
            duration - upstream > _LONG_OWN
            or duration > _LONG
            or len(sending.attempts) > 1
            or decision.approved_by is not None
            or outcome.shown is not None
        ):
            values["steps"] = self._steps(call)
        if decision.approval_id is not None:
            values["approval_id"] = decision.approval_id
        if call.flow is not None:
            values["flow"] = _text(call.flow)
        return call_entry(
            values,
            round(float(call.started) * MICRO),
            round(duration * MICRO),
            round(float(sending.queued) * MICRO) if sending.queued else 0,
            round(upstream * MICRO),
        )

    def _steps(self, call: CallRecord) -> str:
        """Return the steps of a call as JSON: `[name, began, took, server, failure]`, in microseconds.

        The last two exist for a recorded attempt. `output` has a fourth member if the result was shown in part.
        """
        attempts, shown = {one.step: one for one in call.sending.attempts}, call.outcome.shown
        steps: list[list[str | int | None]] = []
        for number, (name, began, seconds) in enumerate(call.steps[:_STEPS]):
            step: list[str | int | None] = [name, round(began * MICRO), round(seconds * MICRO)]
            if (attempt := attempts.get(number)) is not None:
                step.append(_text(attempt.server))
                if attempt.failure is not None:
                    step.append(_redacted(attempt.failure, self._capture))
            elif name == "output" and shown is not None:
                step.append(f"{shown.shown:,} of {shown.all:,} tokens shown")
            steps.append(step)
        return encode(steps).decode()

    def _made_common(self, key: _CommonKey, call: CallRecord) -> dict[str, Any]:
        """Make and cache the columns that follow from `key`, among the call's own columns.

        They are sorted for the digest; a copy with all these names in it need not grow.
        """
        capture = self._capture
        fit = _all_fit(key)
        text = _as_it_is if fit else _text
        caller, called, decision, sending, outcome = call.caller, call.called, call.decision, call.sending, call.outcome
        values = {
            "agent_id": text(caller.agent_id),
            "answered_by": text(sending.answered_by),
            "approved_by": _named(decision.approved_by, capture),
            "arguments_bytes": "",
            "arguments_digest": "",
            "asked_name": _named(call.asked_name, capture),
            "conversation_id": _named(caller.conversation_id, capture),
            "duration": "",
            "ended": "",
            "error_code": text(outcome.error_code),
            "frontend": text(caller.frontend),
            "host_version": text(caller.host_version),
            "key_id": text(caller.key_id),
            "kind": CALL,
            "own_name": text(called.own_name) if called.method == TOOL_CALL else _named(called.own_name, capture),
            "queued": "",
            "result_bytes": "",
            "result_digest": "",
            "retries": "",
            "rule": text(decision.rule),
            "rule_source": text(decision.rule_source),
            "schema_version": text(called.schema_version),
            "server_id": text(called.server),
            "session_id": _named(caller.session_id, capture),
            "span_id": "",
            "started": "",
            "status": outcome.status,
            "tenant": text(caller.tenant),
            "tool_name": text(called.tool),
            "trace_id": "",
            "upstream_seconds": "",
            "upstream_version": text(sending.upstream_version),
            "user_id": _named(caller.user_id, capture),
            "via": text(caller.via),
        }
        common = {name: value for name, value in values.items() if value is not None}
        if fit:
            if len(self._common) >= _COMMON:
                self._common.clear()
            self._common[key] = common
        return common

    def _begun(self, call: CallRecord) -> ChainEntry:
        """Return the begin event of a call; its details are the columns known so far."""
        known = self._call(call).values
        name = known.get("tool_name") or known["asked_name"]
        return entry(
            BEGUN,
            {
                "at": known["ended"],
                "summary": f"The call of {name} by {known['agent_id']} begins.",
                "agent_id": known["agent_id"],
                "server_id": known.get("server_id"),
                "details": json.dumps({"owner": self._owner(), "call": dict(known)}),
            },
        )


def row(what: CallRecord | AuditEvent | BegunCall, capture: Capture, owner: str = "") -> ChainEntry:
    """Return a single row, as `RowMaker` makes them."""
    return RowMaker(capture, lambda: owner).row(what)


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
    """Return the stored text of a value; None if it cannot be redacted."""
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


def _all_fit(texts: Iterable[str | None]) -> bool:
    """Return whether `_text` would change none of these."""
    given = list(filter(None, texts))
    return max(map(len, given), default=0) <= _NAME and "".join(given).isprintable()


def _as_it_is(text: str | None) -> str | None:
    return text


def _text(text: str | None, most: int = _NAME) -> str | None:
    """Return a text that every database takes: of a bounded length, without NUL and half characters."""
    if text is None or (len(text) <= most and text.isprintable()):
        return text
    cut = text if len(text) <= most else text[: most - 1] + CUT
    return cut.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()
