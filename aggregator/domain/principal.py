"""Who is asking. Never taken from `clientInfo`, which is display only (S/basic/index)."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Principal:
    """The agent behind a request."""

    agent_id: str


# Without policy files there is one agent, and it is whoever reaches the loopback door.
LOCAL: Final = Principal(agent_id="local")
