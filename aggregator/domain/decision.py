"""A decision of the policy: the verdict, the reason, and the rule it comes from."""

from dataclasses import dataclass
from typing import Final, Literal

Verdict = Literal["allow", "deny", "confirm"]
# The confirmer of a call: the host that makes it, or an approver at the queue.
ConfirmBy = Literal["host", "queue"]
# The beginning of a confirmer's name if the host confirmed; other approvers answered in the queue.
HOST_AGREED: Final = "host:"


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision whether something is allowed, with its reason.

    `rule` names the deciding rule, `reason` explains it to a user, `source` is its `file:line` if it has one. `confirm`
    allows it after a confirmation, or after confirmations by as many different `people` as required. A `hidden` denial
    is answered as if the target did not exist. `told`: the confirmation shows the reason, which names earlier reads.
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
    """Return the confirmer of a call: a host can never be one of several."""
    return "queue" if decision.people > 1 else confirm_by


def may_agree(agreed_by: str | None, confirm_by: ConfirmBy) -> bool:
    """Tell whether `confirm_by` accepts the confirmation of `agreed_by`, None for none."""
    if agreed_by is None:
        return False
    return confirm_by == "host" or not agreed_by.startswith(HOST_AGREED)
