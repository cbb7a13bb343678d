"""The pins of all servers as this process knows them, and their effect on the lists shown now.

Rule: nothing here waits. Until pins are loaded, the settings of the server decide.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from typing import Final

from aggregator.catalog.catalog import ServerTools
from aggregator.catalog.validate import is_taken
from aggregator.config.server_config import ServerConfig
from aggregator.domain.bounds.slices import Steps, at_once
from aggregator.pins.decide.flags import KnownTool, OtherServers, ToolIndex
from aggregator.pins.decide.serving import approved_definition
from aggregator.pins.decide.values import PIN_KINDS, PinKind, PinnedItem
from aggregator.pins.gateway.judge import judge_steps, unprotected
from aggregator.pins.gateway.state import (
    UNREAD,
    HeldItem,
    JudgedList,
    ListedItem,
    PinRules,
    ServerPins,
    UnwrittenPins,
    part_of,
)

log = logging.getLogger(__name__)

NOT_COMPARED: Final = "it cannot be compared with what was approved, by an error of ours; the log says more"
# Characters of instructions that are judged on demand; longer ones are judged in slices beforehand.
_SHORT: Final = 20_000


class PinBook:
    """The pins by server, and the findings for each list in force.

    on_news: called when there is something to write, or to read. default_unread: True while the pins of servers without
    an entry are unread; else these have none. default_fault: the reason why servers without an entry cannot be pinned;
    empty if they can.
    """

    def __init__(self) -> None:
        self.on_news: Callable[[], None] = _nothing
        self.default_unread = True
        self.default_fault = ""
        self._parts: dict[str, list[ServerTools]] = {}
        self._index = ToolIndex()
        self._servers: dict[str, ServerPins] = {}
        self._judged: dict[tuple[str, PinKind], JudgedList] = {}
        self._sights: dict[tuple[str, PinKind], UnwrittenPins] = {}
        # The judged lists that the sights were computed from.
        self._sighted: dict[tuple[str, PinKind], JudgedList] = {}
        self._instructions: dict[str, tuple[str, ServerPins, PinRules, JudgedList]] = {}
        # The lists that the judged ones were made from, as they were read.
        self._sources: dict[tuple[str, PinKind], object] = {}
        # The first lists that came in part.
        self._in_part: dict[tuple[str, PinKind], object] = {}
        # Another object after each list that took effect.
        self.moment: object = None

    def __repr__(self) -> str:
        return f"<PinBook of {len(self._servers)} servers, {self.held_count()} items held>"

    # -- what is pinned

    def of(self, server: str) -> ServerPins:
        """Return the pins of a server; `UNREAD` before they are loaded."""
        if self.default_unread:
            return self._servers.get(server, UNREAD)
        return self._servers.setdefault(server, ServerPins(fault=self.default_fault))

    def put(self, server: str, pins: ServerPins) -> None:
        """Take other pins of a server: its lists have to be judged again."""
        self._servers[server] = pins
        for kind in PIN_KINDS:
            if (sight := self._sights.get((server, kind))) is not None:
                self._set_sight(server, kind, unwritten(sight, kind, pins))

    def _set_sight(self, server: str, kind: PinKind, sight: UnwrittenPins | None) -> None:
        if sight is None:
            self._sights.pop((server, kind), None)
        else:
            self._sights[server, kind] = sight

    def saw_before(self, server: str, kind: PinKind, items: Iterable[PinnedItem]) -> bool:
        """Treat a list from before this process as the server's first list, if no baseline was taken.

        Return whether it differs from the first list in force in this process.
        """
        pins, before = self.of(server), {item.name: item for item in items}
        if not pins.readable or pins.locked or kind in pins.taken or any(key[0] == kind for key in pins.pins):
            return False
        sight = self._sights.get((server, kind), UnwrittenPins())
        if sight.baseline is not None and _digests(sight.baseline) == _digests(before):
            return False
        self._sights[server, kind] = UnwrittenPins(before)
        self._sighted.pop((server, kind), None)
        return True

    def stands(self, judged: JudgedList) -> bool:
        """Return whether a list was judged with all that took effect before it."""
        key = judged.server, judged.kind
        return judged.sight is self._sights.get(key) or judged is self._sighted.get(key)

    def start_anew(self, server: str) -> None:
        """Treat a server as a new one: forget its sights, and mark its pins as unread."""
        self._servers[server] = UNREAD
        self._instructions.pop(server, None)
        for kind in PIN_KINDS:
            for kept in (self._judged, self._sights, self._sighted, self._in_part, self._sources):
                kept.pop((server, kind), None)

    def set_tools(self, parts: Iterable[ServerTools]) -> None:
        """Take the tools that are shown and held, for look-alikes among those that change later.

        Only servers with other parts than before are gone through.
        """
        now: dict[str, list[ServerTools]] = {}
        for part in parts:
            if part.tools:
                now.setdefault(part.tools[0].server, []).append(part)
        for server in self._parts.keys() | now.keys():
            if self._parts.get(server) != now.get(server):
                self._index.put(server, _known_tools(now.get(server, ())))
        self._parts = now

    def _others_steps(self, server: str) -> Steps[OtherServers]:
        """Return the tools of all servers but one, one tool in a step."""
        yield from self._index.steps()
        return OtherServers(self._index, server)

    def keep_only(self, servers: Iterable[str]) -> None:
        """Forget the lists of servers that are not configured any more."""
        kept = set(servers)
        self._sights = {key: sight for key, sight in self._sights.items() if key[0] in kept}
        self._sighted = {key: judged for key, judged in self._sighted.items() if key[0] in kept}
        self._judged = {key: judged for key, judged in self._judged.items() if key[0] in kept}
        self._in_part = {key: source for key, source in self._in_part.items() if key[0] in kept}
        self._sources = {key: source for key, source in self._sources.items() if key[0] in kept}
        self._instructions = {server: one for server, one in self._instructions.items() if server in kept}

    # -- what is listed

    def judge_steps(
        self,
        config: ServerConfig,
        kind: PinKind,
        listed: Sequence[ListedItem],
        pins: ServerPins,
        left_out: frozenset[str] = frozenset(),
    ) -> Steps[JudgedList]:
        """Judge a list by pins of its server. A list that cannot be compared costs its own server only.

        left_out: names that the server lists and that are not among `listed`.
        """
        rules, sight = rules_of(config), self._sights.get((config.id, kind))
        known = pins if sight is None or not pins.readable else pins.with_sight(kind, sight)
        try:
            judged = yield from judge_steps(
                config.id,
                kind,
                listed,
                known,
                rules,
                lambda: self._others_steps(config.id),
                left_out,
                partial(is_taken, config),
            )
            return replace(judged, sight=sight)
        except Exception as error:  # it must neither be shown unseen nor end what others list
            log.error("%s: its %ss cannot be compared with what was approved", config.id, kind, exc_info=error)
            return replace(unprotected(config.id, kind, listed, rules, NOT_COMPARED), sight=sight)

    def took_effect(
        self, judged: JudgedList, *, was_read: bool = True, is_whole: bool = True, source: object = None
    ) -> None:
        """Note that a judged list is shown now: its new items count as pinned from now on.

        was_read: the server has sent the list; it is not one that another connection or process left behind. is_whole:
        all of it came. source: the list as it was read; the same one twice is not the next list.
        """
        key, sight = (judged.server, judged.kind), judged.sight
        self._sources[key] = source
        adopted = {one.change.name: one.change.after for one in judged.changes if one.adopted}
        first = self._is_first(judged)
        if judged.baseline is not None and not first and self._in_part.get(key, judged) is source:
            judged = replace(judged, baseline=None)
        if judged.baseline is not None and first and not is_whole:
            self._in_part[key] = source
        if judged.baseline is not None and was_read and (judged.baseline or not (first and is_whole)):
            before = sight.baseline or {} if sight is not None else {}
            items = {**before, **{item.name: item for item in judged.baseline}}
            sight = UnwrittenPins(items, judged.flagged, part=first and not is_whole)
        if adopted:
            sight = sight or UnwrittenPins()
            sight = replace(sight, adopted={**sight.adopted, **adopted})
        if sight is not judged.sight:
            self._sighted[key] = judged
        self._set_sight(judged.server, judged.kind, sight)
        if sight is not None:
            baseline = tuple(sight.baseline.values()) if sight.baseline is not None else judged.baseline
            adopting = tuple(sight.adopted.values())
            judged = replace(
                judged, baseline=baseline, flagged=sight.flagged, adopting=adopting, sight=sight, part=sight.part
            )
        self._judged[key] = judged
        self.moment = object()
        if judged.has_news:
            self.on_news()

    def _is_first(self, judged: JudgedList) -> bool:
        """Return whether no list of the kind was seen before, not even a part of one."""
        sight = self._sights.get((judged.server, judged.kind))
        taken = self.of(judged.server).taken
        return (sight is None or sight.baseline is None) and part_of(judged.kind) not in taken

    def judged(self, server: str) -> list[JudgedList]:
        """Return the findings for the lists of a server and for its instructions."""
        return [judged for (of, _), judged in self._judged.items() if of == server]

    def is_made_from(self, judged: JudgedList, source: object) -> bool:
        """Return whether a judged list, which is shown, was made from this list, as it was read."""
        return self._sources.get((judged.server, judged.kind)) is source

    def is_current(self, judged: JudgedList) -> bool:
        """Return whether a list is still the one that was found last of its server."""
        return self._judged.get((judged.server, judged.kind)) is judged

    def instructions_steps(self, config: ServerConfig, text: str) -> Steps[JudgedList]:
        """Judge the instructions of a server, an empty text being none, unless they were judged before."""
        server, pins, rules = config.id, self.of(config.id), rules_of(config)
        before = self._instructions.get(server)
        if before is not None and before[0] == text and before[1] is pins and before[2] == rules:
            return before[3]
        listed = [ListedItem("", text_version(text), text)] if text else []
        judged = yield from self.judge_steps(config, "instructions", listed, pins)
        self._instructions[server] = text, pins, rules, judged
        self.took_effect(judged)
        return judged

    def instructions(self, config: ServerConfig, text: str) -> str:
        """Return the instructions that may be shown: the text, the approved ones while it waits, or none while it is
        held.
        """
        if not text:
            return text
        before = self._instructions.get(config.id)
        current = before is not None and before[0] == text and before[1] is self.of(config.id)
        if not current and len(text) > _SHORT:
            # A background task judges them; they are shown if they equal their pin.
            pin = self.of(config.id).pins.get(("instructions", ""))
            self.on_news()
            return "" if pin is None else text if pin.version == text_version(text) else _approved_text(pin)
        at_once(self.instructions_steps(config, text))
        judged = self._instructions[config.id][3]
        served = judged.served.get("")
        return "" if judged.held else text if served is None else str(served.definition)

    # -- what is held

    def held(self, server: str) -> list[HeldItem]:
        """Return the held items of a server, without new spellings of names under which the approved item is served."""
        return [item for judged in self.judged(server) for item in _held(judged)]

    def held_item(self, server: str, kind: PinKind, name: str) -> HeldItem | None:
        """Return the item of this own name if it is held."""
        judged = self._judged.get((server, kind))
        return judged.held.get(name) if judged is not None else None

    def waiting(self, server: str) -> list[HeldItem]:
        """Return the items of a server whose current definitions wait while the approved ones are served."""
        return [one.waits for judged in self.judged(server) for one in judged.served.values() if one.waits is not None]

    def waiting_item(self, server: str, kind: PinKind, name: str) -> HeldItem | None:
        """Return the item of this own name if its current definition waits while the approved one is served."""
        judged = self._judged.get((server, kind))
        served = judged.served.get(name) if judged is not None else None
        return served.waits if served is not None else None

    def open_count(self) -> int:
        """Return the number of items of all servers that an approval would change."""
        return self.held_count() + sum(len(judged.served) for judged in self._judged.values())

    def held_count(self) -> int:
        """Return the number of held items of all servers."""
        return sum(len(_held(judged)) for judged in self._judged.values())

    def unprotected(self) -> Mapping[str, str]:
        """Return, for each server whose pins cannot be read, compared or written, the reason."""
        found: dict[str, str] = {}
        for judged in self._judged.values():
            for item in judged.held.values():
                if item.unprotected:
                    found.setdefault(judged.server, item.why)
        return found

    def waiting_counts(self) -> Mapping[str, int]:
        """Return, for each server that has any, the number of items that wait while the approved ones are served."""
        servers = dict.fromkeys(server for server, _ in self._judged)
        return {server: count for server in servers if (count := len(self.waiting(server)))}

    def counts(self) -> Mapping[str, int]:
        """Return the number of held items of each server that has any."""
        found: dict[str, int] = {}
        for (server, _), judged in self._judged.items():
            if held := _held(judged):
                found[server] = found.get(server, 0) + len(held)
        return found


def _held(judged: JudgedList) -> list[HeldItem]:
    return [item for item in judged.held.values() if not item.served]


def _known_tools(parts: Iterable[ServerTools]) -> Iterator[KnownTool]:
    for part in parts:
        for tool in part.tools:
            said = tool.definition.get("description")
            yield KnownTool(
                tool.server, tool.own_name, tuple(tool.listed.values()), said if isinstance(said, str) else ""
            )


def rules_of(config: ServerConfig) -> PinRules:
    """Return the settings of a server about its pins."""
    given = config.on_change
    on_change = given if isinstance(given, str) else frozenset(given.accept)
    return PinRules(config.trust == "ask", on_change, config.shows_new)


def unwritten(sight: UnwrittenPins, kind: PinKind, pins: ServerPins) -> UnwrittenPins | None:
    """Return what of a sight is not among these pins; None if all is."""
    if not pins.readable:
        return sight
    written = sight.part and part_of(kind) in pins.taken
    baseline = None if written or kind in pins.taken or pins.locked else sight.baseline
    known = pins.adopted if pins.locked else pins.pins
    adopted = {name: item for name, item in sight.adopted.items() if (kind, name) not in known}
    return UnwrittenPins(baseline, sight.flagged, adopted, sight.part) if baseline is not None or adopted else None


def _digests(items: Mapping[str, PinnedItem]) -> set[tuple[str, str]]:
    return {(item.name, item.digest) for item in items.values()}


def _approved_text(pin: PinnedItem) -> str:
    """Return pinned instructions; an empty text while they are not read."""
    approved = approved_definition("instructions", pin.definition, None)
    return approved.definition if approved is not None and isinstance(approved.definition, str) else ""


def text_version(text: str) -> str:
    """Return the schema version of instructions: a digest like those of other definitions."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _nothing() -> None:
    """Do nothing: no part of the program writes pins yet."""
