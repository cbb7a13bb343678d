"""Data of pinned definitions for pages, as plain values: one item, its change, and whether it may be approved."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from aggregator.catalog.definition_diff import LARGEST, DefinitionDiff, definition_diff
from aggregator.domain.shell import foreign_operands
from aggregator.domain.text.error_text import error_text
from aggregator.frontends.console.parts import ConsoleParts
from aggregator.frontends.console.tool_data import bounded, link, pin_link, pretty
from aggregator.frontends.console.view import SignedIn
from aggregator.pins.decide.values import item_word
from aggregator.pins.gateway.state import HeldItem
from aggregator.storage.records import MARKERS, SERVED, TAKES_LESS, PinRow

NAME: Final = 300
_DEFINITION: Final = 24_000
_REMOVED: Final = "removed"
# Markers among the classes of a row that are no class of change.
_MARKERS: Final = MARKERS | {_REMOVED}

Rows = list[PinRow]


async def item_data(
    parts: ConsoleParts, person: SignedIn, server: str, rows: Sequence[PinRow], kind: str, name: str
) -> dict[str, Any] | None:
    """Return one definition: the approved one, the current one, and their difference; None if it is unknown. `rows` are
    all of its server, with their texts.
    """
    held = held_of(parts, server).get((kind, name))
    row = next((row for row in rows if (row.kind, row.name) == (kind, name)), None)
    if row is None and held is None:
        return None
    if row is None:
        row = unremembered(server, kind, name)
    # A renamed item is compared with the approved definition under its old name.
    old = next((one for one in rows if (one.kind, one.name) == (row.kind, row.renamed_from)), row)
    texts = row.definition or old.definition, row.seen_definition
    difference, problem = await asyncio.to_thread(_difference, row.kind, *texts)
    return {
        **listed(server, row, held),
        "server": server,
        "server_href": link("pins", server),
        "tool_href": link("tools", name) if row.kind == "tool" and (name := _full_name(parts, server, row)) else "",
        "locked": parts.pins is not None and parts.pins.is_locked(server),
        # Without an item, the command would approve all that waits.
        "command": f"aggregator pins approve {server} {foreign_operands(item_word(row.kind, row.name))}",
        "approved_by": bounded(row.approved_by or "", NAME),
        "digest": row.seen_digest or "",
        "pinned_digest": row.digest or "",
        "problem": problem,
        "compared": difference is not None,
        "description": _parts_of(difference.description) if difference is not None else [],
        "lines": _parts_of(difference.lines) if difference is not None else [],
        "definition": await asyncio.to_thread(_shown, texts[1] or texts[0]),
        "may_act": person.may("operator"),
    }


def _full_name(parts: ConsoleParts, server: str, row: PinRow) -> str:
    """Return the name that the page of a tool has; empty for a tool that is not there now."""
    held = parts.browser.held_of(server, row.name)
    tool = held.tool if held is not None else parts.gateway.catalog.of_server(server, row.name)
    return tool.name if tool is not None else ""


def held_of(parts: ConsoleParts, server: str) -> Mapping[tuple[str, str], HeldItem]:
    """Return the held definitions of a server, by kind and own name."""
    found = parts.pins.held(server) if parts.pins is not None else ()
    return {(one.kind, one.name): one for one in found}


def unremembered(server: str, kind: str, name: str) -> PinRow:
    """Return a row for a held item without one: it is too long, or was held a moment ago."""
    return PinRow(server, kind, name, None, None, None, None, None, None, None, (), None, (), held=True)


def listed(server: str, row: PinRow, held: HeldItem | None) -> dict[str, Any]:
    """Return one definition as a list entry; `held` has the reason why it is held now."""
    waits = held is None and row.held and SERVED in row.classes
    return {
        "kind": row.kind,
        "name": bounded(row.name, NAME),
        "own_name": row.name,
        "href": pin_link(server, row.kind, row.name),
        "held": held is not None or is_held(row),
        "waits": waits,
        "served_as": bounded(row.renamed_from or "", NAME) if waits else "",
        "takes_less": waits and TAKES_LESS in row.classes,
        "why": held.why if held is not None else "",
        "changed": is_changed(row),
        "gone": _REMOVED in row.classes,
        "new": row.digest is None,
        "classes": [name for name in row.classes if name not in _MARKERS],
        "flags": list(row.flags),
        "renamed_from": bounded(row.renamed_from or "", NAME),
        "approved": row.approved,
        "seen": row.seen,
    }


def is_held(row: PinRow) -> bool:
    """Return whether an item is not shown; its approved definition may be served while the current one waits."""
    return row.held and SERVED not in row.classes


def is_changed(row: PinRow) -> bool:
    """Tell whether an item differs from its pin, or is gone."""
    return row.seen_digest is not None or _REMOVED in row.classes


def _difference(kind: str, before: str | None, after: str | None) -> tuple[DefinitionDiff | None, str]:
    """Return the difference of two definitions, or why there is none. It may take long: call it in a thread."""
    if before is None or after is None:
        return None, ""
    if max(len(before), len(after)) > LARGEST:
        return None, f"One of them has more than {LARGEST // 1024} KiB: they are not compared."
    if kind == "instructions":
        before, after = (json.dumps({"description": json.loads(text)}) for text in (before, after))
    try:
        return definition_diff(before, after), ""
    except ValueError as error:
        return None, f"They cannot be compared: {error_text(error)}."


def _shown(text: str | None) -> str:
    """Return a definition on several lines, bounded."""
    if text is None:
        return ""
    value = json.loads(text)
    return bounded(value, _DEFINITION) if isinstance(value, str) else pretty(value, _DEFINITION)


def _parts_of(parts: Sequence[Any]) -> list[dict[str, Any]]:
    return cast(list[dict[str, Any]], [{"kind": one.kind, "texts": [*one.texts], "count": one.count} for one in parts])
