"""A verdict and where it comes from."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Decision:
    """`rule` names what decided, `reason` says it to a person."""

    allowed: bool
    rule: str
    reason: str
