"""The steps of a call, timed into its record while it runs, the tool that it turned out to mean, and its end."""

import asyncio
from collections.abc import Mapping
from time import perf_counter
from types import TracebackType
from typing import Any, Final

from aggregator.accounts.connect_links import without_link
from aggregator.domain.call_record import (
    SHORTENED_KEY,
    TOOL_CALL,
    Attempt,
    CalledItem,
    CallRecord,
    ShownPart,
    Stage,
    Status,
    current_call,
)
from aggregator.domain.errors import (
    ERROR_META_KEY,
    AggregatorError,
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
from aggregator.domain.records import ToolRecord
from aggregator.domain.text.cut import cut_between_words
from aggregator.domain.text.error_text import error_text
from aggregator.redaction.arguments import without_arguments

# Characters of the sentence about a failed attempt, and recorded attempts of one call.
_FAILURE: Final = 300
_ATTEMPTS: Final = 20

# How many of the problems of arguments are named in a record.
_PROBLEMS_TOLD: Final = 5


class timed:
    """Times what runs inside as one stage of a call."""

    __slots__ = ("_began", "_name", "_record")

    def __init__(self, record: CallRecord, name: str, began: float | None = None) -> None:
        """Time a stage; one that `began` earlier, by the clock of durations, from then on."""
        self._record = record
        self._name = name
        self._began = began

    def __enter__(self) -> None:
        if self._began is None:
            self._began = perf_counter()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        record, began = self._record, self._began
        assert began is not None, "a stage is entered once"
        # Quicker than its constructor, which is written in Python.
        record.steps.append(tuple.__new__(Stage, (self._name, began - record.began, perf_counter() - began)))


class attempted(timed):
    """Times one attempt to answer a call, and records its server and the reason of its failure, if informative."""

    __slots__ = ("_server",)

    def __init__(self, record: CallRecord, server: str, began: float | None = None) -> None:
        """Time an attempt of `server`; one that `began` earlier, by the clock of durations, from then on."""
        super().__init__(record, "upstream", began)
        self._server = server

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        record = self._record
        sending = record.sending
        if (error is not None or sending.attempts) and len(sending.attempts) < _ATTEMPTS:
            why, number = _why(error, record), len(record.steps)
            tried = Attempt(number, self._server, why, sending.upstream_request_id, sending.sent_name)
            record.sending = sending._replace(attempts=(*sending.attempts, tried))
        super().__exit__(kind, error, trace)


def enter_tool(record: CallRecord, tool: ToolRecord) -> None:
    """Record the resolved tool."""
    # Quicker than its constructor, which is written in Python.
    record.called = tuple.__new__(CalledItem, (TOOL_CALL, tool.server, tool.name, tool.own_name, tool.version))


def name_tool(record: CallRecord, tool: ToolRecord) -> None:
    """Record the resolved tool of the running task's call, and note it for the log."""
    enter_tool(record, tool)
    context = current_call.get()
    if context is not None:
        context.server, context.tool = tool.server, tool.name


def _why(error: BaseException | None, record: CallRecord) -> str | None:
    """Return in one sentence why an attempt failed; None if it did not."""
    if error is None:
        return None
    if isinstance(error, UpstreamRpcError):
        said = f"It answered with the error {error.code}: {without_arguments(error.message, record.arguments)}"
    elif isinstance(error, asyncio.CancelledError):
        said = "The call was cancelled."
    else:
        said = error_text(error) if isinstance(error, AggregatorError) else type(error).__name__
    return cut_between_words(said, _FAILURE)


def note_result(record: CallRecord, result: Mapping[str, Any]) -> None:
    """Record the end of a call that has a result, good or bad."""
    record.result = result
    meta = result.get("_meta")
    if isinstance(meta, dict) and (details := meta.get(SHORTENED_KEY)) is not None and "tokens" in details:
        # Only the aggregator can have set it: an upstream's value under this key is removed before.
        record.outcome = record.outcome._replace(shown=ShownPart(details["shown"], details["tokens"]))
    if result.get("resultType", "complete") != "complete":
        record.result = without_link(result)
        record.outcome = record.outcome._replace(status="pending", error_code=str(result["resultType"]))
    elif result.get("isError") is True:
        error = result["_meta"].get(ERROR_META_KEY) if isinstance(result.get("_meta"), dict) else None
        result = record.result = without_link(result)
        # Only the aggregator can have set it: an upstream's value under this key is removed before.
        code = error["code"] if error is not None else "tool_error"
        record.outcome = record.outcome._replace(
            status="invalid" if code == "invalid_arguments" else "error",
            error_code=code,
            error_message=_said(error, result) if error is not None else None,
        )


def note_failure(record: CallRecord, error: BaseException) -> None:
    """Note how a call ended that has none."""
    status, code, message = _failure(record, error)
    record.outcome = record.outcome._replace(status=status, error_code=code, error_message=message)
    if isinstance(error, CallRefused | UpstreamError) and "approval" in error.details:
        record.decision = record.decision._replace(approval_id=error.details["approval"])
    if isinstance(error, CallRefused | NotServed) and error.blame is not None:
        rule, source = error.blame
        record.decision = record.decision._replace(rule=rule, rule_source=source)
    if isinstance(error, CallRefused | UnknownTool | UpstreamError) and error.meant is not None:
        name_tool(record, error.meant)
    elif isinstance(error, UpstreamError) and record.called.server is None:
        record.called = record.called._replace(server=error.server)


def _failure(record: CallRecord, error: BaseException) -> tuple[Status, str, str | None]:
    """Return the status, the code and the message of a call that ended in an error."""
    message = error_text(error)
    if isinstance(error, CallRefused | UpstreamError):
        if record.called.method == TOOL_CALL and not isinstance(error, LoginRequired):
            message = f"{error.message} {error.advice}".rstrip()
        return error.outcome, error.code, message
    if isinstance(error, NotServed | ShuttingDown):
        return error.outcome, error.word, message
    if isinstance(error, RpcError):
        if isinstance(error, UpstreamRpcError):
            message = without_arguments(error.message, record.arguments)
        return "invalid" if isinstance(error, HostError) else "error", str(error.code), message
    if isinstance(error, asyncio.CancelledError):
        return "cancelled", "cancelled", None
    return "error", type(error).__name__, message


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
