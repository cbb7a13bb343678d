"""Keeps the catalog in step with the links: vets a server's list once per change, not once per call."""

import logging
from collections.abc import Iterable
from typing import Any

from aggregator.catalog.catalog import Catalog
from aggregator.catalog.vet import vet
from aggregator.domain.names import shadowed
from aggregator.domain.records import ToolRecord
from aggregator.upstream.link import Link

log = logging.getLogger(__name__)


class Shelf:
    """`stock` makes the catalog of what is shown now."""

    def __init__(self, links: Iterable[Link], prefixes: Iterable[str], name_limit: int) -> None:
        self._links = list(links)
        self._shadowed = shadowed(prefixes)
        self._name_limit = name_limit
        self._vetted: dict[str, tuple[list[Any], tuple[ToolRecord, ...]]] = {}

    def stock(self) -> Catalog:
        return Catalog(tool for link in self._links if link.shown for tool in self.tools_of(link))

    def tools_of(self, link: Link) -> tuple[ToolRecord, ...]:
        """The vetted tools of one server, whether or not it is shown."""
        known = self._vetted.get(link.config.id)
        if known is not None and known[0] is link.definitions:
            return known[1]
        tools, warnings = vet(
            link.config,
            link.definitions,
            ambiguous=link.config.prefix in self._shadowed,
            name_limit=self._name_limit,
        )
        for warning in warnings:
            log.warning("%s", warning)
        self._vetted[link.config.id] = (link.definitions, tools)
        return tools
