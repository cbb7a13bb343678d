"""Confirmation of one call: requested at the host, or queued until an approver answers."""

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, Protocol

from aggregator.domain.bounds.offload import going_through
from aggregator.domain.call import ToolCall
from aggregator.domain.call_record import CallRecord
from aggregator.domain.decision import Decision, confirmers
from aggregator.domain.errors import NotConfirmed, WaitsForApproval
from aggregator.domain.principal import Principal
from aggregator.domain.records import ToolRecord
from aggregator.domain.text.invisible import escaped
from aggregator.gateway.ask.answer_watch import AnswerWatch
from aggregator.gateway.ask.argument_lines import shown_arguments
from aggregator.gateway.ask.confirm import Confirmation, HostPrompt, answering
from aggregator.gateway.ask.upstream_caller import RequestCaller
from aggregator.gateway.views.views import ConfirmRule
from aggregator.redaction.redactor import Redactor
from aggregator.replicas.group.replication import Replication
from aggregator.storage.digest import argument_digest, canonical_json
from aggregator.storage.errors import QueueFull, StorageError
from aggregator.storage.records import AboutCall, Approval
from aggregator.wire.pieces import encode_in_pieces

if TYPE_CHECKING:
    from aggregator.storage.approvals import Approvals

log = logging.getLogger(__name__)

# How long a queued question waits for its answer, and the answer for the call.
QUEUED_FOR: Final = 24 * 3600.0
# An approver does not read more than this: a longer call is not queued, so that approvals cover displayed text only.
QUEUED_BYTES: Final = 256 * 1024
# Seconds that a call waits for the answer. Many hosts give a call up after a minute in which they hear nothing of it.
WAIT: Final = 50.0
WAIT_WITH_PROGRESS: Final = 300.0
REPORT_EVERY: Final = 10.0
_PROGRESS: Final = 1e-6
_ANSWERS_TRIED: Final = 3
_SHOWN: Final = 160
_NAME: Final = 200
_NOTE_TOLD: Final = 500


class ApprovalStore(Protocol):
    """The queue of approvals."""

    async def approvals(self) -> "Approvals | None":
        """Return the queue, opened when it is first needed; None if it cannot be used."""


class ApprovalEvents(Protocol):
    """The audit of queued calls."""

    def approval_queued(self, approval: Approval) -> None:
        """Record that a call waits for an approval."""


@dataclass(slots=True)
class _Asking:
    """A call that waits for an answer in the queue; `bound` are the agent, the tool and the digest of the arguments.

    `shown` are the displayed question and arguments.
    """

    tool: ToolRecord
    arguments: Mapping[str, Any]
    decision: Decision
    caller: RequestCaller
    record: CallRecord
    bound: tuple[str, str, str]
    approvals: "Approvals"
    shown: tuple[str, str] = ("", "")


class _Report:
    """A report to the host, as progress of its call, that it waits for confirmation."""

    def __init__(self, caller: RequestCaller, id: str) -> None:
        self._caller = caller
        self._id = id

    def __call__(self, seconds: float) -> None:
        caller = self._caller
        # It has to rise, and to stay below the server's later progress (S/basic/patterns/progress).
        caller.reported = (caller.reported or 0.0) + _PROGRESS
        if caller.channel is not None:
            said = f"Waits for a person to agree ({self._id}), {seconds:.0f} s."
            params = {"progressToken": caller.token, "progress": caller.reported, "message": said}
            caller.channel.notify("notifications/progress", params)


class ApprovalStep:
    """The confirmation of a call. Secrets are removed from the arguments in the queue.

    `watch` are the calls that wait for an answer in the queue.
    """

    def __init__(self, store: ApprovalStore, redactor: Redactor, events: ApprovalEvents, group: Replication) -> None:
        self._store = store
        self._redactor = redactor
        self._events = events
        self._host_prompt = HostPrompt(group)
        self.watch = AnswerWatch()

    async def obtain(
        self,
        call: ToolCall,
        tool: ToolRecord,
        arguments: Mapping[str, Any],
        decision: Decision,
        confirming: ConfirmRule,
        caller: RequestCaller,
        record: CallRecord,
    ) -> dict[str, Any] | None:
        """Return None after the confirmation, else the interim result that carries the question to the host.

        The record gets the confirmer (`host:NAME`, or the approver in the queue), and the entry of the queue.

        Raises:
            NotConfirmed: the user declined, or no user can answer.
            WaitsForApproval: the question is queued, and not answered yet.
        """
        host, agent = caller.host, call.principal.agent_id
        digest = _of_person(await going_through(arguments, argument_digest, arguments), call.principal)
        asks_host = confirmers(decision, confirming.by) == "host"
        if asks_host and caller.channel is not None and self._host_prompt.can_ask(host, call.version, call.params):
            message = await going_through(arguments, _message, agent, tool, arguments, decision)
            question = Confirmation(agent, tool.name, digest, message)
            reply = await self._host_prompt.ask(question, call.version, call.params, caller.channel)
            if reply.interim is not None:
                return dict(reply.interim)
            if reply.agreed:
                confirmer = answering(host)
                record.decision = record.decision._replace(approved_by=confirmer)
                log.info("%s: %s agreed to %s", agent, confirmer, tool.name)
                return None
            if not reply.unable:
                raise NotConfirmed(tool.name, f"{tool.name} was not called: {reply.reason}.")
        if asks_host and confirming.fallback != "queue":
            raise _refused(tool.name, "this host cannot ask one")
        approvals = await self._store.approvals()
        if approvals is None:
            raise _refused(tool.name, "no question can be queued, since there is no database")
        asking = _Asking(tool, arguments, decision, caller, record, (agent, tool.name, digest), approvals)
        try:
            approver = await self._from_queue(asking, _patience(confirming, caller))
        except (QueueFull, StorageError) as error:
            log.warning("the question about %s cannot be queued: %s", tool.name, error)
            raise _refused(tool.name, "no question can be queued now") from error
        record.decision = record.decision._replace(approved_by=approver)
        return None

    async def _from_queue(self, asking: "_Asking", patience: float) -> str:
        """Return who agreed in the queue, now or within `patience` seconds."""
        by = await self._answer(asking, repeated=True)
        if by is not None:
            return by
        await self._fit_to_show(asking)
        waiting = self.watch.enter(asking.bound[0]) if patience > 0 else None
        until = asyncio.get_running_loop().time() + patience
        try:
            while True:
                queued = await self._ask(asking)
                if waiting is None:
                    raise _waits(queued)
                report = _Report(asking.caller, queued.id) if asking.caller.token is not None else None
                answered = await self.watch.wait(waiting, queued.id, asking.approvals, until, REPORT_EVERY, report)
                by = await self._answer(asking, repeated=False)
                if by is not None:
                    return by
                if not answered:
                    raise _waits(queued)
                # Another call used the answer up, or it has expired.
        finally:
            if waiting is not None:
                self.watch.leave(waiting)

    async def _answer(self, asking: "_Asking", *, repeated: bool) -> str | None:
        """Return the confirmer of exactly this call, after using up the confirmation; None if no answer counts.

        `repeated`: the call has not waited for the answer, so that a denial is one that the agent knows.

        Raises:
            NotConfirmed: a user declined.
        """
        approvals, bound, needed, record = asking.approvals, asking.bound, asking.decision.people, asking.record
        for _ in range(_ANSWERS_TRIED):
            now = time.time()
            answer = await approvals.find_answer(*bound, needed=needed, now=now)
            if answer is None:
                return None
            if answer.status == "denied":
                record.decision = record.decision._replace(approval_id=answer.id)
                if repeated:
                    await approvals.count_again(answer.id)
                raise _denied(answer, now)
            if await approvals.consume(answer.id, *bound, needed=needed, now=now):
                record.decision = record.decision._replace(approval_id=answer.id)
                log.info("%s: approval %s of %s is used for %s", bound[0], answer.id, answer.decided_by, bound[1])
                return answer.decided_by or answer.id
            # Another call used it up, or it was withdrawn.
        return None

    async def _fit_to_show(self, asking: "_Asking") -> None:
        """Render the displayed text.

        Raises:
            NotConfirmed: it is more than a user reads.
        """
        size = len(await going_through(asking.arguments, encode_in_pieces, asking.arguments))
        if size > QUEUED_BYTES:
            most = f"more than the {QUEUED_BYTES} that a person can be shown"
            raise _refused(asking.bound[1], f"its arguments take {size} bytes, {most}")
        asking.shown = await asyncio.to_thread(self._shown, asking)

    async def _ask(self, asking: "_Asking") -> Approval:
        """Queue the question, if it does not wait there already."""
        now, (summary, text) = time.time(), asking.shown
        queued = await asking.approvals.ask(
            *asking.bound,
            summary,
            arguments=text,
            about=self._about(asking),
            needed=asking.decision.people,
            expires=now + QUEUED_FOR,
            now=now,
        )
        asking.record.decision = asking.record.decision._replace(approval_id=queued.id)
        if queued.created == now:
            self._events.approval_queued(queued)
        return queued

    def _about(self, asking: "_Asking") -> AboutCall:
        tool, decision, record = asking.tool, asking.decision, asking.record
        conversation = record.caller.conversation_id
        return AboutCall(
            server=tool.server,
            schema_version=tool.version,
            rule=decision.reason,
            rule_source=decision.source,
            trace_id=record.trace.trace_id,
            conversation_id=None if conversation is None else self._name(conversation),
        )

    def _name(self, text: str) -> str:
        """Return a name that a host made up as the audit log has it: without secrets, and as any database takes it."""
        kept = str(self._redactor.value(text[: 2 * _NAME]))
        cut = kept if len(kept) <= _NAME else f"{kept[: _NAME - 1]}…"
        return cut.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()

    def _shown(self, asking: "_Asking") -> tuple[str, str]:
        """Return the question and the whole arguments, as JSON, without secrets."""
        redacted = self._redactor.value(dict(asking.arguments))
        message = _message(asking.bound[0], asking.tool, redacted, asking.decision)
        return message, encode_in_pieces(redacted).decode("utf-8", "replace")


def _refused(tool: str, why: str) -> NotConfirmed:
    return NotConfirmed(tool, f"{tool} was not called: a person has to agree, and {why}.")


def _waits(queued: Approval) -> WaitsForApproval:
    return WaitsForApproval(
        queued.tool,
        f"{queued.tool} was not called yet: {_people_left(queued)}. The question is queued as {queued.id}.",
        approval=queued.id,
    )


def _people_left(queued: Approval) -> str:
    return "a person has to agree" if queued.needed == 1 else f"{queued.needed} people have to agree"


def _denied(answer: Approval, now: float) -> NotConfirmed:
    """Return the refusal of a denied call. It does not name the user."""
    said = f": {escaped(answer.note[:_NOTE_TOLD])}" if answer.note else ""
    refused = NotConfirmed(
        answer.tool,
        f"{answer.tool} was not called. A person said no{said.rstrip('.')}.",
        approval=answer.id,
        denied=True,
        note=answer.note,
        retry_after=max(1, round(answer.expires - now)),
    )
    refused.advice = "Do not repeat this call."
    return refused


def _patience(confirming: ConfirmRule, caller: RequestCaller) -> float:
    """Return for how many seconds a call waits for an answer in the queue."""
    if confirming.wait is not None:
        return confirming.wait
    return WAIT if caller.token is None else WAIT_WITH_PROGRESS


def _message(agent_id: str, tool: ToolRecord, arguments: Mapping[str, Any], decision: Decision) -> str:
    """Return the question for the user: a host shows one server, so the upstream is named (S/client/elicitation).

    If earlier reads led to the question, it contains the reason.
    """
    agent, name = _plain(agent_id), _plain(tool.own_name)
    opening = f"The agent {agent!r} wants to call {name!r} of the server {tool.server!r} with"
    why = [f"You are asked because {decision.reason}."] if decision.told else []
    if not arguments:
        return (
            "\n".join([f"{opening} no arguments.", *why, "Allow it?"]) if why else f"{opening} no arguments. Allow it?"
        )
    lines = shown_arguments(arguments, tool.definition.get("inputSchema"))
    return "\n".join([f"{opening}:", *(f"- {line}" for line in lines), *why, "Allow it?"])


def _of_person(digest: str, principal: Principal) -> str:
    """Return the digest of arguments, or of them and the user whose token came with the call: a confirmation for one
    user does not count for another with the same agent.
    """
    if principal.token is None:
        return digest
    return sha256(canonical_json({"arguments": digest, "bearer": [*principal.token.bearer]})).hexdigest()


def _plain(text: str) -> str:
    left_out = len(text) - _SHOWN
    return escaped(text[:_SHOWN]) + (f"… ({left_out} more characters)" if left_out > 0 else "")
