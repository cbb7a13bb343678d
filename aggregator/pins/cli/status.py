"""`aggregator pins status`: the pins, and the items that wait for an approval."""

import json
from pathlib import Path
from typing import Any

from aggregator.cli.runtime.event_loop import run_loop
from aggregator.cli.runtime.tables import minute, one_line, print_rows
from aggregator.cli.runtime.writer import say
from aggregator.pins.cli.pin_files import PinFiles, by_key, label, pin_files, shown, state_of, upgrades, waits
from aggregator.pins.decide.values import ItemChange, ItemKey
from aggregator.storage.records import TAKES_LESS, PinRow

Rows = dict[ItemKey, PinRow]


def status(path: Path | None, server: str | None = None, as_json: bool = False) -> int:
    """Print a row per server, and a line per item that waits; return 1 if anything waits or is held, or cannot be
    pinned.

    Raises:
        OperatorError: the configuration, the lock file or the database cannot be used, or has no such server.
    """
    files = pin_files(path)
    only = files.server(server).id if server is not None else None
    rows, faults = by_key(run_loop(files.rows(only))), run_loop(files.faults())
    configured = [one.id for one in files.loaded.config.servers]
    wanted = [only] if only is not None else list(dict.fromkeys([*configured, *files.locked, *rows, *faults]))
    found = [_server(files, name, rows.get(name, {}), faults.get(name)) for name in wanted]
    amiss = any(one["held"] or one["waits"] or one["problem"] for one in found)
    if as_json:
        say(json.dumps({"lock": str(files.lock) if files.was is not None else None, "servers": found}, indent=2))
        return 1 if amiss else 0
    table = [("SERVER", "BASELINE", "PINNED", "CHANGED", "WAITING", "HELD", "FLAGGED", "GONE")]
    for one in found:
        states = ("changed", "waits", "held", "flags", "gone")
        counts = (len([item for item in one["items"] if item[what]]) for what in states)
        table.append((one["server"], one["baseline"], str(one["pinned"]), *map(str, counts)))
    print_rows(table)
    wait = [row for own in rows.values() for row in own.values() if files.change(row, own) is not None]
    for said in upgrades(wait, run_loop(files.versions())).values():
        say(said)
    for one in found:
        if one["problem"]:
            say(f"{one['server']}: items without a pin are held: {one_line(one['problem'])}")
        shown = [item for item in one["items"] if _is_shown_alone(item)]
        for item in shown:
            say(_line(one["server"], item))
        if rest := len(one["items"]) - len(shown):
            many = f"{rest} other changes are" if rest > 1 else "1 other change is"
            say(f"{one['server']}: {many} accepted by its settings: see `aggregator pins diff {one['server']}`.")
    if any(one["held"] or one["waits"] for one in found):
        say("\n`aggregator pins diff` shows what changed, `aggregator pins approve SERVER [ITEM]` approves it.")
    return 1 if amiss else 0


def _server(files: PinFiles, name: str, rows: Rows, problem: str | None) -> dict[str, Any]:
    locked = files.locked.get(name)
    pinned = len(locked) if locked is not None else sum(row.digest is not None for row in rows.values())
    items = [item for row in rows.values() if (item := _item(row, files.change(row, rows))) is not None]
    baseline = shown(files.lock) if locked is not None else "database" if pinned else "-"
    held = sum(item["held"] for item in items)
    waiting = sum(item["waits"] for item in items)
    counts = {"baseline": baseline, "pinned": pinned, "held": held, "waits": waiting}
    return {"server": name, **counts, "problem": problem, "items": items}


def _item(row: PinRow, change: ItemChange | None) -> dict[str, Any] | None:
    gone = row.seen_digest is None and "removed" in row.classes
    if change is None and not gone and not row.flags:
        return None
    return {
        "kind": row.kind,
        "name": row.name,
        "changed": change is not None,
        "held": change is not None and row.held and not waits(row),
        "waits": change is not None and waits(row),
        "takes_less": change is not None and waits(row) and TAKES_LESS in row.classes,
        "state": state_of(row) if change is not None else None,
        "gone": gone,
        "classes": sorted(change.classes) if change is not None else [],
        "flags": sorted(row.flags),
        "sentence": change.sentence if change is not None else None,
        "renamed_from": row.renamed_from if change is not None else None,
        "digest": row.seen_digest if change is not None else None,
        "pinned": row.digest,
        "approved": row.approved,
        "seen": row.seen if change is not None else None,
    }


def _is_shown_alone(item: dict[str, Any]) -> bool:
    """Return whether an item has a line of its own: not if its change is one of many that the settings accept."""
    return bool(item["held"] or item["waits"] or item["gone"] or item["flags"])


def _line(server: str, item: dict[str, Any]) -> str:
    called = label(server, item["kind"], item["name"])
    if item["gone"]:
        return f"{called}: the server does not list it any more; its pin stays"
    if item["changed"]:
        said = f"{called}: {item['state']}: {item['sentence']} ({', '.join(item['classes'])})"
        return f"{said}, seen {minute(item['seen'])}"
    return f"{called}: pinned as it was first seen, although suspicious: {', '.join(item['flags'])}"
