"""The rule without policy files: one local agent, everything allowed; the doors then stay on loopback."""

from typing import Final

from aggregator.domain.decision import Decision
from aggregator.domain.principal import Principal
from aggregator.domain.records import ToolRecord

_ALLOWED: Final = Decision(verdict="allow", rule="open", reason="no policy files: the local agent may call everything")


def decide(principal: Principal, tool: ToolRecord) -> Decision:
    """Whether `principal` may see and call `tool`."""
    return _ALLOWED
