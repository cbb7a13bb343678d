"""The result of a check, and of a whole examination."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from aggregator.doctor.codes import CODES

Severity = Literal["ok", "note", "warning", "error"]
# Commands of ours that take `--config`, with words after their name.
_COMMAND: Final = re.compile(
    r"(`aggregator (?:remove|connect|enable|disable|install|init|serve|status|check"
    r"|(?:keys|policy|pins|reports) \w+)[^`]*)`"
)
# Characters shown of a program's output.
SHOWN: Final = 300
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "note", "ok")


Attempt = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """One result: `code` for programs, one sentence for users, and the command or edit that fixes it.

    `where` is its file, or file and line; `safe` tells whether `doctor --fix` can fix it.
    """

    code: str
    severity: Severity
    message: str
    fix: str | None = None
    where: str | None = None
    safe: bool = False


def with_option(finding: CheckFinding, option: str) -> CheckFinding:
    """Return a finding whose commands of ours have one more option, unless they have it."""
    if finding.fix is None or not option:
        return finding
    word = option.split()[0]
    fix = _COMMAND.sub(lambda command: command[0] if word in command[0] else f"{command[1]} {option}`", finding.fix)
    return replace(finding, fix=fix)


def found(
    code: str,
    message: str,
    fix: str | None = None,
    where: object = None,
    *,
    safe: bool = False,
    severity: Severity | None = None,
) -> CheckFinding:
    """Return a finding with the severity of its code, unless `severity` has another."""
    place = str(where) if where is not None else None
    return CheckFinding(code, severity or CODES[code].severity, message, fix, place, safe)


def brief(text: str, limit: int = SHOWN) -> str:
    """Return a text of a program in one line that is safe for a terminal, and cut."""
    plain = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return plain if len(plain) <= limit else f"{plain[: limit - 1]}…"


@dataclass(frozen=True, slots=True)
class DoctorReport:
    """All findings, the worst first; `config` is the file that was examined, `seen` what each model would see."""

    config: str | None
    agent: str
    findings: tuple[CheckFinding, ...]
    seen: tuple[Attempt, ...] = ()
    seconds: float = 0.0

    def count(self, severity: str) -> int:
        """Return the number of findings of a severity."""
        return sum(finding.severity == severity for finding in self.findings)

    @property
    def exit_code(self) -> int:
        """0 if nothing needs a user, else 1."""
        return 1 if self.count("error") or self.count("warning") else 0

    def data(self) -> dict[str, Any]:
        """Return the report as plain JSON values."""
        return {
            "config": self.config,
            "agent": self.agent,
            "summary": {severity: self.count(severity) for severity in SEVERITIES},
            "seen": [dict(one) for one in self.seen],
            "findings": [
                {
                    "code": one.code,
                    "severity": one.severity,
                    "message": one.message,
                    "fix": one.fix,
                    "where": one.where,
                    "safe": one.safe,
                }
                for one in self.findings
            ],
            "seconds": round(self.seconds, 2),
        }


def in_order(findings: Sequence[CheckFinding]) -> tuple[CheckFinding, ...]:
    """Return findings without repetitions, the worst first, else in the order they were found."""
    unique = list(dict.fromkeys(findings))
    return tuple(sorted(unique, key=lambda one: SEVERITIES.index(one.severity)))
