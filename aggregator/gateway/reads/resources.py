"""Resources: find the server that a URI belongs to, decide, and read."""

import asyncio
from functools import partial
from typing import Any

from aggregator.domain.bounds.offload import for_each
from aggregator.domain.errors import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    CallRefused,
    UpstreamBadAnswer,
    UpstreamRpcError,
)
from aggregator.domain.freshness import Freshness, said
from aggregator.domain.missing import RESOURCE_NOT_FOUND, ItemRefused, UnknownResource
from aggregator.domain.uris.links import in_contents
from aggregator.domain.versions import era_of
from aggregator.flow.gateway.refusals import FlowDenied
from aggregator.gateway.agent_items import AgentItems
from aggregator.gateway.ask.next_round import is_complete
from aggregator.gateway.calls.relay import Relay
from aggregator.gateway.reads.held import refuse_held
from aggregator.gateway.reads.permission import ItemPermission
from aggregator.gateway.reads.resource_lookup import ResourceLookup
from aggregator.gateway.request import Request
from aggregator.gateway.resolved_item import ResolvedItem
from aggregator.gateway.startup import StartupWait
from aggregator.gateway.views.cache_hints import narrowed
from aggregator.gateway.views.views import View
from aggregator.results.gateway.handles import URI_HEAD
from aggregator.results.gateway.keeper import NoSuchResult, ResultKeeper, whole_as_contents
from aggregator.results.kept_reads import KeptReads
from aggregator.skills.files import SkillFiles
from aggregator.upstream.upstream import Upstream

# What a record says was read, in place of the URI of a kept result, which is a secret.
_OURS, _RESULTS = "aggregator", "results"


class Resources:
    """The look-up of URIs for one agent's view.

    A URI with a server's prefix names that server. Any other belongs to the server that lists it, or has a template for
    it.
    """

    def __init__(
        self,
        lookup: ResourceLookup,
        startup: StartupWait,
        agent_items: AgentItems,
        permission: ItemPermission,
        relay: Relay,
        keeper: ResultKeeper,
        files: SkillFiles,
    ) -> None:
        self.lookup = lookup
        self._startup = startup
        self._agent_items = agent_items
        self._permission = permission
        self._relay = relay
        self._keeper = keeper
        self._kept_reads = KeptReads(permission.hooks, agent_items.current)
        self._files = files

    async def read(self, request: Request) -> dict[str, Any]:
        """Return the result of `resources/read`.

        Raises:
            HostError: there is no such resource for this agent.
            SkillMismatch: it is a file of a skill, and not as the skill's entry has it.
            UpstreamRpcError, UpstreamError: the error of its server, or the reason why there is no answer.
        """
        view, uri = self._agent_items.view(request), request.text("uri")
        if uri.startswith(URI_HEAD):
            return await self._read_kept(request, view, uri)
        found = await self.find(view, uri)
        request.about(found.upstream.config.id, found.own)
        permit = await self._permission.obtain(found, view, request)
        if permit.interim is not None:
            return permit.interim
        try:
            params = {**request.params, "uri": found.own}
            result = await self._permission.noted(
                permit.guards,
                request,
                self._relay.read_item(
                    found,
                    "resources/read",
                    params,
                    request,
                    confirm=permit.confirm,
                    questions=self._permission.questions(permit.guards, request),
                ),
            )
        except UpstreamRpcError as error:
            raise _translated(error, found, request) from error
        if not is_complete(result):
            return result
        server = found.upstream.config
        if not isinstance(result.get("contents"), list):
            raise UpstreamBadAnswer(server.id, f"{server.id} answered `resources/read` without contents.")
        await self._files.verify(found, result)
        elsewhere = self._agent_items.elsewhere(request.host, found.upstream)
        result = await for_each(result.get("contents"), in_contents, server.prefix, result, found.own, uri, elsewhere)
        if not request.modern:
            return result
        # A result that depends on a user's answer is private to that request (S/server/utilities/caching).
        answered = "inputResponses" in request.params or "requestState" in request.params
        fresh = Freshness(0) if answered else narrowed(said(result) or Freshness(0), view)
        return {**result, **fresh.hints()}

    async def _read_kept(self, request: Request, view: View, uri: str) -> dict[str, Any]:
        """Return the whole of a large result that was shown in part.

        Raises:
            UnknownResource: there is none for this caller, or a policy allows no answer of its size.
        """
        request.about(_OURS, _RESULTS)
        try:
            allowed = partial(view.may_read_on, self._agent_items.tools)
            kept = await self._keeper.open(request.host.principal, uri, allowed)
        except NoSuchResult as error:
            raise UnknownResource(URI_HEAD, str(error)) from None
        if kept.bounds.bytes is not None:
            raise UnknownResource(URI_HEAD, "A policy bounds the size of this result: read it in pages by read_result.")
        assert request.entry is not None, "whatever gets here is on record"
        try:
            await self._kept_reads.note(view, request.host, request.entry.record, None, kept)
        except CallRefused as refused:
            raise ItemRefused.by(refused) from refused
        result = {"contents": await asyncio.to_thread(whole_as_contents, kept.document, uri)}
        return {**result, **Freshness(0).hints()} if request.modern else result

    async def permitted(self, request: Request) -> ResolvedItem:
        """Return the resource of a request's `uri`, if the agent may read it.

        Raises:
            UnknownResource, ItemRefused: there is none, or it is denied.
            OddSpelling: the URI is ambiguous.
        """
        view = self._agent_items.view(request)
        found = await self.find(view, request.text("uri"))
        self._permission.check(found, view)
        try:
            denied = await self._permission.watched(found, view, request.host)
            if denied is not None:
                raise FlowDenied.by(found.name, denied)
        except CallRefused as refused:
            raise ItemRefused.by(refused) from refused
        return found

    async def find(self, view: View, uri: str) -> ResolvedItem:
        """Return the resource of a URI; wait for starting servers if the URI does not name one.

        Raises:
            UnknownResource: none that this agent may know of.
            OddSpelling: the URI is ambiguous.
            ItemHeld: its template or its skill waits for an approval.
        """
        found = self.lookup.find_known(view, uri)
        if found is None or view.decide(found.target).hidden:
            # Hidden items are looked up like absent ones, so that timing does not distinguish them.
            await self._startup.settled(None)
            found = self.lookup.find_known(view, uri)
        if found is None or not _reads(found.upstream):
            raise UnknownResource(uri)
        refuse_held(self._agent_items, view, found, uri)
        return found


def _reads(upstream: Upstream) -> bool:
    """Tell whether a server has resources, by its last list."""
    return upstream.negotiated is None or "resources" in upstream.negotiated.capabilities


def _translated(error: UpstreamRpcError, found: ResolvedItem, request: Request) -> Exception:
    """Return an upstream's error for the host: a missing resource is reported under the URI that the host sent."""
    spoken = request.entry.record.sending.upstream_version if request.entry is not None else None
    modern = spoken is not None and era_of(spoken) == "modern"
    named = isinstance(error.data, dict) and "uri" in error.data
    missing = error.code in (RESOURCE_NOT_FOUND, METHOD_NOT_FOUND) or (
        error.code == INVALID_PARAMS and (modern or named)
    )
    if not missing:
        return error
    data = {**error.data, "uri": found.requested} if isinstance(error.data, dict) else None
    return UnknownResource(found.requested, error.message if error.code != METHOD_NOT_FOUND else None, data)
