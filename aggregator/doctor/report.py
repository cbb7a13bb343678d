"""The result of an examination."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aggregator.doctor.finding import SEVERITIES, CheckFinding

Attempt = Mapping[str, Any]


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
