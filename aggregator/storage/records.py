"""What is kept, as plain values. Times are seconds since 1970 (UTC), as `time.time()` gives them."""

from dataclasses import dataclass, field
from typing import Literal

# `expired` is never stored: it is what `pending` and `granted` turn into when their time is over.
ApprovalStatus = Literal["pending", "granted", "denied", "used", "expired"]


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """An API key without its secret. `hash` is the salted hash; `last_used` is right to the hour."""

    key_id: str
    agent_id: str
    hash: str = field(repr=False)
    label: str = ""
    created: float = 0.0
    expires: float | None = None
    revoked: float | None = None
    last_used: float | None = None


@dataclass(frozen=True, slots=True)
class Approval:
    """A call that a person has to agree to: whose, of which tool, with which arguments (as a digest)."""

    id: str
    agent_id: str
    tool: str
    digest: str
    summary: str
    status: ApprovalStatus
    created: float
    expires: float
    decided: float | None = None
    decided_by: str | None = None
    used: float | None = None
