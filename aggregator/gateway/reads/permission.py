"""Permission to have a resource, a prompt or a skill: the rulebook decides, and a person where it says so."""

import logging
from typing import Any

from aggregator.config.server_config import ServerConfig
from aggregator.domain.call import ResolvedCall, ToolCall
from aggregator.domain.decision import ConfirmBy, Decision, confirmers
from aggregator.domain.errors import Blame, CallRefused
from aggregator.domain.missing import InsufficientScope, ItemRefused, UnknownPrompt, UnknownResource, UnknownSkill
from aggregator.domain.records import ToolRecord
from aggregator.gateway.ask.approval import ApprovalStep
from aggregator.gateway.ask.upstream_caller import RequestCaller
from aggregator.gateway.calls.relay import ResolvedItem
from aggregator.gateway.recording.timing import timed
from aggregator.gateway.request import Request
from aggregator.gateway.views.views import View

log = logging.getLogger(__name__)


class ItemPermission:
    """The check before every read, get and completion."""

    def __init__(self, approval: ApprovalStep) -> None:
        self._approval = approval

    def check(self, found: ResolvedItem, view: View) -> Decision:
        """Return the decision, where it is not a denial.

        Raises:
            UnknownResource, UnknownPrompt, UnknownSkill: a denial that is hidden from this agent.
            ItemRefused: a denial that is not, or a token without the scopes for it.
        """
        decision = decided(found, view)
        if decision.visible:
            try:
                require_scopes(found, view)
            except InsufficientScope as refused:
                raise ItemRefused.by(refused) from refused
            return decision
        blame = Blame(decision.rule, decision.source)
        log.info("%s may not have %s: %s [%s, %s]", view.principal.agent_id, found.name, decision.reason, *blame)
        if not decision.hidden:
            details = {"code": "not_allowed", "status": 403, "retryable": False, "asked": found.requested}
            raise ItemRefused(f"{found.requested:.500} is not allowed for this agent.", details, blame)
        if found.kind == "prompt":
            raise UnknownPrompt(found.requested, [], blame)
        if found.kind == "skill":
            raise UnknownSkill(found.requested, blame=blame)
        raise UnknownResource(found.requested, blame=blame)

    def confirms(self, found: ResolvedItem, view: View) -> ConfirmBy | None:
        """Return who has to agree, if anyone has."""
        decision = self.check(found, view)
        return confirmers(decision, view.confirming.by) if decision.verdict == "confirm" else None

    async def obtain(self, found: ResolvedItem, view: View, request: Request) -> dict[str, object] | None:
        """Return None once the item may be had, else the interim result with the question for the host.

        A request that continues a parked one was checked before: the relay knows who agreed to it.

        Raises:
            UnknownResource, UnknownPrompt, UnknownSkill, ItemRefused: the item is denied.
        """
        goes_on = request.modern and request.input_requests.claims(request.params)
        decision = self.check(found, view)
        if decision.verdict != "confirm" or goes_on:
            return None
        assert request.entry is not None, "whatever gets here is on record"
        record = request.entry.record
        record.rule, record.rule_source = decision.rule, decision.source
        resolved = ResolvedCall(
            ToolCall(request.host.principal, request.params, request.answer_version), _as_call(found)
        )
        try:
            with timed(record, "confirm"):
                # Without a token: progress of a read is its server's alone.
                caller = RequestCaller(request.host, request.version, {}, request.channel)
                interim = await self._approval.obtain(
                    resolved, request.arguments(), decision, view.confirming, caller, record
                )
        except CallRefused as refused:
            raise ItemRefused.by(refused) from refused
        return interim


def may_have(found: ResolvedItem, view: View) -> bool:
    """Return whether an item is visible, and the agent's token has the scopes for it."""
    try:
        require_scopes(found, view)
    except InsufficientScope:
        return False
    return decided(found, view).visible


def decided(found: ResolvedItem, view: View) -> Decision:
    """Return the decision of the rulebook in force about an item."""
    server = found.upstream.config
    return view.decide(found.kind, server, found.own, listed=found.listed, also=found.also, skills=found.skills)


def require_scopes(found: ResolvedItem, view: View) -> None:
    """Check that the agent's token has the scopes that rules want for an item.

    Raises:
        InsufficientScope: it has not.
    """
    server = found.upstream.config
    view.require_item_scopes(found.kind, server, found.own, listed=found.listed, also=found.also, skills=found.skills)


def _as_call(found: ResolvedItem) -> ToolRecord:
    """Return an item as the tool that a person is asked about, under a name that no tool has."""
    server: ServerConfig = found.upstream.config
    kind = "prompt" if found.kind == "prompt" else "resource"
    name = f"{kind}:{server.prefix or server.id}.{found.own}"
    takes: Any = None if found.takes is None else {"properties": {argument: {} for argument in found.takes}}
    return ToolRecord(server.id, "", name, {"inputSchema": takes}, {}, server.timeout)
