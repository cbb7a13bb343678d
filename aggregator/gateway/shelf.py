"""Keeps what there is in step with the links: a server's lists are vetted once per change, not once per request."""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from aggregator.catalog.catalog import Catalog
from aggregator.catalog.items import NAMED_BY, items
from aggregator.catalog.offer import Offer
from aggregator.catalog.vet import vet
from aggregator.config.model import ServerConfig
from aggregator.domain.names import reads_as_anothers, shadowed
from aggregator.domain.records import ItemKind, ItemRecord, ToolRecord
from aggregator.domain.uris import unwrapped
from aggregator.upstream.link import Link

log = logging.getLogger(__name__)


class Shelf:
    """`stock` and `offer` make what is shown now. `reserved` are names that no tool without a prefix may have.

    `covered`: whether a tool can be called though its server is away.
    """

    def __init__(
        self,
        links: Mapping[str, Link],
        prefixes: Iterable[str],
        name_limit: int,
        reserved: Collection[str] = (),
        covered: Callable[[ToolRecord], bool] = lambda tool: False,
    ) -> None:
        self._links = links
        self._reserved = reserved
        self._covered = covered
        self._vetted: dict[str, tuple[list[Any], ServerConfig, tuple[ToolRecord, ...]]] = {}
        self._items: dict[tuple[str, ItemKind], tuple[list[Any], ServerConfig, tuple[ItemRecord, ...]]] = {}
        self._told: dict[tuple[str, str], frozenset[str]] = {}
        self._name_by(frozenset(prefixes), name_limit)
        self._offered: tuple[tuple[tuple[ItemRecord, ...], ...], Offer] = ((), Offer())

    def reconfigure(self, prefixes: Iterable[str], name_limit: int) -> None:
        """The servers, or what is made of their names, may be others by now."""
        for server in self._vetted.keys() - self._links.keys():
            del self._vetted[server]
        for key in [key for key in self._items if key[0] not in self._links]:
            del self._items[key]
        self._told = {key: told for key, told in self._told.items() if key[0] in self._links}
        if (frozenset(prefixes), name_limit) != (self._prefixes, self._name_limit):
            # A name may read as another server's, or no longer does.
            self._vetted.clear()
            self._items.clear()
            self._name_by(frozenset(prefixes), name_limit)

    def _name_by(self, prefixes: frozenset[str], name_limit: int) -> None:
        self._prefixes = prefixes
        self._shadowed = shadowed(prefixes)
        self._name_limit = name_limit

    def stock(self) -> Catalog:
        """The tools of every server that is shown, and those of others that are `covered`."""
        return Catalog(
            tool for link in self._links.values() for tool in self.tools_of(link) if link.shown or self._covered(tool)
        )

    def offer(self) -> Offer:
        """The resources, templates and prompts of every server that is shown; the same object while these are."""
        parts = tuple(self.items_of(link, kind) for link in self._links.values() if link.shown for kind in NAMED_BY)
        parts = tuple(part for part in parts if part)
        before, _ = self._offered
        if len(before) != len(parts) or any(one is not other for one, other in zip(before, parts, strict=True)):
            self._offered = parts, Offer(item for part in parts for item in part)
        return self._offered[1]

    def tools_of(self, link: Link) -> tuple[ToolRecord, ...]:
        """The vetted tools of one server, whether or not it is shown."""
        known = self._vetted.get(link.config.id)
        if known is not None and known[0] is link.definitions and known[1] is link.config:
            return known[2]
        tools, warnings = vet(
            link.config,
            link.definitions,
            ambiguous=link.config.prefix in self._shadowed,
            name_limit=self._name_limit,
        )
        self._tell(link, "tool", warnings)
        if not link.config.prefix:
            tools = tuple(tool for tool in tools if self._is_free(link, "tool", tool.own_name))
        self._vetted[link.config.id] = (link.definitions, link.config, tools)
        return tools

    def items_of(self, link: Link, kind: ItemKind) -> tuple[ItemRecord, ...]:
        """The same for its resources, templates or prompts."""
        definitions = link.lists[kind]
        known = self._items.get((link.config.id, kind))
        if known is not None and known[0] is definitions and known[1] is link.config:
            return known[2]
        found, warnings = items(
            link.config,
            kind,
            definitions,
            ambiguous=link.config.prefix in self._shadowed,
            name_limit=self._name_limit,
        )
        self._tell(link, kind, warnings)
        if not link.config.prefix:
            found = tuple(item for item in found if self._is_free(link, kind, item.own_name))
        self._items[link.config.id, kind] = (definitions, link.config, found)
        return found

    def _tell(self, link: Link, kind: str, warnings: Sequence[str]) -> None:
        """Log what was not said of this list the last time."""
        known = self._told.get((link.config.id, kind), ())
        for warning in warnings:
            if warning not in known:
                log.warning("%s", warning)
        self._told[link.config.id, kind] = frozenset(warnings)

    def _is_free(self, link: Link, kind: str, own: str) -> bool:
        """Whether a name without a prefix can be shown as it is."""
        problem = next(self._problems(kind, own), None)
        if problem is not None:
            log.warning("%s: %s %.80r is left out: without a prefix %s", link.config.id, kind, own, problem)
        return problem is None

    def _problems(self, kind: str, own: str) -> Iterator[str]:
        if kind == "tool" and own in self._reserved:
            yield "its name is that of a tool of the aggregator"
        if kind in ("tool", "prompt") and reads_as_anothers(own, self._prefixes):
            yield "its name reads as one of another server"
        if kind in ("resource", "template"):
            pair = unwrapped(own)
            if pair is not None and pair[0] in self._prefixes:
                yield "its URI reads as one of another server"
