"""Catalog snapshots, kept in step with the upstreams: a list is examined once per change, not once per request.

Rule: a long list is examined in slices before it counts (`examine`) or before another configuration does (`prepare`);
a list that was not examined ahead is examined when it is needed.
"""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final, NamedTuple, Protocol

from aggregator.catalog.catalog import Catalog, ServerTools, server_tools_steps
from aggregator.catalog.items import NAMED_BY, item_steps
from aggregator.catalog.resources import ItemCatalog, item_catalog_steps
from aggregator.catalog.validate import definition_digest, time_limit, validate_tools_steps
from aggregator.config.server_config import ServerConfig
from aggregator.domain.bounds.slices import Slices, Steps, at_once
from aggregator.domain.names import reads_as_anothers, shadowed
from aggregator.domain.records import ItemKind, ItemRecord, ToolRecord
from aggregator.domain.uris.exposed import unwrapped
from aggregator.gateway.views.current import HeldItems
from aggregator.pins.decide.values import PinKind
from aggregator.pins.gateway.book import NOT_COMPARED, PinBook
from aggregator.pins.gateway.state import HeldItem, JudgedList, ListedItem, ServerPins
from aggregator.upstream.faults import NONE_TAKEN
from aggregator.upstream.list_kinds import LIST_METHODS, Kind
from aggregator.upstream.upstream import Upstream
from aggregator.wire.codec import encode_sorted

log = logging.getLogger(__name__)

# Up to so many resources, templates, prompts and skills are built without slices.
_AT_ONCE: Final = 1_000
# The lists whose items are pinned, and as what.
_PINNED: Final[Mapping[Kind, PinKind]] = {
    "tool": "tool",
    "template": "template",
    "prompt": "prompt",
    "skill": "skill",
}

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
    """One examined list of a server. `valid` are its records, `found` those that are not held, `held` the others;
    `part` and `held_part` are the parts of a catalog that a list of tools becomes. It was judged by `pins`.
    """

    definitions: list[Any]
    config: ServerConfig
    naming: _Naming
    pins: ServerPins | None
    valid: tuple[Any, ...]
    found: tuple[Any, ...]
    held: tuple[Any, ...]
    part: ServerTools
    held_part: ServerTools
    judged: JudgedList | None
    warnings: tuple[str, ...]

    def holds(self, definitions: list[Any], config: ServerConfig, naming: _Naming, pins: ServerPins | None) -> bool:
        """Return whether this is the given list, examined under the given settings and pins."""
        return self.is_of(definitions, config, naming) and self.pins is pins

    def is_of(self, definitions: list[Any], config: ServerConfig, naming: _Naming) -> bool:
        """Return whether this is the given list under the given settings; its pins may be others."""
        return self.definitions is definitions and self.config is config and self.naming == naming


class Coverage(Protocol):
    """The tools that can be called although their own server is away."""

    def covers(self, tool: ToolRecord) -> bool: ...


class CatalogBuilder:
    """The builder of the snapshots. `reserved` are names that no tool without a prefix may have.

    Items held by `pins` are in no snapshot except `held`. `slices` runs long work in pieces.
    """

    def __init__(
        self,
        upstreams: Mapping[str, Upstream],
        prefixes: Iterable[str],
        name_limit: int,
        reserved: Collection[str] = (),
        failover: Coverage | None = None,
        slices: Slices | None = None,
        pins: PinBook | None = None,
    ) -> None:
        self._upstreams = upstreams
        self._pins = pins
        self._reserved = reserved
        # Whether skills are left out of the program.
        self.hides_skills = False
        self._failover = failover
        self.slices = slices or Slices()
        self._naming = _naming(prefixes, name_limit)
        self._known: dict[tuple[str, Kind], _CheckedList] = {}
        self._examined_ahead: dict[tuple[str, Kind], _CheckedList] = {}
        self._built: tuple[tuple[Items, ...], ItemCatalog] = ((), ItemCatalog())
        self._held: tuple[tuple[JudgedList | None, ...], HeldItems] = ((), HeldItems())

    # -- ahead of need

    async def examine(self, upstream: Upstream, kind: Kind, definitions: list[Any]) -> None:
        """Examine, in slices, a list that an upstream is about to have."""
        while not self._is_examined(upstream.config, kind, definitions, self._naming):
            steps = self._examine_steps(upstream.config, kind, definitions, self._naming)
            self._examined_ahead[upstream.config.id, kind] = await self.slices.run(steps)

    async def examine_again(self, upstream: Upstream) -> None:
        """Examine, in slices, the current lists of an upstream whose pins have changed."""
        for kind in LIST_METHODS:
            await self.examine(upstream, kind, upstream.lists[kind])

    def examined(self, upstream: Upstream, kind: Kind, of: list[Any] | None = None) -> JudgedList | None:
        """Return the effect of the pins on the list that was examined last, whether or not it is shown already.

        of: the list, if no other is meant.
        """
        key = upstream.config.id, kind
        found = self._examined_ahead.get(key) or self._known.get(key)
        return found.judged if found is not None and (of is None or found.definitions is of) else None

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
                    self._examined_ahead[server.id, kind] = await self.slices.run(steps)

    def _is_examined(self, config: ServerConfig, kind: Kind, definitions: list[Any], naming: _Naming) -> bool:
        known, pins = (
            (self._known.get((config.id, kind)), self._examined_ahead.get((config.id, kind))),
            self._of(config),
        )
        return any(
            one is not None and one.holds(definitions, config, naming, pins) and self._stands(one) for one in known
        )

    def _stands(self, checked: _CheckedList) -> bool:
        """Return whether a list was judged with all that took effect before it."""
        return checked.judged is None or self._pins is None or self._pins.stands(checked.judged)

    def _of(self, config: ServerConfig) -> ServerPins | None:
        return self._pins.of(config.id) if self._pins is not None else None

    def reconfigure(self, prefixes: Iterable[str], name_limit: int) -> None:
        """Take the servers and name settings of a new configuration."""
        for known in (self._known, self._examined_ahead):
            for key in [key for key in known if key[0] not in self._upstreams]:
                del known[key]
        # Whether a name can be read as another server's depends on all prefixes.
        self._naming = _naming(prefixes, name_limit)

    # -- what there is

    def tools(self) -> Catalog:
        """Return the tools of every shown server, and those of other servers that failover covers."""
        return Catalog(parts=[part for upstream in self._upstreams.values() if (part := self._part(upstream)).tools])

    def held(self) -> HeldItems:
        """Return the held items of every enabled server; the same object until they change."""
        if self._pins is None:
            return self._held[1]
        enabled = [one for one in self._upstreams.values() if one.state != "disabled"]
        lists = [one for upstream in enabled for kind in _PINNED if (one := self._current(upstream, kind)).held]
        if not _alike(made_of := tuple(one.judged for one in lists), self._held[0]):
            why: dict[tuple[str, str, str], HeldItem] = {
                (item.server, item.kind, item.name): item for one in lists for item in _judged(one).held.values()
            }
            items = chain.from_iterable(one.held for one in lists if _judged(one).kind != "tool")
            tools = Catalog(parts=[one.held_part for one in lists if one.held_part.tools])
            self._held = made_of, HeldItems(tools, ItemCatalog(items), why)
        return self._held[1]

    def _part(self, upstream: Upstream) -> ServerTools:
        part = self._current(upstream, "tool").part
        if upstream.listed or not part.tools:
            return part
        return at_once(server_tools_steps(filter(self._covers, part.tools)))

    def _covers(self, tool: ToolRecord) -> bool:
        return self._failover is not None and self._failover.covers(tool)

    def resources(self) -> ItemCatalog | None:
        """Return the items of every shown server; the same object while they do not change.

        None: there are many, and `build_resources` has not gone through them yet.
        """
        before, offer = self._built
        parts = self._parts()
        if _alike(parts, before):
            return offer
        if sum(map(len, parts)) > _AT_ONCE:
            return None
        self._built = parts, ItemCatalog(chain.from_iterable(parts))
        return self._built[1]

    async def build_resources(self) -> None:
        """Build the resources snapshot in slices, so that `resources` returns it."""
        while not _alike(parts := self._parts(), self._built[0]):
            self._built = parts, await self.slices.run(item_catalog_steps(chain.from_iterable(parts)))

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
        key, pins = (upstream.config.id, kind), self._of(upstream.config)
        asked = upstream.lists[kind], upstream.config, self._naming, pins
        known = self._known.get(key)
        if known is None or not known.holds(*asked) or not self._stands(known):
            ahead = self._examined_ahead.get(key)
            if ahead is not None and ahead.holds(*asked) and self._stands(ahead):
                known = self._examined_ahead.pop(key)
            else:
                known = at_once(self._examine_steps(upstream.config, kind, upstream.lists[kind], self._naming))
            self._known[key] = known
            upstream.faults.note_items(kind, known.warnings)
            if known.judged is not None and self._pins is not None:
                lists = upstream.lists
                self._pins.took_effect(
                    known.judged, was_read=lists.was_read(kind), is_whole=lists.is_whole(kind), source=known.definitions
                )
        return known

    def _examine_steps(
        self, config: ServerConfig, kind: Kind, definitions: list[Any], naming: _Naming
    ) -> Steps[_CheckedList]:
        """Examine one list, one definition a step. A list that cannot be examined costs its own server only."""
        try:
            return (yield from self._examined_steps(config, kind, definitions, naming))
        except Exception as error:  # the lists of all servers are made together
            log.error("%s: its %ss are left out: they cannot be examined", config.id, kind, exc_info=error)
        nothing = at_once(server_tools_steps(()))
        judged = JudgedList(config.id, _PINNED[kind]) if self._pins is not None and kind in _PINNED else None
        pins = self._of(config)
        return _CheckedList(definitions, config, naming, pins, (), (), (), nothing, nothing, judged, ())

    def _examined_steps(
        self, config: ServerConfig, kind: Kind, definitions: list[Any], naming: _Naming
    ) -> Steps[_CheckedList]:
        """Examine one list, one definition a step. Records that did not change stay the same objects."""
        pins, before = self._of(config), self._known.get((config.id, kind))
        if before is not None and before.is_of(definitions, config, naming):
            valid, warnings = before.valid, list(before.warnings)
        else:
            valid, warnings = yield from self._valid_steps(config, kind, definitions, naming)
        judged: JudgedList | None = None
        found: tuple[Any, ...] = valid
        held: tuple[Any, ...] = ()
        if self._pins is not None and pins is not None and kind in _PINNED:
            listed, left_out = yield from _listed_steps(kind, valid, definitions)
            judged = yield from self._pins.judge_steps(config, _PINNED[kind], listed, pins, left_out)
            shown, withheld = valid, judged.held
            if judged.served:
                shown, lost = yield from self._served_steps(config, kind, definitions, naming, judged)
                # A name that is another spelling of an approved one is held; the approved item is shown.
                shown += tuple(one for one in valid if one.own_name in withheld and withheld[one.own_name].served)
                withheld = {**withheld, **lost}
                judged = replace(judged, held=withheld)
            found, held = _apart(shown, withheld)
        if before is not None and _alike(before.found, found) and _alike(before.held, held):
            found, held, part, held_part = before.found, before.held, before.part, before.held_part
        else:
            part = yield from server_tools_steps(found if kind == "tool" else ())
            held_part = yield from server_tools_steps(held if kind == "tool" else ())
        return _CheckedList(
            definitions, config, naming, pins, valid, found, held, part, held_part, judged, tuple(warnings)
        )

    def _served_steps(
        self, config: ServerConfig, kind: Kind, definitions: list[Any], naming: _Naming, judged: JudgedList
    ) -> Steps[tuple[tuple[Any, ...], dict[str, HeldItem]]]:
        """Return the records of a list with approved definitions in place of changed ones, and those that cannot be."""
        key = LIST_METHODS[kind].named_by
        by_listed = {one.sent_as or name: one for name, one in judged.served.items()}
        in_place: list[Any] = []
        for definition in definitions:
            yield
            own = definition.get(key) if isinstance(definition, dict) else None
            served = by_listed.get(own) if isinstance(own, str) else None
            in_place.append(definition if served is None else served.definition)
        records, _ = yield from self._valid_steps(config, kind, in_place, naming)
        before = self._known.get((config.id, kind))
        same = {record.own_name: record for record in before.found} if before is not None else {}
        shown: list[Any] = []
        for record in records:
            yield
            if (served := judged.served.get(record.own_name)) is not None:
                if isinstance(record, ToolRecord):
                    record = replace(record, version=served.version, takes=served.takes, sent_as=served.sent_as)
                    if served.sent_as:
                        record = replace(record, timeout=time_limit(config, *record.names))
                elif served.takes is not None or served.sent_as:
                    record = replace(record, takes=served.takes, sent_as=served.sent_as)
                old = same.get(record.own_name)
                record = old if old is not None and _says_the_same(old, record) else record
            shown.append(record)
        lost = judged.served.keys() - {record.own_name for record in shown}
        pinned = _PINNED[kind]
        return tuple(shown), {name: HeldItem(config.id, pinned, name, NOT_COMPARED, unprotected=True) for name in lost}

    def _valid_steps(
        self, config: ServerConfig, kind: Kind, definitions: list[Any], naming: _Naming
    ) -> Steps[tuple[tuple[Any, ...], list[str]]]:
        """Return the records of a list, and warnings about the rest of it."""
        if kind == "skill" and self.hides_skills:
            return (), []
        ambiguous = config.prefix in naming.shadowed
        found: tuple[Any, ...]
        if kind == "tool":
            found, warnings = yield from validate_tools_steps(
                config, definitions, ambiguous=ambiguous, name_limit=naming.limit
            )
            if definitions and not found and not warnings:
                warnings.append(f"{config.id}: {NONE_TAKEN}, {len(definitions)} in all")
        else:
            found, warnings = yield from item_steps(
                config, kind, definitions, ambiguous=ambiguous, name_limit=naming.limit
            )
        before_it = self._known.get((config.id, kind))
        before: dict[str, Any] = {}
        for record in before_it.valid if before_it is not None else ():
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
        return tuple(kept), warnings

    def _problems(self, kind: str, own: str, naming: _Naming) -> Iterator[str]:
        """Yield the reasons why a name without a prefix cannot be shown unchanged."""
        if kind == "tool" and own in self._reserved:
            yield "its name is that of a tool of the aggregator"
        if kind in ("tool", "prompt") and reads_as_anothers(own, naming.prefixes):
            yield "its name reads as one of another server"
        if kind in ("resource", "template", "skill"):
            pair = unwrapped(own)
            if pair is not None and pair[0] in naming.prefixes:
                yield "its URI reads as one of another server"


def _says_the_same(one: ToolRecord | ItemRecord, other: ToolRecord | ItemRecord) -> bool:
    """Return whether two records are equal, also for JSON, which distinguishes true from 1."""
    if isinstance(one, ToolRecord) and isinstance(other, ToolRecord) and one.siblings != other.siblings:
        return False
    return one == other and encode_sorted(one.definition) == encode_sorted(other.definition)


def _judged(checked: _CheckedList) -> JudgedList:
    assert checked.judged is not None, "only what was judged is held"
    return checked.judged


def _alike(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Tell whether two lists have the very same records."""
    return len(one) == len(other) and all(mine is others for mine, others in zip(one, other, strict=True))


def _listed_steps(
    kind: Kind, records: Iterable[Any], definitions: Iterable[Any]
) -> Steps[tuple[list[ListedItem], frozenset[str]]]:
    """Return the records for the comparison with pins, by the server's definitions, and the names of listed items that
    are left out.
    """
    key = "name" if kind == "tool" else NAMED_BY[kind]
    given: dict[str, Any] = {}
    for definition in definitions:
        yield
        own = definition.get(key) if isinstance(definition, dict) else None
        if isinstance(own, str):
            given.setdefault(own, definition)
    listed: list[ListedItem] = []
    for record in records:
        yield
        definition = given[record.own_name]
        version = record.version if kind == "tool" else definition_digest(definition)
        listed.append(ListedItem(record.own_name, version, definition))
    return listed, frozenset(given.keys() - {one.name for one in listed})


def _apart(records: tuple[Any, ...], held: Mapping[str, HeldItem]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return the shown records, and the held ones; no text of the held ones remains in the shown ones."""
    if not held:
        return records, ()
    apart = tuple(record for record in records if record.own_name in held)
    hidden = {id(record.definition) for record in apart}
    shown = (record for record in records if record.own_name not in held)
    return tuple(_without(record, hidden) for record in shown), apart


def _without(record: Any, hidden: Collection[int]) -> Any:
    """Return a tool without the siblings that are hidden, given by the ids of their definitions."""
    if not isinstance(record, ToolRecord) or not any(id(one) in hidden for one in record.siblings):
        return record
    return replace(record, siblings=tuple(one for one in record.siblings if id(one) not in hidden), rendered={})
