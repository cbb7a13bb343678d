"""One call without a task, until it is answered or a task takes it over."""

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import Any, Protocol

from aggregator.domain.call import ToolCall
from aggregator.domain.call_record import CallRecord, RecordedSending, Stage, TraceContext
from aggregator.gateway.ask.upstream_caller import RequestCaller
from aggregator.gateway.call_log import begin_record
from aggregator.gateway.calls.known_host import KnownHost
from aggregator.gateway.calls.plan import PreparedCall
from aggregator.gateway.calls.progress import Progress
from aggregator.gateway.calls.rate_limits import FREE, Charge
from aggregator.gateway.hooks import Guards, questions_of
from aggregator.gateway.recording.timing import enter_tool
from aggregator.gateway.views.views import View
from aggregator.upstream.sessions.direct_request import DirectRequest
from aggregator.wire.peer import Channel

log = logging.getLogger(__name__)


class DirectAnswer(Protocol):
    """The way from a direct call back to its frontend. One method is called, once; `failed` may follow `answered`."""

    @property
    def request_id(self) -> str | int: ...

    def answered(self, result: Mapping[str, Any], /) -> None:
        """Send the result, which has the form of the host's era."""

    def failed(self, error: Exception, /) -> None:
        """Send an error since the result could not be sent; send nothing if it was sent after all."""

    def take_over(self, call: "DirectCall", /) -> None:
        """Start a task that answers with `DirectCalls.take_over`."""


class DirectCallOwner(Protocol):
    """The part of the gateway that makes direct calls and answers them."""

    def answer_host(self, call: "DirectCall", result: dict[str, Any]) -> bool:
        """Answer the host with a result, if that is plain; return False, and do nothing, if not."""

    def forget(self, call: "DirectCall") -> None:
        """Forget a call that a task takes over."""


class DirectCall(DirectRequest):
    """One call without a task."""

    __slots__ = (
        "_owner",
        "arguments",
        "asked",
        "charge",
        "checked",
        "guards",
        "known",
        "meta",
        "params",
        "permitted",
        "plan",
        "progress",
        "received",
        "sent_at",
        "started",
        "taken_over",
        "to_host",
        "trace",
        "view",
    )

    def __init__(
        self,
        owner: DirectCallOwner,
        deadline: float,
        known: KnownHost,
        plan: PreparedCall,
        params: dict[str, Any],
        arguments: dict[str, Any],
        to_host: DirectAnswer,
        trace: TraceContext,
    ) -> None:
        super().__init__(deadline)
        self._owner = owner
        self.known = known
        self.plan = plan
        self.params = params
        self.arguments = arguments
        self.to_host = to_host
        self.trace = trace
        self.charge: Charge = FREE
        self.progress: Progress | None = None
        self.taken_over = False
        self.guards: Guards = ()
        # Of a tool in whose place others may answer: the rules for those.
        self.view: View | None = None
        # The name of the tool inside a call of a meta tool, as it was written.
        self.asked: str | None = None
        self.started = time.time()
        # The clock of durations: when the call came, was permitted and checked, and was sent.
        self.received = self.permitted = self.checked = self.sent_at = 0.0

    @property
    def caller(self) -> RequestCaller:
        """The host for questions of the upstream, which need a task to take the call over."""
        if self._caller is None:
            known = self.known
            self._caller = RequestCaller(known.host, known.version, self.params, LateChannel(self))
            if self.guards:
                self._caller.questions = questions_of(self.guards, self.record())
        assert isinstance(self._caller, RequestCaller)
        return self._caller

    def take_result(self, result: dict[str, Any], /) -> None:
        """See `AnswerReceiver`."""
        try:
            answered = not self.taken_over and self._owner.answer_host(self, result)
        except Exception:  # our error, or no memory: the pipeline then reports it
            log.exception("the answer of %s could not be given at once", self.plan.tool.name)
            answered = False
        if not answered:
            self.result = result
            self.take_over()

    def take_over(self) -> None:
        """See `AnswerReceiver`. May be called twice."""
        if not self.taken_over:
            self.taken_over = True
            self._owner.forget(self)
            self.to_host.take_over(self)

    def on_progress(self, params: dict[str, Any]) -> None:
        """Pass a report of progress on to the host; a task takes the call over with the first."""
        if self.progress is None:
            self.progress = Progress(self.caller)
        self.progress(params)

    def record(self) -> CallRecord:
        """Return the record of the call so far."""
        plan, received = self.plan, self.received
        caller, came = self.known.recorded(plan.via), (received, self.started)
        record = begin_record(self.trace, caller, self.params, *came, self.asked)
        enter_tool(record, plan.tool)
        record.arguments, record.request_id = self.arguments, self.to_host.request_id
        record.sending = RecordedSending(
            sent=True,
            harmless=plan.ruling.retry is not None,
            upstream_version=self.session.negotiated.version,
            upstream_request_id=self.sent_as,
            sent_name=plan.tool.sent_as if plan.tool.sent_as != plan.tool.own_name else None,
        )
        for guard in self.guards:
            guard.enter(record)
        record.steps = [
            stage("policy", received, received, self.permitted),
            stage("check", received, self.permitted, self.checked),
        ]
        return record

    def arrive(self, channel: Channel) -> None:
        """Take the channel of the task that has taken the call over, for messages to the host."""
        late = self.caller.channel
        self.caller.channel = channel
        if isinstance(late, LateChannel):
            late.arrive(channel)

    def drop(self) -> None:
        """Drop the references to the request and its host once the call is over: see `forget_host`."""
        self.params, self.arguments, self.result, self.progress = {}, {}, None, None
        del self.known, self.plan, self.to_host, self.sent

    def let_go(self) -> None:
        """Drop what leads back here, once the host has its answer: else each call waits for a garbage collection."""
        del self.to_host, self.sent

    def as_call(self) -> ToolCall:
        """Return the call in the form of the pipeline."""
        known = self.known
        principal, conversation = known.host.principal, known.conversation
        via, asked = self.plan.via, self.asked
        return ToolCall(principal, self.params, known.version, known.style, conversation, via, asked=asked)


class LateChannel:
    """The channel of a direct call. A task takes the call over with the first message, and sends it."""

    def __init__(self, call: DirectCall) -> None:
        self._call = call
        self._channel: Channel | None = None
        self._waiting: list[tuple[str, Mapping[str, Any]]] = []
        self._arrived = asyncio.Event()

    @property
    def request_id(self) -> str | int:
        """The id of the request of the host; known once a task has taken the call over."""
        assert self._channel is not None
        return self._channel.request_id

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """See `Channel`."""
        if self._channel is not None:
            self._channel.notify(method, params)
        else:
            self._waiting.append((method, params))
            self._call.take_over()

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """See `Channel`.

        Raises:
            NoBackChannel, RpcError, PeerGone: as of the channel of the task that takes the call over.
        """
        self._call.take_over()
        await self._arrived.wait()
        assert self._channel is not None
        return await self._channel.ask(method, params)

    def arrive(self, channel: Channel) -> None:
        """Take the channel of the task that has taken the call over."""
        self._channel = channel
        for method, params in self._waiting:
            channel.notify(method, params)
        self._waiting.clear()
        self._arrived.set()


def stage(name: str, received: float, began: float, ended: float) -> Stage:
    """Return a stage. All times are of the clock of durations; the call came at `received`."""
    # Quicker than its constructor, which is Python code.
    return tuple.__new__(Stage, (name, began - received, ended - began))
