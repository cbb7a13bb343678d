"""Calls of tools that need no task: a host calls a tool as it did before, and there is nothing to ask, refuse or wait
for. They take the steps of the pipeline at once, outside of any task.

Rule 1: each step is decided by what decides it for the pipeline. What is remembered of a call is what surely stays the
same while the snapshots are the same that it was made of.
Rule 2: until the request is sent, `begin` changes nothing. What is not plain is left to the pipeline, from the start.
Rule 3: whatever comes then but a plain result is for a task (`Pipeline.take_over`), which does the rest of the call.
"""

import asyncio
import logging
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, Protocol

from aggregator.domain.bounds.offload import is_long
from aggregator.domain.call import ToolCall
from aggregator.domain.call_record import CallRecord, Stage, TraceContext
from aggregator.domain.errors import HostError, OverLimit
from aggregator.domain.names import Style
from aggregator.domain.records import ToolRecord
from aggregator.domain.trace_context import TRACEPARENT, TRACESTATE, begin, onward
from aggregator.domain.uris.links import in_result
from aggregator.gateway import eras
from aggregator.gateway.agent_items import AgentItems
from aggregator.gateway.ask.next_round import CALL, is_complete
from aggregator.gateway.ask.upstream_caller import RequestCaller
from aggregator.gateway.call_log import ASKED_NAME_LENGTH, PLAIN_FRONTEND, CallLog
from aggregator.gateway.calls.failover import Failover
from aggregator.gateway.calls.provenance import attributed
from aggregator.gateway.calls.rate_limits import RateLimits
from aggregator.gateway.calls.resolve import Resolver
from aggregator.gateway.calls.validate import Checker, PlainCheck
from aggregator.gateway.drain import Drain
from aggregator.gateway.host import Host
from aggregator.gateway.look_alike_members import refuse_look_alikes
from aggregator.gateway.request import Request
from aggregator.gateway.views.views import View, Views
from aggregator.upstream.direct_request import DirectRequest
from aggregator.upstream.supervisor import Supervisor
from aggregator.upstream.upstream import Upstream
from aggregator.wire.peer import Channel

if TYPE_CHECKING:
    from aggregator.policy.rulebook import Ruling

log = logging.getLogger(__name__)

# Seconds after which a call that still runs is taken over, and at most twice as many.
SLOW: Final = 0.05
# A tool whose time limit is shorter than this is called by a task from the start.
_SHORTEST_LIMIT: Final = 1.0
# The members of a call that has nothing out of the ordinary.
_META: Final = "_meta"
_MEMBERS: Final = frozenset({"name", "arguments", _META})
# Members of `_meta` that are others with each call.
_VARIABLE: Final = frozenset({TRACEPARENT, TRACESTATE})
# This one asks for messages before the answer.
_PROGRESS: Final = "progressToken"
# Tools that are remembered for one host.
_TOOLS: Final = 64
# Never changed.
_NO_ARGUMENTS: Final[dict[str, Any]] = {}


class DirectReply(Protocol):
    """The way from a direct call back to its frontend. One of these is called, once."""

    def answered(self, result: Mapping[str, Any], /) -> None:
        """Send the result, which has the form of the host's era."""

    def take_over(self, call: "DirectCall", /) -> None:
        """Start a task that answers with `Dispatcher.take_over`."""


class PlainTool:
    """A tool as one agent may call it without being asked, and the snapshots that this depends on."""

    __slots__ = ("catalog", "check", "others", "ruling", "tool", "upstream", "view")

    def __init__(
        self, tool: ToolRecord, view: View, upstream: Upstream, check: PlainCheck, catalog: object, others: object
    ) -> None:
        self.tool = tool
        self.view = view
        self.ruling: Ruling = view.ruling(tool)
        self.upstream = upstream
        self.check = check
        self.catalog = catalog
        self.others = others


class KnownHost:
    """What follows from a host and the `_meta` of its calls alone.

    version: the revision that the calls speak.
    caller: the host as upstreams deal with it, without a channel.
    meta: the `_meta` of its calls, but for what differs between them.
    """

    __slots__ = (
        "_passed_on",
        "caller",
        "capabilities",
        "conversation",
        "host",
        "meta",
        "modern",
        "names",
        "session_id",
        "style",
        "tools",
        "user_id",
        "version",
    )

    def __init__(self, host: Host, version: str, meta: Mapping[str, Any] | None, call: ToolCall, modern: bool) -> None:
        self.host = host
        self.version = version
        self.meta = meta
        self.modern = modern
        self.style: Style = call.style
        self.names = host.style
        self.capabilities = host.capabilities
        self.conversation = call.conversation
        self.caller = RequestCaller(host, version, call.params, None)
        self.user_id, self.session_id = CallLog.named_in(meta, host)
        self.tools: dict[str, PlainTool] = {}
        self._passed_on: tuple[dict[str, Any], dict[str, Any]] | None = None

    def holds(self, meta: Mapping[str, Any] | None) -> bool:
        """Return whether all of it is true of another call, with this `_meta`."""
        return self.is_same() and (meta == self.meta or (meta is not None and _constant(meta) == self.meta))

    def passed_on(self, *, trusted: bool) -> dict[str, Any]:
        """Return what upstreams get of `meta`; not to be changed."""
        if self._passed_on is None:
            self._passed_on = eras.onward(self.meta, trusted=False), eras.onward(self.meta, trusted=True)
        return self._passed_on[trusted]

    def is_same(self) -> bool:
        """Return whether the host is as it was."""
        host = self.host
        if host.capabilities is not self.capabilities or host.style != self.names:
            return False
        return self.modern or (host.version == self.version and host.log_level == self.caller.level)


class DirectCall(DirectRequest):
    """One call that no task works on."""

    __slots__ = (
        "_calls",
        "arguments",
        "charge",
        "checked",
        "known",
        "meta",
        "params",
        "permitted",
        "plain",
        "received",
        "reply",
        "sent_at",
        "started",
        "taken_over",
        "trace",
    )

    charge: AbstractContextManager[None]

    def __init__(
        self,
        calls: "DirectCalls",
        deadline: float,
        known: KnownHost,
        plain: PlainTool,
        params: dict[str, Any],
        arguments: dict[str, Any],
        reply: DirectReply,
        trace: TraceContext,
    ) -> None:
        super().__init__(deadline)
        self._calls = calls
        self.known = known
        self.plain = plain
        self.params = params
        self.arguments = arguments
        self.reply = reply
        self.trace = trace
        self.taken_over = False
        self.started = time.time()
        # The clock of durations: when the call came, was permitted and checked, and was sent.
        self.received = self.permitted = self.checked = self.sent_at = 0.0

    @property
    def caller(self) -> RequestCaller:
        """The host, as the upstream may reach it: for that, a task has to take the call over."""
        if self._caller is None:
            known = self.known
            self._caller = RequestCaller(known.host, known.version, self.params, LateChannel(self))
        assert isinstance(self._caller, RequestCaller)
        return self._caller

    def take_result(self, result: dict[str, Any], /) -> None:
        """See `AnswerReceiver`."""
        if self.taken_over or not self._calls.answer(self, result):
            self.result = result
            self.take_over()

    def take_over(self) -> None:
        """See `AnswerReceiver`. May be called twice."""
        if not self.taken_over:
            self.taken_over = True
            self._calls.forget(self)
            self.reply.take_over(self)

    def record(self) -> CallRecord:
        """Return the record of the call, as far as it has come."""
        known, plain, received = self.known, self.plain, self.received
        host, principal, tool = known.host, known.host.principal, plain.tool
        name: str = self.params["name"]
        record = CallRecord(
            self.trace,
            self.started,
            principal.agent_id,
            name[:ASKED_NAME_LENGTH],
            host.frontend,
            received,
            known.version if host.frontend != PLAIN_FRONTEND else None,
            principal.tenant,
            principal.key_id,
            known.user_id,
            known.session_id,
            known.conversation,
            None,
            tool.server,
            None,
            tool.name,
            tool.own_name,
            tool.version,
            self.session.negotiated.version,
        )
        record.arguments = self.arguments
        record.steps = [
            _stage("policy", received, received, self.permitted),
            _stage("check", received, self.permitted, self.checked),
        ]
        return record

    def leave_drain(self) -> None:
        """Let the drain no longer wait for this call itself."""
        self._calls.drain.__exit__(None, None, None)

    def arrive(self, channel: Channel) -> None:
        """Take the channel of the task that has taken the call over, for messages to the host."""
        late = self.caller.channel
        self.caller.channel = channel
        if isinstance(late, LateChannel):
            late.arrive(channel)

    def as_call(self) -> ToolCall:
        """Return the call as the pipeline has it."""
        known = self.known
        return ToolCall(known.host.principal, self.params, known.version, known.style, known.conversation)


class DirectCalls:
    """The maker of direct calls."""

    def __init__(
        self,
        *,
        supervisor: Supervisor,
        views: Views,
        call_log: CallLog,
        drain: Drain,
        resolver: Resolver,
        failover: Failover,
        checker: Checker,
        rate_limits: RateLimits,
        agent_items: AgentItems,
    ) -> None:
        self._supervisor = supervisor
        self._views = views
        self._call_log = call_log
        self.drain = drain
        self._resolver = resolver
        self._failover = failover
        self._checker = checker
        self._rate_limits = rate_limits
        self._agent_items = agent_items
        # Calls that began since the last turn of the timer, and those before.
        self._new: dict[DirectCall, None] = {}
        self._older: dict[DirectCall, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def __len__(self) -> int:
        return len(self._new) + len(self._older)

    def known(self, request: Request) -> KnownHost | None:
        """Return what later calls like this one need not work out again; None where they will not be direct.

        The request has been accepted by its frontend, and `version_spoken`.
        """
        meta = request.params.get("_meta")
        if request.version is None or not (meta is None or (isinstance(meta, dict) and _PROGRESS not in meta)):
            return None
        try:
            refuse_look_alikes(request.params)
        except HostError:
            return None
        host = request.host
        call = request.as_call(self._views.of(host.principal).style(host.style))
        found = KnownHost(host, request.version, _constant(meta), call, request.modern)
        return None if found.caller.level is not None else found

    def begin(self, known: KnownHost, params: dict[str, Any], reply: DirectReply) -> DirectCall | None:
        """Send a call to its upstream; return None, and do nothing, where that is not plain.

        `reply` is called later, never from here.
        """
        received, observers = perf_counter(), self._call_log.observers
        name, meta = params.get("name"), params.get("_meta")
        same_meta = meta == known.meta
        if (
            not known.is_same()
            or not (same_meta or (type(meta) is dict and _constant(meta) == known.meta))
            or observers.begun is not None
            or self.drain.started
            or not _MEMBERS.issuperset(params)
            or type(name) is not str
            or not (observers.has_space is None or observers.has_space())
        ):
            return None
        plain = known.tools.get(name)
        if plain is None or not self._holds(plain):
            plain = self._learn(known, name)
            if plain is None:
                return None
        given = params.get("arguments", _NO_ARGUMENTS)
        if type(given) is not dict:
            return None
        tool, ruling, upstream = plain.tool, plain.ruling, plain.upstream
        permitted = perf_counter()
        arguments = plain.check.arguments(given)
        if arguments is None:
            return None
        checked = perf_counter()
        limits = ruling.limits
        if limits.counted:
            try:
                self._rate_limits.look(tool.name, limits, known.conversation)
            except OverLimit:
                return None
        trace = begin(meta, None, observers.sample)
        sent: dict[str, Any] = {"name": tool.own_name}
        if arguments or "arguments" in params:
            sent["arguments"] = arguments
        if same_meta and not observers.exported:
            if meta is not None:
                sent["_meta"] = known.passed_on(trusted=upstream.config.trusted)
        else:
            passed = eras.onward(meta, trusted=upstream.config.trusted)
            if observers.exported or (meta is not None and TRACEPARENT in meta):
                passed |= onward(trace, 0, recorded=observers.exported)
            sent["_meta"] = passed
        loop = self._loop
        if loop is None:
            loop = self._loop = asyncio.get_running_loop()
        deadline = loop.time() + tool.timeout
        call = DirectCall(self, deadline, known, plain, params, arguments, reply, trace)
        call.received, call.permitted, call.checked = received, permitted, checked
        call.sent_at = perf_counter()
        if not upstream.begin(CALL, sent, call, known.caller):
            return None
        call.charge = self._rate_limits.charged(tool.name, limits, known.conversation)
        call.charge.__enter__()
        self.drain.__enter__()
        self._new[call] = None
        if self._timer is None:
            self._timer = loop.call_later(SLOW, self._turn)
        return call

    def answer(self, call: DirectCall, result: dict[str, Any]) -> bool:
        """Answer the host with a result, if that is plain; return False, and do nothing, if not."""
        answered = perf_counter()
        if call.questions or result.get("isError") is True or not is_complete(result):
            return False
        try:
            made = self._deliver(call, result)
        except Exception:  # of any kind: the pipeline then says what is wrong
            log.exception("a result of %s could not be prepared at once", call.plain.tool.name)
            return False
        if made is None:
            return False
        record = call.record()
        record.result = made
        now = perf_counter()
        received = call.received
        record.steps += [
            _stage("upstream", received, call.sent_at, answered),
            _stage("output", received, answered, now),
        ]
        call.taken_over = True
        self.forget(call)
        call.plain.upstream.answered(call)
        call.charge.__exit__(None, None, None)
        self.drain.__exit__(None, None, None)
        self._call_log.close(record)
        call.reply.answered(eras.for_modern(made) if call.known.modern else eras.for_legacy(made))
        return True

    def forget(self, call: DirectCall) -> None:
        """Forget a call that a task takes over."""
        if self._new.pop(call, call) is not None:
            self._older.pop(call, None)

    def _deliver(self, call: DirectCall, result: dict[str, Any]) -> dict[str, Any] | None:
        """Return the result as `Pipeline` delivers it; None where that takes long, or something is wrong with it."""
        plain = call.plain
        tool, upstream = plain.tool, plain.upstream
        content = result.get("content")
        if is_long(content):
            return None
        result = eras.received(result)
        if tool.prefix and (_META in result or (content and not _has_text_alone(content))):
            result = in_result(tool.prefix, result, self._agent_items.elsewhere(call.known.host, upstream))
        if not plain.check.result_fits(result):
            return None
        return attributed(upstream.config, tool, result, time.time(), tool.server)

    def _holds(self, plain: PlainTool) -> bool:
        """Return whether what was learnt of a tool is still so."""
        views, upstream = self._views, plain.upstream
        return (
            plain.catalog is self._resolver.catalog
            and plain.view.rulebook is views.rulebook
            and plain.view.trusted is views.trusted
            and plain.others is self._failover.others
            and plain.check.config is upstream.config
            and self._supervisor.upstreams.get(plain.tool.server) is upstream
            and not self._resolver.is_only_remembered(plain.tool)
        )

    def _learn(self, known: KnownHost, name: str) -> PlainTool | None:
        """Return a tool that the agent may call, in the plain case; None in any other."""
        known.tools.pop(name, None)
        host, view = known.host, self._views.of(known.host.principal)
        tool = self._resolver.called(view, name)
        if tool is None or self._resolver.is_only_remembered(tool) or self._supervisor.clients.awaited:
            return None
        ruling, upstream = view.ruling(tool), self._supervisor.upstreams[tool.server]
        if (
            ruling.decision.verdict != "allow"
            or ruling.limits.result is not None
            or tool.name in self._failover.others
            or tool.param_headers
            or (tool.only_for_apps and host.frontend == PLAIN_FRONTEND)
            or tool.timeout < _SHORTEST_LIMIT
            or view.style(host.style) != known.style
        ):
            return None
        check = self._checker.plain(upstream.config, tool, ruling.tightening)
        if check is None:
            return None
        if len(known.tools) >= _TOOLS:
            known.tools.clear()
        plain = PlainTool(tool, view, upstream, check, self._resolver.catalog, self._failover.others)
        known.tools[name] = plain
        return plain

    def _turn(self) -> None:
        """Have slow calls taken over."""
        slow, self._older, self._new = self._older, self._new, {}
        self._timer = asyncio.get_running_loop().call_later(SLOW, self._turn) if self._older else None
        for call in slow:
            call.take_over()


class LateChannel:
    """The channel of a direct call: the first message has the call taken over, and leaves once a task has done so."""

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


def _constant(meta: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return a `_meta` without what differs from call to call."""
    if meta is None or _VARIABLE.isdisjoint(meta):
        return meta
    return {key: value for key, value in meta.items() if key not in _VARIABLE}


def _has_text_alone(content: Any) -> bool:
    """Return whether a result holds nothing that could name a resource: one block of text."""
    return type(content) is list and len(content) == 1 and type(content[0]) is dict and content[0].get("type") == "text"


def _stage(name: str, received: float, began: float, ended: float) -> Stage:
    # Quicker than its constructor, which is written in Python.
    return tuple.__new__(Stage, (name, began - received, ended - began))
