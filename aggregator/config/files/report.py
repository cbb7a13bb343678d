"""Collect problems with their paths in the file, and look up the nearest known word."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from aggregator.domain.problems import Problem

_PLAIN_KEY = r"[A-Za-z0-9_$-]+"
Where = tuple[str | int, ...]


@dataclass
class Report:
    """The problems of one file, in the order they were met."""

    file: str
    problems: list[Problem] = field(default_factory=list)

    def error(self, where: Where, message: str, fix: str, server: str | None = None) -> None:
        """Add a problem for which something in the file is not used."""
        self.problems.append(Problem(self.file, dotted(where), message, fix, "error", server))

    def warning(self, where: Where, message: str, fix: str, server: str | None = None) -> None:
        """Add a problem that leaves everything in use."""
        self.problems.append(Problem(self.file, dotted(where), message, fix, "warning", server))


def dotted(where: Where) -> str:
    """Return a path as people write it: `mcpServers.github.args[2]`, `mcpServers["my server"].url`."""
    text = ""
    for step in where:
        if isinstance(step, int):
            text += f"[{step}]"
        elif re.fullmatch(_PLAIN_KEY, step):
            text += f".{step}" if text else step
        else:
            text += f'["{step}"]'
    return text


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that was probably meant; None if none is near."""
    from difflib import get_close_matches  # needed for faulty files only, and slow to import

    if len(word) > 60:
        return None
    by_folded = {name.lower().replace("_", "").replace("-", ""): name for name in known}
    folded = word.lower().replace("_", "").replace("-", "")
    near = get_close_matches(folded, by_folded, n=1, cutoff=0.7)
    return by_folded[near[0]] if near else None


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """Return the nearest known word as a question; None if none is near."""
    found = nearest(word, known)
    return f"Did you mean `{found}`?" if found else None
