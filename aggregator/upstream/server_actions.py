"""Actions of an operator on one server while the program runs: why one is refused, and what is remembered of it."""

from dataclasses import dataclass

from aggregator.config.server_config import ServerConfig
from aggregator.domain.errors import AggregatorError


class ActionRefused(AggregatorError):
    """An action on a server that was not taken: `message` says why and what to do. `status` is what it is over HTTP."""

    def __init__(self, message: str, status: int = 409) -> None:
        super().__init__(message)
        self.message = message
        self.status = status


@dataclass(frozen=True, slots=True)
class SwitchedOff:
    """A server that is switched off until the next start of the program.

    by: the person who did it; at: when, in seconds since 1970.
    config: its entry at that time. Another entry in the configuration switches the server on again.
    """

    by: str
    at: float
    config: ServerConfig

    @property
    def reason(self) -> str:
        """The reason that hosts, the status and the health page are told; it names no person."""
        return "an operator switched it off until the next start of the aggregator"


def reason_not_to_run(config: ServerConfig, switched_off: SwitchedOff | None) -> str:
    """Return why a server does not run; empty if it does."""
    if not config.enabled:
        return config.disabled_reason or "disabled in the config"
    return switched_off.reason if switched_off is not None else ""
