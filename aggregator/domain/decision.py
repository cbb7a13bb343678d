"""A verdict and where it comes from."""

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["allow", "deny", "confirm"]


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether something is allowed, and why.

    `rule` names what decided, `reason` says it to a person, `source` is its `file:line` where there is one. `confirm`
    allows it once a person has agreed. A `hidden` denial is answered as if the thing did not exist.
    """

    verdict: Verdict
    rule: str
    reason: str
    source: str | None = None
    hidden: bool = False

    @property
    def visible(self) -> bool:
        """Whether the agent may see the thing at all."""
        return self.verdict != "deny"
