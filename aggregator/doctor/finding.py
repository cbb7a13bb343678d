"""The result of a check."""

from dataclasses import dataclass
from typing import Literal

Severity = Literal["ok", "note", "warning", "error"]


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
