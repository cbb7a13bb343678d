"""A plan of an import in words and as JSON.

Law: everything printed goes through a redactor that knows the secrets of all entries that were found.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from rich.cells import cell_len, set_cell_size

from aggregator.cli.hosts.import_plan import ImportPlan, ImportRow
from aggregator.cli.runtime.tables import one_line
from aggregator.config.servers.secret_places import secret_places
from aggregator.config.servers.secrets import secrets_in
from aggregator.hosts.discover import FoundFile
from aggregator.redaction.redactor import Redactor

_WIDEST: Final = 60
_SCOPES: Final = {"project": "this folder", "local": "a project", "profile": "a profile", "managed": "set by an admin"}


def redactor_of(plan: ImportPlan) -> Redactor:
    """Return a redactor that hides every secret of the entries that were found, used or not."""
    hidden: set[str] = set()
    for row in plan.rows:
        for fields in (row.found.fields, row.entry):
            if fields is not None:
                hidden.update(secrets_in(fields))
                hidden.update(place.secret for place in secret_places(fields))
        hidden.update(_deep_texts(row.found.entry.get("env")), _deep_texts(row.found.entry.get("headers")))
    return Redactor(hidden)


def plan_lines(plan: ImportPlan, home: Path) -> Iterator[str]:
    """Yield the table: one heading for each file, one line for each entry, its notes under it."""
    shown = [(found, rows) for found, rows in plan.files if rows or found.problem]
    cells = [(_cut(row.found.name), _cut(row.what)) for _, rows in shown for row in rows]
    widths = [max((cell_len(cell[at]) for cell in cells), default=0) for at in (0, 1)]
    for found, rows in shown:
        yield heading(found, home)
        if found.problem:
            yield f"  cannot be read: {one_line(found.problem.removeprefix(f'{found.file.path}, '))}"
        for row in rows:
            name, what = _cut(row.found.name), _cut(row.what)
            yield f"  {set_cell_size(name, widths[0])}  {set_cell_size(what, widths[1])}  {outcome_words(row)}".rstrip()
            yield from (f"      {one_line(note)}" for note in row.notes)
            if row.places:
                yield f"      Secrets in the clear: {', '.join(_cut(place.label) for place in row.places)}."
        yield ""


def heading(found: FoundFile, home: Path) -> str:
    """Return the host, the file and the scope of its servers in one line."""
    path = one_line(_short_path(found.file.path, home))
    scope = _SCOPES.get(found.file.scope)
    if found.file.scope == "local":
        scope = one_line(f"for {found.file.servers[1]}")
    return f"{found.host.title}: {path}{f' ({scope})' if scope else ''}"


def outcome_words(row: ImportRow) -> str:
    """Return what becomes of an entry, in a few words."""
    match row.outcome:
        case "add":
            named = "add" if row.key == row.found.name else f"add as `{row.key}`"
            return f"{named}, switched off" if row.entry is not None and row.entry.get("enabled") is False else named
        case "present":
            same = row.like == f"`{row.found.name}`"
            return "is there already" if same else f"is there already as {one_line(row.like or '')}"
        case "repeated":
            return f"the same as {one_line(row.like or '')}"
        case "own":
            return "the aggregator itself: left out"
        case "of_folder":
            return "of this folder: read what it starts, then add --this-folder"
        case "not_chosen":
            return "not chosen"
        case "unusable":
            return f"cannot be used: {one_line(row.like or '')}"


def plan_json(plan: ImportPlan) -> list[dict[str, Any]]:
    """Return the plan for programs: without any value of an entry."""
    return [
        {
            "host": found.host.id,
            "file": str(found.file.path),
            "scope": found.file.scope,
            **({"project": found.file.servers[1]} if found.file.scope == "local" else {}),
            "problem": found.problem,
            "servers": [_row_json(row) for row in rows],
        }
        for found, rows in plan.files
    ]


def _row_json(row: ImportRow) -> dict[str, Any]:
    return {
        "name": row.found.name,
        "what": row.what,
        "outcome": row.outcome,
        "key": row.key,
        "like": None if row.outcome == "unusable" else row.like,
        "problem": row.like if row.outcome == "unusable" else None,
        "enabled": (row.found.fields or {}).get("enabled", True),
        "notes": list(row.notes),
        "secrets": [place.label for place in row.places],
    }


def _deep_texts(value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        for item in value.values():
            if isinstance(item, str) and len(item) > 8 and "${" not in item and not item.startswith(("/", "http")):
                yield item


def _short_path(path: Path, home: Path) -> str:
    try:
        return os.path.join("~", path.relative_to(home))
    except ValueError:
        return str(path)


def _cut(text: str) -> str:
    text = one_line(text) or "(no name)"
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 3]}..."
