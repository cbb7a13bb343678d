"""The fast path: a host repeats a call, and nothing has to be asked, refused or waited for. The steps of the pipeline
run at once, outside of any task.

Rule 1: both ways run one plan (`calls/plan.py`), which holds while the snapshots behind it stay the same.
Rule 2: `send_at_once` changes nothing until the request is sent. The pipeline takes every call that may have to wait.
Rule 3: a task (`Pipeline.take_over`) handles every outcome but a plain result.
"""

import asyncio
import logging
from collections.abc import Mapping
from time import perf_counter
from typing import Any, Final, NamedTuple, Protocol

from aggregator.domain.call_record import CallRecord
from aggregator.domain.errors import HostError
from aggregator.domain.records import ToolRecord
from aggregator.domain.trace_context import begin
from aggregator.gateway import eras
from aggregator.gateway.ask.next_round import CALL, is_complete
from aggregator.gateway.call_log import CallLog, begin_record
from aggregator.gateway.calls.delivery import ResultDelivery
from aggregator.gateway.calls.direct_call import DirectAnswer, DirectCall, stage
from aggregator.gateway.calls.known_host import PROGRESS, KnownHost, constant_part
from aggregator.gateway.calls.pipeline import Pipeline
from aggregator.gateway.calls.plan import OF_MODELS, CallPlans, PreparedCall, WrittenTool
from aggregator.gateway.calls.rate_limits import Counted, RateLimits
from aggregator.gateway.calls.resolve import Resolver
from aggregator.gateway.drain import Drain
from aggregator.gateway.host import Host
from aggregator.gateway.recording.timing import enter_tool
from aggregator.gateway.views.views import View, Views, has_scopes
from aggregator.upstream.sessions.request import UpstreamRequest
from aggregator.upstream.supervisor import Supervisor
from aggregator.wire.codec import TooDeep, encode
from aggregator.wire.peer import Channel

log = logging.getLogger(__name__)

# A task takes over a call that runs for longer than this, in seconds, or at most twice this.
SLOW: Final = 0.05
# The members of an ordinary call.
_META: Final = "_meta"
_MEMBERS: Final = frozenset({"name", "arguments", _META})
# Bytes of a remembered `_meta`, and number of plans, for one host.
_META_KEPT: Final = 4096
_PLANS: Final = 64
# Never changed.
_NO_ARGUMENTS: Final[dict[str, Any]] = {}


# The tool and the arguments of a call that is in the arguments of another one.
InnerCall = tuple[WrittenTool, dict[str, Any]]


class KeptAnswer(NamedTuple):
    """An answer of a meta tool: the tool, its arguments in the form of its schema, and the result."""

    tool: ToolRecord
    arguments: Mapping[str, Any]
    result: dict[str, Any]


class InnerCalls(Protocol):
    """The part of the gateway that finds the call in a call of a meta tool.

    names: the meta tools that call another tool. answering: those that answer themselves, which takes a task. kept:
    those of them with answers that are given again without one.
    """

    names: frozenset[str]
    answering: frozenset[str]
    kept: frozenset[str]

    def inner(self, params: dict[str, Any]) -> InnerCall | None:
        """Return the call in the params of a call of a meta tool; None if finding it takes more than a look."""

    def tool(self, view: View, outer: str, written: WrittenTool) -> tuple[ToolRecord, object] | None:
        """Return the tool that a meta tool calls by these words, and a token; None if finding the tool may wait, or if
        the words name no tool or several.

        The token is None for a name as it is listed. For other words it is another object once the tool that they name
        may have changed; a kept plan is good only while the token is the same.
        """

    def kept_answer(self, view: View, params: dict[str, Any], /) -> KeptAnswer | None:
        """Return the answer to an equal call that a task would make now too; None if it is not known."""

    def holds(self, reading: object, /) -> bool:
        """Return True if words that were read under this mean the same now."""


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
        plans: CallPlans,
        delivery: ResultDelivery,
        pipeline: Pipeline,
        rate_limits: RateLimits,
        inner_calls: InnerCalls,
    ) -> None:
        self._supervisor = supervisor
        self._views = views
        self._call_log = call_log
        self._drain = drain
        self._resolver = resolver
        self._plans = plans
        self._delivery = delivery
        self._pipeline = pipeline
        self.rate_limits = rate_limits
        self._inner_calls = inner_calls
        # The tools whose calls `answer_again` may answer, and nothing else can without a task.
        self.answered_again = inner_calls.kept
        # Calls from after the last turn of the timer, and older ones.
        self._new: dict[DirectCall, None] = {}
        self._older: dict[DirectCall, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def running(self) -> list[DirectCall]:
        """Return the calls without a task."""
        return [*self._older, *self._new]

    def end(self) -> None:
        """Hand every call to a task, which can be cancelled with a message."""
        for call in self.running():
            call.take_over()

    def __len__(self) -> int:
        return len(self._new) + len(self._older)

    def may_take(self, name: str) -> bool:
        """Return False if calls by a name always need a task."""
        return name not in self._inner_calls.answering or name in self.answered_again

    def known(self, host: Host, params: dict[str, Any]) -> KnownHost | None:
        """Return the common facts of an answered call and later ones of its host; None if those need a task.

        The frontend has accepted the call.
        """
        meta = params.get(_META)
        if not isinstance(meta, dict | None):
            return None
        try:
            if meta is not None and len(encode(meta)) > _META_KEPT:
                return None
            version = eras.version_spoken(host, CALL, params)
        except (HostError, TooDeep):
            return None
        return KnownHost(host, version, constant_part(meta)) if version is not None else None

    def send_at_once(self, known: KnownHost, params: dict[str, Any], answer: DirectAnswer) -> DirectCall | None:
        """Send a call to its upstream; return None, and do nothing, if it has to wait for anything.

        `answer` is used later, never before this returns.
        """
        received, meta = perf_counter(), params.get(_META)
        if known.is_plain is None:
            known.is_plain = known.work_out(self._views.of(known.host.principal))
        if not known.is_plain:
            return None
        same_meta = known.is_exact and meta == known.meta
        if not (self._is_open(params) and known.is_same()) or not (
            same_meta or (type(meta) is dict and constant_part(meta) == known.meta)
        ):
            return None
        name: WrittenTool = params["name"]
        given, via, asked = params.get("arguments", _NO_ARGUMENTS), None, None
        if name in self._inner_calls.names:
            inner = self._inner_calls.inner(params)
            if inner is None:
                return None
            via, (name, given) = params["name"], inner
        plan = self._plan(known, name, via)
        if plan is None:
            return None
        if plan.ruling.scopes and not has_scopes(known.host.principal, plan.ruling.scopes):
            return None
        view = self._views.of(known.host.principal) if plan.has_others else None
        if view is not None and not self._plans.goes_to_its_own(plan, view):
            return None
        if via is not None:
            asked = name if type(name) is str else name[0]
            params = {**params, "name": plan.tool.name, "arguments": given}
        permitted = perf_counter()
        if plan.reader is not None:
            given = plan.reader.read(given)
        arguments = plan.check.arguments(given) if plan.check is not None and type(given) is dict else None
        if arguments is None:
            return None
        checked = perf_counter()
        loop = self._loop
        if loop is None:
            loop = self._loop = asyncio.get_running_loop()
        now, counted = loop.time(), None
        if plan.ruling.limits.counted:
            counted = self._room(plan, known, now)
            if counted is None:
                return None
        trace = begin(meta, None, self._call_log.observers.sample)
        call = DirectCall(self, now + plan.tool.timeout, known, plan, params, arguments, answer, trace)
        call.received, call.permitted, call.checked = received, permitted, checked
        call.view, call.asked = view, asked
        for permit in plan.permits:
            guard = permit.permit(known.host, trace)
            if guard is None:
                return None
            call.guards += (guard,)
        sent = self._onward(call, meta, same_meta=same_meta)
        call.sent_at = perf_counter()
        on_progress = call.on_progress if meta is not None and meta.get(PROGRESS) is not None else None
        request = UpstreamRequest(CALL, sent, plan.tool.timeout, on_progress, None, known.caller)
        if not plan.upstream.begin(request, call, plan.extends):
            return None
        if counted is not None:
            call.charge = self.rate_limits.charged_at_once(counted, now)
        self._drain.begin()
        self._new[call] = None
        if self._timer is None:
            self._timer = loop.call_later(SLOW, self._turn)
        return call

    def answer_again(self, known: KnownHost, params: dict[str, Any], request_id: str | int) -> Mapping[str, Any] | None:
        """Return the result of a call of a tool that answers an equal call again, on record and in the form of the
        host's era; None, and do nothing, if there is no such answer or the call has to wait for anything.
        """
        received, meta = perf_counter(), params.get(_META)
        view = self._views.of(known.host.principal)
        if known.is_plain is None:
            known.is_plain = known.work_out(view)
        if not (known.is_plain and self._is_open(params) and known.holds(meta)) or self._supervisor.clients.awaited:
            return None
        kept = self._inner_calls.kept_answer(view, params)
        if kept is None:
            return None
        trace = begin(meta, None, self._call_log.observers.sample)
        record = begin_record(trace, known.recorded(None), params, received)
        enter_tool(record, kept.tool)
        record.arguments, record.request_id, record.result = kept.arguments, request_id, kept.result
        record.steps.append(stage("check", received, received, perf_counter()))
        self._call_log.close(record)
        return eras.for_modern(kept.result) if known.modern else eras.for_legacy(kept.result)

    def _is_open(self, params: dict[str, Any]) -> bool:
        """Return True if the call is ordinary and can be taken now."""
        observers = self._call_log.observers
        return (
            _MEMBERS.issuperset(params)
            and type(params.get("name")) is str
            and not self._drain.started
            and observers.begun is None
            and (observers.has_space is None or observers.has_space())
        )

    def _plan(self, known: KnownHost, name: WrittenTool, via: str | None) -> PreparedCall | None:
        """Return the plan for calls of a host by a name, and by a meta tool; None if they need a task."""
        plans = known.plans.get(via)
        if plans is None:
            plans = known.plans[via] = {}
        plan = plans.get(name)
        if plan is None or not (
            self._plans.holds(plan) and (plan.reading is None or self._inner_calls.holds(plan.reading))
        ):
            plans.pop(name, None)
            view = self._views.of(known.host.principal)
            found = self._called(view, name, known.host) if via is None else self._inner_calls.tool(view, via, name)
            if found is None:
                return None
            tool, reading = found
            if (
                self._resolver.is_only_remembered(tool)
                or self._supervisor.clients.awaited
                or view.style(known.host.style) != known.style
                or not self._plans.is_ready(view, tool, known.host, via)
            ):
                return None
            if len(plans) >= _PLANS:
                plans.clear()
            plan = plans[name] = self._plans.prepare(view, tool, known.host, via)
            plan.reading = reading
            if plan.needs_task is None:
                plan.permits = tuple(hook.permit_at_once(view, known.host, tool) for hook in plan.hooks)
        if plan.needs_task is not None:
            return None
        if known.may_be_parked:
            negotiated = plan.upstream.negotiated
            if negotiated is None or negotiated.era != "modern":
                return None
        return plan

    def _room(self, plan: PreparedCall, known: KnownHost, now: float) -> Counted | None:
        """Return what a call with limits could surely be charged to now; None if it has to wait, or is refused."""
        counted = plan.counted
        if counted is not None:
            return counted if self.rate_limits.has_room(counted, now) else None
        counted = self.rate_limits.room_at_once(plan.ruling.limits, known.conversation, now)
        if counted is not None and counted.lasts:
            plan.counted = counted
        return counted

    def _called(self, view: View, name: WrittenTool, host: Host) -> tuple[ToolRecord, None] | None:
        """Return the tool that a host calls by its name, in the form of `InnerCalls.tool`."""
        tool = self._resolver.called(view, name) if type(name) is str else None
        if tool is None or (host.frontend == OF_MODELS and tool.only_for_apps):
            return None
        return tool, None

    def _onward(self, call: DirectCall, meta: Any, *, same_meta: bool) -> dict[str, Any]:
        """Return the params of a call for its upstream."""
        plan, params, arguments = call.plan, call.params, call.arguments
        sent: dict[str, Any] = {"name": plan.tool.sent_as}
        if arguments or "arguments" in params:
            sent["arguments"] = arguments
        trusted = plan.config.trusted
        if not same_meta or self._call_log.observers.exported:
            sent[_META] = self._call_log.meta_onward(meta, call.trace, 0, trusted=trusted)
        elif _META in params:
            sent[_META] = call.known.passed_on(trusted=trusted)
        return sent

    async def take_over(self, call: DirectCall, channel: Channel) -> Mapping[str, Any]:
        """Return the result of a call that was sent without a task, in the form of its era.

        Raises:
            RpcError: the error to answer with.
        """
        modern = call.known.modern
        try:
            result = await self._pipeline.take_over(call, channel)
        finally:
            # It counts since it was sent.
            self._drain.end()
            call.drop()
        return eras.for_modern(result) if modern else eras.for_legacy(result)

    def answer_host(self, call: DirectCall, result: dict[str, Any]) -> bool:
        """Answer the host with a result, if that is plain; return False, and do nothing, if not."""
        answered = perf_counter()
        if call.questions or result.get("isError") is True or not is_complete(result):
            return False
        result = eras.received(result)
        made = self._delivery.deliver_at_once(call.plan, call.known.host, result)
        if made is None:
            return False
        for guard in call.guards:
            if not guard.note_at_once(result, call.trace):
                return False
        record = call.record()
        record.result = made
        now = perf_counter()
        received = call.received
        record.steps += [
            stage("upstream", received, call.sent_at, answered),
            stage("output", received, answered, now),
        ]
        given = eras.for_modern(made) if call.known.modern else eras.for_legacy(made)
        call.taken_over = True
        try:
            self._settle(call, record)
            call.to_host.answered(given)
        except Exception as error:  # our error, or no memory: no task would answer the host any more
            call.to_host.failed(error)
        call.let_go()
        return True

    def _settle(self, call: DirectCall, record: CallRecord) -> None:
        """Give back everything that a call holds, and record it: each step even if another one fails."""
        try:
            self.forget(call)
        finally:
            try:
                call.plan.upstream.answered(call)
            finally:
                call.charge.give_back()
                self._drain.end()
                self._call_log.close(record)

    def forget(self, call: DirectCall) -> None:
        """Forget a call that a task takes over."""
        if self._new.pop(call, call) is not None:
            self._older.pop(call, None)

    def _turn(self) -> None:
        """Hand slow calls to tasks."""
        slow, self._older, self._new = self._older, self._new, {}
        self._timer = asyncio.get_running_loop().call_later(SLOW, self._turn) if self._older else None
        for call in slow:
            call.take_over()
