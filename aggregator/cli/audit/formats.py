"""Formats of audit rows, for users and for programs: aligned columns, a list of fields, JSON Lines, CSV."""

import csv
import io
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from aggregator.cli.runtime.tables import one_line
from aggregator.domain.call_record import ON_RECORD
from aggregator.storage.audit.chain import CALL
from aggregator.storage.audit.read import CALL_COLUMNS, LogRow

TITLES: Final = ("TIME", "STATUS", "MS", "AGENT", "TOOL", "TRACE", "WHAT")
COLUMNS: Final = ("seq", "kind", *CALL_COLUMNS, "summary", "details", "previous", "digest", "chain")
_TIMES: Final = frozenset({"started", "ended", "at"})
# Columns that hold JSON text; a text that does not parse was truncated when it was written.
_JSON: Final = frozenset({"arguments", "result", "details"})
# The longest name in a table, in characters: a host may send any length. `audit show` prints all of it.
_NAME: Final = 64
# First characters that a spreadsheet takes for the beginning of a formula.
_FORMULA: Final = ("=", "+", "-", "@", "＝", "＋", "－", "＠")


def iso(at: Any, precision: str = "microseconds") -> str:
    """Return seconds since 1970 in ISO 8601, UTC; an invalid value, as in a forged row, unchanged."""
    try:
        return datetime.fromtimestamp(at, UTC).isoformat(timespec=precision).replace("+00:00", "Z")
    except (TypeError, ValueError, OverflowError, OSError):
        return str(at)


def shown(value: Any) -> str:
    """Return a value as one line without terminal escapes; None and an empty text as `-`."""
    return (one_line(str(value)) if value is not None else "") or "-"


def _name(value: Any) -> str:
    text = shown(value)
    return text if len(text) <= _NAME else f"{text[: _NAME - 1]}…"


class Aligned:
    """A table that is printed in pieces; a column never gets narrower, so that later rows stay aligned."""

    def __init__(self) -> None:
        self._widths = [len(title) for title in TITLES]
        self._begun = False

    def lines(self, rows: Sequence[LogRow]) -> list[str]:
        """Return the lines of some rows, the first time below the titles."""
        table = [_cells(row) for row in rows]
        if not self._begun:
            table.insert(0, TITLES)
        self._begun = True
        self._widths = [max(map(len, column)) for column in zip(self._kept(), *table, strict=True)]
        return ["  ".join(map(str.ljust, line, self._widths)).rstrip() for line in table]

    def _kept(self) -> list[str]:
        return [" " * width for width in self._widths]


def _cells(row: LogRow) -> tuple[str, ...]:
    values = row.values
    when = iso(row.at, "milliseconds")
    if row.kind != CALL:
        what = (
            when,
            row.kind,
            "",
            _name(values.get("agent_id")),
            _name(values.get("server_id")),
            f"#{row.seq}",
            values.get("summary"),
        )
        return tuple(map(shown, what))
    duration = values.get("duration")
    ms = f"{1000 * duration:.1f}" if isinstance(duration, float) else ""
    told = [values.get("error_code"), values.get("rule")]
    if "sent_name" in values:
        told.append(f"sent as {values['sent_name']}")
    if "answered_by" in values:
        told.append(f"answered by {values['answered_by']}")
    if "approved_by" in values:
        told.append(f"approved by {values['approved_by']}")
    asked, tool = values.get("asked_name"), values.get("tool_name")
    agent, tool = _name(values.get("agent_id")), _name(f"{tool} {asked}" if tool in ON_RECORD else tool or asked)
    trace = str(values.get("trace_id"))[:16]
    said = ", ".join(str(one) for one in told if one)
    return tuple(map(shown, (when, values.get("status"), ms, agent, tool, trace, said)))


def fields(row: LogRow) -> list[tuple[str, str]]:
    """Return the names and texts of all fields of a row."""
    return [(name, shown(value if isinstance(value, str) else _json(value))) for name, value in flat(row).items()]


def flat(row: LogRow) -> dict[str, Any]:
    """Return a row as one JSON object: times in ISO 8601, captured values as JSON, empty columns left out."""
    shown: dict[str, Any] = {"seq": row.seq, "kind": row.kind}
    for name, value in row.values.items():
        shown[name] = iso(value) if name in _TIMES else _captured(value) if name in _JSON else value
    # Most logs have one chain, which needs no name.
    chain = {"chain": row.chain} if row.chain else {}
    return {**shown, **chain, "previous": row.previous, "digest": row.digest}


def json_line(row: LogRow) -> str:
    """Return a row as one line of JSON."""
    return _json(flat(row))


def csv_lines(rows: Sequence[LogRow]) -> str:
    """Return rows as CSV in the order of `COLUMNS`, safe to open in a spreadsheet.

    The time of an event stands in the column `started`.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for row in rows:
        place = {"seq": row.seq, "previous": row.previous, "digest": row.digest, "chain": row.chain or None}
        values = {**row.values, "kind": row.kind, **place}
        values["started"] = iso(row.at)
        if "ended" in values:
            values["ended"] = iso(values["ended"])
        writer.writerow([_cell(values.get(name)) for name in COLUMNS])
    return text.getvalue()


def _cell(value: Any) -> Any:
    if not isinstance(value, str):
        return value if value is None or isinstance(value, int | float) else str(value)
    text = value if value.isprintable() else "".join(c if c.isprintable() else _escaped(c) for c in value)
    return f"'{text}" if text.lstrip().startswith(_FORMULA) else text


def _captured(text: Any) -> Any:
    try:
        return json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return text


def _json(value: Any) -> str:
    """Return a value as one line of printable JSON."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if text.isprintable() else "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()
