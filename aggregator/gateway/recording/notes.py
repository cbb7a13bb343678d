"""The end of a call in its record: by the result, or by the exception."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from aggregator.accounts.connect_links import without_link
from aggregator.domain.call_record import SHORTENED_KEY, TOOL_CALL, CallRecord, ShownPart
from aggregator.domain.errors import (
    ERROR_META_KEY,
    BadArguments,
    CallRefused,
    HostError,
    NotServed,
    RpcError,
    ShuttingDown,
    UnknownTool,
    UpstreamError,
    UpstreamRpcError,
)
from aggregator.domain.missing import LoginRequired
from aggregator.domain.text.error_text import error_text
from aggregator.gateway.recording.timing import name_tool
from aggregator.redaction.arguments import without_arguments

# How many of the problems of arguments are named in a record.
_PROBLEMS_TOLD: Final = 5


def note_result(record: CallRecord, result: Mapping[str, Any]) -> None:
    """Record the end of a call that has a result, good or bad."""
    record.result = result
    meta = result.get("_meta")
    if isinstance(meta, dict) and (details := meta.get(SHORTENED_KEY)) is not None and "tokens" in details:
        # Only the aggregator can have set it: an upstream's value under this key is removed before.
        record.shown = ShownPart(details["shown"], details["tokens"])
    if result.get("resultType", "complete") != "complete":
        record.result = without_link(result)
        record.status, record.error_code = "pending", str(result["resultType"])
    elif result.get("isError") is True:
        error = result["_meta"].get(ERROR_META_KEY) if isinstance(result.get("_meta"), dict) else None
        result = record.result = without_link(result)
        # Only the aggregator can have set it: an upstream's value under this key is removed before.
        code = error["code"] if error is not None else "tool_error"
        record.error_code, record.error_message = code, _said(error, result) if error is not None else None
        record.status = "invalid" if code == "invalid_arguments" else "error"


def note_failure(record: CallRecord, error: BaseException) -> None:
    """Note how a call ended that has none."""
    record.error_message = error_text(error)
    if isinstance(error, CallRefused | UpstreamError):
        record.status, record.error_code = error.outcome, error.code
        if record.method == TOOL_CALL and not isinstance(error, LoginRequired):
            record.error_message = f"{error.message} {error.advice}".rstrip()
        if "approval" in error.details:
            record.approval_id = error.details["approval"]
    elif isinstance(error, NotServed | ShuttingDown):
        record.status, record.error_code = error.outcome, error.word
    elif isinstance(error, RpcError):
        if isinstance(error, UpstreamRpcError):
            record.error_message = without_arguments(error.message, record.arguments)
        record.status = "invalid" if isinstance(error, HostError) else "error"
        record.error_code = str(error.code)
    elif isinstance(error, asyncio.CancelledError):
        record.status, record.error_code, record.error_message = "cancelled", "cancelled", None
    else:
        record.status, record.error_code = "error", type(error).__name__
    if isinstance(error, CallRefused | NotServed) and error.blame is not None:
        record.rule, record.rule_source = error.blame
    if isinstance(error, CallRefused | UnknownTool | UpstreamError) and error.meant is not None:
        name_tool(record, error.meant)
    elif isinstance(error, UpstreamError) and record.server is None:
        record.server = error.server


def _said(error: Mapping[str, Any], result: Mapping[str, Any]) -> str | None:
    """Return the message to the agent, without the values of the call: they are stored only if the configuration allows
    it.
    """
    if "problems" not in error:
        content = result.get("content")
        told = content[0].get("text") if isinstance(content, list) and content else None
        return told if isinstance(told, str) else error.get("message")
    found = error["problems"]
    said = [f"{one['pointer'] or 'the whole'}: expected {one['expected']}" for one in found[:_PROBLEMS_TOLD]]
    said += [f"and {len(found) - _PROBLEMS_TOLD} more"] * (len(found) > _PROBLEMS_TOLD)
    return f"{'; '.join(said)}. {BadArguments.advice}"
