"""Calls of tools that need no task: a host calls a tool as it did before, and there is nothing to ask, refuse or wait
for. They take the steps of the pipeline at once, outside of any task.

Rule 1: each step is decided by what decides it for the pipeline. What is remembered of a call is what surely stays the
same while the snapshots are the same that it was made of.
Rule 2: until the request is sent, `begin` changes nothing. What is not plain is left to the pipeline, from the start.
Rule 3: anything that comes then but a plain result is for a task (`Pipeline.take_over`), which does the rest.
"""

import asyncio
import logging
import time
from collections.abc import Mapping
from time import perf_counter
from typing import Any, Final

from aggregator.domain.bounds.offload import is_long
from aggregator.domain.call_record import CallRecord
from aggregator.domain.errors import HostError, OverLimit
from aggregator.domain.trace_context import TRACEPARENT, begin, onward
from aggregator.domain.uris.links import in_result
from aggregator.domain.versions import era_of
from aggregator.gateway import eras
from aggregator.gateway.agent_items import AgentItems
from aggregator.gateway.ask.next_round import CALL, is_complete
from aggregator.gateway.call_log import CallLog
from aggregator.gateway.calls.direct_call import DirectAnswer, DirectCall, stage
from aggregator.gateway.calls.failover import Failover
from aggregator.gateway.calls.known_host import PROGRESS, KnownHost, PlainTool, constant_part
from aggregator.gateway.calls.pipeline import Pipeline
from aggregator.gateway.calls.provenance import attributed
from aggregator.gateway.calls.rate_limits import FREE, RateLimits
from aggregator.gateway.calls.resolve import Resolver
from aggregator.gateway.drain import Drain
from aggregator.gateway.flow.guard import labels_told
from aggregator.gateway.flow.questions import QuestionFlow
from aggregator.gateway.host import Host
from aggregator.gateway.look_alike_members import refuse_look_alikes
from aggregator.gateway.request import as_call
from aggregator.gateway.views.views import Views
from aggregator.upstream.supervisor import Supervisor
from aggregator.wire.codec import TooDeep, encode
from aggregator.wire.peer import Channel

log = logging.getLogger(__name__)

# Seconds after which a call that still runs is taken over, and at most twice as many.
SLOW: Final = 0.05
# A tool whose time limit is shorter than this is called by a task from the start.
_SHORTEST_LIMIT: Final = 1.0
# The members of a call that has nothing out of the ordinary.
_META: Final = "_meta"
_MEMBERS: Final = frozenset({"name", "arguments", _META})
# Bytes of a `_meta` that is remembered, and tools, for one host.
_META_KEPT: Final = 4096
_TOOLS: Final = 64
# Never changed.
_NO_ARGUMENTS: Final[dict[str, Any]] = {}


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
        pipeline: Pipeline,
        rate_limits: RateLimits,
        agent_items: AgentItems,
    ) -> None:
        self._supervisor = supervisor
        self._views = views
        self._call_log = call_log
        self._drain = drain
        self._resolver = resolver
        self._current = resolver.current
        self._failover = failover
        self._pipeline = pipeline
        self._checker = pipeline.checker
        self._large_results = pipeline.large_results
        self.rate_limits = rate_limits
        self._agent_items = agent_items
        self._flow = pipeline.flow
        # Calls that began since the last turn of the timer, and those before.
        self._new: dict[DirectCall, None] = {}
        self._older: dict[DirectCall, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        # The snapshots that `_same_terms` stands for.
        self._of_catalog: object = None
        self._of_rulebook: object = None
        self._of_trusted: object = None
        self._of_others: object = None
        self._same_terms = object()

    def running(self) -> list[DirectCall]:
        """Return the calls that no task works on now."""
        return [*self._older, *self._new]

    def end(self) -> None:
        """Have every call taken over by a task, which can be ended with words."""
        for call in self.running():
            call.take_over()

    def __len__(self) -> int:
        return len(self._new) + len(self._older)

    def known(self, host: Host, params: dict[str, Any]) -> KnownHost | None:
        """Return what later calls of a host have in common with one that was answered; None if they will not be direct.

        The call was accepted by its frontend.
        """
        meta = params.get("_meta")
        if not isinstance(meta, dict | None):
            return None
        try:
            if meta is not None and len(encode(meta)) > _META_KEPT:
                return None
            refuse_look_alikes(params)
            version = eras.version_spoken(host, CALL, params)
        except (HostError, TooDeep):
            return None
        if version is None:
            return None
        call = as_call(host, params, version, self._views.of(host.principal).style(host.style))
        found = KnownHost(host, version, constant_part(meta), call, modern=era_of(version) == "modern")
        return None if found.caller.level is not None else found

    def begin(self, known: KnownHost, params: dict[str, Any], answer: DirectAnswer) -> DirectCall | None:
        """Send a call to its upstream; return None, and do nothing, where that is not plain.

        `answer` is used later, never from here.
        """
        received, observers = perf_counter(), self._call_log.observers
        name, meta = params.get("name"), params.get("_meta")
        same_meta = known.is_exact and meta == known.meta
        if (
            not known.is_same()
            or not (same_meta or (type(meta) is dict and constant_part(meta) == known.meta))
            or observers.begun is not None
            or self._drain.started
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
        if known.may_be_parked and not (upstream.negotiated is not None and upstream.negotiated.era == "modern"):
            return None
        permitted = perf_counter()
        arguments = plain.check.arguments(given)
        if arguments is None:
            return None
        checked = perf_counter()
        limits = ruling.limits
        if limits.counted:
            try:
                self.rate_limits.look(tool.name, limits, known.conversation)
            except OverLimit:
                return None
        trace = begin(meta, None, observers.sample)
        flow = state = None
        if plain.has_flow:
            rulebook = self._views.rulebook
            assert rulebook is not None, "flow rules are in a rulebook"
            flow = self._flow.begin(rulebook, ruling.flow, known.host, trace, tool.name)
            state = self._flow.allows(ruling.decision, ruling.flow, flow.scope)
            if state is None:
                return None
        sent: dict[str, Any] = {"name": tool.own_name}
        if arguments or "arguments" in params:
            sent["arguments"] = arguments
        if same_meta and not observers.exported:
            if _META in params:
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
        call = DirectCall(self, deadline, known, plain, params, arguments, answer, trace)
        call.received, call.permitted, call.checked = received, permitted, checked
        call.sent_at = perf_counter()
        if flow is not None and state:
            call.told = labels_told(state)
        call.flow = flow
        on_progress = call.on_progress if meta is not None and meta.get(PROGRESS) is not None else None
        if not upstream.begin(CALL, sent, plain.extends, call, known.caller, on_progress):
            return None
        if limits.counted:
            call.charge = self.rate_limits.charged(tool.name, limits, known.conversation, looked=True)
            call.charge.__enter__()
        self._drain.begin()
        self._new[call] = None
        if self._timer is None:
            self._timer = loop.call_later(SLOW, self._turn)
        return call

    async def take_over(self, call: DirectCall, channel: Channel) -> Mapping[str, Any]:
        """Return the result of a call that was begun without a task, in the form of the era it speaks.

        Raises:
            RpcError: the error to answer with.
        """
        modern = call.known.modern
        try:
            result = await self._pipeline.take_over(call, channel)
        finally:
            # It has been counted since it was begun.
            self._drain.end()
            call.drop()
        return eras.for_modern(result) if modern else eras.for_legacy(result)

    def answer(self, call: DirectCall, result: dict[str, Any]) -> bool:
        """Answer the host with a result, if that is plain; return False, and do nothing, if not."""
        answered = perf_counter()
        if call.questions or result.get("isError") is True or not is_complete(result):
            return False
        made = self._deliver(call, result)
        if made is None or (
            call.flow is not None and not self._flow.note_at_once(call.flow, result, call.trace.trace_id)
        ):
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
        except Exception as error:  # of ours, or for want of memory: no task would answer the host any more
            call.to_host.failed(error)
        return True

    def _settle(self, call: DirectCall, record: CallRecord) -> None:
        """Give back all that a call holds, and put it on record: each of these even if another one fails."""
        try:
            self.forget(call)
        finally:
            try:
                call.plain.upstream.answered(call)
            finally:
                if call.charge is not FREE:
                    call.charge.__exit__(None, None, None)
                self._drain.end()
                self._call_log.close(record)

    def questions(self, call: DirectCall) -> QuestionFlow | None:
        """See `DirectCallOwner`."""
        if call.flow is None:
            return None
        ruling, read = call.plain.ruling, frozenset((call.told or "").split())
        flow = call.flow._replace(base=ruling.decision, of=ruling.flow, read=read)
        return self._flow.questions(flow, call.record())

    def forget(self, call: DirectCall) -> None:
        """Forget a call that a task takes over."""
        if self._new.pop(call, call) is not None:
            self._older.pop(call, None)

    def _deliver(self, call: DirectCall, result: dict[str, Any]) -> dict[str, Any] | None:
        """Return the result as `Pipeline` delivers it; None where that takes long, or something is wrong with it."""
        plain = call.plain
        tool, upstream = plain.tool, plain.upstream
        content: Any = result.get("content")
        alone = _has_text_alone(content)
        if alone and (plain.keeps_structured or "structuredContent" not in result):
            # Most results: nothing is called for them.
            if len(content[0]["text"]) > self._large_results.most_characters:
                return None
        elif is_long(content) or not self._large_results.is_small(result, structured=not plain.keeps_structured):
            return None
        result = eras.received(result)
        if tool.prefix and (_META in result or (content and not alone)):
            result = in_result(tool.prefix, result, self._agent_items.elsewhere(call.known.host, upstream))
        if not plain.check.result_fits(result):
            return None
        return attributed(upstream.config, tool, result, time.time(), tool.server)

    def _holds(self, plain: PlainTool) -> bool:
        """Return whether what was learnt of a tool is still so."""
        upstream = plain.upstream
        return (
            plain.terms is self._terms()
            and plain.check.config is upstream.config
            and self._supervisor.upstreams.get(plain.tool.server) is upstream
            and not self._resolver.is_only_remembered(plain.tool)
        )

    def _terms(self) -> object:
        """Return an object that stands for the catalog, the policies and what stands in for what: another one once they
        are others.
        """
        catalog, rulebook, trusted = self._current.tools, self._views.rulebook, self._views.trusted
        others = self._failover.others
        if (
            catalog is not self._of_catalog
            or rulebook is not self._of_rulebook
            or trusted is not self._of_trusted
            or others is not self._of_others
        ):
            self._of_catalog, self._of_rulebook, self._of_trusted, self._of_others = catalog, rulebook, trusted, others
            self._same_terms = object()
        return self._same_terms

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
            or ruling.limits.tokens is not None
            or (ruling.scopes and view.principal.token is not None)
            or tool.name in self._failover.others
            or tool.param_headers
            or tool.timeout < _SHORTEST_LIMIT
            or view.style(host.style) != known.style
        ):
            return None
        check = self._checker.plain(upstream.config, tool, ruling.tightening)
        if check is None:
            return None
        if len(known.tools) >= _TOOLS:
            known.tools.clear()
        kept = self._pipeline.keeps_structured(tool, host.frontend)
        plain = PlainTool(tool, ruling, upstream, check, self._terms(), keeps_structured=kept, has_flow=view.has_flow)
        known.tools[name] = plain
        return plain

    def _turn(self) -> None:
        """Have slow calls taken over."""
        slow, self._older, self._new = self._older, self._new, {}
        self._timer = asyncio.get_running_loop().call_later(SLOW, self._turn) if self._older else None
        for call in slow:
            call.take_over()


def _has_text_alone(content: Any) -> bool:
    """Return whether a result holds nothing that could name a resource: one block of text."""
    if type(content) is not list or len(content) != 1 or type(content[0]) is not dict:
        return False
    block = content[0]
    return block.get("type") == "text" and type(block.get("text")) is str
