"""A person's agreement to one call: asked for at the host, or queued until an approver answers."""

import asyncio
import logging
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Protocol

from aggregator.domain.bounds.offload import going_through
from aggregator.domain.call import ResolvedCall
from aggregator.domain.errors import NotConfirmed, WaitsForApproval
from aggregator.domain.text.invisible import escaped
from aggregator.gateway.ask.argument_lines import shown_arguments
from aggregator.gateway.ask.confirm import Confirmation, HostPrompt, answering
from aggregator.gateway.host import Host
from aggregator.gateway.views.views import ConfirmRule
from aggregator.redaction.redactor import Redactor
from aggregator.storage.digest import argument_digest
from aggregator.storage.errors import QueueFull, StorageError
from aggregator.storage.records import Approval
from aggregator.wire.peer import Channel
from aggregator.wire.pieces import encode_in_pieces

if TYPE_CHECKING:
    from aggregator.storage.approvals import Approvals

log = logging.getLogger(__name__)

# How long a queued question waits for its answer, and the answer for the call.
QUEUED_FOR: Final = 24 * 3600.0
# An approver does not read more than this: such a call is not queued, so that none agrees to what is not shown.
QUEUED_BYTES: Final = 256 * 1024
_SHOWN: Final = 160
_NOTE_TOLD: Final = 500


class ApprovalStore(Protocol):
    """The queue of approvals."""

    async def approvals(self) -> "Approvals | None":
        """Return the queue, opened when it is first needed; None if it cannot be used."""


class ApprovalEvents(Protocol):
    """The audit of queued calls."""

    def approval_queued(self, approval: Approval) -> None:
        """Record that a call waits for an approval."""


class ApprovalStep:
    """The agreement of a person to a call. Secrets are taken out of the arguments that wait in the queue."""

    def __init__(self, store: ApprovalStore, redactor: Redactor, events: ApprovalEvents) -> None:
        self._store = store
        self._redactor = redactor
        self._events = events
        self._host_prompt = HostPrompt()

    async def obtain(
        self,
        resolved: ResolvedCall,
        arguments: Mapping[str, Any],
        confirming: ConfirmRule,
        host: Host,
        channel: Channel,
    ) -> tuple[str | None, dict[str, Any] | None]:
        """Return who agreed (`host:NAME`, or who granted the approval), else the interim result that carries the
        question to the host.

        Raises:
            NotConfirmed: the person said no, or no person can be asked.
            WaitsForApproval: the question is queued.
        """
        call, tool = resolved.call, resolved.tool
        agent, digest = call.principal.agent_id, await going_through(arguments, argument_digest, arguments)
        if confirming.by == "host" and self._host_prompt.can_ask(host, call.version, call.params):
            message = await going_through(arguments, _message, resolved, arguments)
            question = Confirmation(agent, tool.name, digest, message)
            reply = await self._host_prompt.ask(question, call.version, call.params, channel)
            if reply.interim is not None:
                return None, dict(reply.interim)
            if reply.agreed:
                by = answering(host, call.version, call.params)
                log.info("%s: %s agreed to %s", agent, by, tool.name)
                return by, None
            if not reply.unable:
                raise NotConfirmed(tool.name, f"{tool.name} was not called: {reply.reason}.")
        if confirming.by == "host" and confirming.fallback != "queue":
            raise _refused(tool.name, "this host cannot ask one")
        approvals = await self._store.approvals()
        if approvals is None:
            raise _refused(tool.name, "no question can be queued, since there is no database")
        try:
            return await self._from_queue(resolved, arguments, (agent, tool.name, digest), approvals), None
        except (QueueFull, StorageError) as error:
            log.warning("the question about %s cannot be queued: %s", tool.name, error)
            raise _refused(tool.name, "no question can be queued now") from error

    async def _from_queue(
        self, resolved: ResolvedCall, arguments: Mapping[str, Any], bound: tuple[str, str, str], approvals: "Approvals"
    ) -> str:
        now, (agent, tool, _) = time.time(), bound
        answer = await approvals.find_answer(*bound, now=now)
        if answer is not None and answer.status == "granted":
            if await approvals.consume(answer.id, *bound, now=now):
                log.info("%s: approval %s of %s is used for %s", agent, answer.id, answer.decided_by, tool)
                return answer.decided_by or answer.id
            # Another call used it up, or it was taken back.
            answer = await approvals.find_answer(*bound, now=now)
        if answer is not None and answer.status == "denied":
            raise _denied(answer, now)
        size = len(await going_through(arguments, encode_in_pieces, arguments))
        if size > QUEUED_BYTES:
            most = f"more than the {QUEUED_BYTES} that a person can be shown"
            raise _refused(tool, f"its arguments take {size} bytes, {most}")
        shown, text = await asyncio.to_thread(self._shown, resolved, arguments)
        waiting = await approvals.ask(*bound, shown, arguments=text, expires=now + QUEUED_FOR, now=now)
        if waiting.created == now:
            self._events.approval_queued(waiting)
        raise WaitsForApproval(
            tool,
            f"{tool} was not called yet: a person has to agree. The question is queued as {waiting.id}.",
            approval=waiting.id,
        )

    def _shown(self, resolved: ResolvedCall, arguments: Mapping[str, Any]) -> tuple[str, str]:
        """Return the question and the whole arguments, as JSON, without secrets."""
        redacted = self._redactor.value(dict(arguments))
        return _message(resolved, redacted), encode_in_pieces(redacted).decode("utf-8", "replace")


def _refused(tool: str, why: str) -> NotConfirmed:
    return NotConfirmed(tool, f"{tool} was not called: a person has to agree, and {why}.")


def _denied(answer: Approval, now: float) -> NotConfirmed:
    """Return the refusal of a call that a person said no to; how long that counts is said."""
    until = datetime.fromtimestamp(answer.expires, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    said = f" and said: {escaped(answer.note[:_NOTE_TOLD])}" if answer.note else ""
    return NotConfirmed(
        answer.tool,
        f"{answer.tool} was not called: a person denied this call{said}. The same call is refused until {until}.",
        approval=answer.id,
        denied=True,
        note=answer.note,
        retry_after=max(1, round(answer.expires - now)),
    )


def _message(resolved: ResolvedCall, arguments: Mapping[str, Any]) -> str:
    """Return the question for the person: a host shows one server, so the upstream is named (S/client/elicitation)."""
    tool = resolved.tool
    agent, name = _plain(resolved.call.principal.agent_id), _plain(tool.own_name)
    opening = f"The agent {agent!r} wants to call {name!r} of the server {tool.server!r} with"
    if not arguments:
        return f"{opening} no arguments. Allow it?"
    lines = shown_arguments(arguments, tool.definition.get("inputSchema"))
    return "\n".join([f"{opening}:", *(f"- {line}" for line in lines), "Allow it?"])


def _plain(text: str) -> str:
    left_out = len(text) - _SHOWN
    return escaped(text[:_SHOWN]) + (f"… ({left_out} more characters)" if left_out > 0 else "")
