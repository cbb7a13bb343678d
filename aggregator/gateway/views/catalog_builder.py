"""Catalog snapshots, kept in step with the upstreams: a list is examined once per change, not once per request.

Rule: a long list is examined in slices before it counts (`examine`) or before another configuration does (`prepare`);
a list that was not examined ahead is examined when it is needed.
"""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, NamedTuple, Protocol

from aggregator.catalog.catalog import Catalog, ServerTools, server_tools_steps
from aggregator.catalog.items import NAMED_BY, item_steps
from aggregator.catalog.resources import ItemCatalog, item_catalog_steps
from aggregator.catalog.validate import validate_tools_steps
from aggregator.config.server_config import ServerConfig
from aggregator.domain.bounds.slices import Slices, Steps, at_once
from aggregator.domain.names import reads_as_anothers, shadowed
from aggregator.domain.records import ItemKind, ItemRecord, ToolRecord
from aggregator.domain.uris.exposed import unwrapped
from aggregator.upstream.list_kinds import LIST_METHODS, Kind
from aggregator.upstream.upstream import Upstream
from aggregator.wire.codec import encode_sorted

log = logging.getLogger(__name__)

# Up to so many resources, templates, prompts and skills are built without slices.
_AT_ONCE: Final = 1_000

Items = tuple[ItemRecord, ...]


class _Naming(NamedTuple):
    """The settings that the names of tools and items depend on, besides their server."""

    prefixes: frozenset[str]
    shadowed: frozenset[str]
    limit: int


def _naming(prefixes: Iterable[str], limit: int) -> _Naming:
    known = frozenset(prefixes)
    return _Naming(known, shadowed(known), limit)


@dataclass(frozen=True, eq=False, slots=True)
class _CheckedList:
    """One examined list of a server. `found` are its records, `part` the part of a catalog that a list of tools
    becomes.
    """

    definitions: list[Any]
    config: ServerConfig
    naming: _Naming
    found: tuple[Any, ...]
    part: ServerTools
    warnings: tuple[str, ...]

    def holds(self, definitions: list[Any], config: ServerConfig, naming: _Naming) -> bool:
        """Return whether this is the given list, examined under the given settings."""
        return self.definitions is definitions and self.config is config and self.naming == naming


class Coverage(Protocol):
    """The tools that can be called although their own server is away."""

    def covers(self, tool: ToolRecord) -> bool: ...


class CatalogBuilder:
    """The builder of the snapshots that are shown. `reserved` are names that no tool without a prefix may have."""

    def __init__(
        self,
        upstreams: Mapping[str, Upstream],
        prefixes: Iterable[str],
        name_limit: int,
        reserved: Collection[str] = (),
        failover: Coverage | None = None,
        slices: Slices | None = None,
    ) -> None:
        self._upstreams = upstreams
        self._reserved = reserved
        self._failover = failover
        self._slices = slices or Slices()
        self._naming = _naming(prefixes, name_limit)
        self._known: dict[tuple[str, Kind], _CheckedList] = {}
        self._examined_ahead: dict[tuple[str, Kind], _CheckedList] = {}
        self._warned: dict[tuple[str, str], frozenset[str]] = {}
        self._built: tuple[tuple[Items, ...], ItemCatalog] = ((), ItemCatalog())

    # -- ahead of need

    async def examine(self, upstream: Upstream, kind: Kind, definitions: list[Any]) -> None:
        """Examine, in slices, a list that an upstream is about to have."""
        while not self._is_examined(upstream.config, kind, definitions, self._naming):
            steps = self._examine_steps(upstream.config, kind, definitions, self._naming)
            self._examined_ahead[upstream.config.id, kind] = await self._slices.run(steps)

    async def prepare(self, servers: Iterable[ServerConfig], name_limit: int) -> None:
        """Examine the current lists, in slices, as they will be shown under another configuration."""
        servers = list(servers)
        naming = _naming((server.prefix for server in servers), name_limit)
        for server in servers:
            upstream = self._upstreams.get(server.id)
            config = server if upstream is None or upstream.config != server else upstream.config
            for kind, definitions in (
                ((kind, upstream.lists[kind]) for kind in LIST_METHODS) if upstream is not None else ()
            ):
                if not self._is_examined(config, kind, definitions, naming):
                    steps = self._examine_steps(config, kind, definitions, naming)
                    self._examined_ahead[server.id, kind] = await self._slices.run(steps)

    def _is_examined(self, config: ServerConfig, kind: Kind, definitions: list[Any], naming: _Naming) -> bool:
        known = self._known.get((config.id, kind)), self._examined_ahead.get((config.id, kind))
        return any(one is not None and one.holds(definitions, config, naming) for one in known)

    def reconfigure(self, prefixes: Iterable[str], name_limit: int) -> None:
        """Take the servers and name settings of a new configuration."""
        for known in (self._known, self._examined_ahead):
            for key in [key for key in known if key[0] not in self._upstreams]:
                del known[key]
        self._warned = {key: warned for key, warned in self._warned.items() if key[0] in self._upstreams}
        # Whether a name reads as one of another server depends on all prefixes.
        self._naming = _naming(prefixes, name_limit)

    # -- what there is

    def tools(self) -> Catalog:
        """Return the tools of every shown server, and those of other servers that failover covers."""
        return Catalog(parts=[part for upstream in self._upstreams.values() if (part := self._part(upstream)).tools])

    def absent(self) -> tuple[ToolRecord, ...]:
        """Return the tools for hosts that are known of enabled servers, but that `tools` is without."""
        away = (one for one in self._upstreams.values() if not one.listed and one.state != "disabled")
        known = chain.from_iterable(self._current(upstream, "tool").part.listed for upstream in away)
        return tuple(tool for tool in known if not self._covers(tool))

    def _part(self, upstream: Upstream) -> ServerTools:
        part = self._current(upstream, "tool").part
        return part if upstream.listed else at_once(server_tools_steps(filter(self._covers, part.tools)))

    def _covers(self, tool: ToolRecord) -> bool:
        return self._failover is not None and self._failover.covers(tool)

    def resources(self) -> ItemCatalog | None:
        """Return the items of every shown server; the same object while they do not change.

        None: there are many, and `build_resources` has not gone through them yet.
        """
        before, offer = self._built
        parts = self._parts()
        if _same(parts, before):
            return offer
        if sum(map(len, parts)) > _AT_ONCE:
            return None
        self._built = parts, ItemCatalog(chain.from_iterable(parts))
        return self._built[1]

    async def build_resources(self) -> None:
        """Build the resources snapshot in slices, so that `resources` returns it."""
        while not _same(parts := self._parts(), self._built[0]):
            self._built = parts, await self._slices.run(item_catalog_steps(chain.from_iterable(parts)))

    def _parts(self) -> tuple[Items, ...]:
        parts = (
            self.items_of(upstream, kind)
            for upstream in self._upstreams.values()
            if upstream.listed
            for kind in NAMED_BY
        )
        return tuple(part for part in parts if part)

    def tools_of(self, upstream: Upstream) -> tuple[ToolRecord, ...]:
        """Return the valid tools of one server, whether or not it is shown."""
        return self._current(upstream, "tool").part.tools

    def items_of(self, upstream: Upstream, kind: ItemKind) -> Items:
        """Return the valid resources, templates, prompts or skills of one server, whether or not it is shown."""
        return self._current(upstream, kind).found

    def _current(self, upstream: Upstream, kind: Kind) -> _CheckedList:
        key, asked = (upstream.config.id, kind), (upstream.lists[kind], upstream.config, self._naming)
        known = self._known.get(key)
        if known is None or not known.holds(*asked):
            ahead = self._examined_ahead.get(key)
            if ahead is not None and ahead.holds(*asked):
                known = self._examined_ahead.pop(key)
            else:
                known = at_once(self._examine_steps(upstream.config, kind, upstream.lists[kind], self._naming))
            self._known[key] = known
            self._log_warnings(upstream, kind, known.warnings)
        return known

    def _examine_steps(
        self, config: ServerConfig, kind: Kind, definitions: list[Any], naming: _Naming
    ) -> Steps[_CheckedList]:
        """Examine one list, one definition a step. Records that did not change stay the same objects."""
        ambiguous = config.prefix in naming.shadowed
        found: tuple[Any, ...]
        if kind == "tool":
            found, warnings = yield from validate_tools_steps(
                config, definitions, ambiguous=ambiguous, name_limit=naming.limit
            )
        else:
            found, warnings = yield from item_steps(
                config, kind, definitions, ambiguous=ambiguous, name_limit=naming.limit
            )
        before_it = self._known.get((config.id, kind))
        before: dict[str, Any] = {}
        for record in before_it.found if before_it is not None else ():
            yield
            before[record.own_name] = record
        kept: list[Any] = []
        for record in found:
            yield
            problem = next(self._problems(kind, record.own_name, naming), None) if not config.prefix else None
            if problem is None:
                old = before.get(record.own_name)
                kept.append(old if old is not None and _says_the_same(old, record) else record)
            else:
                own = record.own_name
                warnings.append(f"{config.id}: {kind} {own!r:.80} is left out: without a prefix {problem}")
        part = yield from server_tools_steps(kept if kind == "tool" else ())
        return _CheckedList(definitions, config, naming, tuple(kept), part, tuple(warnings))

    def _log_warnings(self, upstream: Upstream, kind: str, warnings: Collection[str]) -> None:
        """Log the warnings about a list that were not logged the last time."""
        known = self._warned.get((upstream.config.id, kind), ())
        for warning in warnings:
            if warning not in known:
                log.warning("%s", warning)
        self._warned[upstream.config.id, kind] = frozenset(warnings)

    def _problems(self, kind: str, own: str, naming: _Naming) -> Iterator[str]:
        """Yield the reasons why a name without a prefix cannot be shown as it is."""
        if kind == "tool" and own in self._reserved:
            yield "its name is that of a tool of the aggregator"
        if kind in ("tool", "prompt") and reads_as_anothers(own, naming.prefixes):
            yield "its name reads as one of another server"
        if kind in ("resource", "template", "skill"):
            pair = unwrapped(own)
            if pair is not None and pair[0] in naming.prefixes:
                yield "its URI reads as one of another server"


def _same(one: tuple[Items, ...], other: tuple[Items, ...]) -> bool:
    return len(one) == len(other) and all(mine is others for mine, others in zip(one, other, strict=True))


def _says_the_same(one: ToolRecord | ItemRecord, other: ToolRecord | ItemRecord) -> bool:
    """Return whether two records are equal, also for JSON, which distinguishes true from 1."""
    return one == other and encode_sorted(one.definition) == encode_sorted(other.definition)
