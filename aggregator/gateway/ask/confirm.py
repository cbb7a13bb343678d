"""Confirmation of a call by the user at the host, in the form of each era.

Before 2026-07-28 the host gets the question while its call waits; since then the call is answered with the question and
repeated with the answer, so every step before this one runs twice.
"""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from aggregator.domain.abilities import abilities_of
from aggregator.domain.decision import HOST_AGREED
from aggregator.domain.errors import RpcError
from aggregator.domain.text.invisible import escaped
from aggregator.domain.versions import META_CLIENT_CAPABILITIES, era_of
from aggregator.gateway.ask.sealed_state import NotKnown, StateSealer
from aggregator.gateway.host import Host
from aggregator.replicas.group.replication import Replication
from aggregator.wire.peer import Channel, NoBackChannel, PeerGone

log = logging.getLogger(__name__)

# Seconds that a user may take.
PATIENCE: Final = 300.0
_KEY: Final = "confirm"
_FIELD: Final = "allow"
_NAME_SHOWN: Final = 64
# The kind that is sealed into the state of a question about agreement.
STATE_KIND: Final = "consent"


@dataclass(frozen=True, slots=True)
class Confirmation:
    """A call that needs confirmation. `digest` is the digest of the arguments, which the answer is bound to."""

    agent_id: str
    tool: str
    digest: str
    message: str


@dataclass(frozen=True, slots=True)
class ConfirmationReply:
    """A user's reply: `agreed`, and the `reason` of a refusal.

    `interim` is the result for the host instead, if it has to come back with the answer. `unable`: the question reached
    no user, although the host had declared elicitation.
    """

    agreed: bool
    reason: str
    interim: Mapping[str, Any] | None = None
    unable: bool = False


class HostPrompt:
    """Yes-or-no questions to the user at a host."""

    def __init__(self, group: Replication) -> None:
        self._sealer = StateSealer(STATE_KIND, group)

    def can_ask(self, host: Host, version: str, params: Mapping[str, Any]) -> bool:
        """Tell whether this host can show a form to a user."""
        meta = params.get("_meta")
        modern = era_of(version) == "modern"
        capabilities = meta.get(META_CLIENT_CAPABILITIES) if modern and isinstance(meta, dict) else host.capabilities
        return abilities_of(version, capabilities).forms

    async def ask(
        self, confirmation: Confirmation, version: str, params: Mapping[str, Any], channel: Channel
    ) -> ConfirmationReply:
        """Return the user's reply, or the interim result that carries the question to them."""
        if era_of(version) == "modern":
            return await self._ask_modern(confirmation, params)
        try:
            async with asyncio.timeout(PATIENCE):
                answer = await channel.ask("elicitation/create", _form(confirmation.message))
        except TimeoutError:
            return ConfirmationReply(False, f"no answer came within {PATIENCE:g} s")
        except (NoBackChannel, PeerGone, RpcError) as error:
            log.info("the question about %s could not be put: %s", confirmation.tool, error)
            return ConfirmationReply(False, "the host could not put the question to a person", unable=True)
        return _judge(answer)

    async def _ask_modern(self, confirmation: Confirmation, params: Mapping[str, Any]) -> ConfirmationReply:
        bound = {"agent": confirmation.agent_id, "tool": confirmation.tool, "digest": confirmation.digest}
        responses = params.get("inputResponses")
        answer = responses.get(_KEY) if isinstance(responses, dict) else None
        if isinstance(answer, dict) and await self._is_asked(params.get("requestState"), bound):
            return _judge(answer)
        interim = {
            "resultType": "input_required",
            "inputRequests": {_KEY: {"method": "elicitation/create", "params": _form(confirmation.message)}},
            "requestState": self._sealer.seal(bound, PATIENCE),
        }
        return ConfirmationReply(False, "a person has to agree first", interim)

    async def _is_asked(self, state: Any, bound: Mapping[str, Any]) -> bool:
        """Tell whether a state belongs to exactly this question, and comes for the first time."""
        try:
            return await self._sealer.open(state, bound) is not None
        except NotKnown:
            log.warning("a person is asked again: the database cannot say now whether their answer was used before")
            return False


def answering(host: Host) -> str:
    """Return who agrees when this host says yes: `host:` and the name it gives itself, else how it comes in."""
    name = host.client_info.get("name")
    return HOST_AGREED + (escaped(name[:_NAME_SHOWN]) if isinstance(name, str) and name else host.frontend)


def _form(message: str) -> dict[str, Any]:
    field = {"type": "boolean", "title": "Allow this call", "default": False}
    schema = {"type": "object", "properties": {_FIELD: field}, "required": [_FIELD]}
    return {"mode": "form", "message": message, "requestedSchema": schema}


def _judge(answer: Mapping[str, Any]) -> ConfirmationReply:
    content = answer.get("content")
    if answer.get("action") != "accept":
        return ConfirmationReply(
            False, "the person declined" if answer.get("action") == "decline" else "the person did not answer"
        )
    if isinstance(content, dict) and content.get(_FIELD) is True:
        return ConfirmationReply(True, "the person agreed")
    return ConfirmationReply(False, "the person did not allow it")
