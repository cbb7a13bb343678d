"""The use of flow states for calls: the decision before one is sent, and the labels of its answer.

Law 1: without flow rules in the policies, a call costs one attribute look-up, and no code here runs. Law 2: a server's
declaration only adds labels; silence, or a "no", removes none. So labels are read from any server, trusted or not, in
every known place:

| by whom | where | what |
| --- | --- | --- |
| SEP-1913, a proposal | `annotations` or `_meta.annotations` of the result or a block | the hints, `returnMetadata` |
| the draft extension it became | `_meta["io.modelcontextprotocol/trust-annotations"]` | `untrusted`, `sensitive` |
| GitHub's server, FIDES gateways | `_meta.ifc`, `_meta["com.github.ifc/labels"]` | `integrity`, `confidentiality` |
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from aggregator.domain.bounds.offload import for_each, is_long
from aggregator.domain.call_record import CallRecord, TraceContext
from aggregator.domain.decision import Decision
from aggregator.domain.errors import NotRecorded
from aggregator.domain.records import ToolRecord
from aggregator.domain.trace_context import begin as begin_trace
from aggregator.flow.decide.decide_flow import ToolFlow, decide_flow, labels_told
from aggregator.flow.gateway.call_flow import AskedFlow, CallFlow, scope_of
from aggregator.flow.gateway.questions import refuse_late
from aggregator.flow.gateway.refusals import FlowDenied, FlowWithheld
from aggregator.flow.gateway.states import FlowStates
from aggregator.gateway.call_log import CallLog
from aggregator.gateway.host import Host
from aggregator.policy.rulebook import Rulebook
from aggregator.policy.rules import PRIVATE, UNTRUSTED

_NOTHING: Final[frozenset[str]] = frozenset()
_META: Final = "_meta"
_ANNOTATIONS: Final = "annotations"
_TRUST: Final = "io.modelcontextprotocol/trust-annotations"
_IFC: Final = ("ifc", "com.github.ifc/labels")
_INNER: Final = ("resource", "content")
_PUBLIC: Final = frozenset({"public", "none", "normal", "operational", "low"})
# Words of one member that are read: permitted readers, or kinds of data. More words mean that it is not public.
_WORDS: Final = 100
# The members of a block that says nothing of itself.
_BARE: Final = frozenset({"type", "text"})
# The members of a result that says nothing of itself but in its content.
_BARE_RESULT: Final = frozenset({"content", "isError", "structuredContent", "resultType"})
# The lists of a result that are gone through.
_LISTS: Final = ("content", "contents", "messages")


class FlowGuard:
    """The decisions about calls by what their conversations have read, and the notes of what those read."""

    def __init__(self, states: FlowStates, call_log: CallLog) -> None:
        self.states = states
        self._call_log = call_log

    async def listed(self, rulebook: Rulebook | None, host: Host) -> None:
        """Note that a host was sent a list of tools: its session knows their names from there."""
        if rulebook is not None and rulebook.has_flow:
            scope = scope_of(host, begin_trace(), by_key=rulebook.one_conversation)
            if scope.kind == "session":
                await self.states.note_listed(scope)

    def flow_of(
        self,
        rulebook: Rulebook,
        flow: ToolFlow,
        host: Host,
        trace: TraceContext,
        name: str,
        within: TraceContext | None = None,
    ) -> CallFlow:
        """Return the flow of a tool call or of a read of an item; note nothing."""
        scope = scope_of(host, trace, within, by_key=rulebook.one_conversation)
        return CallFlow(scope, flow.labels, flow.name or name, rulebook.decay, rulebook.flow.decisive)

    def begin(self, call: CallFlow, host: Host) -> None:
        """Note that a call of a tool or a read of an item begins, if it is in a session."""
        if call.scope.kind == "session":
            # Who calls before a list of tools was sent knows the names from another session: see `Host.listed`.
            self.states.scopes.begin(call.scope, self.states.now(), takes_over=not host.listed)

    async def decide(
        self,
        base: Decision,
        flow: ToolFlow,
        call: CallFlow,
        record: CallRecord,
        params: Mapping[str, Any],
        meant: ToolRecord | None = None,
        asked: AskedFlow | None = None,
    ) -> tuple[Decision, CallFlow]:
        """Return the decision about a call in its conversation, `base` or a stricter one that is no denial, and its
        flow with the basis of the decision.

        The labels of the conversation are written to the record. `params` are the request's; a request that continues
        after a question is decided as strictly as before it. `asked`: the flow that waited with the server's question
        which the host answers now.

        Raises:
            FlowDenied: a flow rule forbids the call, or sending the answer.
            FlowUnknown: the database cannot be read.
        """
        decides = bool(flow.rules) and base.verdict != "deny"
        resumed = params.get("requestState") is not None
        state = await self.states.state(call.scope, call.name, decides=decides, resumed=resumed)
        record.flow = labels_told(state)
        call = call._replace(base=base, of=flow, read=frozenset(state))
        if not decides:
            return base, call
        now = self.states.now()
        if asked is not None:
            # What has expired meanwhile counts if it did when the call was decided.
            fresh = self.states.scopes.state(call.scope, now)
            state = asked.counted({label: at for label, at in state.items() if label in fresh or label in asked.read})
            call = call._replace(read=asked.read, own=asked.own)
            refuse_late(call, state, now)
        decision = decide_flow(base, flow, state, now)
        if decision is base:
            return base, call
        if decision.verdict == "deny":
            raise FlowDenied.by(call.name, decision, meant)
        return replace(decision, told=True), call

    async def may_stand_in(self, base: Decision, flow: ToolFlow, call: CallFlow) -> bool:
        """Return whether a tool with this decision and flow may answer in place of the one that is called: no flow rule
        forbids it or requires confirmation.

        Raises:
            FlowUnknown: the database cannot be read.
        """
        return not flow.rules or await self.stricter(base, flow, call) is None

    async def stricter(self, base: Decision, flow: ToolFlow, call: CallFlow) -> Decision | None:
        """Return the decision of a flow rule that is stricter, or None.

        Raises:
            FlowUnknown: the database cannot be read.
        """
        state = await self.states.state(call.scope, call.name, decides=True)
        decision = decide_flow(base, flow, state, self.states.now())
        return decision if decision is not base else None

    def known(self, rulebook: Rulebook | None, host: Host, trace: TraceContext) -> frozenset[str]:
        """Return the labels of a conversation that are in memory; none without flow rules."""
        if rulebook is None or not rulebook.has_flow:
            return frozenset()
        scope = scope_of(host, trace, by_key=rulebook.one_conversation)
        return frozenset(self.states.scopes.state(scope, self.states.now()))

    # -- results

    async def note(self, call: CallFlow, result: Mapping[str, Any] | None, record: CallRecord) -> frozenset[str]:
        """Record the labels of an answer before the host gets it: of a result, or None for an error of the upstream.

        Return these labels.

        Raises:
            FlowWithheld: they cannot be written, and other processes would decide without them.
            NotRecorded: they cannot be written, and the operator wants no answer without a record.
        """
        labels = call.labels
        if result is not None:
            longest: Any = max((result.get(name) for name in _LISTS), key=_length)
            labels |= await for_each(longest, declared_labels, result)
        await self.bring(call, labels, record)
        return labels

    def note_at_once(self, call: CallFlow, result: Mapping[str, Any], trace_id: str) -> bool:
        """Record the labels of an answer if it is short, brings no new label and needs no row; else return False."""
        labels = call.labels
        if not _is_bare(result):
            for name in _LISTS:
                if name in result and is_long(result[name]):
                    return False
            labels |= declared_labels(result)
        if not labels:
            return True
        return self.states.brings_nothing_new(call.scope, labels, call.name, trace_id, call.decay)

    async def bring(self, call: CallFlow, labels: frozenset[str], record: CallRecord) -> None:
        """Record labels of an answer that the host is about to get.

        Raises:
            FlowWithheld, NotRecorded: as of `note`.
        """
        if not labels:
            return
        brought = await self.states.bring(call.scope, labels, call.name, record.trace.trace_id, call.decay)
        if brought.new:
            record.flow = " ".join(filter(None, (record.flow, *(f"+{label}" for label in brought.new))))
        if brought.committed:
            return
        if self._call_log.observers.written is not None:
            said = f"What {call.name} answered is withheld: it cannot be written now which data that was."
            raise NotRecorded(call.name, said)
        if labels & call.decisive and not self.states.alone(call.scope):
            raise FlowWithheld.of(call.name)


def _length(items: Any) -> int:
    return len(items) if type(items) is list else -1


def _is_bare(result: Mapping[str, Any]) -> bool:
    """Return True for one bare text, as most results are: it is short, and says nothing of itself."""
    if not _BARE_RESULT.issuperset(result):
        return False
    content = result.get("content")
    return type(content) is list and len(content) == 1 and type(content[0]) is dict and _BARE.issuperset(content[0])


def declared_labels(result: Mapping[str, Any]) -> frozenset[str]:
    """Return the labels that a result says of itself; that takes longer with each block of it."""
    found = _said(result) if _META in result or _ANNOTATIONS in result else _NOTHING
    for name in _LISTS:
        blocks = result.get(name)
        if type(blocks) is not list:
            continue
        for block in blocks:
            # Most blocks are a bare text.
            if type(block) is dict and not _BARE.issuperset(block):
                found |= _said(block)
                for key in _INNER:
                    inner = block.get(key)
                    if type(inner) is dict:
                        found |= _said(inner)
    return found


def _said(holder: Mapping[str, Any]) -> frozenset[str]:
    """Return the labels that one object with `_meta` or `annotations` says of itself."""
    meta, annotations = holder.get(_META), holder.get(_ANNOTATIONS)
    if meta is None and annotations is None:
        return _NOTHING
    found = _hinted(annotations)
    if isinstance(meta, dict):
        found |= _hinted(meta) | _hinted(meta.get(_ANNOTATIONS)) | _classified(meta.get(_TRUST))
        for key in _IFC:
            found |= _flowing(meta.get(key))
    return found


def _hinted(said: Any) -> frozenset[str]:
    """Return the labels from the hints of SEP-1913."""
    if not isinstance(said, dict):
        return _NOTHING
    untrusted = said.get("openWorldHint") is True or said.get("maliciousActivityHint") is True
    private = said.get("privateHint") is True or _word(said.get("sensitiveHint")) in ("medium", "high")
    returned = said.get("returnMetadata")
    if isinstance(returned, dict):
        untrusted = untrusted or _word(returned.get("source")).startswith("untrusted")
        private = private or _is_kept(returned.get("sensitivity"))
    return _labels(untrusted=untrusted, private=private)


def _classified(said: Any) -> frozenset[str]:
    """Return the labels from the extension `trust-annotations`."""
    if not isinstance(said, dict):
        return _NOTHING
    return _labels(untrusted=said.get("untrusted") is True, private=said.get("sensitive") is True)


def _flowing(said: Any) -> frozenset[str]:
    """Return what labels of information flow say."""
    if not isinstance(said, dict):
        return _NOTHING
    untrusted = _word(said.get("integrity")) == "untrusted"
    return _labels(untrusted=untrusted, private=_is_kept(said.get("confidentiality")))


def _labels(*, untrusted: bool, private: bool) -> frozenset[str]:
    return frozenset(label for label, said in ((UNTRUSTED, untrusted), (PRIVATE, private)) if said)


def _is_kept(said: Any) -> bool:
    """Return whether a text, or one in a list or an object, is a word for data that is not public."""
    if isinstance(said, list | dict) and len(said) > _WORDS:
        return True
    every = said if isinstance(said, list | dict) else [said]
    return any(_word(one) not in _PUBLIC for one in every if isinstance(one, str) and one)


def _word(said: Any) -> str:
    return said.lower() if isinstance(said, str) else ""
