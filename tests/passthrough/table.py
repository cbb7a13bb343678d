"""The table of what passes through, `features.toml`, and the page of the documentation that shows it.

`python -m tests.passthrough.table` writes the table into docs/passing-through.md.
"""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby, product
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.end_to_end.server_harness import FRONTENDS, ROOT

PAGE: Final = ROOT / "docs" / "passing-through.md"
HANDSHAKE: Final = "handshake"
MODERN: Final = "2026-07-28"

_TABLE: Final = Path(__file__).with_name("features.toml")
_BEGIN: Final = "<!-- from tests/passthrough/features.toml -->\n"
_END: Final = "<!-- end -->\n"
_AXES: Final[Mapping[str, tuple[str, ...]]] = {
    "host": (HANDSHAKE, MODERN),
    "server": (HANDSHAKE, MODERN),
    "frontend": FRONTENDS,
    "transport": ("stdio", "sse", "http", "local"),
}


class Cell(NamedTuple):
    """One combination: era of the host, era of the server, frontend that the host uses, transport to the server."""

    host: str
    server: str
    frontend: str
    transport: str


@dataclass(frozen=True)
class Reason:
    """A reason why a feature cannot pass; it holds where every named axis has one of its values."""

    where: Mapping[str, tuple[str, ...]]
    because: str

    def holds(self, cell: Cell) -> bool:
        return all(getattr(cell, axis) in values for axis, values in self.where.items())

    def __str__(self) -> str:
        said = ", ".join(f"{axis} {' or '.join(values)}" for axis, values in self.where.items())
        return f"{said or 'everywhere'}: {self.because}"


@dataclass(frozen=True)
class Feature:
    """One thing of the protocol; `proved_by` is the node id of a test, without parameters."""

    name: str
    area: str
    says: str
    cannot: tuple[Reason, ...] = ()
    proved_by: str | None = None

    def reasons(self, cell: Cell) -> list[Reason]:
        """Return the reasons why the feature cannot pass in this cell; none if it can."""
        return [reason for reason in self.cannot if reason.holds(cell)]


@dataclass(frozen=True)
class Table:
    """All features, and the combinations that do not exist."""

    features: tuple[Feature, ...]
    never: tuple[Reason, ...]

    def cells(self) -> Iterator[Cell]:
        every = (Cell(*values) for values in product(*_AXES.values()))
        return (cell for cell in every if not any(reason.holds(cell) for reason in self.never))


def read() -> Table:
    """The table.

    Raises:
        ValueError, TypeError: it has a field or a value that means nothing.
    """
    raw = tomllib.loads(_TABLE.read_text(encoding="utf-8"))
    features = (
        Feature(**{**entry, "cannot": tuple(map(_reason, entry.get("cannot", ())))}) for entry in raw.pop("feature")
    )
    never = tuple(map(_reason, raw.pop("never")))
    if raw:
        raise ValueError(f"{sorted(raw)} mean nothing")
    return Table(tuple(features), never)


def _reason(entry: dict[str, Any]) -> Reason:
    because = str(entry.pop("because"))
    where = {axis: tuple(given) if isinstance(given, list) else (given,) for axis, given in entry.items()}
    for axis, values in where.items():
        if unknown := set(values) - set(_AXES.get(axis, ())):
            raise ValueError(f"{axis}: {sorted(unknown)} mean nothing")
    return Reason(where, because)


def shown(table: Table) -> str:
    """The table as Markdown: what passes in how many combinations, and why not in the others."""
    cells = list(table.cells())
    parts = []
    for area, features in groupby(table.features, lambda feature: feature.area):
        rows = []
        for feature in features:
            passing = sum(not feature.reasons(cell) for cell in cells)
            share = "all" if passing == len(cells) else "none" if not passing else f"{passing} of {len(cells)}"
            why = " ".join(f"*{reason}*" for reason in feature.cannot)
            rows.append(f"| {feature.says} | {share} | {why} |")
        parts += [f"### {area}", "", "| what | passes | where not, and why |", "| --- | --- | --- |", *rows, ""]
    combinations = " ".join(f"{reason.because}" for reason in table.never)
    head = (
        f"{len(cells)} combinations: {' x '.join(f'{len(values)} {axis}s' for axis, values in _AXES.items())}, less "
        f"those that do not exist. {combinations}"
    )
    return "\n".join([head, "", *parts])


def with_table(page: str, table: Table) -> str:
    """The page with this table in its place."""
    before, rest = page.split(_BEGIN)
    return f"{before}{_BEGIN}\n{shown(table)}\n{_END}{rest.split(_END)[1]}"


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), read()), encoding="utf-8")
