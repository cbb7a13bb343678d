"""The call log: one record for every request that makes an upstream do something, closed once, however it ends.

Law: processing records never delays a call, unless the operator chose that (`durability: strict`).
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from contextvars import Token
from dataclasses import replace
from time import perf_counter
from types import TracebackType
from typing import Any, Final, Protocol, Self

from aggregator.accounts.connect_links import without_link
from aggregator.domain.bounds.result_memory import HeldMemory, ResultMemory
from aggregator.domain.call import ToolCall
from aggregator.domain.call_record import (
    TOOL_CALL,
    CalledItem,
    CallRecord,
    LogContext,
    RecordedCaller,
    TraceContext,
    current_call,
)
from aggregator.domain.errors import (
    CallRefused,
    NotRecorded,
    UpstreamError,
    UpstreamLost,
    operator_text,
    to_tool_result,
)
from aggregator.domain.missing import ItemRefused
from aggregator.domain.trace_context import TRACEPARENT, Sample, as_caller, begin, below, onward
from aggregator.gateway.drain import Drain
from aggregator.gateway.eras import onward as passed_on
from aggregator.gateway.host import Host
from aggregator.gateway.recording.timing import note_failure, note_result

log = logging.getLogger(__name__)

# The place where a host may name the user of a call, and the session in the host.
USER_KEY: Final = "aggregator/user_id"
SESSION_KEY: Final = "aggregator/session_id"
# Pages show a fifth of this: redaction comes first, and the cut after it.
ASKED_NAME_LENGTH: Final = 1_000
_NO_META: Final[Mapping[str, Any]] = {}
# The frontend on which no revision of MCP is spoken.
PLAIN_FRONTEND: Final = "v1"
# A consumer of closed records: the audit log, the spans, the metrics. It returns at once.
RecordSink = Callable[[CallRecord], None]
# A wait until one more record can be accepted; `NotRecorded` if a call must not run without one.
WaitForSpace = Callable[[str], Awaitable[None]]
# A check whether one more record can be accepted now, so that `WaitForSpace` would not wait.
HasSpace = Callable[[], bool]
# A wait until a record is in the database; `NotRecorded` if it cannot be.
WaitForRecord = Callable[[CallRecord], Awaitable[None]]


class RequestSink(Protocol):
    """Counts a request of a host that leaves no record: a list, a handshake and the like.

    version: the revision that was spoken. failure: the code of its error, or another word; None if it was answered.
    """

    def __call__(
        self, method: str, frontend: str, version: str | None, seconds: float, failure: str | None, /
    ) -> None: ...


class SessionSink(Protocol):
    """Counts a session that is over.

    peer: the frontend of the host, or the id of the upstream. version: the revision that was spoken. failure: one of
    few words for the error that ended it; None if it ended as sessions should.
    """

    def __call__(self, peer: str, version: str, seconds: float, failure: str | None, /) -> None: ...


class CallObservers:
    """The consumers of call records at one time.

    Each of the `sinks` gets a record when its request is over. `sample` decides about a new trace, and `exported` tells
    whether others can look up our spans. `wait_for_space` waits until one more record can be stored, if records are
    stored; `has_space` tells whether it would return at once. In strict durability `begun` waits until the begin event
    of a call is stored, and `written` until the record of its end is. `request_over` counts requests without a record,
    `host_session_over` and `upstream_session_over` count sessions.
    """

    def __init__(
        self,
        *,
        sinks: tuple[RecordSink, ...] = (),
        wait_for_space: WaitForSpace | None = None,
        has_space: HasSpace | None = None,
        begun: WaitForRecord | None = None,
        written: WaitForRecord | None = None,
    ) -> None:
        self.sinks = sinks
        self.wait_for_space = wait_for_space
        self.has_space = has_space
        self.begun = begun
        self.written = written
        self.sample: Sample = as_caller
        self.exported = False
        self.request_over: RequestSink | None = None
        self.host_session_over: SessionSink | None = None
        self.upstream_session_over: SessionSink | None = None

    def start_tracing(self, sample: Sample) -> None:
        """Have new traces decided about by `sample` from now on, and our spans named to upstreams."""
        self.sample, self.exported = sample, True


class CallLog:
    """The maker of records: one for each request, given to the `observers` when the request is over.

    `results` counts the memory that results take until their calls are answered; `open` are the records of what runs;
    `drain` ends what runs.
    """

    def __init__(self, observers: CallObservers, drain: Drain) -> None:
        self.observers = observers
        self.drain = drain
        self.results = ResultMemory(512 * 2**20)
        # The records that are open, which a task works on: in the order in which they came.
        self.open: dict[OpenRecord, None] = {}

    def record(self, call: ToolCall, host: Host, method: str = TOOL_CALL) -> "OpenRecord":
        """Return the record of a request, open for as long as the `async with` over it lasts.

        For a call of a tool, refusals and failures of upstreams end the block and become its `result`. For any other
        `method` every error is raised unchanged.
        """
        meta = call.params.get("_meta")
        trace = below(call.within) if call.within is not None else begin(meta, None, self.observers.sample)
        record = begin_record(trace, self.caller_of(call, host), call.params, perf_counter(), asked=call.asked)
        record.arguments = call.params.get("arguments")
        if method != TOOL_CALL:
            record.called = CalledItem(method, tool=method)
            record.asked_name, record.arguments = _item_asked(call.params)
        return OpenRecord(self, record)

    def reopen(self, record: CallRecord) -> "OpenRecord":
        """Return the record of a call that was begun without a task, open for its end."""
        return OpenRecord(self, record)

    @staticmethod
    def caller_of(call: ToolCall, host: Host) -> RecordedCaller:
        """Return the caller of a call: the user and the session are those that its `_meta` names.

        Without one, the session is that of the host. With an access token the user is the one whom its issuer names.
        """
        principal, token, meta = call.principal, host.principal.token, call.params.get("_meta")
        named = meta if isinstance(meta, dict) else _NO_META
        user = f"{token.subject} of {token.issuer}" if token is not None else named.get(USER_KEY)
        return RecordedCaller(
            principal.agent_id,
            host.frontend,
            call.version if host.frontend != PLAIN_FRONTEND else None,
            principal.tenant,
            principal.known_by,
            _text(user),
            _text(named.get(SESSION_KEY)) or host.session,
            call.conversation,
            call.via,
        )

    def meta_onward(self, meta: Any, trace: TraceContext, attempt: int, *, trusted: bool) -> dict[str, Any]:
        """Return the `_meta` of the `attempt`-th request to an upstream, which is `trusted` or not.

        It contains the trace context if the host began a trace, or if ours are exported.
        """
        passed, exported = passed_on(meta, trusted=trusted), self.observers.exported
        if exported or TRACEPARENT in passed:
            passed |= onward(trace, attempt, recorded=exported)
        return passed

    async def wait_until_begun(self, record: CallRecord) -> None:
        """Return once the call may be sent to its upstream; to be called before each upstream that gets it.

        Raises:
            NotRecorded: it is not on record that the call is sent, and has to be.
        """
        if self.observers.begun is not None:
            now = perf_counter() - record.began
            await self.observers.begun(replace(record, steps=list(record.steps), duration=now))

    def record_unclaimed(self, record: CallRecord, outcome: dict[str, Any] | Exception | None) -> None:
        """Record the end of a call whose host did not come back to it, below the request that ended in a question.

        `outcome` is None if the call had to be ended.
        """
        late = replace(
            record, trace=below(record.trace), started=time.time(), began=perf_counter(), steps=[], result=None
        )
        if isinstance(outcome, dict):
            note_result(late, outcome)
        else:
            note_failure(late, outcome if outcome is not None else asyncio.CancelledError())
        late.outcome = late.outcome._replace(error_code="unclaimed")
        self.close(late)

    def close(self, record: CallRecord) -> None:
        """Give a record that is complete to the sinks."""
        record.duration = perf_counter() - record.began
        for sink in self.observers.sinks:
            sink(record)


class OpenRecord:
    """The record of one request while it runs: an async context manager.

    `record` has the facts so far, `result` the result for the host, after `answer_with` was called or the block ended
    in a refusal.
    """

    __slots__ = ("_call_log", "_holding", "_token", "_work", "record", "result")

    def __init__(self, call_log: CallLog, record: CallRecord) -> None:
        self._call_log = call_log
        self._holding = HeldMemory(call_log.results)
        self._token: Token[LogContext | None] | None = None
        self._work = call_log.drain.work(self._unfinished, counted=False)
        self.record = record
        self.result: dict[str, Any] = {}

    async def __aenter__(self) -> Self:
        record = self.record
        named = None if record.called.method == TOOL_CALL else record.called.method
        context = LogContext(record.trace, record.caller.agent_id, tool=named, holding=self._holding)
        self._token = current_call.set(context)
        self._call_log.open[self] = None
        self._work.__enter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """Close the record, and convert an error that a model can act on into a result."""
        error = self._how_ended(kind, error, trace)
        try:
            ended = error is None or self._end(error)
            self._call_log.close(self.record)
            if self._call_log.observers.written is not None and (error is None or isinstance(error, Exception)):
                try:
                    await self._wait_until_written(self._call_log.observers.written)
                except NotRecorded as withheld:
                    return self._refuse(withheld)
            if isinstance(error, NotRecorded) and self.record.called.method != TOOL_CALL:
                return self._refuse(error)
            if self._work.ended and not ended and isinstance(error, Exception):
                raise error
            return ended
        finally:
            assert self._token is not None, "a record is left once, after it was entered"
            current_call.reset(self._token)
            self._call_log.open.pop(self, None)
            self._holding.end()

    async def wait_for_space(self) -> None:
        """Wait while too many records wait to be written; to be called before any work for the request.

        Raises:
            NotRecorded: the request must not run without a record, and there can be none.
            ShuttingDown: the grace period of running requests is over.
        """
        if self._call_log.drain.over:
            raise self._call_log.drain.unfinished()
        if self._call_log.observers.wait_for_space is not None:
            await self._call_log.observers.wait_for_space(self.record.asked_name)

    def answer_with(self, result: dict[str, Any]) -> None:
        """Note the result that the host gets, good or bad."""
        self.result = result
        note_result(self.record, result)

    def name(self, server: str, own: str) -> None:
        """Record the item and server of a request that is no call of a tool."""
        self.record.called = self.record.called._replace(server=server, own_name=own)
        context = current_call.get()
        if context is not None:
            context.server = server

    def _how_ended(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> BaseException | None:
        """Return the error that ended the block: the drain's, if the drain ended it."""
        try:
            self._work.__exit__(kind, error, trace)
        except Exception as words:  # of the drain
            return words
        return error

    def _unfinished(self) -> Exception:
        """Return the error of a request that is ended now."""
        record = self.record
        if not record.sending.sent:
            return self._call_log.drain.unfinished()
        server = record.called.server or ""
        said = f"The aggregator was shut down before {server} answered; whether the call took effect is unknown."
        lost = UpstreamLost(server, said)
        lost.settle(harmless=record.sending.harmless)
        return lost

    def _end(self, error: BaseException) -> bool:
        """Note why there is no result. Return whether the error has become one."""
        record = self.record
        # What belongs to a program is cancelled by the end of that, too.
        cut = self._work.ended and isinstance(error, asyncio.CancelledError)
        note_failure(record, self._unfinished() if cut else error)
        if not isinstance(error, CallRefused | UpstreamError):
            return False
        name = record.called.tool or record.asked_name
        log.info("%s: %.200s: %s", record.caller.agent_id, name, operator_text(error))
        if record.called.method != TOOL_CALL:
            return False
        self.result = error.to_result() if isinstance(error, CallRefused) else to_tool_result(error)
        record.result = without_link(self.result)
        return True

    def _refuse(self, refused: NotRecorded) -> bool:
        """Answer with a refusal of the audit log.

        Raises:
            ItemRefused: the request is no call of a tool.
        """
        if self.record.called.method != TOOL_CALL:
            raise ItemRefused.by(refused) from refused
        self.result = refused.to_result()
        return True

    async def _wait_until_written(self, written: WaitForRecord) -> None:
        try:
            await written(self.record)
        except NotRecorded:
            # What was refused had no effect that would have to be withheld.
            if any(step.name == "upstream" for step in self.record.steps):
                raise


def begin_record(
    trace: TraceContext,
    caller: RecordedCaller,
    params: Mapping[str, Any],
    came: float,
    started: float | None = None,
    asked: str | None = None,
) -> CallRecord:
    """Return the record of a request. Every record begins here, whether a task works on its call or not.

    `came` is when it came, by the clock of durations; `started` the same by the wall clock, None for now. `asked` is
    the name as it was written, if `params` has another one.
    """
    name = params.get("name") if asked is None else asked
    asked_name = name[:ASKED_NAME_LENGTH] if isinstance(name, str) else ""
    return CallRecord(trace, time.time() if started is None else started, caller, asked_name, came)


def _item_asked(params: Mapping[str, Any]) -> tuple[str, Any]:
    """Return the URI or name that a request asks for, and the arguments it gives."""
    ref = params.get("ref")
    holder = ref if isinstance(ref, dict) else params
    named = holder.get("uri", holder.get("name"))
    name = named[:ASKED_NAME_LENGTH] if isinstance(named, str) else ""
    return name, params.get("argument") if ref is not None else params.get("arguments")


def _text(value: Any) -> str | None:
    return value[:ASKED_NAME_LENGTH] if isinstance(value, str) and value else None
