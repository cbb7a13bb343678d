"""The questions of a server to the host during a call: they bring the call's labels, and answers need the same
decision.

Law: the labels of a call are recorded before its server's question or message reaches the host, and committed if other
processes decide by them; an answer is sent to the server only if the call would be allowed in the conversation at the
time of the answer.
"""

import logging
from collections.abc import Awaitable
from typing import Any, Final, Protocol

from aggregator.domain.call_record import CallRecord
from aggregator.domain.errors import INVALID_REQUEST, CallRefused, RpcError
from aggregator.flow.decide.decide_flow import FlowState, decide_flow
from aggregator.flow.gateway.call_flow import AskedFlow, CallFlow
from aggregator.flow.gateway.refusals import FlowDenied
from aggregator.flow.gateway.states import FlowStates
from aggregator.gateway.hooks import Deliver, Questions

log = logging.getLogger(__name__)

# Messages of one call that wait for a commit at one time; more are left out.
_HELD: Final = 100


class LabelRecorder(Protocol):
    """The part of the gateway that records the labels of an answer before the host gets it (`FlowGuard`)."""

    @property
    def states(self) -> FlowStates: ...

    def bring(self, call: CallFlow, labels: frozenset[str], record: CallRecord) -> Awaitable[None]:
        """Note labels.

        Raises:
            FlowWithheld, NotRecorded: they cannot be written, and have to be.
        """


class QuestionFlow(Questions):
    """The questions and messages of the server of one call. `refused` is why an answer was not sent, which ends the
    call.
    """

    __slots__ = ("_call", "_guard", "_held", "_over", "_own", "_record")

    def __init__(self, guard: LabelRecorder, call: CallFlow, record: CallRecord) -> None:
        super().__init__()
        self._guard = guard
        self._call = call
        self._record = record
        self._own = dict(call.own)
        self._held: list[Deliver] = []
        self._over = False

    def __repr__(self) -> str:
        return f"<QuestionFlow {self._call.name}>"

    @property
    def asked(self) -> AskedFlow:
        """The facts that wait with a question."""
        return AskedFlow(self._call.read, dict(self._own))

    def to_wire(self) -> dict[str, Any]:
        """Return the facts that wait with a question, as a part of the state that its host sends back."""
        return {"flow": self.asked.to_wire()}

    def outside(self) -> "QuestionFlow":
        """Return the flow of questions that belong to no call, of the server that this call is for."""
        record = self._record
        blank = CallRecord(record.trace, record.started, record.caller, record.asked_name)
        return QuestionFlow(self._guard, self._call, blank)

    async def ask(self) -> None:
        """Record the labels of the call before a question of its server reaches the host.

        Raises:
            FlowUnknown: the database cannot be read.
            FlowWithheld, NotRecorded: the labels cannot be written, and have to be.
        """
        call, states = self._call, self._guard.states
        if not call.labels:
            return
        before = await states.state(call.scope, call.name, decides=bool(call.of.rules))
        mine = [label for label in call.labels if label not in before or self._own.get(label) == before[label]]
        await self._guard.bring(call, call.labels, self._record)
        after = states.scopes.state(call.scope, states.now())
        self._own.update({label: after[label] for label in mine if label in after})

    def say(self, deliver: Deliver) -> None:
        """Record the labels of the call, and forward a message of its server to the host.

        If other processes decide by the labels, the message waits until they are committed.
        """
        call, states = self._call, self._guard.states
        if call.labels:
            states.bring_at_once(call.scope, call.labels, call.name, self._record.trace.trace_id, call.decay)
            if self._held or (call.labels & call.decisive and not states.may_say(call.scope)):
                if len(self._held) < _HELD and not self._over:
                    self._held.append(deliver)
                    states.hold(self)
                return
        deliver()

    @property
    def holds(self) -> bool:
        """True if messages wait: others must not overtake them."""
        return bool(self._held)

    def flush(self) -> None:
        """See `HoldsMessages`."""
        if self._held and self._guard.states.may_say(self._call.scope):
            held, self._held = self._held, []
            self._guard.states.release(self)
            for deliver in held:
                deliver()

    async def settle(self) -> None:
        """Pass on the messages that wait, before the result of the call.

        Raises:
            FlowWithheld, NotRecorded: the labels cannot be written, and have to be.
        """
        if self._held:
            await self._guard.bring(self._call, self._call.labels, self._record)
            self.flush()

    def end(self) -> None:
        """Drop the messages that wait: the call is over."""
        self._over = True
        self._held.clear()
        self._guard.states.release(self)

    async def answer(self) -> None:
        """Decide whether an answer of the host may be sent to the server, in the current conversation.

        Raises:
            FlowDenied: a flow rule holds by now that did not when the call was decided.
            FlowUnknown: the database cannot be read.
        """
        call, states = self._call, self._guard.states
        if call.of.rules:
            counted = self.asked.counted(await states.state(call.scope, call.name, decides=True))
            refuse_late(call, counted, states.now())

    async def question(self) -> None:
        """Do as `ask` does, for a question that the server put as a request.

        Raises:
            RpcError: it cannot be put.
        """
        try:
            await self.ask()
        except CallRefused as refused:
            raise self._error(refused) from refused

    async def reply(self) -> None:
        """Do as `answer` does, for a question that the server put as a request.

        Raises:
            RpcError: the answer is not sent.
        """
        try:
            await self.answer()
        except CallRefused as refused:
            raise self._error(refused) from refused

    def _error(self, refused: CallRefused) -> RpcError:
        log.info("%s is not answered: %s", self._call.name, refused.message)
        self.refused = self.refused or refused
        return RpcError(INVALID_REQUEST, "The host's answer may not be given.")


def refuse_late(call: CallFlow, counted: FlowState, now: float) -> None:
    """Refuse to send an answer in this state, if the call was not decided by as many labels that rules speak of.

    Raises:
        FlowDenied: it was not.
    """
    decision = decide_flow(call.base, call.of, counted, now)
    if decision is call.base:
        return
    spoken_of = frozenset[str]().union(*(rule.after for rule in call.of.rules))
    if decision.verdict == "deny" or not spoken_of & counted.keys() <= call.read:
        raise FlowDenied.of_answer(call.name, decision)
