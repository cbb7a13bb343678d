"""The result of a check."""

from dataclasses import dataclass
from typing import Literal

from aggregator.doctor.codes import CODES

Severity = Literal["ok", "note", "warning", "error"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note", "ok")


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """One thing that was found: `code` for programs, one sentence for people, and the command or edit that mends it.

    `where` is the file, or file and line, that it is about; `safe` says that `doctor --fix` can mend it.
    """

    code: str
    severity: Severity
    message: str
    fix: str | None = None
    where: str | None = None
    safe: bool = False


def found(
    code: str,
    message: str,
    fix: str | None = None,
    where: object = None,
    *,
    safe: bool = False,
    severity: Severity | None = None,
) -> CheckFinding:
    """Return a finding with the severity that its code has, unless another is given."""
    place = str(where) if where is not None else None
    return CheckFinding(code, severity or CODES[code].severity, message, fix, place, safe)
