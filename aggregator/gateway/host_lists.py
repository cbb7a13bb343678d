"""The lists of each host: its part of the catalog and of the resources, in the spelling it gets.

Rule: `listing` and `lists_of` cost time in proportion to the number of tools unless `is_ready`; `prepare` does that
work ahead, in slices.
"""

import asyncio
from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Any, Final

from aggregator.catalog.listing import Listing
from aggregator.catalog.pages import Pages
from aggregator.config.model import Config
from aggregator.config.settings import Expose
from aggregator.dialects.gateway import Dialects
from aggregator.domain.bounds.lru import LruCache
from aggregator.domain.bounds.slices import Slices, Steps
from aggregator.domain.errors import INVALID_PARAMS, HostError
from aggregator.domain.names import Style
from aggregator.gateway.agent_items import AgentItems
from aggregator.gateway.host import Host
from aggregator.gateway.meta.exposure import Exposure, exposed_at
from aggregator.gateway.request import Request
from aggregator.gateway.views.cache_hints import CacheHints
from aggregator.gateway.views.current import CurrentCatalog
from aggregator.gateway.views.list_changed import Seen
from aggregator.gateway.views.views import View, Views
from aggregator.upstream.list_kinds import Kind

# Lists of which a copy without some output schemas is kept.
_KEPT: Final = 16


class HostLists:
    """The lists shown to each host."""

    def __init__(
        self,
        config: Config,
        views: Views,
        current: CurrentCatalog,
        agent_items: AgentItems,
        exposure: Exposure,
        hints: CacheHints,
        slices: Slices,
        dialects: Dialects | None,
    ) -> None:
        self._views = views
        self._current = current
        self._agent_items = agent_items
        self._exposure = exposure
        self._hints = hints
        self._slices = slices
        self._dialects = dialects
        # Only for the next start: a host that saw a schema refuses answers that do not fit it.
        self._tells_schemas = config.results.output_schemas
        self._without_schemas: LruCache[tuple[Pages[Any], str], Pages[Any]] = LruCache(_KEPT)
        # Serialised: hosts of one agent ask at the same time, and the first one's work then serves all.
        self._turn = asyncio.Lock()
        self.reconfigure(config)

    def reconfigure(self, config: Config) -> None:
        """Take how much is listed from a new configuration."""
        self._expose: Expose = config.expose
        self._expose_at: Mapping[str, Expose] = exposed_at(config)

    def waits_for_servers(self, host: Host) -> bool:
        """Return whether the list of tools of a host may hold tools of servers, and not the meta tools alone."""
        view = self._views.of(host.principal)
        pins = self._exposure.pins or view.rulebook is not None
        return pins or self.extent(view, host) not in ("search", "code")

    async def expects_searches(self) -> bool:
        """Return whether lists have the meta tools in place of all tools, or all tools are many to choose from."""
        if not {self._expose, *self._expose_at.values()}.isdisjoint(("search", "code")):
            return True
        return await self._slices.run(self._exposure.is_too_much(self._current.tools.tools))

    def tools_for(self, host: Host) -> tuple[Style, Listing]:
        """Return the spelling of names for a host, and its list of tools."""
        view = self._views.of(host.principal)
        whole = self._views.listing(view, self._current.tools)
        return view.style(host.style), self._exposure.listing(view, whole, self.extent(view, host))

    def key_of(self, host: Host) -> Hashable:
        """Return a value that is the same for hosts with the same lists."""
        view = self._views.of(host.principal)
        return view.key, view.style(host.style), view.dialect(host.dialect), self.extent(view, host)

    def tools_seen(self, host: Host) -> tuple[object, ...]:
        """Return the list of tools of a host, in a form that can be compared with an earlier one."""
        style, listing = self.tools_for(host)
        return style, self._views.of(host.principal).dialect(host.dialect), listing.tools

    def lists_of(self, host: Host) -> Seen:
        """Return all lists of a host, in a form that can be compared with an earlier one."""
        style, _ = self.tools_for(host)
        items = self._agent_items.of(self._views.of(host.principal))
        return {
            "tools": self.tools_seen(host),
            "prompts": (style, items.prompts.records),
            # Skills have no notification of their own: they derive from resources.
            "resources": (items.resources.records, items.templates.records, items.skills.records),
        }

    def is_ready(self, host: Host) -> bool:
        """Return whether the lists of a host are worked out, or short enough to be worked out at once."""
        view, catalog = self._views.of(host.principal), self._current.tools
        if not self._views.is_ready(view, catalog, self._agent_items.all):
            return False
        return self._exposure.is_ready(view, self._views.listing(view, catalog), self.extent(view, host))

    async def prepare(self, host: Host) -> None:
        """Work out the lists of a host, in slices. On return, and until the next await, the host `is_ready`."""
        while not self.is_ready(host):
            async with self._turn:
                view, catalog = self._views.of(host.principal), self._current.tools
                await self._views.prepare_resources(view, self._agent_items.all, self._slices)
                whole, extent = await self._views.prepare_listing(view, catalog, self._slices), self.extent(view, host)
                if not self._exposure.is_ready(view, whole, extent):
                    await self._exposure.prepare(view, whole, extent, self._slices)

    async def page(
        self, request: Request, field: str, kind: Kind, pages: Pages[Any], style: Style = "canonical"
    ) -> dict[str, Any]:
        """Return the requested page of a list; all its pages are rendered once, in slices.

        Raises:
            HostError: the cursor is not one of this list, or no longer.
        """
        cursor = request.params.get("cursor")
        if cursor is not None and not isinstance(cursor, str):
            raise HostError(INVALID_PARAMS, "`cursor` must be a string.")
        if kind == "tool" and self._dialects is not None:
            view = self._views.of(request.host.principal)
            every = view.lists_all(of_host=request.host.lists_all)
            pages = await self._dialects.listing(pages, view.dialect(request.host.dialect), every=every)
        if kind == "tool" and not (self._tells_schemas and request.modern):
            told = "objects" if self._tells_schemas else "none"
            shown = self._without_schemas.get((pages, told))
            if shown is None:
                shown = await self._slices.run(_without_schemas(pages, objects=self._tells_schemas))
                self._without_schemas.put((pages, told), shown)
            pages = shown
        await self._slices.run(pages.page_steps(style))
        page, following = pages.page(style, cursor)
        result: dict[str, Any] = {field: page}
        if following is not None:
            result["nextCursor"] = following
        host = request.host
        named = host.names is not None and (kind != "tool" or self._dialects is None or host.schemas is not None)
        alike = named or kind not in ("tool", "prompt")
        hints = self._hints.of(self._agent_items.view(request), kind, alike=alike)
        return result | hints if request.modern else result

    def extent(self, view: View, host: Host) -> Expose:
        """Return how much is listed for a host."""
        return view.expose(self._expose_at.get(host.frontend, self._expose))


def _without_schemas(listing: Pages[Any], *, objects: bool) -> Steps[Pages[Any]]:
    """Return a list whose definitions have no `outputSchema`, except, for `objects`, schemas of results that are
    objects.

    Others came with 2026-07-28 (SEP-2106); hosts of earlier revisions refuse the whole list for one of them.
    """
    tools = []
    changed = False
    for tool in listing.records:
        yield
        schema = tool.definition.get("outputSchema")
        if schema is not None and not (objects and schema.get("type") == "object"):
            told = {key: value for key, value in tool.definition.items() if key != "outputSchema"}
            tool, changed = replace(tool, definition=told, rendered={}), True
        tools.append(tool)
    return Listing(tools) if changed else listing
