"""The look-up of URIs: which resource of which server a URI means, for an agent."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from aggregator.domain.missing import OddSpelling
from aggregator.domain.uris.exposed import unwrapped
from aggregator.domain.uris.spellings import canonical, fault, resolved
from aggregator.gateway.agent_items import AgentItems
from aggregator.gateway.host import Host
from aggregator.gateway.reads.permission import may_have
from aggregator.gateway.resolved_item import ResolvedItem
from aggregator.gateway.views.views import View
from aggregator.skills.uris import skill_name
from aggregator.upstream.upstream import Upstream

# A query or a fragment belongs to one resource.
_DIRECTORY: Final = re.compile("[^?#]+")


class ResourceLookup:
    """The look-up in the current lists; it waits for nothing.

    A URI with a server's prefix names that server. Any other belongs to the server that lists it, or has a template for
    it.
    """

    def __init__(
        self, upstreams: Mapping[str, Upstream], by_prefix: Mapping[str, Upstream], agent_items: AgentItems
    ) -> None:
        self._upstreams = upstreams
        self._by_prefix = by_prefix
        self._agent_items = agent_items

    def find_known(self, view: View, uri: str) -> ResolvedItem | None:
        """Return the resource of a URI by the current lists, readable or not.

        Raises:
            OddSpelling: the URI is ambiguous.
        """
        items = self._agent_items.of(view)
        listed = items.listed(uri)
        if listed is not None:
            return self._resource(self._upstreams[listed.server], listed.own_name, uri, listed=True)
        pair = unwrapped(uri)
        upstream = self._named(pair[0]) if pair is not None else None
        if pair is not None and upstream is not None:
            return self.item(view, upstream, pair[1], uri)
        alone = self._by_prefix.get("")
        own = (items.sole_resource(uri) or items.sole_skill(uri)) if alone is None else None
        if own is not None:
            return self.item(view, self._upstreams[own.server], uri, uri)
        if alone is not None and items.lists(alone.config.id, uri):
            return self.item(view, alone, uri, uri)
        sent = spelled(view, uri)
        if pair is not None:
            # The spelling is refused as if there were such a server.
            spelled(view, pair[1], uri)
        owner = items.matching_template(sent) or (items.sole_match(sent) if alone is None else None)
        upstream = self._upstreams[owner.server] if owner is not None else alone
        return self.item(view, upstream, sent, uri) if upstream is not None else None

    def may_read(self, host: Host, upstream: Upstream, uri: str) -> bool:
        """Return whether a host may now read a resource, given by its server's own URI."""
        view = self._agent_items.view_of(host)
        try:
            return may_have(self.item(view, upstream, uri, uri), view)
        except OddSpelling:
            return False

    def find_visible(self, view: View, uri: str) -> ResolvedItem | None:
        """Return the resource of a URI by the current lists; None also for a refused spelling."""
        try:
            return self.find_known(view, uri)
        except OddSpelling:
            return None

    def item(self, view: View, upstream: Upstream, own: str, requested: str) -> ResolvedItem:
        """Return a resource by its server's own URI, with the facts that the rulebook needs.

        Raises:
            OddSpelling: the URI is ambiguous.
        """
        server = upstream.config.id
        if self._agent_items.of(view).lists(server, own):
            return self._resource(upstream, own, requested, listed=True)
        if view.open:
            return self._resource(upstream, own, requested)
        own = spelled(view, own, requested)
        also = self._agent_items.all.other_spellings(server, resolved(own))
        return self._resource(upstream, own, requested, also=also)

    def _resource(
        self, upstream: Upstream, own: str, requested: str, *, listed: bool = False, also: tuple[str, ...] = ()
    ) -> ResolvedItem:
        skills = self._agent_items.all.skill_names(upstream.config.id, own)
        return ResolvedItem("resource", upstream, own, requested, listed=listed, also=also, skills=skills)

    def skill(self, view: View, uri: str) -> ResolvedItem | None:
        """Return the skill of a SKILL.md's URI by the current lists, readable or not, listed or not.

        Raises:
            OddSpelling: the URI is ambiguous.
        """
        items = self._agent_items.of(view)
        record = items.skill(uri)
        if record is not None:
            return ResolvedItem("skill", self._upstreams[record.server], record.own_name, uri, listed=True)
        found = self.find_known(view, uri)
        if found is None or skill_name(found.own) is None:
            return None
        return replace(found, kind="skill", skills=())

    def directory(self, view: View, uri: str) -> ResolvedItem | None:
        """Return the directory of a URI by the current lists. Rules see it like its content, by its URI with a slash at
        its end; requests have it without.

        Raises:
            OddSpelling: the URI is ambiguous.
        """
        bare = uri.rstrip("/")
        if not _DIRECTORY.fullmatch(bare):
            return None
        pair = unwrapped(bare)
        upstream = self._named(pair[0]) if pair is not None else None
        if pair is not None and upstream is not None:
            return self.inside(view, upstream, pair[1], uri)
        alone = self._by_prefix.get("")
        return self.inside(view, alone, bare, uri) if alone is not None else None

    def inside(self, view: View, upstream: Upstream, own: str, requested: str) -> ResolvedItem:
        """Return a directory, by its server's own URI without a slash at its end.

        Raises:
            OddSpelling: the URI is ambiguous.
        """
        found = self.item(view, upstream, f"{own}/", requested)
        return replace(found, also=(*found.also, found.own.removesuffix("/")))

    def _named(self, prefix: str) -> Upstream | None:
        """Return the server of a prefix; case is ignored, since hosts that normalise URIs write it in lower case."""
        upstream, folded = self._by_prefix.get(prefix), prefix.lower()
        return upstream or next((one for name, one in self._by_prefix.items() if name.lower() == folded), None)


def spelled(view: View, uri: str, requested: str | None = None) -> str:
    """Return the spelling of a URI for decisions and requests: the canonical one if there are rules.

    Raises:
        OddSpelling: the URI is ambiguous.
    """
    if view.open:
        return uri
    wrong = fault(uri)
    if wrong is not None:
        raise OddSpelling(uri if requested is None else requested, wrong)
    return canonical(uri)
