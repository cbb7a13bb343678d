"""The pipeline: a call of a tool as one function, top to bottom. A call reaches an upstream through these steps only.

If a host of 2026-07-28 has to answer a question, the call starts over from the top with the answer: every step before
the relay is safe to run twice, and the relay charges limits once for all requests of a call.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from itertools import chain
from typing import Any, Final

from aggregator.catalog.catalog import Catalog
from aggregator.config.model import Config
from aggregator.domain.call import ToolCall
from aggregator.domain.call_record import CallRecord
from aggregator.domain.decision import ConfirmBy, confirmers
from aggregator.domain.errors import (
    HEADER_MISMATCH,
    CallRefused,
    HostError,
    NotReadOnly,
    UnknownTool,
    Unverifiable,
    UpstreamError,
    UpstreamLost,
    UpstreamTimeout,
)
from aggregator.domain.records import ToolRecord
from aggregator.gateway.ask.approval import ApprovalStep
from aggregator.gateway.ask.input_required import InputRequests, Resumption
from aggregator.gateway.ask.next_round import CALL, CallTarget, is_complete
from aggregator.gateway.ask.upstream_caller import RequestCaller
from aggregator.gateway.call_log import CallLog, OpenRecord
from aggregator.gateway.calls.delivery import ResultDelivery
from aggregator.gateway.calls.direct_call import DirectCall
from aggregator.gateway.calls.failover import CallAttempt, CallAttempts, Failover, together
from aggregator.gateway.calls.plan import OF_MODELS, CallPlans, PreparedCall
from aggregator.gateway.calls.rate_limits import RateLimits
from aggregator.gateway.calls.relay import Relay
from aggregator.gateway.calls.resolve import Resolver
from aggregator.gateway.calls.stages import Checked, Permitted
from aggregator.gateway.calls.validate import Checker
from aggregator.gateway.hooks import ANSWERED, CallGuard, CallHooks, Subject, note, permit, questions_of
from aggregator.gateway.host import Host
from aggregator.gateway.look_alike_members import refuse_look_alikes
from aggregator.gateway.recording.timing import name_tool, timed
from aggregator.gateway.views.views import View
from aggregator.policy.limits import Limits
from aggregator.results.gateway.showing import LargeResults
from aggregator.schemas.refusal import with_corrections
from aggregator.upstream.upstream import Upstream
from aggregator.wire.headers import mismatch
from aggregator.wire.peer import Channel

log = logging.getLogger(__name__)

# One attempt to have a call answered.
AnswerCall = Callable[[Checked], Awaitable[dict[str, Any]]]
_NO_LABELS: Final[frozenset[str]] = frozenset()


class Pipeline:
    """The steps of a call, from its name to its result. The tool is resolved once, and has one ruling."""

    def __init__(
        self,
        upstreams: Mapping[str, Upstream],
        resolver: Resolver,
        approval: ApprovalStep,
        call_log: CallLog,
        input_requests: InputRequests,
        failover: Failover,
        relay: Relay,
        rate_limits: RateLimits,
        checker: Checker,
        plans: CallPlans,
        large_results: LargeResults,
        delivery: ResultDelivery,
        hooks: CallHooks,
    ) -> None:
        self._upstreams = upstreams
        self._resolver = resolver
        self._approval = approval
        self._call_log = call_log
        self._input_requests = input_requests
        self._failover = failover
        self._relay = relay
        self._rate_limits = rate_limits
        self.checker = checker
        self._plans = plans
        self.large_results = large_results
        self._delivery = delivery
        self.hooks = hooks

    def reconfigure(self, config: Config) -> None:
        """Take the bounds of checks and results from a configuration."""
        self.checker.workers.reconfigure(config.checks)
        self._call_log.results.most = config.max_results_bytes
        self.large_results.reconfigure(config.results)

    async def keep_checks_ready(self, settle: Callable[[], Awaitable[None]]) -> None:
        """Compile the checks of new tools ahead of their calls, once `settle` has returned, until cancelled."""
        ready: Catalog | None = None
        async with self.checker.workers:
            await self.checker.prepare(())
            await settle()
            while True:
                known = set(ready.parts) if ready is not None else set()
                ready = await self._resolver.current.tools_other_than(ready)
                await self.checker.prepare(chain.from_iterable(part.tools for part in ready.parts if part not in known))

    async def call_tool(self, call: ToolCall, view: View, host: Host, channel: Channel) -> dict[str, Any]:
        """Return the upstream's result, a result that explains its absence, or one that asks the host a question.

        Raises:
            HostError: the tool does not exist, or the params are no call.
            UpstreamRpcError: the upstream's own protocol error.
        """
        async with self._call_log.record(call, host) as entry:
            record = entry.record
            record.request_id = channel.request_id
            await entry.wait_for_space()
            with timed(record, "policy"):
                permitted = await self._permit(call, view, host, record)
            with timed(record, "check"):
                checked, refusal = await self._validate(permitted)
            if refusal is not None:
                entry.answer_with(refusal)
            elif permitted.plan.tool.name not in self._failover.others:
                entry.answer_with(await self._answer(checked, checked, view, host, channel))
            else:
                answer = partial(self._answer, original=checked, view=view, host=host, channel=channel)
                await self._answer_by_one(entry, checked, view, host, answer, None)
        return entry.result

    async def _answer_by_one(
        self,
        entry: OpenRecord,
        checked: Checked,
        view: View,
        host: Host,
        answer: AnswerCall,
        answer_sent: AnswerCall | None,
    ) -> None:
        """Have a call answered by the called tool or by one that may stand in for it. `answer_sent`: the called one has
        got it, and this takes its answer.

        Raises:
            UpstreamError: none has answered.
        """
        record, called = entry.record, checked.permitted.plan.tool
        try:
            async for attempt in self._attempts(checked, view, sent=answer_sent is not None):
                substitute = await self._stand_in(checked, attempt, view)
                if substitute is not None:
                    with attempt.running(record, repeatable=substitute.permitted.ruling.retry is not None):
                        once = substitute if attempt.last else _sent_once(substitute)
                        way = answer_sent if answer_sent is not None and attempt.tool is called else answer
                        entry.answer_with(await way(once))
                        break
        except (UpstreamTimeout, UpstreamLost) as error:
            self._name_others(error, called, view, host)
            raise

    def _name_others(self, error: UpstreamError, tool: ToolRecord, view: View, host: Host) -> None:
        """Add to an error the tools that may replace one whose call may have taken effect."""
        others = [other for other in self._failover.well_others(tool) if view.may_stand_in(other)]
        if others and error.server == tool.server:
            names = [other.listed[view.style(host.style)] for other in others]
            error.details["instead"] = names
            error.message += f" The configuration names {' and '.join(names)} to be called in its place."

    async def take_over(self, direct: DirectCall, channel: Channel) -> dict[str, Any]:
        """Return the result of a call that was sent without a task.

        Raises:
            UpstreamRpcError: the upstream's own protocol error.
        """
        call, plan, caller = direct.as_call(), direct.plan, direct.caller
        async with self._call_log.reopen(direct.record()) as entry:
            name_tool(entry.record, plan.tool)
            direct.arrive(channel)
            checked = Checked(Permitted(call, plan, plan.ruling, entry.record, direct.guards), direct.arguments)
            target = CallTarget(plan.upstream, CALL, plan.tool.name, call.principal, direct.arguments)
            view, host = direct.view, direct.known.host
            relayed = partial(
                self._relayed,
                target=target,
                caller=caller,
                resumption=None,
                direct=direct,
                sent_as=plan.tool.sent_as,
                name_to_send=partial(self._resolver.name_of_call, call.principal, plan.tool),
            )
            if view is None:
                entry.answer_with(await relayed(checked))
            else:
                answer = partial(self._answer, original=checked, view=view, host=host, channel=channel)
                await self._answer_by_one(entry, checked, view, host, answer, relayed)
        return entry.result

    async def _permit(self, call: ToolCall, view: View, host: Host, record: CallRecord) -> Permitted:
        """Resolve the tool and have the policy rule on it.

        Raises:
            HostError, CallRefused, UpstreamUnavailable: this agent cannot call the tool, now or in this way.
        """
        refuse_look_alikes(call.params)
        tool = await self._resolver.resolve(view, call.name, call.style)
        name_tool(record, tool)
        if tool.only_for_apps and (call.via is not None or host.frontend == OF_MODELS):
            # Models call in these ways, and the tool is for a host's own program (ext-apps, `visibility`).
            raise UnknownTool(call.name, [], meant=tool)
        if call.only_reads and not view.read_only(tool):
            said = f"{tool.name} is not known to only read. Call it with call_tool."
            raise NotReadOnly(tool.name, said, meant=tool)
        if not self._plans.is_ready(view, tool, host, call.via):
            await self._plans.make_ready(view, tool, host, call.via)
        plan = self._plans.prepare(view, tool, host, call.via)
        if tool.param_headers and host.headers is not None and call.via is None:
            wrong = mismatch(tool.param_headers, _meant(call, plan), host.headers)
            if wrong is not None:
                raise HostError(HEADER_MISMATCH, wrong)
        ruling = plan.ruling
        if ruling.scopes:
            view.require_scopes(tool.name, ruling.scopes, tool)
        if not plan.hooks:
            return Permitted(call, plan, ruling, record)
        waited = self._input_requests.waited(call.params, call.version)
        subject = Subject(view, host, record, call.params, ruling.decision, tool, waited, call.within)
        try:
            decision, guards = await permit(plan.hooks, subject)
        except CallRefused as refused:
            if not refused.retryable:
                self._input_requests.give_up(call.params, call.principal)
            raise
        return Permitted(call, plan, ruling._replace(decision=decision), record, guards)

    async def _validate(self, permitted: Permitted) -> tuple[Checked, dict[str, Any] | None]:
        """Check the arguments against the tool's schema and the policy's. Return a refusal too if they do not fit."""
        call, plan, rules = permitted.call, permitted.plan, permitted.ruling.tightening
        given, tool, agent = _meant(call, plan), plan.tool, call.principal.agent_id
        fitting = plan.check.arguments(given) if plan.check is not None else None
        if fitting is not None:
            permitted.record.arguments = fitting
            return Checked(permitted, fitting), None
        arguments, refusal, corrections = await self.checker.arguments(
            plan.upstream.config, tool, given, rules, agent, by_model=plan.by_model
        )
        permitted.record.arguments = arguments
        if refusal is not None:
            blame = await self.checker.blame(tool, arguments, rules, agent)
            rule, source = blame or (None, None)
            permitted.record.decision = permitted.record.decision._replace(rule=rule, rule_source=source)
        return Checked(permitted, arguments, corrections), refusal

    async def _answer(
        self, checked: Checked, original: Checked, view: View, host: Host, channel: Channel
    ) -> dict[str, Any]:
        """Get an approval if the policy wants one, relay the call, and prepare the result for the host.

        `original` is the agent's call; `checked` is another one if another tool stands in.
        """
        permitted, arguments = checked.permitted, checked.arguments
        call, tool, record = permitted.call, permitted.plan.tool, permitted.record
        caller = RequestCaller(host, call.version, call.params, channel)
        caller.questions = questions_of(permitted.guards, record)
        target = CallTarget(self._upstreams[tool.server], CALL, tool.name, call.principal, arguments)
        confirm: ConfirmBy | None = None
        if permitted.ruling.decision.verdict == "confirm" and record.decision.approved_by is None:
            confirm = confirmers(permitted.ruling.decision, view.confirming.by)
        resumption = None
        if "requestState" in call.params:
            resumption = await self._input_requests.resumption(target, caller, call.params, confirm=confirm)
        if confirm is not None and resumption is None:
            with timed(record, "confirm"):
                question = await self._approve(original, view, caller)
            if question is not None:
                return question
        # Approvals take time, and so do checks of arguments.
        name_to_send = partial(self._resolver.name_to_send, view, tool)
        return await self._relayed(
            checked, target, caller, resumption, sent_as=name_to_send(), name_to_send=name_to_send
        )

    async def _relayed(
        self,
        checked: Checked,
        target: CallTarget,
        caller: RequestCaller,
        resumption: Resumption | None,
        direct: DirectCall | None = None,
        *,
        sent_as: str,
        name_to_send: Callable[[], str],
    ) -> dict[str, Any]:
        """Relay the call, or the rest of a direct one, and prepare the result for the host."""
        record, guards, labels = checked.permitted.record, checked.permitted.guards, _NO_LABELS
        try:
            result = await self._relay.call_tool(
                checked, target, caller, resumption, direct, sent_as=sent_as, name_to_send=name_to_send
            )
        except ANSWERED:
            await note(guards, None, record)
            raise
        if not is_complete(result):
            return result
        with timed(record, "output"):
            if guards:
                labels = await note(guards, result, record)
            delivered = await self._delivery.deliver(checked, caller.host, result, labels)
            return with_corrections(delivered, checked.corrections) if checked.corrections else delivered

    async def _approve(self, original: Checked, view: View, caller: RequestCaller) -> dict[str, Any] | None:
        """Return None once the call is approved, else the result that carries the question to the host.

        Raises:
            OverLimit: the call would be over its limit, so a question is pointless.
            NotConfirmed, WaitsForApproval: the answer was no, or the question is queued.
        """
        call, plan, ruling, record, _ = original.permitted
        decision, confirming, arguments = ruling.decision, view.confirming, original.arguments
        record.decision = record.decision._replace(rule=decision.rule, rule_source=decision.source)
        await self._rate_limits.check(plan.tool.name, ruling.limits, call.conversation)
        return await self._approval.obtain(call, plan.tool, arguments, decision, confirming, caller, record)

    # -- another tool in place of the called one

    def _attempts(self, checked: Checked, view: View, *, sent: bool) -> CallAttempts:
        """Return the attempts to answer a call: by the tool itself, and by those that may stand in for it."""
        call, tool = checked.permitted.call, checked.permitted.plan.tool
        # The approver of a call knows nothing of another that would need approval too.
        others = (other for other in self._failover.of(tool) if view.may_stand_in(other))
        resumed = self._input_requests.claims(call.params)
        return self._failover.attempts((tool, *others), self._resolver, resumed=resumed, sent=sent)

    async def _stand_in(self, checked: Checked, attempt: CallAttempt, view: View) -> Checked | None:
        """Return the call as one of the attempt's tool; None if that tool may not get these arguments now."""
        first = checked.permitted
        called = first.plan.tool
        if attempt.tool is called:
            limits = together(first.ruling.limits, Limits(), charged=attempt.charged)
            return checked._replace(permitted=first._replace(ruling=first.ruling._replace(limits=limits)))
        # Once its server is awake, its tool may differ from the remembered one.
        tool = next((one for one in self._failover.of(called) if one.name == attempt.tool.name), None)
        if tool is None or not view.may_stand_in(tool):
            return None
        plan = self._plans.stand_in(view, tool, first.plan)
        ruling, guards = plan.ruling, list[CallGuard]()
        for guard in first.guards:
            other = await guard.stand_in(view, tool)
            if other is None:
                return None
            guards.append(other)
        try:
            config, agent = plan.upstream.config, first.call.principal.agent_id
            arguments, refusal, more = await self.checker.arguments(
                config, tool, checked.arguments, ruling.tightening, agent, by_model=plan.by_model
            )
        except Unverifiable:
            return None
        if refusal is not None:
            log.info("%s does not stand in for %s: it refuses the arguments", tool.name, called.name)
            return None
        limits = together(first.ruling.limits, ruling.limits, charged=attempt.charged)
        # The decision and the approval are about the agent's call.
        ruling = ruling._replace(decision=first.ruling.decision, limits=limits)
        permitted = Permitted(first.call, plan, ruling, first.record, tuple(guards))
        return Checked(permitted, arguments, (*checked.corrections, *more))


def _meant(call: ToolCall, plan: PreparedCall) -> dict[str, Any]:
    """Return the arguments of a call as its server has them, read back from the dialect of its host."""
    given: dict[str, Any] = call.arguments if plan.reader is None else plan.reader.read(call.arguments)
    return given


def _sent_once(checked: Checked) -> Checked:
    """Return the call as one that is not sent again, since another server can answer."""
    permitted = checked.permitted
    return checked._replace(permitted=permitted._replace(ruling=permitted.ruling._replace(retry=None)))
