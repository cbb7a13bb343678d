"""The question before files are written."""

from typing import Literal

from aggregator.cli.servers.adding.asking import at_terminal, confirmed

Answer = Literal["yes", "no", "not asked"]


def ask(question: str, yes: bool) -> Answer:
    """Return the user's answer; without a terminal, only `yes` counts as agreement."""
    if yes:
        return "yes"
    if not at_terminal():
        return "not asked"
    return "yes" if confirmed(question) else "no"
