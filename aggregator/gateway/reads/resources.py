"""Which resource of which server a URI stands for, for an agent, and reading it: resolve, decide, forward."""

from typing import Any

from aggregator.domain.bounds.offload import for_each
from aggregator.domain.errors import INVALID_PARAMS, METHOD_NOT_FOUND, UpstreamBadAnswer, UpstreamRpcError
from aggregator.domain.freshness import Freshness, said
from aggregator.domain.missing import RESOURCE_NOT_FOUND, OddSpelling, UnknownResource
from aggregator.domain.uris.exposed import unwrapped
from aggregator.domain.uris.links import in_contents
from aggregator.domain.uris.spellings import canonical, fault, resolved
from aggregator.domain.versions import era_of
from aggregator.gateway.calls.relay import ResolvedItem, asks, forward
from aggregator.gateway.host import Host
from aggregator.gateway.offers import Offers
from aggregator.gateway.reads.permission import ItemPermission, decided
from aggregator.gateway.request import Request
from aggregator.gateway.views.cache_hints import narrowed
from aggregator.gateway.views.views import View
from aggregator.upstream.supervisor import Supervisor
from aggregator.upstream.upstream import Upstream


class Resources:
    """A URI of ours says whose it is. Another belongs to whoever lists it, or has a template that it fits (`Offer`)."""

    def __init__(self, supervisor: Supervisor, offers: Offers, permission: ItemPermission) -> None:
        self._links = supervisor.links
        self._offers = offers
        self._permission = permission
        self._by_prefix = supervisor.by_prefix

    async def read(self, question: Request) -> dict[str, Any]:
        """The result of `resources/read`.

        Raises:
            HostError: there is no such resource for this agent.
            UpstreamRpcError, UpstreamError: its server's own error, or why there is no answer.
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
            result = await forward(found, "resources/read", params, question, confirm=confirm)
        except UpstreamRpcError as error:
            raise _translated(error, found, question) from error
        if asks(result):
            return result
        server = found.link.config
        if not isinstance(result.get("contents"), list):
            raise UpstreamBadAnswer(server.id, f"{server.id} answered `resources/read` without contents.")
        elsewhere = self._offers.elsewhere(question.host, found.link)
        result = await for_each(result.get("contents"), in_contents, server.prefix, result, found.own, uri, elsewhere)
        if not question.modern:
            return result
        # What somebody was asked about on the way is nobody else's (S/server/utilities/caching).
        asked = "inputResponses" in question.params or "requestState" in question.params
        fresh = Freshness(0) if asked else narrowed(said(result) or Freshness(0), view)
        return {**result, **fresh.hints()}

    async def permitted(self, question: Request) -> ResolvedItem:
        """What the `uri` of a request stands for, if the agent may read it.

        Raises:
            UnknownResource, ItemRefused: it may not, or there is nothing.
            OddSpelling: it could be taken for another URI.
        """
        view = self._offers.view(question)
        found = await self.find(view, question.text("uri"))
        self._permission.check(found, view)
        return found

    async def find(self, view: View, uri: str) -> ResolvedItem:
        """What a URI stands for; servers that are still starting are waited for where it does not say whose it is.

        Raises:
            UnknownResource: nothing that this agent may know of.
            OddSpelling: it could be taken for another URI.
        """
        found = self.place(view, uri)
        if found is None or decided(found, view).hidden:
            # What is hidden is looked for like what is absent.
            await self._offers.settled()
            found = self.place(view, uri)
        if found is None or not _reads(found.link):
            raise UnknownResource(uri)
        return found

    def place(self, view: View, uri: str) -> ResolvedItem | None:
        """What a URI stands for by what is known now, readable or not.

        Raises:
            OddSpelling: it could be taken for another URI.
        """
        offer = self._offers.of(view)
        listed = offer.listed(uri)
        if listed is not None:
            return ResolvedItem("resource", self._links[listed.server], listed.own_name, uri, listed=True)
        pair = unwrapped(uri)
        link = self._named(pair[0]) if pair is not None else None
        if pair is not None and link is not None:
            return self.known(view, link, pair[1], uri)
        alone = self._by_prefix.get("")
        own = offer.owned(uri) if alone is None else None
        if own is not None:
            return self.known(view, self._links[own.server], uri, uri)
        if alone is not None and offer.lists(alone.config.id, uri):
            return self.known(view, alone, uri, uri)
        sent = spelled(view, uri)
        if pair is not None:
            # As it would be refused if there were such a server.
            spelled(view, pair[1], uri)
        owner = offer.fitting(sent) or (offer.owner(sent) if alone is None else None)
        link = self._links[owner.server] if owner is not None else alone
        return self.known(view, link, sent, uri) if link is not None else None

    def may_read(self, host: Host, link: Upstream, uri: str) -> bool:
        """Whether a host may read a server's resource now, by the server's own URI."""
        view = self._offers.view_of(host)
        try:
            return decided(self.known(view, link, uri, uri), view).visible
        except OddSpelling:
            return False

    def seen(self, view: View, uri: str) -> ResolvedItem | None:
        """What a URI stands for by what is known now; None also where its spelling is refused."""
        try:
            return self.place(view, uri)
        except OddSpelling:
            return None

    def known(self, view: View, link: Upstream, own: str, asked: str) -> ResolvedItem:
        """A server's own URI, spelled as it is sent, with what the rulebook has to know of it.

        Raises:
            OddSpelling: it could be taken for another URI.
        """
        server = link.config.id
        if self._offers.of(view).lists(server, own):
            return ResolvedItem("resource", link, own, asked, listed=True)
        if view.open:
            return ResolvedItem("resource", link, own, asked)
        own = spelled(view, own, asked)
        return ResolvedItem("resource", link, own, asked, also=self._offers.all.spelled_as(server, resolved(own)))

    def _named(self, prefix: str) -> Upstream | None:
        """The server of a prefix; hosts that normalise URIs write their authority in lower case."""
        link, folded = self._by_prefix.get(prefix), prefix.lower()
        return link or next((one for name, one in self._by_prefix.items() if name.lower() == folded), None)


def spelled(view: View, uri: str, asked: str | None = None) -> str:
    """Return the spelling that is decided about and sent: the canonical one, where there is anything to decide.

    Raises:
        OddSpelling: it could be taken for another URI.
    """
    if view.open:
        return uri
    wrong = fault(uri)
    if wrong is not None:
        raise OddSpelling(uri if asked is None else asked, wrong)
    return canonical(uri)


def _reads(link: Upstream) -> bool:
    """Whether the server has resources, as far as is known."""
    return link.greeting is None or "resources" in link.greeting.capabilities


def _translated(error: UpstreamRpcError, found: ResolvedItem, question: Request) -> Exception:
    """The upstream's error as hosts get it: what it does not find is not found under the host's own URI."""
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
