"""What a failed attempt, or a connection that ended, amounts to. This file decides; it awaits nothing."""

from dataclasses import dataclass
from typing import Final

from aggregator.config.model import ServerConfig
from aggregator.domain.errors import RpcError, UpstreamError, UpstreamRefused
from aggregator.wire.peer import PeerGone

# Not there: nothing is served under that path.
_NOT_THERE: Final = frozenset({404, 410})


@dataclass(frozen=True, slots=True)
class Failure:
    """Why it was. `lasting`: an operator has to mend it. `died`: its program ended by itself. `served`: for how many
    seconds it had been ready. `retry_after`: in how many it asked to be tried again.
    """

    reason: str
    lasting: bool = False
    died: bool = False
    served: float = 0.0
    retry_after: float | None = None


def failed(server: ServerConfig, error: Exception, obituary: str | None = None) -> Failure:
    """An attempt to connect that ended with this error; `obituary` is of the program that was launched for it."""
    if obituary is not None:
        return Failure(gone(obituary), died=True)
    if isinstance(error, TimeoutError):
        limit = f"{server.connect_timeout:g} s"
        return Failure(f"it did not answer within {limit} of connecting (`connect_timeout` in its config)")
    if isinstance(error, UpstreamError):
        lasting = isinstance(error, UpstreamRefused) or error.details.get("status") in _NOT_THERE
        return Failure(error.message, lasting, retry_after=error.details.get("retry_after"))
    if isinstance(error, RpcError):
        return Failure(f"it refused to start: {error.message}")
    return Failure(str(error), died=isinstance(error, PeerGone) and server.type == "stdio")


def gone(obituary: str) -> str:
    """The same for a program that serves an address."""
    return f"the program it is served by is gone: {obituary}"
