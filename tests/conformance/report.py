"""The report of a run as Markdown: counts, a table of the scenarios that fail somewhere, each reason once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tests.conformance.verdicts import Accepted, Check, Checks, passes, shortfalls

_MESSAGE_LIMIT: Final = 240


@dataclass(frozen=True, slots=True)
class Cell:
    """One scenario in one combination."""

    passed: bool
    short: Sequence[Check] = ()
    accepted: bool = False

    @property
    def counts_against_us(self) -> bool:
        return bool(self.short) and not self.accepted

    def __str__(self) -> str:
        if not self.short:
            return "ok"
        said = "less" if self.passed else "**fails**"
        return f"({said})" if self.accepted else said


Results = Mapping[str, Mapping[str, Checks]]  # target -> scenario -> checks


@dataclass
class Report:
    """The cells of a run; `used` are the exceptions that were needed, and where."""

    accepted: Sequence[Accepted]
    cells: dict[tuple[str, str, str], Cell] = field(default_factory=dict)  # (revision, target, scenario)
    used: set[tuple[Accepted, str, str]] = field(default_factory=set)  # (which, revision, target)

    def add(self, revision: str, direct: Mapping[str, Checks], through: Results) -> None:
        """Add the results of a revision's scenarios, each target compared with the direct run."""
        for scenario, checks in direct.items():
            self.cells[revision, "direct", scenario] = Cell(passes(checks), _failed(checks))
            for target, results in through.items():
                found = results.get(scenario, {})
                self.put(revision, target, scenario, passes(found), shortfalls(checks, found))

    def put(self, revision: str, target: str, scenario: str, passed: bool, short: Sequence[Check]) -> None:
        """One cell, with the exception that covers every shortfall of it."""
        reasons = [
            next((known for known in self.accepted if known.covers(scenario, revision, target, check.id)), None)
            for check in short
        ]
        covered = [reason for reason in reasons if reason is not None]
        self.used.update((reason, revision, target) for reason in covered)
        self.cells[revision, target, scenario] = Cell(passed, short, len(covered) == len(short) and bool(short))

    def against_us(self) -> list[tuple[str, str, str]]:
        return [key for key, cell in self.cells.items() if cell.counts_against_us]

    def needless(self) -> list[tuple[Accepted, str, str]]:
        """Exceptions for what passes, with the revision and the target where it does."""
        return [
            (known, revision, target)
            for (revision, target, scenario) in self.cells
            for known in self.accepted
            if target != "direct" and known.concerns(scenario, revision, target)
            if (known, revision, target) not in self.used
        ]

    def __str__(self) -> str:
        targets = list(dict.fromkeys(target for _, target, _ in self.cells))
        revisions = list(dict.fromkeys(revision for revision, _, _ in self.cells))
        parts = [self._counts(revisions, targets)]
        for revision in revisions:
            parts += self._revision(revision, targets)
        return "\n".join(parts)

    def _counts(self, revisions: Sequence[str], targets: Sequence[str]) -> str:
        rows = []
        for target in targets:
            of_target = [(r, cell) for (r, t, _), cell in self.cells.items() if t == target]
            cells = [[cell for r, cell in of_target if r == revision] for revision in revisions]
            rows.append([target, *(f"{sum(c.passed for c in of)} of {len(of)}{_less(of)}" for of in cells)])
        return _table("Scenarios passed, by the suite's measure", ["", *revisions], rows)

    def _revision(self, revision: str, targets: Sequence[str]) -> list[str]:
        of = {(t, s): cell for (r, t, s), cell in self.cells.items() if r == revision}
        scenarios = list(dict.fromkeys(s for (_, s), cell in of.items() if cell.short))
        if not scenarios:
            return []
        here = [target for target in targets if any(t == target for t, _ in of)]
        rows = [[s, *(str(of[t, s]) if (t, s) in of else "" for t in here)] for s in scenarios]
        reasons: dict[str, list[str]] = {}
        for (target, scenario), cell in of.items():
            for check in cell.short:
                line = f"{scenario}: `{check.id}` {check.status}: {_shortened(check.message)}"
                reasons.setdefault(line, []).append(target)
        said = [f"- {line} ({', '.join(dict.fromkeys(where))})" for line, where in reasons.items()]
        return [_table(f"{revision}: what does not pass everywhere", ["scenario", *here], rows), *said, ""]


def _failed(checks: Checks) -> list[Check]:
    return [check for check in checks.values() if check.status == "FAILURE"]


def _less(cells: Sequence[Cell]) -> str:
    """Return how many scenarios pass with fewer successful checks than directly."""
    count = sum(cell.passed and bool(cell.short) for cell in cells)
    return f", {count} with less" if count else ""


def _shortened(message: str) -> str:
    line = " ".join(message.split()).replace("|", "\\|")
    return line if len(line) <= _MESSAGE_LIMIT else line[: _MESSAGE_LIMIT - 1] + "…"


def _table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join([f"## {title}", "", *(f"| {' | '.join(line)} |" for line in lines), ""])
