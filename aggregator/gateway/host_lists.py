"""What each host is shown: its part of the catalog and of the offer, spelled for it; ahead of need where it is much."""

import asyncio
from collections.abc import Mapping
from typing import Any

from aggregator.catalog.listing import Listing
from aggregator.catalog.pages import Pages
from aggregator.config.model import Config
from aggregator.config.settings import Expose
from aggregator.domain.bounds.slices import Slices
from aggregator.domain.errors import INVALID_PARAMS, HostError
from aggregator.domain.names import Style
from aggregator.gateway.calls.resolve import Resolver
from aggregator.gateway.host import Host
from aggregator.gateway.meta.exposure import Exposure, exposed_at
from aggregator.gateway.offers import Offers
from aggregator.gateway.request import Request
from aggregator.gateway.views.cache_hints import CacheHints
from aggregator.gateway.views.list_changed import Seen
from aggregator.gateway.views.views import View, Views
from aggregator.upstream.list_kinds import Kind


class HostLists:
    """Rule: `to` and `seen_by` take as long as there are tools unless `is_ready`; `prepare` makes it so, in pieces."""

    def __init__(
        self,
        config: Config,
        views: Views,
        resolver: Resolver,
        offers: Offers,
        exposure: Exposure,
        hints: CacheHints,
        slices: Slices,
    ) -> None:
        self._views = views
        self._resolver = resolver
        self._offers = offers
        self._exposure = exposure
        self._hints = hints
        self._slices = slices
        # One after the other: hosts of one agent ask at once, and what one waits for is then there for all.
        self._turn = asyncio.Lock()
        self.reconfigure(config)

    def reconfigure(self, config: Config) -> None:
        """How much is listed may be other than before."""
        self._expose: Expose = config.expose
        self._expose_at: Mapping[str, Expose] = exposed_at(config)

    def to(self, host: Host) -> tuple[Style, Listing]:
        """How names are spelled for this host, and what is listed."""
        view = self._views.of(host.principal)
        whole = self._views.listing(view, self._resolver.catalog)
        return view.style(host.style), self._exposure.of(view, whole, self._extent(view, host))

    def seen_by(self, host: Host) -> Seen:
        """The lists of this host, as they are shown to it."""
        style, listing = self.to(host)
        offer = self._offers.of(self._views.of(host.principal))
        return {
            "tools": (style, listing.tools),
            "prompts": (style, offer.prompts.records),
            "resources": (offer.resources.records, offer.templates.records),
        }

    def is_ready(self, host: Host) -> bool:
        """Whether what this host is shown takes but a moment to tell."""
        view, catalog = self._views.of(host.principal), self._resolver.catalog
        if not self._views.knows(view, catalog, self._offers.all):
            return False
        return self._exposure.knows(view, self._views.listing(view, catalog), self._extent(view, host))

    async def prepare(self, host: Host) -> None:
        """Work out what this host is shown now; once this returns, and until something is awaited, it `is_ready`."""
        while not self.is_ready(host):
            async with self._turn:
                view, catalog = self._views.of(host.principal), self._resolver.catalog
                await self._views.offered(view, self._offers.all, self._slices)
                whole, extent = await self._views.listed(view, catalog, self._slices), self._extent(view, host)
                if not self._exposure.knows(view, whole, extent):
                    await self._exposure.choose(view, whole, extent, self._slices)

    async def page(
        self, question: Request, field: str, kind: Kind, pages: Pages[Any], style: Style = "canonical"
    ) -> dict[str, Any]:
        """Return the page of a list that was asked for; all its pages are made once, in pieces.

        Raises:
            HostError: the cursor is none, or no longer one.
        """
        cursor = question.params.get("cursor")
        if cursor is not None and not isinstance(cursor, str):
            raise HostError(INVALID_PARAMS, "`cursor` must be a string.")
        await self._slices.run(pages.page_steps(style))
        page, following = pages.page(style, cursor)
        result: dict[str, Any] = {field: page}
        if following is not None:
            result["nextCursor"] = following
        alike = question.host.names is not None or kind not in ("tool", "prompt")
        hints = self._hints.of(self._offers.view(question), kind, alike=alike)
        return result | hints if question.modern else result

    def _extent(self, view: View, host: Host) -> Expose:
        return view.expose(self._expose_at.get(host.door, self._expose))
