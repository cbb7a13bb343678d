"""The agent behind a request. Never taken from `clientInfo`, which is display only (S/basic/index)."""

import re
from dataclasses import dataclass
from typing import Final

# The role that opens the metrics; it gives no other right.
METRICS_ROLE: Final = "metrics"

_AGENT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


@dataclass(frozen=True, slots=True)
class Principal:
    """The agent behind a request, and by what it was known: `key_id` is None on stdio and without policy files."""

    agent_id: str
    tenant: str | None = None
    roles: tuple[str, ...] = ()
    key_id: str | None = None

    def is_same_caller(self, other: "Principal") -> bool:
        """Return whether both are one agent with one key; tenant and roles may have changed with the policies."""
        return (self.agent_id, self.key_id) == (other.agent_id, other.key_id)


# Without policy files there is one agent: every program that reaches the frontend on the loopback.
LOCAL: Final = Principal(agent_id="local")


def check_agent_id(agent_id: str) -> None:
    """Check that a text can be the name of an agent: no spaces, no look-alike letters, nothing a URL would change.

    Raises:
        ValueError: it cannot.
    """
    if not _AGENT.fullmatch(agent_id):
        raise ValueError("The name of an agent is made of letters, digits, `_`, `.` and `-`, at most 64 of them.")
