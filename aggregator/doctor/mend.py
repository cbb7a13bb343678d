"""Fixes that are safe without asking: too wide permissions.

Law: no file becomes more open, and no content changes.
"""

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aggregator.doctor.finding import CheckFinding

# The bits that stay, by code.
_KEPT: Final = {"config_open": 0o700, "database_open": 0o700, "vault_key_open": 0o600, "policy_open": 0o755}


@dataclass(frozen=True, slots=True)
class AppliedFix:
    """An applied fix, as one sentence; `done` is False if the system refused it."""

    code: str
    message: str
    done: bool


def mend(findings: Iterable[CheckFinding]) -> Iterator[AppliedFix]:
    """Apply the safe fixes of the findings, and yield each."""
    for finding in findings:
        if not finding.safe or finding.where is None:
            continue
        if finding.code in _KEPT:
            yield _narrowed(finding.code, Path(finding.where), _KEPT[finding.code])


def _narrowed(code: str, path: Path, kept: int) -> AppliedFix:
    try:
        before = stat.S_IMODE(path.stat().st_mode)
        os.chmod(path, before & kept)
    except OSError as error:
        return AppliedFix(code, f"{path}: its mode cannot be changed: {error.strerror}.", done=False)
    return AppliedFix(code, f"{path}: its mode is {before & kept:o} now; it was {before:o}.", done=True)
