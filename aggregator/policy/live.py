"""The rulebook in force: read, checked and swapped whole.

Rule 1: files with an error change nothing. Rule 2: rules that were in force never give way to none at all, so files
that vanish leave the last rules standing. Rule 3: files that cannot be read at the start allow no agent anything.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from aggregator.domain.problems import Problem
from aggregator.domain.records import ToolRecord
from aggregator.policy.diff import PolicyDiff, Trusted, diff
from aggregator.policy.files.folder import CheckedPolicies, CheckSchema, read_folder
from aggregator.policy.rulebook import Rulebook
from aggregator.policy.rules import Documents

_CLOSED = Rulebook(Documents(MappingProxyType({}), MappingProxyType({}), None, MappingProxyType({}), "closed"))


@dataclass(frozen=True, slots=True)
class Reloaded:
    """The result of reading the files again. `changed`: other rules are in force now."""

    changed: bool
    problems: tuple[Problem, ...]
    diff: PolicyDiff


class LivePolicies:
    """The holder of the current rulebook, with the `problems` of the files as they are now.

    `rulebook` is None as long as there has been no policy file: then all is open.
    """

    def __init__(self, folder: Path, check_schema: CheckSchema | None = None) -> None:
        """Read the folder. `check_schema` finds mistakes in a JSON Schema."""
        self.folder = folder
        self._check_schema = check_schema
        self.rulebook: Rulebook | None = None
        checked = self._read()
        self.problems: tuple[Problem, ...] = checked.problems
        if checked.documents is not None:
            self.rulebook = Rulebook(checked.documents)
        elif checked.found:
            self.rulebook = _CLOSED

    def __repr__(self) -> str:
        return f"<Live {self.folder}: {self.rulebook or 'open'}, {len(self.problems)} problems>"

    @property
    def broken(self) -> bool:
        """True if the files as they are now have an error, so that the rules in force are older."""
        return any(problem.severity == "error" for problem in self.problems)

    def reload(self, tools: Iterable[ToolRecord] = (), trusted: Trusted = None) -> Reloaded:
        """Read the files again. `tools` and whether each server (by id) is `trusted` are for the diff."""
        checked = self._read()
        problems = checked.problems
        if checked.documents is None and not checked.found and self.rulebook is not None:
            problems = (_vanished(self.folder), *problems)
        self.problems = problems
        old = self.rulebook
        if checked.documents is None or (old is not None and old.revision == checked.documents.revision):
            return Reloaded(False, problems, PolicyDiff())
        new = Rulebook(checked.documents)
        difference = diff(old, new, tools, trusted)
        self.rulebook = new
        return Reloaded(True, problems, difference)

    def _read(self) -> CheckedPolicies:
        sources, problems = read_folder(self.folder)
        if not sources:
            return CheckedPolicies(None, tuple(problems), bool(problems))
        # PyYAML and the models are slow to import, and most folders have no file.
        from aggregator.policy.files.checking import check

        return check(sources, problems, self._check_schema)


def _vanished(folder: Path) -> Problem:
    return Problem(
        str(folder),
        "",
        "There is no policy file any more; the last rules stay in force.",
        "Put the files back. To run without policies, restart without them.",
        "error",
    )
