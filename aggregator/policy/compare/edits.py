"""A trial edit of the policy files: the resulting files, and the faults of the request.

Law: nothing is written. The checks are the ones that check the files.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aggregator.domain.errors import OperatorError
from aggregator.domain.problems import Problem
from aggregator.policy.compare.diff import PolicyDiff
from aggregator.policy.files.folder import PolicySource, source_of
from aggregator.policy.rulebook import Rulebook

_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,120}\.(?i:ya?ml)")


@dataclass(frozen=True, slots=True)
class PolicyEdit:
    """A file of the policy folder by its name, with the text it would have; None takes the file away."""

    name: str
    text: str | None


@dataclass(frozen=True, slots=True)
class TriedEdit:
    """The result of a trial edit. `rulebook` and `diff` are None if the files would not come into force."""

    problems: tuple[Problem, ...]
    rulebook: Rulebook | None = None
    diff: PolicyDiff | None = None


def edited(folder: Path, sources: Iterable[PolicySource], edit: PolicyEdit) -> tuple[list[PolicySource], list[Problem]]:
    """Return the files after the edit, with the problems of the text as a file.

    Raises:
        OperatorError: the name is not valid for a policy file, or there is no such file to remove.
    """
    if _NAME.fullmatch(edit.name) is None:
        raise OperatorError(
            f"{edit.name[:100]!a} cannot be a policy file. Use a name such as shop.yaml, without a folder."
        )
    known = list(sources)
    others = [source for source in known if Path(source.file).name != edit.name]
    if edit.text is None:
        if len(others) == len(known):
            raise OperatorError(f"There is no policy file {edit.name} in {folder}.")
        return others, []
    problems: list[Problem] = []
    made = source_of(folder / edit.name, edit.text.encode("utf-8", "surrogatepass"), problems)
    return [*others, *([made] if made is not None else [])], problems
