"""Actions of an operator on one server while the program runs: refusals, and servers switched off."""

from dataclasses import dataclass

from aggregator.config.server_config import ServerConfig
from aggregator.domain.errors import AggregatorError


class ActionRefused(AggregatorError):
    """A refused action on a server: `message` says why and what to do. `status` is its status over HTTP."""

    def __init__(self, message: str, status: int = 409) -> None:
        super().__init__(message)
        self.message = message
        self.status = status


@dataclass(frozen=True, slots=True)
class SwitchedOff:
    """A server that is switched off until the next start of the program.

    by: the operator; at: when, in seconds since 1970.
    config: its entry at that time. Another entry in the configuration switches the server on again.
    """

    by: str
    at: float
    config: ServerConfig

    @property
    def reason(self) -> str:
        """The reason for hosts, the status and the health page; it does not name the operator."""
        return "an operator switched it off until the next start of the aggregator"


def reason_not_to_run(config: ServerConfig, switched_off: SwitchedOff | None) -> str:
    """Return why a server does not run; empty if it does."""
    if not config.enabled:
        return config.disabled_reason or "disabled in the config"
    return switched_off.reason if switched_off is not None else ""
