"""The audit event of an answer in the queue of approvals, from any place."""

from typing import Any

from aggregator.storage.approvals import people_of
from aggregator.storage.records import Approval


def answer_event(approval: Approval, by: str) -> tuple[str, dict[str, Any]]:
    """Return the sentence and the details of the event, given the approval after the answer of the user `by`."""
    agreed = people_of(approval)
    if approval.status == "pending":
        said = (
            f"{len(agreed)} of {approval.needed} people agreed to the call of {approval.tool} by {approval.agent_id}."
        )
    else:
        said = f"The call of {approval.tool} by {approval.agent_id} is {approval.status}."
    known = {
        "approval": approval.id,
        "tool": approval.tool,
        "answer": approval.status,
        "by": by,
        "note": approval.note,
        "valid": approval.valid_until,
        "needed": approval.needed if approval.needed > 1 else None,
        "agreed": list(agreed) if approval.needed > 1 else None,
        # The row of the call has the digest of its arguments, too.
        "arguments_digest": approval.digest,
    }
    return said, {name: value for name, value in known.items() if value is not None}
