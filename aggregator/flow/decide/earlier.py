"""Suppose that things were read before a call, for explanations and cases."""

from collections.abc import Iterable
from typing import NamedTuple

from aggregator.flow.decide.decide_flow import FlowState, LabelSource

# The time of reads and of the call after them: shown as a moment ago.
SUPPOSED_NOW = 0.0


class EarlierRead(NamedTuple):
    """A read that came before, with the labels that it brought.

    `name`: its display name. `given`: its full name, or a label.
    """

    name: str
    labels: frozenset[str]
    given: str

    def __str__(self) -> str:
        if "." not in self.name:  # a label
            return self.name
        return f"{self.name} ({', '.join(sorted(self.labels)) or 'no label'})"


def supposed_state(earlier: Iterable[EarlierRead]) -> FlowState:
    """Return the labels of a conversation in which all of this was read, a moment ago."""
    return {label: LabelSource(one.name, SUPPOSED_NOW) for one in earlier for label in sorted(one.labels)}
