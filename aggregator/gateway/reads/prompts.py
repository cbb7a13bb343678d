"""Prompts: find the server that a name belongs to, decide, and get."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from aggregator.domain.bounds.offload import for_each
from aggregator.domain.errors import INVALID_PARAMS, METHOD_NOT_FOUND, HostError, UpstreamRpcError
from aggregator.domain.missing import UnknownPrompt
from aggregator.domain.names import spellings
from aggregator.domain.records import ItemRecord
from aggregator.domain.uris.links import in_prompt
from aggregator.gateway.agent_items import AgentItems
from aggregator.gateway.ask.next_round import is_complete
from aggregator.gateway.calls.relay import Relay
from aggregator.gateway.reads.permission import ItemPermission
from aggregator.gateway.request import Request
from aggregator.gateway.resolved_item import ResolvedItem
from aggregator.gateway.startup import StartupWait
from aggregator.gateway.views.views import View
from aggregator.pins.gateway.answers import item_held
from aggregator.schemas.refusal import INVALID_ARGUMENTS
from aggregator.upstream.supervisor import Supervisor

_NONE_LOST: Final = frozenset[str]()
_LOST_SHOWN: Final = 6


class Prompts:
    """The look-up of prompts by name, in any spelling; a miss suggests similar names."""

    def __init__(
        self,
        supervisor: Supervisor,
        startup: StartupWait,
        agent_items: AgentItems,
        permission: ItemPermission,
        relay: Relay,
    ) -> None:
        self._supervisor = supervisor
        self._startup = startup
        self._upstreams = supervisor.upstreams
        self._agent_items = agent_items
        self._permission = permission
        self._relay = relay
        self._by_prefix = supervisor.by_prefix

    async def get(self, request: Request) -> dict[str, Any]:
        """Return the result of `prompts/get`.

        Raises:
            HostError: there is no such prompt for this agent.
            UpstreamRpcError, UpstreamError: the error of its server, or the reason why there is no answer.
        """
        view, name = self._agent_items.view(request), request.text("name")
        found = await self.find(view, name, request)
        request.about(found.upstream.config.id, found.own)
        _refuse_lost(found, request.params.get("arguments"))
        permit = await self._permission.obtain(found, view, request)
        if permit.interim is not None:
            return permit.interim
        try:
            params = {**request.params, "name": found.own_now}
            result = await self._permission.noted(
                permit.guards,
                request,
                self._relay.read_item(
                    found,
                    "prompts/get",
                    params,
                    request,
                    confirm=permit.confirm,
                    questions=self._permission.questions(permit.guards, request),
                ),
            )
        except UpstreamRpcError as error:
            if error.code == METHOD_NOT_FOUND:
                raise UnknownPrompt(name, []) from error
            raise
        if not is_complete(result):
            return result
        elsewhere = self._agent_items.elsewhere(request.host, found.upstream)
        return await for_each(result.get("messages"), in_prompt, found.upstream.config.prefix, result, elsewhere)

    async def find(self, view: View, name: str, request: Request) -> ResolvedItem:
        """Return the prompt that a name means; wait for a server that is still starting.

        Raises:
            UnknownPrompt: none that this agent may know of, with the nearest names in the host's own style.
            ItemRefused: one that it may not have.
            ItemHeld: one whose definition waits for an approval.
        """
        found = self._seen(view, name)
        if found is not None:
            return found
        self._refuse_held(view, name)
        named = ((self._by_prefix[prefix], own) for prefix, own in spellings(name) if prefix in self._by_prefix)
        upstream, own = next(named, (self._by_prefix.get(""), name))
        meant = ResolvedItem("prompt", upstream, own, name) if upstream is not None else None
        decision = view.decide(meant.target) if meant is not None else None
        if upstream is not None and decision is not None and not decision.hidden:
            if upstream.negotiated is None and decision.visible:
                upstream.start()
            await self._supervisor.wait_tried(upstream, upstream.config.timeout)
        found = self._seen(view, name)
        if found is None and (decision is None or not view.open):
            # Hidden items are looked up like absent ones, so that timing does not distinguish them.
            await self._startup.settled(None)
            found = self._seen(view, name)
        if found is not None:
            return found
        self._refuse_held(view, name)
        nearest = self._agent_items.of(view).prompts.nearest(name, view.style(request.host.style))
        for record in self._agent_items.all.prompt(name):
            # The prompt exists, so the check raises: with the reason, if the agent may know of it.
            request.about(record.server, record.own_name)
            try:
                self._permission.check(self._resolved(record, name), view)
            except UnknownPrompt as hidden:
                raise UnknownPrompt(name, nearest, hidden.blame) from None
        if upstream is not None and decision is not None and upstream.away and decision.visible:
            raise upstream.unavailable()
        raise UnknownPrompt(name, nearest)

    def _refuse_held(self, view: View, name: str) -> None:
        """Refuse a prompt that waits for an approval, if the agent may know of it.

        Raises:
            ItemHeld: it does.
        """
        held = self._agent_items.held
        for record in held.items.prompt(name) if held else ():
            if view.shows(record) and (why := held.item(record)) is not None:
                if why.before and not view.shows(replace(record, own_name=why.before)):
                    why = replace(why, before="")
                raise item_held(name, why, record.prefix)

    def _seen(self, view: View, name: str) -> ResolvedItem | None:
        record = next(self._agent_items.of(view).prompt(name), None)
        return self._resolved(record, name) if record is not None else None

    def _resolved(self, record: ItemRecord, name: str) -> ResolvedItem:
        takes, upstream = _takes(record.definition), self._upstreams[record.server]
        lost = frozenset(takes) - record.takes if record.takes is not None else _NONE_LOST
        return ResolvedItem("prompt", upstream, record.own_name, name, takes, lost, sent_as=record.sent_as)


def _refuse_lost(found: ResolvedItem, arguments: Any) -> None:
    """Refuse approved arguments of a prompt that its server does not take any more.

    Raises:
        HostError: some are given.
    """
    lost = sorted(found.lost.intersection(arguments)) if isinstance(arguments, Mapping) else []
    if lost:
        server = found.upstream.config.id
        raise HostError(
            INVALID_PARAMS,
            f"{found.requested:.200}: its server takes less than the approved definition allows, since it was changed. "
            f"It does not take {', '.join(f'`{name:.60}`' for name in lost[:_LOST_SHOWN])} any more. Leave that out, "
            f"or have an operator look at `aggregator pins diff {server}`.",
            {"code": INVALID_ARGUMENTS, "server": server, "name": found.requested[:200], "retryable": True},
        )


def _takes(definition: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the arguments that a prompt declares, in its order."""
    declared = definition.get("arguments")
    named = (one.get("name") for one in declared if isinstance(one, dict)) if isinstance(declared, list) else ()
    return tuple(name for name in named if isinstance(name, str))
