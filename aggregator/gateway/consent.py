"""A person's agreement to one call: asked for at the host, or queued until somebody answers elsewhere."""

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Literal

from aggregator.domain.call import Resolved
from aggregator.domain.errors import NotConfirmed, WaitsForApproval
from aggregator.gateway.ask import Asker, Question
from aggregator.gateway.host import Host
from aggregator.storage.digest import argument_digest
from aggregator.storage.errors import QueueFull, StorageError
from aggregator.storage.records import Approval
from aggregator.wire.codec import encode
from aggregator.wire.peer import Channel

if TYPE_CHECKING:
    from aggregator.storage.approvals import Approvals

log = logging.getLogger(__name__)

# How long a queued question waits for its answer, and the answer for the call.
QUEUED_FOR: Final = 24 * 3600.0
# Of each argument, so that a long one cannot push the others out of sight.
_SHOWN: Final = 160
_NAME_SHOWN: Final = 40
_ARGUMENTS_SHOWN: Final = 10


class Consent:
    """`approvals` opens the queue when it is first needed, or says None: then what needs it is refused.

    `redact` takes secrets out of the arguments that are kept there for somebody else to see. `queued` is told of every
    question that comes into the queue.
    """

    def __init__(
        self, approvals: "Callable[[], Awaitable[Approvals | None]]", redact: Callable[[Any], Any] = lambda value: value
    ) -> None:
        self._approvals = approvals
        self._redact = redact
        self.queued: Callable[[Approval], None] = _never_mind
        self._asker = Asker()

    async def obtain(
        self,
        resolved: Resolved,
        arguments: Mapping[str, Any],
        fallback: Literal["deny", "queue"],
        host: Host,
        channel: Channel,
    ) -> dict[str, Any] | None:
        """None once there is agreement; else the interim result that carries the question to the host.

        Raises:
            NotConfirmed: the person said no, or nobody can be asked.
            WaitsForApproval: the question is queued.
        """
        asked, tool = resolved.asked, resolved.tool
        question = Question(
            asked.principal.agent_id, tool.name, argument_digest(arguments), _message(resolved, arguments)
        )
        if self._asker.can_ask(host, asked.version, asked.params):
            reply = await self._asker.ask(question, asked.version, asked.params, channel)
            if reply.interim is not None:
                return dict(reply.interim)
            if reply.agreed:
                log.info("%s: a person agreed to %s", asked.principal.agent_id, tool.name)
                return None
            if not reply.unable:
                raise NotConfirmed(tool.name, f"{tool.name} was not called: {reply.reason}.")
        approvals = await self._approvals() if fallback == "queue" else None
        if approvals is not None:
            question = replace(question, message=_message(resolved, self._redact(dict(arguments))))
            try:
                await self._queue(question, approvals)
            except (QueueFull, StorageError) as error:
                log.warning("the question about %s cannot be queued: %s", tool.name, error)
                raise NotConfirmed(
                    tool.name, f"{tool.name} was not called: a person has to agree, and no question can be queued now."
                ) from error
            return None
        raise NotConfirmed(
            tool.name, f"{tool.name} was not called: a person has to agree, and this host cannot ask one."
        )

    async def _queue(self, question: Question, approvals: "Approvals") -> None:
        now = time.time()
        bound = (question.agent_id, question.tool, question.digest)
        granted = await approvals.find_granted(*bound, now=now)
        if granted is not None and await approvals.consume(granted.id, *bound, now=now):
            log.info("%s: approval %s is used for %s", question.agent_id, granted.id, question.tool)
            return
        waiting = await approvals.ask(*bound, question.message, expires=now + QUEUED_FOR, now=now)
        if waiting.created == now:
            self.queued(waiting)
        raise WaitsForApproval(
            question.tool,
            f"{question.tool} was not called yet: a person has to agree. The question is queued as {waiting.id}.",
            approval=waiting.id,
        )


def _never_mind(approval: Approval) -> None:
    """Nobody is told."""


def _message(resolved: Resolved, arguments: Mapping[str, Any]) -> str:
    """What the person is asked. The host shows one server, so the upstream is named (S/client/elicitation)."""
    shown = [f"{_plain(name, _NAME_SHOWN)}: {_plain(_text(value), _SHOWN)}" for name, value in arguments.items()]
    said = "; ".join(shown[:_ARGUMENTS_SHOWN]) or "no arguments"
    if len(shown) > _ARGUMENTS_SHOWN:
        said += f"; and {len(shown) - _ARGUMENTS_SHOWN} more arguments, which are not shown"
    agent, tool = _plain(resolved.asked.principal.agent_id, _SHOWN), resolved.tool
    name, server = _plain(tool.own_name, _SHOWN), tool.server
    return f"The agent {agent!r} wants to call {name!r} of the server {server!r} with {said}. Allow it?"


def _text(value: Any) -> str:
    return encode(value).decode("utf-8", "replace")


def _plain(text: str, room: int) -> str:
    """Text that can neither hide, reorder nor break what a person reads; what is left out is said."""
    left_out = len(text) - room
    shown = "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in text[:room])
    return f"{shown}… ({left_out} more characters)" if left_out > 0 else shown
