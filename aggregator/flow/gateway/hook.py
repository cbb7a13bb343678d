"""The hook of flow rules: what calls and reads of items have to do with them."""

from collections.abc import Mapping
from typing import Any, Final

from aggregator.domain.call_record import CallRecord, TraceContext
from aggregator.domain.decision import Decision
from aggregator.domain.records import ToolRecord
from aggregator.domain.trace_context import begin
from aggregator.flow.decide.decide_flow import NO_FLOW, ToolFlow, rule_in_force
from aggregator.flow.gateway.call_flow import AskedFlow, CallFlow, scope_of
from aggregator.flow.gateway.guard import FlowGuard
from aggregator.flow.gateway.questions import QuestionFlow
from aggregator.flow.gateway.refusals import FlowDenied
from aggregator.flow.gateway.scopes import KnownLabels
from aggregator.gateway.hooks import CallGuard, CallHook, KeptRead, PermitAtOnce, Questions, Subject
from aggregator.gateway.host import Host
from aggregator.gateway.resolved_item import ResolvedItem
from aggregator.gateway.views.views import View
from aggregator.policy.rulebook import Rulebook, Ruling

# The member of a state that waits with a question, as `QuestionFlow.to_wire` writes it.
_WAITED: Final = "flow"
# The source of a label, if the tool of a kept result is unknown.
_PROGRAM: Final = "run_code"
# Of a call that belongs to no trace of its host.
_NO_TRACE: Final = TraceContext("", "")


class FlowCall(CallGuard):
    """One call or read in its conversation."""

    __slots__ = ("_flow", "_guard")

    def __init__(self, guard: FlowGuard, flow: CallFlow) -> None:
        self._guard = guard
        self._flow = flow

    def questions(self, record: CallRecord) -> Questions:
        """See `CallGuard`."""
        return QuestionFlow(self._guard, self._flow, record)

    async def stand_in(self, view: View, tool: ToolRecord) -> "FlowCall | None":
        """See `CallGuard`. No flow rule may forbid the other tool or require confirmation of it.

        Raises:
            FlowUnknown: the database cannot be read.
        """
        ruling, flow = view.ruling(tool), self._flow
        if not await self._guard.may_stand_in(ruling.decision, ruling.flow, flow):
            return None
        # An answer to a question of its server goes there.
        rules = tuple(sorted({*flow.of.rules, *ruling.flow.rules}, key=lambda rule: (rule.then != "deny", rule.place)))
        of = flow.of._replace(rules=rules, name=flow.of.name or flow.name)
        return FlowCall(self._guard, flow._replace(labels=flow.labels | ruling.flow.labels, of=of))

    async def note(self, result: Mapping[str, Any] | None, record: CallRecord) -> frozenset[str]:
        """See `CallGuard`, and `FlowGuard.note`."""
        return await self._guard.note(self._flow, result, record)

    def note_at_once(self, result: Mapping[str, Any], trace: TraceContext) -> bool:
        """See `CallGuard`."""
        return self._guard.note_at_once(self._flow, result, trace.trace_id)


class FlowCallAtOnce(FlowCall):
    """A call that was permitted at once, in a conversation with the labels of `known`."""

    __slots__ = ("_known", "_ruling")

    def __init__(self, guard: FlowGuard, flow: CallFlow, ruling: Ruling, known: KnownLabels) -> None:
        self._guard = guard
        self._flow = flow
        self._ruling = ruling
        self._known = known

    def enter(self, record: CallRecord) -> None:
        """See `CallGuard`."""
        record.flow = self._known.told

    def questions(self, record: CallRecord) -> Questions:
        """See `CallGuard`."""
        base, of = self._ruling.decision, self._ruling.flow
        return QuestionFlow(self._guard, self._flow._replace(base=base, of=of, read=self._known.labels), record)


class FlowPermit:
    """The flow rules about the calls of one tool by one host, under one rulebook."""

    __slots__ = ("_allowed_after", "_flow", "_goes_by_trace", "_guard", "_ruling")

    def __init__(self, guard: FlowGuard, rulebook: Rulebook, host: Host, ruling: Ruling, tool: ToolRecord) -> None:
        self._guard = guard
        self._ruling = ruling
        self._flow = guard.flow_of(rulebook, ruling.flow, host, _NO_TRACE, tool.name)
        self._goes_by_trace = self._flow.scope.kind == "key" and not rulebook.one_conversation
        # The last labels after which no rule speaks against a call.
        self._allowed_after: KnownLabels | None = None

    def permit(self, host: Host, trace: TraceContext, /) -> CallGuard | None:
        """See `PermitAtOnce`."""
        guard, flow = self._guard, self._flow
        if self._goes_by_trace:
            if trace.parent_id is not None:
                flow = flow._replace(scope=scope_of(host, trace))
        else:
            guard.begin(flow, host)
        ruling = self._ruling
        known = guard.states.known_at_once(flow.scope, decides=bool(ruling.flow.rules))
        if known is None:
            return None
        if known is not self._allowed_after:
            if rule_in_force(ruling.flow, known.labels) is not None:
                return None
            self._allowed_after = known
        return FlowCallAtOnce(guard, flow, ruling, known)


class FlowHook(CallHook):
    """The flow rules of the policies, for all calls and reads."""

    at_once = True

    def __init__(self, guard: FlowGuard) -> None:
        self._guard = guard

    def concerns(self, view: View, target: ToolRecord | ResolvedItem) -> bool:
        """See `CallHook`. If there is a flow rule, every call counts for its conversation."""
        return view.has_flow

    async def permit(self, subject: Subject) -> tuple[Decision, CallGuard]:
        """See `CallHook`, and `FlowGuard.decide`."""
        view, target, host, record = subject.view, subject.target, subject.host, subject.record
        rulebook = view.rulebook
        assert rulebook is not None, "flow rules are in a rulebook"
        flow = _flow_of(view, target)
        call = self._guard.flow_of(rulebook, flow, host, record.trace, target.name, subject.within)
        self._guard.begin(call, host)
        waited = subject.waited.get(_WAITED)
        decision, call = await self._guard.decide(
            subject.decision,
            flow,
            call,
            record,
            subject.params,
            target if isinstance(target, ToolRecord) else None,
            AskedFlow.from_wire(waited) if waited is not None else None,
        )
        if decision.told and not subject.may_ask:
            raise FlowDenied.by(target.name, decision)
        return decision, FlowCall(self._guard, call)

    def permit_at_once(self, view: View, host: Host, tool: ToolRecord) -> PermitAtOnce:
        """See `CallHook`."""
        assert view.rulebook is not None, "flow rules are in a rulebook"
        return FlowPermit(self._guard, view.rulebook, host, view.ruling(tool), tool)

    async def forbids_watching(self, view: View, host: Host, item: ResolvedItem, decision: Decision) -> Decision | None:
        """See `CallHook`."""
        flow, rulebook = _flow_of(view, item), view.rulebook
        if rulebook is None or not flow.rules:
            return None
        # Without a trace: nothing of the request says which one it belongs to.
        call = self._guard.flow_of(rulebook, flow, host, begin(), item.name)
        self._guard.begin(call, host)
        return await self._guard.stricter(decision, flow, call)

    async def listed(self, rulebook: Rulebook | None, host: Host) -> None:
        """See `CallHook`."""
        await self._guard.listed(rulebook, host)

    def labels_now(self, rulebook: Rulebook | None, host: Host, trace: TraceContext) -> frozenset[str]:
        """See `CallHook`."""
        return self._guard.known(rulebook, host, trace)

    async def read_kept(self, read: KeptRead) -> None:
        """See `CallHook`. Reading a kept result counts as reading its source, with the source's present labels.

        Raises:
            FlowWithheld, NotRecorded: as of `FlowGuard.bring`.
        """
        view, tool, rulebook = read.view, read.tool, read.view.rulebook
        if rulebook is None or not view.has_flow:
            return
        flow = view.ruling(tool).flow if tool is not None else NO_FLOW
        name = tool.name if tool is not None else _PROGRAM
        call = self._guard.flow_of(rulebook, flow, read.host, read.record.trace, name, read.within)
        self._guard.begin(call, read.host)
        await self._guard.bring(call, flow.labels.union(read.labels), read.record)


def _flow_of(view: View, subject: ToolRecord | ResolvedItem) -> ToolFlow:
    return view.ruling(subject).flow if isinstance(subject, ToolRecord) else view.item_flow(subject.target)
