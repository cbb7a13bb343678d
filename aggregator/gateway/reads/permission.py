"""Permission to read a resource, a prompt or a skill: the rulebook decides, and a user confirms if it requires that."""

import logging
from collections.abc import Awaitable, Mapping
from typing import Any, NamedTuple

from aggregator.config.server_config import ServerConfig
from aggregator.domain.call import ToolCall
from aggregator.domain.decision import ConfirmBy, Decision, confirmers
from aggregator.domain.errors import Blame, CallRefused
from aggregator.domain.missing import InsufficientScope, ItemRefused, UnknownPrompt, UnknownResource, UnknownSkill
from aggregator.domain.records import ToolRecord
from aggregator.domain.text.cut import cut_between_words
from aggregator.gateway.ask.approval import ApprovalStep
from aggregator.gateway.ask.next_round import is_complete
from aggregator.gateway.ask.upstream_caller import RequestCaller
from aggregator.gateway.hooks import (
    ANSWERED,
    CallHooks,
    Guards,
    Questions,
    Subject,
    note,
    permit,
    questions_of,
)
from aggregator.gateway.host import Host
from aggregator.gateway.recording.timing import timed
from aggregator.gateway.request import Request
from aggregator.gateway.resolved_item import ResolvedItem
from aggregator.gateway.views.views import View

log = logging.getLogger(__name__)


class ItemPermit(NamedTuple):
    """The permission to read an item.

    `interim` is the result that carries a question to the host, if confirmation is required; `confirm` names the
    confirmers. `guards` are the parts of features in the read.
    """

    interim: dict[str, object] | None
    confirm: ConfirmBy | None
    guards: Guards


class ItemPermission:
    """The check before every read, get and completion, and the notes of the answer."""

    def __init__(self, approval: ApprovalStep, hooks: CallHooks) -> None:
        self._approval = approval
        self.hooks = hooks

    def check(self, found: ResolvedItem, view: View) -> Decision:
        """Return the decision, unless it is a denial.

        Raises:
            UnknownResource, UnknownPrompt, UnknownSkill: a denial that is hidden from this agent.
            ItemRefused: a visible denial, or a token without the scopes for it.
        """
        decision = view.decide(found.target)
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
            asked = cut_between_words(found.requested, 500)
            raise ItemRefused(f"{asked} is not allowed for this agent.", details, blame)
        if found.kind == "prompt":
            raise UnknownPrompt(found.requested, [], blame)
        if found.kind == "skill":
            raise UnknownSkill(found.requested, blame=blame)
        raise UnknownResource(found.requested, blame=blame)

    async def in_conversation(
        self, found: ResolvedItem, view: View, request: Request, *, may_ask: bool = True
    ) -> tuple[Decision, Guards]:
        """Return the decision about an item in the conversation of a request, unless it is a denial, and the guards of
        the read.

        Raises:
            UnknownResource, UnknownPrompt, ItemRefused: it is a denial.
        """
        decision = self.check(found, view)
        hooks = self.hooks.concerning(view, found)
        if not hooks:
            return decision, ()
        assert request.entry is not None, "whatever gets here is on record"
        waited = request.input_requests.waited(request.params, request.version)
        record, params = request.entry.record, request.params
        subject = Subject(view, request.host, record, params, decision, found, waited, may_ask=may_ask)
        try:
            return await permit(hooks, subject)
        except CallRefused as refused:
            request.input_requests.give_up(request.params, request.host.principal)
            raise ItemRefused.by(refused) from refused

    async def without_asking(self, found: ResolvedItem, view: View, request: Request) -> Guards:
        """Return the guards of an item that is read without confirmation: values for its arguments, which hosts request
        at every keystroke, the entry of a skill, the content of a directory.

        Raises:
            UnknownResource, UnknownPrompt, UnknownSkill, ItemRefused: the item is denied, or a hook requires
                confirmation.
        """
        _, guards = await self.in_conversation(found, view, request, may_ask=False)
        return guards

    async def watched(self, found: ResolvedItem, view: View, host: Host) -> Decision | None:
        """Return the decision of a hook against a subscription, or None. The server sees the URI, and no
        user can confirm the subscription.
        """
        return await self.hooks.forbids_watching(view, host, found, view.decide(found.target))

    async def obtain(self, found: ResolvedItem, view: View, request: Request) -> ItemPermit:
        """Return the permission to read an item, or the question for the host.

        A request that continues a parked one was checked before: the relay knows who confirmed it.

        Raises:
            UnknownResource, UnknownPrompt, UnknownSkill, ItemRefused: the item is denied.
            UpstreamUnavailable: a user would be asked for a read that cannot be sent.
        """
        goes_on = request.modern and request.input_requests.claims(request.params)
        decision, guards = await self.in_conversation(found, view, request)
        if decision.verdict != "confirm":
            return ItemPermit(None, None, guards)
        confirm = confirmers(decision, view.confirming.by)
        if goes_on:
            return ItemPermit(None, confirm, guards)
        if found.upstream.state == "unavailable":
            raise found.upstream.unavailable()
        assert request.entry is not None, "whatever gets here is on record"
        record = request.entry.record
        record.decision = record.decision._replace(rule=decision.rule, rule_source=decision.source)
        call = ToolCall(request.host.principal, request.params, request.answer_version)
        try:
            with timed(record, "confirm"):
                # Without a token: progress of a read is its server's alone.
                caller = RequestCaller(request.host, request.version, {}, request.channel)
                interim = await self._approval.obtain(
                    call, _as_call(found), request.arguments(), decision, view.confirming, caller, record
                )
        except CallRefused as refused:
            raise ItemRefused.by(refused) from refused
        return ItemPermit(interim, confirm, guards)

    def questions(self, guards: Guards, request: Request) -> Questions:
        """Return the questions of an item's server, with the decisions of the guards about them."""
        assert request.entry is not None, "whatever gets here is on record"
        return questions_of(guards, request.entry.record)

    async def noted(self, guards: Guards, request: Request, answer: Awaitable[dict[str, Any]]) -> dict[str, Any]:
        """Return an upstream's answer, after the guards have noted it.

        Raises:
            ItemRefused: the host must not get it.
            Exception: any error of `answer`.
        """
        if not guards:
            return await answer
        try:
            result = await answer
        except ANSWERED:
            await self._note(guards, request, None)
            raise
        except CallRefused as refused:
            raise ItemRefused.by(refused) from refused
        if is_complete(result):
            await self._note(guards, request, result)
        return result

    async def _note(self, guards: Guards, request: Request, result: Mapping[str, Any] | None) -> None:
        assert request.entry is not None, "whatever gets here is on record"
        try:
            await note(guards, result, request.entry.record)
        except CallRefused as refused:
            raise ItemRefused.by(refused) from refused


def may_have(found: ResolvedItem, view: View) -> bool:
    """Tell whether an item is visible, and the agent's token has the scopes for it."""
    try:
        require_scopes(found, view)
    except InsufficientScope:
        return False
    return view.decide(found.target).visible


def require_scopes(found: ResolvedItem, view: View) -> None:
    """Check that the agent's token has the scopes that rules require for an item.

    Raises:
        InsufficientScope: it lacks some.
    """
    target = found.target
    view.require_scopes(f"{target.kind} {found.own}", view.item_scopes(target))


def _as_call(found: ResolvedItem) -> ToolRecord:
    """Return an item in the form of a tool for the confirmation, under a name that no tool has."""
    server: ServerConfig = found.upstream.config
    kind = "prompt" if found.kind == "prompt" else "resource"
    name = f"{kind}:{server.prefix or server.id}.{found.own}"
    takes: Any = None if found.takes is None else {"properties": {argument: {} for argument in found.takes}}
    return ToolRecord(server.id, "", name, {"inputSchema": takes}, {}, server.timeout)
