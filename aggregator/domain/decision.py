"""A decision of the policy: the verdict, the reason, and the rule it comes from."""

from dataclasses import dataclass
from typing import Final, Literal

Verdict = Literal["allow", "deny", "confirm"]
# Who has to agree to a call that waits for a person: the host that makes it, or an approver at the queue.
ConfirmBy = Literal["host", "queue"]
# The beginning of an approver's name where the host said so; other approvers answered in the queue.
HOST_AGREED: Final = "host:"


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision whether something is allowed, with its reason.

    `rule` names what decided, `reason` says it to a person, `source` is its `file:line` where there is one. `confirm`
    allows it once a person has agreed, or as many different `people` as are needed. A `hidden` denial is answered as if
    the thing did not exist. `told`: a person who is asked is told the reason, which says what happened before.
    """

    verdict: Verdict
    rule: str
    reason: str
    source: str | None = None
    hidden: bool = False
    people: int = 1
    told: bool = False

    @property
    def visible(self) -> bool:
        """Return whether the agent may see the thing at all."""
        return self.verdict != "deny"


def confirmers(decision: Decision, confirm_by: ConfirmBy) -> ConfirmBy:
    """Return who has to agree to a call: a host can never be one of several people."""
    return "queue" if decision.people > 1 else confirm_by


def may_agree(agreed_by: str | None, confirm_by: ConfirmBy) -> bool:
    """Return whether the agreement of `agreed_by`, None where no one agreed, is one that `confirm_by` takes."""
    if agreed_by is None:
        return False
    return confirm_by == "host" or not agreed_by.startswith(HOST_AGREED)
