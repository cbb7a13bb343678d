"""Asking the person at the host whether a call may go ahead, in the way of each era.

Before 2026-07-28 the host is asked while its call waits; since then the call is answered with the question and comes
again with the answer, so every step before this one runs twice.
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
from aggregator.domain.versions import META_CLIENT_CAPABILITIES, META_CLIENT_INFO, era_of
from aggregator.gateway.ask.sealed_state import StateSealer
from aggregator.gateway.ask.used_once import NotKnown
from aggregator.gateway.host import Host
from aggregator.replicas.replication import Replication
from aggregator.wire.peer import Channel, NoBackChannel, PeerGone

log = logging.getLogger(__name__)

# How long a person may take.
PATIENCE: Final = 300.0
_KEY: Final = "confirm"
_FIELD: Final = "allow"
_NAME_SHOWN: Final = 64
# The kind that is sealed into the state of a question about agreement.
STATE_KIND: Final = "consent"


@dataclass(frozen=True, slots=True)
class Confirmation:
    """A call that a person is to agree to. `digest` is that of the arguments, which the answer is bound to."""

    agent_id: str
    tool: str
    digest: str
    message: str


@dataclass(frozen=True, slots=True)
class ConfirmationReply:
    """A person's reply: `agreed`, and the `reason` where it is no.

    `interim` is the result to give the host instead, where it has to come back with the answer. `unable`: the question
    reached no person, although the host had declared that it would.
    """

    agreed: bool
    reason: str
    interim: Mapping[str, Any] | None = None
    unable: bool = False


class HostPrompt:
    """The way of yes-or-no questions to the person at a host."""

    def __init__(self, group: Replication) -> None:
        self._sealer = StateSealer(STATE_KIND, group)

    def can_ask(self, host: Host, version: str, params: Mapping[str, Any]) -> bool:
        """Return whether this host can put a form to a person."""
        meta = params.get("_meta")
        modern = era_of(version) == "modern"
        capabilities = meta.get(META_CLIENT_CAPABILITIES) if modern and isinstance(meta, dict) else host.capabilities
        return abilities_of(version, capabilities).forms

    async def ask(
        self, confirmation: Confirmation, version: str, params: Mapping[str, Any], channel: Channel
    ) -> ConfirmationReply:
        """Return the person's reply, or the interim result that carries the question to them."""
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
        """Return whether a state is that of this very question, and comes for the first time."""
        try:
            return await self._sealer.open(state, bound) is not None
        except NotKnown:
            log.warning("a person is asked again: the database cannot say now whether their answer was used before")
            return False


def answering(host: Host, version: str, params: Mapping[str, Any]) -> str:
    """Return who agrees when this host says yes: `host:` and the name it gives itself, else how it comes in."""
    meta = params.get("_meta")
    modern = era_of(version) == "modern"
    info = meta.get(META_CLIENT_INFO) if modern and isinstance(meta, dict) else host.client_info
    name = info.get("name") if isinstance(info, Mapping) else None
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
