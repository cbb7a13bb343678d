"""Follows every call from when it comes to when it is answered, however that ends: one record, handed on once.

Law: what is done with records never delays a call, unless the operator asked for that (`strict`).
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from time import perf_counter
from types import TracebackType
from typing import Any, Final, NamedTuple

from aggregator.domain.bounds.result_memory import HeldMemory, ResultMemory
from aggregator.domain.call import ToolCall
from aggregator.domain.call_record import TOOL_CALL, CallRecord, LogContext, Stage, TraceContext, current_call
from aggregator.domain.errors import (
    ERROR_META_KEY,
    CallRefused,
    HostError,
    NotRecorded,
    NotServed,
    RpcError,
    ShuttingDown,
    UnknownTool,
    UpstreamError,
    UpstreamRpcError,
    to_tool_result,
)
from aggregator.domain.missing import ItemRefused
from aggregator.domain.records import ToolRecord
from aggregator.domain.trace_context import Sample, as_caller, begin, new_span_id, onward
from aggregator.gateway.host import Host
from aggregator.redaction.arguments import unsaid

log = logging.getLogger(__name__)

# Where a host may say for whom and in which session of its own a call is made.
USER_KEY: Final = "aggregator/user_id"
SESSION_KEY: Final = "aggregator/session_id"
_NAMED: Final = 200
# Of what is wrong with arguments.
_PROBLEMS_TOLD: Final = 5
# No revision of MCP is spoken there.
_PLAIN: Final = "v1"


async def _at_once(tool: str) -> None:
    """There is always room."""


class CallLog:
    """`sinks` get each record when its call is over. Until something is put in place of them, the rest does nothing.

    `sample` decides about a new trace, `exported` says that our spans can be looked up by others; `room` waits until
    there is room for one more record; `begun` until it is on record that a call is about to be made, and `written`
    until the record of its end is kept, where calls wait for that. `results` counts the memory that results take until
    their calls are answered.
    """

    def __init__(self) -> None:
        self.results = ResultMemory(512 * 2**20)
        self.sinks: tuple[Callable[[CallRecord], None], ...] = ()
        self.sample: Sample = as_caller
        self.exported = False
        self.room: Callable[[str], Awaitable[None]] = _at_once
        self.begun: Callable[[CallRecord], Awaitable[None]] | None = None
        self.written: Callable[[CallRecord], Awaitable[None]] | None = None

    async def follow(
        self, asked: ToolCall, host: Host, travel: Callable[[CallRecord], Awaitable[dict[str, Any]]]
    ) -> dict[str, Any]:
        """What `travel` answers, refusals and failures of upstreams as results; the call is on record however it ends.

        Raises:
            RpcError: it ended in an error of the protocol.
        """
        record = self._begin(asked, host)
        holding = HeldMemory(self.results)
        of_log = current_call.set(LogContext(record.trace, record.agent_id, holding=holding))
        try:
            return await self._ended(record, travel)
        except NotRecorded as refused:
            return refused.to_result()
        finally:
            current_call.reset(of_log)
            holding.end()

    async def attend(
        self, method: str, asked: ToolCall, host: Host, travel: Callable[["OpenRecord"], Awaitable[dict[str, Any]]]
    ) -> dict[str, Any]:
        """The same for a request that is no call of a tool: whatever goes wrong is raised as it is.

        Raises:
            RpcError, UpstreamError: why there is no result.
        """
        record = self._begin(asked, host)
        record.method = record.tool = method
        record.asked_name, record.arguments = _wanted(asked.params)
        holding = HeldMemory(self.results)
        of_log = current_call.set(LogContext(record.trace, record.agent_id, tool=method, holding=holding))
        try:
            return await self._ended(record, lambda record: travel(OpenRecord(self, record)))
        except NotRecorded as refused:
            raise ItemRefused.by(refused) from refused
        finally:
            current_call.reset(of_log)
            holding.end()

    async def _ended(
        self, record: CallRecord, travel: Callable[[CallRecord], Awaitable[dict[str, Any]]]
    ) -> dict[str, Any]:
        try:
            try:
                await self.room(record.asked_name)
                result = await travel(record)
                self._answered(record, result)
            except (CallRefused, UpstreamError) as error:
                log.info("%s: %s: %s", record.agent_id, record.tool or record.asked_name, error)
                self._failed(record, error)
                if record.method != TOOL_CALL:
                    raise
                record.result = result = error.to_result() if isinstance(error, CallRefused) else to_tool_result(error)
            except BaseException as error:
                self._failed(record, error)
                raise
            finally:
                self._close(record)
        except Exception:
            if self.written is not None:
                await self._kept(record, self.written)
            raise
        if self.written is not None:
            await self._kept(record, self.written)
        return result

    async def _kept(self, record: CallRecord, written: Callable[[CallRecord], Awaitable[None]]) -> None:
        try:
            await written(record)
        except NotRecorded:
            # What was refused had no effect that would have to be withheld.
            if any(step.name == "upstream" for step in record.steps):
                raise

    async def sends(self, record: CallRecord) -> None:
        """Return once the call may be sent to its upstream. To be called before that, as often as another one gets it.

        Raises:
            NotRecorded: it is not on record that it is sent, and has to be.
        """
        if self.begun is not None:
            now = perf_counter() - record.began
            await self.begun(replace(record, steps=list(record.steps), duration=now))

    def unclaimed(self, record: CallRecord, outcome: dict[str, Any] | Exception | None) -> None:
        """The end of a call whose host did not come back to it, on record below the request that ended in a question.

        `outcome` is None where the call had to be ended.
        """
        above = record.trace
        trace = TraceContext(above.trace_id, new_span_id(), above.span_id, above.sampled, above.tracestate)
        late = replace(record, trace=trace, started=time.time(), began=perf_counter(), steps=[], result=None)
        if isinstance(outcome, dict):
            self._answered(late, outcome)
        else:
            self._failed(late, outcome if outcome is not None else asyncio.CancelledError())
        late.error_code = "unclaimed"
        self._close(late)

    def _begin(self, asked: ToolCall, host: Host) -> CallRecord:
        """The record of a call that has just come in."""
        principal, meta = asked.principal, asked.params.get("_meta")
        trace = begin(meta, None, self.sample)
        name = asked.params.get("name")
        asked_name = name[:_NAMED] if isinstance(name, str) else ""
        record = CallRecord(trace, time.time(), principal.agent_id, asked_name, host.frontend, perf_counter())
        record.tenant, record.key_id = principal.tenant, principal.key_id
        record.session_id, record.conversation_id, record.via = host.session, asked.conversation, asked.via
        record.arguments = asked.params.get("arguments")
        if host.frontend != _PLAIN:
            record.host_version = asked.version
        if isinstance(meta, dict):
            record.user_id = _text(meta.get(USER_KEY))
            record.session_id = _text(meta.get(SESSION_KEY)) or host.session
        return record

    def carried(self, record: CallRecord, meta: Mapping[str, Any]) -> dict[str, str]:
        """The trace context for the request to the upstream: where the host began a trace, or ours are exported."""
        if not self.exported and "traceparent" not in meta:
            return {}
        attempt = sum(step.name == "upstream" for step in record.steps)
        return onward(record.trace, attempt, recorded=self.exported)

    def _answered(self, record: CallRecord, result: Mapping[str, Any]) -> None:
        """There is a result for the host, good or bad."""
        record.result = result
        if result.get("resultType", "complete") != "complete":
            record.status, record.error_code = "pending", str(result["resultType"])
        elif result.get("isError") is True:
            error = result["_meta"].get(ERROR_META_KEY) if isinstance(result.get("_meta"), dict) else None
            # Only we can have said that: no upstream's word of this key gets so far.
            code = error["code"] if error is not None else "tool_error"
            record.error_code, record.error_message = code, _said(error) if error is not None else None
            record.status = "invalid" if code == "invalid_arguments" else "error"

    def _failed(self, record: CallRecord, error: BaseException) -> None:
        """There is none."""
        record.error_message = str(error)
        if isinstance(error, CallRefused | UpstreamError):
            record.status, record.error_code = error.outcome, error.code
        elif isinstance(error, NotServed | ShuttingDown):
            record.status, record.error_code = error.outcome, error.word
        elif isinstance(error, RpcError):
            if isinstance(error, UpstreamRpcError):
                record.error_message = unsaid(error.message, record.arguments)
            record.status = "invalid" if isinstance(error, HostError) else "error"
            record.error_code = str(error.code)
        elif isinstance(error, asyncio.CancelledError):
            record.status, record.error_code, record.error_message = "cancelled", "cancelled", None
        else:
            record.status, record.error_code = "error", type(error).__name__
        if isinstance(error, CallRefused | NotServed) and error.blame is not None:
            record.rule, record.rule_source = error.blame
        if isinstance(error, CallRefused | UnknownTool):
            if error.meant is not None:
                name_tool(record, error.meant)
        elif isinstance(error, UpstreamError) and record.server is None:
            record.server = error.server

    def _close(self, record: CallRecord) -> None:
        """The call is over."""
        record.duration = perf_counter() - record.began
        for sink in self.sinks:
            sink(record)


class OpenRecord(NamedTuple):
    """Where a request that is no call of a tool leaves what becomes of it."""

    journal: CallLog
    record: CallRecord

    def name(self, server: str, own: str) -> None:
        """It is known what is asked for, and of which server."""
        self.record.server, self.record.own_name = server, own
        of_log = current_call.get()
        if of_log is not None:
            of_log.server = server


class timed:
    """What runs inside is one step of the call."""

    __slots__ = ("_began", "_name", "_record")

    def __init__(self, record: CallRecord, name: str) -> None:
        self._record = record
        self._name = name

    def __enter__(self) -> None:
        self._began = perf_counter()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        record, began = self._record, self._began
        # Quicker than its constructor, which is written in Python.
        record.steps.append(tuple.__new__(Stage, (self._name, began - record.began, perf_counter() - began)))


def name_tool(record: CallRecord, tool: ToolRecord) -> None:
    """It is known which tool is meant."""
    record.server, record.tool, record.own_name, record.schema_version = (
        tool.server,
        tool.name,
        tool.own_name,
        tool.version,
    )
    of_log = current_call.get()
    if of_log is not None:
        of_log.server, of_log.tool = tool.server, tool.name


def _said(error: Mapping[str, Any]) -> str | None:
    """What was wrong, without what was given: the values of a call are kept only where the config says so."""
    if "problems" not in error:
        return error.get("message")
    found = error["problems"]
    said = [f"{one['pointer'] or 'the whole'}: expected {one['expected']}" for one in found[:_PROBLEMS_TOLD]]
    return "; ".join(said + [f"and {len(found) - _PROBLEMS_TOLD} more"] * (len(found) > _PROBLEMS_TOLD))


def _wanted(params: Mapping[str, Any]) -> tuple[str, Any]:
    """What a request asks for, by whatever names it: a URI, or the name of a prompt; and what it is given."""
    ref = params.get("ref")
    holder = ref if isinstance(ref, dict) else params
    named = holder.get("uri", holder.get("name"))
    name = named[:_NAMED] if isinstance(named, str) else ""
    return name, params.get("argument") if ref is not None else params.get("arguments")


def _text(value: Any) -> str | None:
    return value[:_NAMED] if isinstance(value, str) and value else None
