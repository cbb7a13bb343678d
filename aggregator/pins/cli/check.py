"""`aggregator pins check`: compares the current definitions of servers with the pins, and writes the lock file."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from aggregator.catalog.validate import is_taken
from aggregator.cli.runtime.event_loop import run_loop
from aggregator.cli.runtime.tables import one_line
from aggregator.cli.runtime.writer import say
from aggregator.config.server_config import ServerConfig
from aggregator.domain.bounds.slices import at_once
from aggregator.domain.errors import OperatorError
from aggregator.pins.cli.connected import CurrentDefinitions, said_now
from aggregator.pins.cli.pin_files import PinFiles, label, pin_files, shown, waiting_state
from aggregator.pins.decide.comparison import compare, waits
from aggregator.pins.decide.definition import pinned_item
from aggregator.pins.decide.flags import OtherServers, ToolIndex, flags_of
from aggregator.pins.decide.serving import approved_definition
from aggregator.pins.decide.spelling import Spellings
from aggregator.pins.decide.values import Comparison, Flag, ItemChange, ItemKey, PinKind, PinnedItem
from aggregator.pins.gateway.book import rules_of

Pins = Mapping[ItemKey, PinnedItem]


@dataclass(frozen=True, slots=True)
class CheckedServer:
    """The result of checking one server.

    baseline: the source of its pins: `lock file`, `database`, or None if nothing is pinned. held: the keys of the
    changes that the settings hold. waiting: those that wait while the approved definitions are served. less: those of
    them of which the server does not take all. now: the items to pin. flags: of items without a pin. problem: why it
    cannot be checked.
    """

    config: ServerConfig
    baseline: str | None = None
    found: Comparison = field(default_factory=lambda: Comparison((), (), ()))
    held: frozenset[ItemKey] = frozenset()
    waiting: frozenset[ItemKey] = frozenset()
    less: frozenset[ItemKey] = frozenset()
    now: Sequence[PinnedItem] = ()
    flags: Mapping[ItemKey, frozenset[Flag]] = field(default_factory=dict)
    problem: str | None = None


def check(path: Path | None, servers: Sequence[str] = (), write: bool = False, as_json: bool = False) -> int:
    """Print how the servers differ from their pins; return 1 if a change waits, 2 if a server cannot be checked.

    With `write`, their current definitions go into the lock file, unless one is unreachable; then return 0.

    Raises:
        OperatorError: there is no such server, none is enabled, or a file or the database cannot be used.
    """
    files = pin_files(path, lock_counts=not write)
    wanted = [files.server(name) for name in servers] or [one for one in files.loaded.config.servers if one.enabled]
    disabled = [one.id for one in wanted if not one.enabled]
    if disabled:
        raise OperatorError(f"{', '.join(disabled)} is disabled, and what is not connected cannot be checked.")
    if not wanted:
        raise OperatorError(f"{files.loaded.path} has no server that is enabled: there is nothing to check.")
    checked = run_loop(_check(files, [one.id for one in wanted]))
    unreached = [one for one in checked if one.problem is not None]
    unknown = [] if write else [one for one in checked if one.problem is None and one.baseline is None]
    held, waiting = (sum(map(len, found)) for found in zip(*((one.held, one.waiting) for one in checked), strict=True))
    if as_json:
        say(json.dumps({"held": held, "waits": waiting, "servers": [_plain(one) for one in checked]}, indent=2))
    else:
        for one in checked:
            _print(one, files, write)
    if write and not unreached:
        _write(files, checked, everything=not servers)
        say(f"Wrote {shown(files.lock)}.", file=sys.stderr if as_json else None)
        return 0
    if write:
        say(f"{shown(files.lock)} was left as it is, since not every server could be reached.", file=sys.stderr)
    return 2 if unreached or unknown else 1 if held or waiting else 0


async def _check(files: PinFiles, wanted: Sequence[str]) -> list[CheckedServer]:
    said = await said_now(files.loaded, wanted)
    stored: dict[str, dict[ItemKey, PinnedItem]] = {}
    if not files.locked.keys() >= set(wanted):
        for row in await files.rows():
            if row.digest is not None:
                key: ItemKey = (cast("PinKind", row.kind), row.name)
                pin = PinnedItem(*key, row.digest, row.version or "", row.definition or "null")
                stored.setdefault(row.server, {})[key] = pin
    index = ToolIndex(tool for one in said for tool in one.tools)
    return [_checked(one, files.locked.get(one.config.id), stored.get(one.config.id), index) for one in said]


def _checked(said: CurrentDefinitions, locked: Pins | None, stored: Pins | None, index: ToolIndex) -> CheckedServer:
    if said.problem is not None:
        return CheckedServer(said.config, problem=said.problem)
    others = OtherServers(index, said.config.id)
    now = [pinned_item(kind, name, definition) for kind, name, definition, _ in said.items]
    pins = locked if locked is not None else stored
    if pins is None:
        found = {(kind, name): flags_of(kind, name, definition, others) for kind, name, definition, _ in said.items}
        flags = {key: one for key, one in found.items() if one}
        return CheckedServer(said.config, now=now, flags=flags)
    compared = at_once(compare({key: pin for key, pin in pins.items() if said.is_compared(key)}, said.items, others))
    rules = rules_of(said.config)
    given = {(kind, name): definition for kind, name, definition, _ in reversed(said.items)}
    kept = {
        one.key
        for one in compared.changes
        if waits(one, rules.on_change, shows_new=rules.shows_new) or (rules.asks and one.before is None)
    }
    spellings = Spellings(pins, {*given, *said.left_out}, partial(is_taken, said.config))
    serving = ((one, pins.get(one.key) or spellings.pin(one, pins)) for one in compared.changes if one.key in kept)
    served = {
        one.key: approved
        for one, pin in serving
        if pin is not None and (approved := approved_definition(pin.kind, pin.definition, given[one.key])) is not None
    }
    respelled = {(one.kind, one.renamed_from) for one in compared.changes if one.key in served}
    compared = replace(compared, removed=tuple(key for key in compared.removed if key not in respelled))
    waiting, less = frozenset(served), frozenset(key for key, one in served.items() if one.takes is not None)
    baseline = "lock file" if locked is not None else "database"
    return CheckedServer(said.config, baseline, compared, frozenset(kept - waiting), waiting, less, now)


def _print(one: CheckedServer, files: PinFiles, write: bool) -> None:
    server = one.config.id
    if one.problem is not None:
        say(f"{server}: cannot be checked: {one_line(one.problem)}.")
        return
    if one.baseline is None:
        add = "" if write else f" `aggregator pins check {server} --write` pins them in {shown(files.lock)}."
        say(f"{server}: {len(one.now)} items, none of them pinned.{add}")
        for (kind, name), flags in one.flags.items():
            say(f"  {label(server, kind, name)}: suspicious: {', '.join(sorted(flags))}")
        return
    where = shown(files.lock) if one.baseline == "lock file" else "the database"
    changes, removed = one.found.changes, one.found.removed
    differ = "none differs" if not changes else "1 differs" if len(changes) == 1 else f"{len(changes)} differ"
    counts = f"{len(one.waiting)} wait, served as approved, {len(one.held)} held"
    say(f"{server}: {len(one.now)} items, {differ} from {where}, {counts}.")
    for change in changes:
        waits_as = "waits"
        if change.key in one.less or change.renamed_from is not None:
            waits_as = waiting_state(change.renamed_from, change.name, takes_less=change.key in one.less)
        state = "held" if change.key in one.held else waits_as if change.key in one.waiting else "accepted"
        classes = ", ".join(sorted(change.classes))
        say(f"  {label(server, change.kind, change.name)}: {state}: {change.sentence} ({classes})")
    for kind, name in removed:
        say(f"  {label(server, kind, name)}: not listed any more")


def _plain(one: CheckedServer) -> dict[str, Any]:
    return {
        "server": one.config.id,
        "baseline": one.baseline,
        "problem": one.problem,
        "items": len(one.now),
        "changes": [_change(one, change) for change in one.found.changes],
        "removed": [{"kind": kind, "name": name} for kind, name in one.found.removed],
        "flagged": [{"kind": kind, "name": name, "flags": sorted(flags)} for (kind, name), flags in one.flags.items()],
    }


def _change(one: CheckedServer, change: ItemChange) -> dict[str, Any]:
    return {
        "kind": change.kind,
        "name": change.name,
        "held": change.key in one.held,
        "waits": change.key in one.waiting,
        "takes_less": change.key in one.less,
        "classes": sorted(change.classes),
        "flags": sorted(change.flags),
        "sentence": change.sentence,
        "renamed_from": change.renamed_from,
        "pinned": change.before.digest if change.before is not None else None,
        "digest": change.after.digest,
    }


def _write(files: PinFiles, checked: Sequence[CheckedServer], *, everything: bool) -> None:
    """Write the checked servers into the lock file. Other servers stay in it; with `everything`, only configured ones
    do.
    """
    configured = {one.id for one in files.loaded.config.servers}
    kept = {server: pins.values() for server, pins in files.locked.items() if server in configured or not everything}
    files.write({**kept, **{one.config.id: one.now for one in checked}})
