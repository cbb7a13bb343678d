"""The definitions that wait for an approval, for `policy explain`: a held tool is refused even if the rules allow
it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from aggregator.catalog.templates import fits
from aggregator.cli.runtime.event_loop import run_loop
from aggregator.cli.runtime.tables import minute, one_line
from aggregator.config.errors import ConfigMissing
from aggregator.config.server_config import ServerConfig
from aggregator.domain.errors import OperatorError
from aggregator.domain.names import Style, canonical
from aggregator.domain.records import ToolRecord
from aggregator.domain.shell import foreign_operands
from aggregator.pins.cli.pin_files import PinFiles, by_key, pin_files, served_under, waits
from aggregator.pins.decide.spelling import said_of_respelled
from aggregator.pins.decide.values import ItemKey, PinnedItem, exact_word, item_word
from aggregator.policy.patterns import Target
from aggregator.policy.rulebook import target_of
from aggregator.skills.uris import directories, directory_name, skill_name
from aggregator.storage.records import TAKES_LESS, PinRow

_OPEN: Mapping[ItemKey, PinRow] = {}


class HeldPin(NamedTuple):
    """A held item, or one whose newer definition waits: the reason, and the command to review it.

    takes_less: its approved definition is served, and its server does not take all of that any more.
    """

    why: str
    command: str
    takes_less: bool = False


@dataclass(frozen=True)
class HeldPins:
    """The pins of a configuration as a running aggregator noted them.

    rows: by server. faults: why pins of a server cannot be written. unknown: why none of this could be read.
    """

    files: PinFiles | None = None
    rows: Mapping[str, Mapping[ItemKey, PinRow]] = field(default_factory=dict)
    faults: Mapping[str, str] = field(default_factory=dict)
    unknown: str | None = None

    def of(self, thing: ToolRecord | Target) -> HeldPin | None:
        """Return why a target is held; None if it is not, as far as is known."""
        target = thing if isinstance(thing, Target) else target_of(thing)
        rows = self.rows.get(target.server, _OPEN)
        found = [row for row in rows.values() if _is_about(row, target)]
        held = {(row.kind, row.name): said for row in found if (said := self._said(row, rows)) is not None}
        # A resource that another template leads to as well can be read.
        readable = any(row.kind == "template" and (row.kind, row.name) not in held for row in found)
        for (kind, name), said in held.items():
            if kind != "template" or not readable:
                several = sum(one.name == name for one in rows.values()) > 1
                item = foreign_operands(exact_word(kind, name) if several else item_word(kind, name))
                return HeldPin(said, f"aggregator pins diff {target.server} {item}")
        fault = self.faults.get(target.server)
        if fault is None or self._warns(target.server) or any(row.digest is not None for row in found):
            return None
        return HeldPin(one_line(fault), f"aggregator pins status {target.server}")

    def waiting(self, thing: ToolRecord | Target) -> HeldPin | None:
        """Return what a newer definition of a target changes, which waits while the approved one is served."""
        target = thing if isinstance(thing, Target) else target_of(thing)
        rows = self.rows.get(target.server, _OPEN)
        for row in rows.values():
            before = served_under(row)
            about = (row.kind, before) == (target.kind, target.name) if before is not None else _is_about(row, target)
            said = self._said(row, rows, served=True) if about else None
            if said is not None:
                command = f"aggregator pins diff {target.server} {foreign_operands(item_word(row.kind, row.name))}"
                why = said if before is None else f"{said_of_respelled(before, row.name)}: {said}"
                return HeldPin(why, command, takes_less=TAKES_LESS in row.classes)
        return None

    def named_now(self, thing: ToolRecord | Target) -> ToolRecord | Target:
        """Return a prompt with the name that its server gives it now, if it is served under its approved one; any
        other target as it is.
        """
        if isinstance(thing, ToolRecord) or thing.kind != "prompt":
            return thing
        rows = self.rows.get(thing.server, _OPEN).values()
        names = (row.name for row in rows if row.kind == "prompt" and served_under(row) == thing.name)
        return replace(thing, sent_as=next(names, ""))

    def served(self) -> tuple[ToolRecord, ...]:
        """Return the tools that are served under their approved names, which their servers spell otherwise now."""
        if self.files is None:
            return ()
        found: list[ToolRecord] = []
        for server in self.files.loaded.config.servers:
            rows = dict(self.rows.get(server.id, _OPEN))
            for row in rows.values():
                is_tool = row.kind == "tool" and served_under(row) is not None
                change = self.files.change(row, rows) if is_tool else None
                if change is not None and change.before is not None:
                    found.append(_record(server, change.before, row.name))
        return tuple(found)

    def _said(self, row: PinRow, rows: Mapping[ItemKey, PinRow], *, served: bool = False) -> str | None:
        is_served = waits(row) and (served or served_under(row) is None)
        if self.files is None or not row.held or is_served is not served:
            return None
        change = self.files.change(row, dict(rows))
        if change is None:
            return None
        seen = f", seen {minute(row.seen)}" if row.seen is not None else ""
        return f"{one_line(change.sentence)} ({', '.join(sorted(change.classes))}){seen}"

    def _warns(self, server: str) -> bool:
        configured = self.files.loaded.config.servers if self.files is not None else ()
        return any(one.id == server and one.on_change == "warn" and one.trust != "ask" for one in configured)


def held_pins(path: Path | None) -> HeldPins:
    """Read the pins of a configuration; without one there are none."""
    try:
        files = pin_files(path)
        return HeldPins(files, by_key(run_loop(files.rows())), run_loop(files.faults()))
    except ConfigMissing:
        return HeldPins()
    except OperatorError as error:
        return HeldPins(unknown=str(error))


def _record(server: ServerConfig, pin: PinnedItem, sent_as: str) -> ToolRecord:
    name = canonical(server.prefix, pin.name)
    listed: dict[Style, str] = {"canonical": name, "compatible": name}
    definition = json.loads(pin.definition)
    return ToolRecord(server.id, server.prefix, pin.name, definition, listed, server.timeout, sent_as=sent_as)


def _is_about(row: PinRow, target: Target) -> bool:
    """Return whether the definition in a row is needed for a target: its own, its skill's, its template's."""
    if row.kind == "skill":
        name = skill_name(row.name) or directory_name(row.name)
        return name == target.name if target.kind == "skill" else name in directories(target.name)
    if row.kind == "template":
        return target.kind == "resource" and (row.name == target.name or fits(row.name, target.name))
    return (row.kind, row.name) == (target.kind, target.name)
