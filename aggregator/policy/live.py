"""The rulebook in force: read, checked and swapped whole.

Rule 1: files with an error change nothing. Rule 2: rules that were in force never give way to none at all, so files
that vanish leave the last rules standing. Rule 3: files that cannot be read at the start allow no agent anything.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from aggregator.domain.bounds.slices import at_once
from aggregator.domain.problems import Problem
from aggregator.domain.records import ToolRecord
from aggregator.policy.annotations import Trusted
from aggregator.policy.compare.diff import PolicyDiff, diff_steps
from aggregator.policy.compare.edits import PolicyEdit, TriedEdit, edited
from aggregator.policy.compare.tool_sets import KeptToolSets
from aggregator.policy.files.folder import CheckedPolicies, CheckSchema, PolicySource, read_folder
from aggregator.policy.files.idle_agents import idle_agents
from aggregator.policy.rulebook import Rulebook
from aggregator.policy.rules import Documents

# What errors in the policy files mean for agents: with no rules in force before, and with some.
CLOSED_EFFECT: Final = "The policy files have errors, and no rules were in force before: no agent may do anything."
BROKEN_EFFECT: Final = "The policy files have errors, so the rules that were in force stay."

_CLOSED: Final = Rulebook(Documents(MappingProxyType({}), MappingProxyType({}), None, MappingProxyType({}), "closed"))


@dataclass(frozen=True, slots=True)
class Reloaded:
    """The result of reading the files again. `changed`: other rules are in force now."""

    changed: bool
    problems: tuple[Problem, ...]
    diff: PolicyDiff


class LivePolicies:
    """The holder of the current rulebook, with the `problems` of the current files.

    `rulebook` is None until the first policy file exists: then all is open. `sources` are the current files, `in_force`
    the files that the rulebook was made from; they differ only if the current files have errors. `warnings` name the
    agents that the rules in force allow nothing.
    """

    def __init__(self, folder: Path, check_schema: CheckSchema | None = None, *, named: bool = False) -> None:
        """Read the folder. `check_schema` finds mistakes in a JSON Schema; `named`: an operator chose the folder."""
        self.folder = folder
        self._named = named
        self._check_schema = check_schema
        self.rulebook: Rulebook | None = None
        self.tool_sets: Final = KeptToolSets()
        self.sources: tuple[PolicySource, ...] = ()
        self.in_force: tuple[PolicySource, ...] = ()
        checked = self._read()
        self.problems: tuple[Problem, ...] = checked.problems
        self.warnings: tuple[Problem, ...] = ()
        if checked.documents is not None:
            self.rulebook = Rulebook(checked.documents)
            self.warnings = tuple(idle_agents(self.rulebook))
            self.in_force = self.sources
        elif checked.found:
            self.rulebook = _CLOSED

    def __repr__(self) -> str:
        return f"<Live {self.folder}: {self.rulebook or 'open'}, {len(self.problems)} problems>"

    @property
    def broken(self) -> bool:
        """True if the current files have an error, so that the rules in force are older."""
        return any(problem.severity == "error" for problem in self.problems)

    @property
    def closed(self) -> bool:
        """True if no file could be used since the start, so that no agent may do anything."""
        return self.rulebook is _CLOSED

    @property
    def effect(self) -> str:
        """A sentence: what errors in the current files mean for agents."""
        return CLOSED_EFFECT if self.closed else BROKEN_EFFECT

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
        difference = at_once(diff_steps(old, new, self.tool_sets.of(tools, trusted)))
        self.rulebook = new
        self.warnings = tuple(idle_agents(new))
        self.in_force = self.sources
        return Reloaded(True, problems, difference)

    def try_edit(
        self, edit: PolicyEdit, tools: Iterable[ToolRecord] = (), trusted: Trusted = None, *, beside_calls: bool = True
    ) -> TriedEdit:
        """Return what would change if the files were edited so; nothing is written, and the rules in force stay.

        `beside_calls` refuses a text that would take more than a few seconds.

        Raises:
            OperatorError: the edit names no policy file.
        """
        sources, problems = edited(self.folder, self.sources, edit)
        if not sources and not problems:
            return TriedEdit((_vanished(self.folder),))
        if beside_calls and edit.text is not None and not problems and (refused := _too_much(sources[-1])):
            return TriedEdit((refused,))
        checked = self._check(sources, problems)
        if checked.documents is None:
            return TriedEdit(checked.problems)
        new = Rulebook(checked.documents)
        sets = self.tool_sets.of(tools, trusted)
        return TriedEdit((*checked.problems, *idle_agents(new)), new, at_once(diff_steps(self.rulebook, new, sets)))

    def _read(self) -> CheckedPolicies:
        sources, problems = read_folder(self.folder, named=self._named)
        self.sources = tuple(sources)
        return self._check(sources, problems)

    def _check(self, sources: list[PolicySource], problems: list[Problem]) -> CheckedPolicies:
        if not sources:
            return CheckedPolicies(None, tuple(problems), bool(problems))
        # PyYAML and the models are slow to import, and most folders have no file.
        from aggregator.policy.files.checking import check

        return check(sources, problems, self._check_schema)


def _too_much(source: PolicySource) -> Problem | None:
    from aggregator.policy.files.checking import too_much_to_try  # PyYAML and the models are slow to import

    return too_much_to_try(source)


def _vanished(folder: Path) -> Problem:
    return Problem(
        str(folder),
        "",
        "There is no policy file any more; the last rules stay in force.",
        "Put the files back. To run without policies, restart without them.",
        "error",
    )
