"""`aggregator pins diff`: what changed since it was approved, word by word."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from aggregator.catalog.definition_diff import DiffPart, compared, definition_diff
from aggregator.cli.runtime.event_loop import run_loop
from aggregator.cli.runtime.tables import minute
from aggregator.cli.runtime.writer import say
from aggregator.domain.text.invisible import escaped
from aggregator.pins.cli.open_items import OpenItem, looked_for, open_items
from aggregator.pins.cli.pin_files import PinFiles, label, pin_files, state_of, upgrades
from aggregator.pins.decide.values import PinnedItem

_SIGNS: Final = {"same": "  ", "removed": "- ", "added": "+ "}
_MARKS: Final = {"same": "{}", "removed": "[-{}-]", "added": "{{+{}+}}"}


def diff(path: Path | None, server: str | None = None, item: str | None = None) -> int:
    """Print the difference of each item that a server has otherwise than it was approved; return 0.

    If nothing of a named server differs, the server is asked.

    Raises:
        OperatorError: the configuration, the lock file or the database cannot be used, or nothing is called so.
    """
    files = pin_files(path)
    found = run_loop(open_items(files, server, [item] if item is not None else []))
    print_open(files, found or looked_for(files, server))
    return 0


def print_open(files: PinFiles, found: Sequence[OpenItem]) -> None:
    """Print the difference of each of these items, under one sentence about each server."""
    said = upgrades((one.row for one in found), run_loop(files.versions())) if len(found) > 1 else {}
    for number, one in enumerate(found):
        if number:
            say()
        if (summary := said.pop(one.row.server, None)) is not None:
            say(f"{summary}\n")
        _print(one)


def _print(item: OpenItem) -> None:
    row, change = item.row, item.change
    say(f"{label(row.server, row.kind, row.name)}: {change.sentence}")
    approved = (
        f"approved {minute(row.approved)} by {escaped(row.approved_by or '-')}" if row.approved else "not approved"
    )
    say(f"  {', '.join(sorted(change.classes))}; {state_of(row)}; {approved}; seen {minute(row.seen)}")
    for line in _lines(change.before, change.after):
        say(f"  {escaped(line)}")
    say(f"  digest {change.after.digest}")


def _lines(before: PinnedItem | None, after: PinnedItem) -> Iterable[str]:
    if before is None:
        yield from (f"+ {line}" for line in _pretty(after.definition))
        return
    try:
        found = definition_diff(before.definition, after.definition)
    except ValueError:
        yield from _plain(before.definition, after.definition)
        return
    if found.description:
        yield f"description: {_words(found.description)}"
    for part in found.lines:
        if part.kind == "left out":
            yield f"  ... {part.count} lines"
        else:
            yield from (f"{_SIGNS[part.kind]}{text}" for text in part.texts)


def _plain(before: str, after: str) -> Iterable[str]:
    """Yield the difference of two texts that are no objects, such as instructions, or that are too large."""
    old, new = json.loads(before), json.loads(after)
    if isinstance(old, str) and isinstance(new, str):
        parts = (DiffPart(kind, tuple(texts), len(texts)) for kind, texts in compared(_split(old), _split(new)))
        yield f"text: {_words(tuple(parts))}"
    else:
        yield f"- {before[:400]}"
        yield f"+ {after[:400]}"


def _split(text: str) -> list[str]:
    words = text.split(" ")
    return [f"{word} " for word in words[:-1]] + words[-1:]


def _words(parts: Sequence[DiffPart]) -> str:
    return "".join(
        f"... {part.count} words ... " if part.kind == "left out" else _MARKS[part.kind].format("".join(part.texts))
        for part in parts
    )


def _pretty(text: str) -> list[str]:
    return json.dumps(json.loads(text), indent=2, ensure_ascii=False).split("\n")
