"""Pinned definitions over real servers' catalogs: false and missed changes, renames, and the cost of a start."""

import gc
import json
import random
from collections import Counter
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, Final

from aggregator.catalog.validate import definition_digest
from aggregator.domain.bounds.slices import at_once
from aggregator.pins.decide.comparison import Listed, compare
from aggregator.pins.decide.definition import pinned_item
from aggregator.pins.decide.flags import NO_OTHERS, KnownTool, OtherServers, ToolIndex, flags_of
from aggregator.pins.decide.values import Comparison, ItemKey, PinnedItem
from benchmarks.definition_edits import attack, random_edit, reordered
from benchmarks.report import Table

Catalogs = dict[str, list[dict[str, Any]]]
Pins = dict[ItemKey, PinnedItem]

_EDITS: Final = 10_000
_RENAMES: Final = 4_000
_TOOLS: Final = 1_000


def measure(folder: Path, rounds: int, seed: int) -> list[Table]:
    """Return all tables.

    Raises:
        RuntimeError: the folder holds no NAME.json with tools.
    """
    catalogs = read_catalogs(folder)
    if not catalogs:
        raise RuntimeError(f"{folder} must hold NAME.json files with `tools`")
    pins = {server: _pins(tools) for server, tools in catalogs.items()}
    chance = random.Random(seed)  # noqa: S311 - a seed makes runs comparable
    return [
        relisted(catalogs, pins, chance),
        edited(catalogs, pins, chance, _EDITS),
        renamed(catalogs, pins, chance, _RENAMES),
        starts(catalogs, rounds),
    ]


def read_catalogs(folder: Path) -> Catalogs:
    """Return the tools of each server whose `NAME.json` is in a folder."""
    read = {path.stem: json.loads(path.read_bytes()) for path in sorted(folder.glob("*.json"))}
    return {name: found["tools"] for name, found in read.items() if isinstance(found, dict) and found.get("tools")}


def relisted(catalogs: Catalogs, pins: dict[str, Pins], chance: random.Random) -> Table:
    """Return how many tools seem changed, held or flagged after a restart that changed nothing."""
    rows = []
    for what in ("as it was", "other order of tools, members and sets", "encoded with escapes"):
        changes = removed = 0
        for server, tools in catalogs.items():
            listed = [_as(what, tool, chance) for tool in tools]
            chance.shuffle(listed)
            found = _compare(pins[server], listed)
            changes += len(found.changes)
            removed += len(found.removed)
        rows.append((what, str(sum(map(len, catalogs.values()))), str(changes), str(removed)))
    index = ToolIndex(
        KnownTool(server, tool["name"], (f"{server}.{tool['name']}",), str(tool.get("description", "")))
        for server, tools in catalogs.items()
        for tool in tools
    )
    flagged = sum(
        bool(flags_of("tool", tool["name"], tool, OtherServers(index, server)))
        for server, tools in catalogs.items()
        for tool in tools
    )
    rows.append(
        ("all servers together, at first sight", str(sum(map(len, catalogs.values()))), f"{flagged} flags", "-")
    )
    return Table("Catalogs listed again: false changes", ("list", "tools", "changes", "removed"), rows)


def edited(catalogs: Catalogs, pins: dict[str, Pins], chance: random.Random, count: int) -> Table:
    """Return what became of random edits, by kind."""
    every = [(server, tool) for server, tools in catalogs.items() for tool in tools]
    seen: Counter[str] = Counter()
    unseen: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    cosmetic: Counter[str] = Counter()
    for _ in range(count):
        server, tool = chance.choice(every)
        edit = random_edit(tool, chance)
        key: ItemKey = ("tool", tool["name"])
        found = _compare({key: pins[server][key]}, [edit.definition])
        classes = found.changes[0].classes if found.changes else frozenset()
        harmless = edit.classes <= {"cosmetic"} and not edit.open
        seen[edit.what] += 1
        unseen[edit.what] += bool(edit.classes or edit.open) and not classes
        cosmetic[edit.what] += classes == {"cosmetic"} and not harmless
        wrong[edit.what] += not edit.classes <= classes or (not edit.open and edit.classes != classes)
    rows = [
        (what, str(number), str(unseen[what]), str(cosmetic[what]), str(wrong[what]))
        for what, number in sorted(seen.items())
    ]
    every_edit = [str(sum(one.values())) for one in (seen, unseen, cosmetic, wrong)]
    rows.append(("all", every_edit[0], every_edit[1], every_edit[2], every_edit[3]))
    return Table("Random edits", ("edit", "made", "unseen", "wrongly cosmetic", "classed in another way"), rows)


def renamed(catalogs: Catalogs, pins: dict[str, Pins], chance: random.Random, count: int) -> Table:
    """Return how many renamed tools are found, and how many unrelated ones are taken for renamed."""
    every = [(server, tool) for server, tools in catalogs.items() for tool in tools]
    several = [server for server, tools in catalogs.items() if len(tools) > 2]
    rows = []
    for edits in range(4):
        found = 0
        for _ in range(count // 4):
            server, tool = chance.choice(every)
            new = attack(tool, chance, edits)
            listed = [*(one for one in catalogs[server] if one["name"] != tool["name"]), new]
            found += _origin(pins[server], listed, new["name"]) == tool["name"]
        rows.append((f"renamed, with {edits} edits", str(count // 4), f"{100 * found / (count // 4):.1f} %"))
    found = 0
    for _ in range(count // 4):
        server, tool = chance.choice(every)
        copy = {**tool, "name": f"{tool['name']}_copy"}
        found += _origin(pins[server], [*catalogs[server], copy], copy["name"]) is not None
    rows.append(("a copy beside the original", str(count // 4), f"{100 * found / (count // 4):.1f} %"))
    for what, replaced in (("another tool in place of one", True), ("another tool more", False)):
        found = 0
        for _ in range(count // 4):
            server = chance.choice(several)
            old, new = chance.sample(catalogs[server], 2)
            known = {key: pin for key, pin in pins[server].items() if key[1] != new["name"]}
            listed = [one for one in catalogs[server] if not replaced or one["name"] != old["name"]]
            found += _origin(known, listed, new["name"]) is not None
        rows.append((f"{what}, of the same server", str(count // 4), f"{100 * found / (count // 4):.1f} %"))
    return Table("New tools that are taken for renamed ones", ("new tool", "tried", "renamed"), rows)


def starts(catalogs: Catalogs, rounds: int) -> Table:
    """Return what comparing the tools of a start costs, in milliseconds for 1,000 tools."""
    tools = [tool for listed in catalogs.values() for tool in listed]
    many = [{**tools[number % len(tools)], "name": f"tool_{number}"} for number in range(_TOOLS)]
    versions = [definition_digest(tool) for tool in many]
    pins = _pins(many, versions)
    ways: dict[str, list[Listed]] = {
        "equal versions": [("tool", tool["name"], tool, v) for tool, v in zip(many, versions, strict=True)],
        "no versions, equal digests": [("tool", tool["name"], tool, "") for tool in many],
        "one description changed, equal versions else": [
            ("tool", tool["name"], {**tool, "description": "Other"} if at == 0 else tool, v if at else "other")
            for at, (tool, v) in enumerate(zip(many, versions, strict=True))
        ],
        "every description changed": [
            ("tool", tool["name"], {**tool, "description": f"Other {tool.get('description')}"}, "") for tool in many
        ],
        "first sight": [],
    }
    rows = []
    for what, listed in ways.items():
        times = []
        for _ in range(max(rounds, 5)):
            gc.collect()
            begun = perf_counter()
            if listed:
                at_once(compare(pins, listed, NO_OTHERS))
            else:
                _pins(many, versions)
            times.append(1000 * (perf_counter() - begun))
        rows.append((what, f"{median(times):.2f}", f"{max(times):.2f}"))
    return Table(f"A start with {_TOOLS} tools, in ms", ("list", "median", "longest"), rows)


def _pins(tools: list[dict[str, Any]], versions: list[str] | None = None) -> Pins:
    hints = versions or [""] * len(tools)
    items = (pinned_item("tool", tool["name"], tool, version) for tool, version in zip(tools, hints, strict=True))
    return {item.key: item for item in items}


def _compare(pins: Pins, tools: list[dict[str, Any]]) -> Comparison:
    return at_once(compare(pins, [("tool", tool["name"], tool, "") for tool in tools], NO_OTHERS))


def _origin(pins: Pins, tools: list[dict[str, Any]], name: str) -> str | None:
    changes = _compare(pins, tools).changes
    return next(change.renamed_from for change in changes if change.name == name)


def _as(what: str, tool: dict[str, Any], chance: random.Random) -> Any:
    if what.startswith("other"):
        made = reordered(tool, chance)
        schema = made.get("inputSchema", {})
        if isinstance(schema.get("required"), list):
            chance.shuffle(schema["required"])
        return made
    return json.loads(json.dumps(tool, ensure_ascii=True, indent=3)) if what.startswith("encoded") else tool
