"""Resources: find the server that a URI belongs to, decide, and read."""

from typing import Any

from aggregator.domain.bounds.offload import for_each
from aggregator.domain.errors import INVALID_PARAMS, METHOD_NOT_FOUND, UpstreamBadAnswer, UpstreamRpcError
from aggregator.domain.freshness import Freshness, said
from aggregator.domain.missing import RESOURCE_NOT_FOUND, UnknownResource
from aggregator.domain.uris.links import in_contents
from aggregator.domain.versions import era_of
from aggregator.gateway.ask.next_round import is_complete
from aggregator.gateway.calls.relay import Relay, ResolvedItem
from aggregator.gateway.offers import Offers
from aggregator.gateway.reads.permission import ItemPermission, decided
from aggregator.gateway.reads.resource_lookup import ResourceLookup
from aggregator.gateway.request import Request
from aggregator.gateway.startup import StartupWait
from aggregator.gateway.views.cache_hints import narrowed
from aggregator.gateway.views.views import View
from aggregator.upstream.upstream import Upstream


class Resources:
    """The look-up of URIs for one agent's view.

    A URI with a server's prefix names that server. Any other belongs to the server that lists it, or has a template for
    it.
    """

    def __init__(
        self, lookup: ResourceLookup, startup: StartupWait, offers: Offers, permission: ItemPermission, relay: Relay
    ) -> None:
        self.lookup = lookup
        self._startup = startup
        self._offers = offers
        self._permission = permission
        self._relay = relay

    async def read(self, question: Request) -> dict[str, Any]:
        """Return the result of `resources/read`.

        Raises:
            HostError: there is no such resource for this agent.
            UpstreamRpcError, UpstreamError: the error of its server, or the reason why there is no answer.
        """
        view, uri = self._offers.view(question), question.text("uri")
        found = await self.find(view, uri)
        question.about(found.link.config.id, found.own)
        interim = await self._permission.obtain(found, view, question)
        if interim is not None:
            return interim
        try:
            params = {**question.params, "uri": found.own}
            confirm = self._permission.confirms(found, view)
            result = await self._relay.read_item(found, "resources/read", params, question, confirm=confirm)
        except UpstreamRpcError as error:
            raise _translated(error, found, question) from error
        if not is_complete(result):
            return result
        server = found.link.config
        if not isinstance(result.get("contents"), list):
            raise UpstreamBadAnswer(server.id, f"{server.id} answered `resources/read` without contents.")
        elsewhere = self._offers.elsewhere(question.host, found.link)
        result = await for_each(result.get("contents"), in_contents, server.prefix, result, found.own, uri, elsewhere)
        if not question.modern:
            return result
        # A result that depends on a person's answer is private to that request (S/server/utilities/caching).
        asked = "inputResponses" in question.params or "requestState" in question.params
        fresh = Freshness(0) if asked else narrowed(said(result) or Freshness(0), view)
        return {**result, **fresh.hints()}

    async def permitted(self, question: Request) -> ResolvedItem:
        """Return the resource that the `uri` of a request means, if the agent may read it.

        Raises:
            UnknownResource, ItemRefused: there is none, or it is denied.
            OddSpelling: the URI could be taken for another one.
        """
        view = self._offers.view(question)
        found = await self.find(view, question.text("uri"))
        self._permission.check(found, view)
        return found

    async def find(self, view: View, uri: str) -> ResolvedItem:
        """Return the resource that a URI means; wait for starting servers where the URI does not name one.

        Raises:
            UnknownResource: none that this agent may know of.
            OddSpelling: the URI could be taken for another one.
        """
        found = self.lookup.find_known(view, uri)
        if found is None or decided(found, view).hidden:
            # Hidden items are looked up like absent ones, so that timing does not tell them apart.
            await self._startup.settled()
            found = self.lookup.find_known(view, uri)
        if found is None or not _reads(found.link):
            raise UnknownResource(uri)
        return found


def _reads(link: Upstream) -> bool:
    """Return whether a server has resources, as far as is known."""
    return link.greeting is None or "resources" in link.greeting.capabilities


def _translated(error: UpstreamRpcError, found: ResolvedItem, question: Request) -> Exception:
    """Return an upstream's error for the host: a missing resource is reported under the URI that the host sent."""
    spoken = question.trail.record.upstream_version if question.trail is not None else None
    modern = spoken is not None and era_of(spoken) == "modern"
    named = isinstance(error.data, dict) and "uri" in error.data
    missing = error.code in (RESOURCE_NOT_FOUND, METHOD_NOT_FOUND) or (
        error.code == INVALID_PARAMS and (modern or named)
    )
    if not missing:
        return error
    data = {**error.data, "uri": found.asked} if isinstance(error.data, dict) else None
    return UnknownResource(found.asked, error.message if error.code != METHOD_NOT_FOUND else None, data)
