"""Follows every call from when it comes to when it is answered, however that ends: one record, handed on once.

Law: what is done with records never delays a call, unless the operator asked for that (`strict`).
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from time import perf_counter
from types import TracebackType
from typing import Any, Final

from aggregator.domain.call import Asked
from aggregator.domain.errors import (
    ERROR_META_KEY,
    CallRefused,
    HostError,
    RpcError,
    UnknownTool,
    UpstreamError,
)
from aggregator.domain.records import ToolRecord
from aggregator.domain.trace import CallRecord, Step, current_trace
from aggregator.domain.trace_context import Sample, as_caller, begin, onward
from aggregator.gateway.host import Host

# Where a host may say for whom and in which session of its own a call is made.
USER_KEY: Final = "aggregator/user_id"
SESSION_KEY: Final = "aggregator/session_id"
_NAMED: Final = 200


async def _at_once(tool: str) -> None:
    """There is always room."""


async def _never_mind(record: CallRecord) -> None:
    """Nobody waits for a record to be kept."""


class Journal:
    """`sinks` get each record when its call is over. Until something is put in place of them, the rest does nothing.

    `sample` decides about a new trace, `exported` says that our spans can be looked up by others; `room` waits until
    there is room for one more record, `written` until one is kept.
    """

    def __init__(self) -> None:
        self.sinks: tuple[Callable[[CallRecord], None], ...] = ()
        self.sample: Sample = as_caller
        self.exported = False
        self.room: Callable[[str], Awaitable[None]] = _at_once
        self.written: Callable[[CallRecord], Awaitable[None]] = _never_mind

    def begin(self, asked: Asked, host: Host) -> CallRecord:
        """The record of a call that has just come in."""
        principal, meta = asked.principal, asked.params.get("_meta")
        trace = begin(meta, None, self.sample)
        current_trace.set(trace)
        name = asked.params.get("name")
        record = CallRecord(
            trace,
            time.time(),
            principal.agent_id,
            name[:_NAMED] if isinstance(name, str) else "",
            host.door,
            began=perf_counter(),
            host_version=asked.version,
            tenant=principal.tenant,
            key_id=principal.key_id,
            session_id=host.session,
            conversation_id=asked.conversation,
            via=asked.via,
            arguments=asked.params.get("arguments"),
        )
        if isinstance(meta, dict):
            record.user_id = _text(meta.get(USER_KEY))
            record.session_id = _text(meta.get(SESSION_KEY)) or host.session
        return record

    def carried(self, record: CallRecord, meta: Mapping[str, Any]) -> dict[str, str]:
        """The trace context for the request to the upstream: where the host began a trace, or ours are exported."""
        if not self.exported and "traceparent" not in meta:
            return {}
        return onward(record.trace, record.retries, recorded=self.exported)

    def answered(self, record: CallRecord, result: Mapping[str, Any]) -> None:
        """There is a result for the host, good or bad."""
        record.result = result
        if result.get("resultType", "complete") != "complete":
            record.status, record.error_code = "pending", str(result["resultType"])
        elif result.get("isError") is True:
            error = result["_meta"].get(ERROR_META_KEY) if isinstance(result.get("_meta"), dict) else None
            code = error.get("code") if isinstance(error, dict) else None
            record.error_code = code if isinstance(code, str) else "tool_error"
            record.status = "invalid" if code == "invalid_arguments" else "error"

    def failed(self, record: CallRecord, error: BaseException) -> None:
        """There is none."""
        record.error_message = str(error)
        if isinstance(error, CallRefused | UpstreamError):
            record.status, record.error_code = error.outcome, error.code
        elif isinstance(error, UnknownTool):
            record.status, record.error_code = "invalid" if error.blame is None else "denied", "unknown_tool"
        elif isinstance(error, RpcError):
            record.status = "invalid" if isinstance(error, HostError) else "error"
            record.error_code = str(error.code)
        elif isinstance(error, asyncio.CancelledError):
            record.status, record.error_code, record.error_message = "cancelled", "cancelled", None
        else:
            record.status, record.error_code = "error", type(error).__name__
        blame = error.blame if isinstance(error, CallRefused | UnknownTool) else None
        if blame is not None:
            record.rule, record.rule_source = blame

    def close(self, record: CallRecord) -> None:
        """The call is over."""
        record.duration = perf_counter() - record.began
        for sink in self.sinks:
            sink(record)


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
        now = perf_counter()
        self._record.steps.append(Step(self._name, self._began - self._record.began, now - self._began))


def name_tool(record: CallRecord, tool: ToolRecord) -> None:
    """It is known which tool is meant."""
    record.server, record.tool, record.own_name, record.schema_version = (
        tool.server,
        tool.name,
        tool.own_name,
        tool.version,
    )


def _text(value: Any) -> str | None:
    return value[:_NAMED] if isinstance(value, str) and value else None
