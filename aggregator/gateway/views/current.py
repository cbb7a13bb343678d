"""The catalog snapshots in force, read by everything that lists, finds or calls."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from aggregator.catalog.catalog import Catalog
from aggregator.catalog.resources import ItemCatalog
from aggregator.domain.records import ItemRecord, ToolRecord
from aggregator.pins.gateway.state import HeldItem


@dataclass(frozen=True)
class HeldItems:
    """The held items of all servers: tools, prompts and templates in their listed form, and why each is held.

    The keys of `why` are a server's id, a kind of item and the own name.
    """

    tools: Catalog = field(default_factory=Catalog)
    items: ItemCatalog = field(default_factory=ItemCatalog)
    why: Mapping[tuple[str, str, str], HeldItem] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.why)

    def tool(self, tool: ToolRecord) -> HeldItem | None:
        """Return why a tool is held, or None."""
        return self.why.get((tool.server, "tool", tool.own_name)) if self.why else None

    @cached_property
    def renamed(self) -> Mapping[tuple[str, str], HeldItem]:
        """The held tools that have other names than they were approved under, by their server and that name."""
        return {(one.server, one.before): one for one in self.why.values() if one.kind == "tool" and one.before}

    def item(self, item: ItemRecord) -> HeldItem | None:
        """Return why a prompt or a template is held, or None."""
        return self.why.get((item.server, item.kind, item.own_name))


class CurrentCatalog:
    """The snapshots of tools and of resources. Each is replaced as a whole, never changed."""

    def __init__(self) -> None:
        # The tools of all upstreams.
        self.tools = Catalog()
        self.resources = ItemCatalog()
        # The held items: they are in no list, and cannot be called.
        self.held = HeldItems()
        self._replaced = asyncio.Event()

    def replace_tools(self, tools: Catalog) -> None:
        """Put another snapshot of the tools into force."""
        self.tools = tools
        # A new event each time, so that each replacement resumes all tasks that wait for it, and no later one.
        self._replaced.set()
        self._replaced = asyncio.Event()

    async def tools_other_than(self, known: Catalog | None) -> Catalog:
        """Wait until the tools are not the `known` snapshot; return them."""
        while self.tools is known:
            await self._replaced.wait()
        return self.tools
