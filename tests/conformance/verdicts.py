"""The verdict on the checks of a run, and the shortfalls of a run through the aggregator.

A check is as bad as its worst occurrence. What passed directly must pass through: a warning, or a check that did not
come to be made, is less than that too. What the suite only remarks on (INFO) is not.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

# Worst first.
_STATUSES: Final = ("FAILURE", "WARNING", "SKIPPED", "INFO", "SUCCESS")
_STAMPED: Final = re.compile(r"(?:server-)?(?P<scenario>.+)-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-\d{3}Z")
_KEYS: Final = frozenset({"scenario", "revisions", "upstreams", "checks", "reason"})


@dataclass(frozen=True, slots=True)
class Check:
    """One requirement as it was met."""

    id: str
    status: str
    message: str = ""


Checks = Mapping[str, Check]


def worst(written: Iterable[Mapping[str, Any]]) -> Checks:
    """The checks of one scenario by id, out of its `checks.json`."""
    found: dict[str, Check] = {}
    for entry in written:
        check = Check(entry["id"], entry["status"], str(entry.get("errorMessage") or ""))
        before = found.get(check.id)
        if before is None or _STATUSES.index(check.status) < _STATUSES.index(before.status):
            found[check.id] = check
    return found


def scenario_of(folder: str) -> str | None:
    """The scenario whose results a folder of this name holds."""
    matched = _STAMPED.fullmatch(folder)
    return matched["scenario"] if matched else None


def passes(checks: Checks) -> bool:
    """Return whether a scenario passes by the suite's own measure."""
    return bool(checks) and all(check.status != "FAILURE" for check in checks.values())


def shortfalls(direct: Checks, through: Checks) -> list[Check]:
    """The checks of `through` that are less than they were directly: failures, or where there are none the rest."""
    failed = [check for check in through.values() if check.status == "FAILURE"]
    if failed:
        return failed
    if not through:
        return [Check("scenario", "FAILURE", "It was not run.")]
    succeeded = [check for check in direct.values() if check.status == "SUCCESS"]
    less = [through.get(check.id, Check(check.id, "SKIPPED", "Not made.")) for check in succeeded]
    return [check for check in less if check.status not in ("SUCCESS", "INFO")]


@dataclass(frozen=True, slots=True)
class Accepted:
    """A known failure and its reason; an empty `revisions`, `upstreams` or `checks` means all of them."""

    scenario: str
    reason: str
    revisions: Sequence[str] = ()
    upstreams: Sequence[str] = ()
    checks: Sequence[str] = ()

    def concerns(self, scenario: str, revision: str, upstream: str) -> bool:
        """Return whether the exception speaks of this scenario, revision and upstream."""
        asked = ((self.revisions, revision), (self.upstreams, upstream))
        return scenario == self.scenario and all(not among or which in among for among, which in asked)

    def covers(self, scenario: str, revision: str, upstream: str, check: str) -> bool:
        """Return whether the exception explains this check."""
        return self.concerns(scenario, revision, upstream) and (not self.checks or check in self.checks)


def read_accepted(path: Path) -> list[Accepted]:
    """The list of exceptions.

    Raises:
        ValueError: an entry has a field that means nothing, or gives no reason.
    """
    accepted = []
    for entry in tomllib.loads(path.read_text()).get("exception", []):
        if unknown := entry.keys() - _KEYS:
            raise ValueError(f"{path}: {sorted(unknown)} mean nothing; the fields are {sorted(_KEYS)}")
        if not entry.get("scenario") or not entry.get("reason"):
            raise ValueError(f"{path}: every exception needs a `scenario` and a `reason`: {entry}")
        several = {key: tuple(value) for key, value in entry.items() if isinstance(value, list)}
        accepted.append(Accepted(**{**entry, **several}))
    return accepted
