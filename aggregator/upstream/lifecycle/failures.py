"""The failure that an attempt to connect, or a connection, ended with. This file decides; it awaits nothing."""

from dataclasses import dataclass
from typing import Final

from aggregator.config.server_config import ServerConfig
from aggregator.domain.errors import RpcError, UpstreamError, UpstreamRefused
from aggregator.domain.missing import LoginRequired
from aggregator.domain.reasons import Reason, said_in
from aggregator.domain.text.error_text import error_text
from aggregator.wire.peer import PeerGone

# Statuses that say that nothing is served under the path.
_NOT_THERE: Final = frozenset({404, 410})
# The beginning of the reason why a server is away whose lists need an account.
LOGIN_REQUIRED: Final = "login required"


@dataclass(frozen=True, slots=True)
class Failure:
    """The reason why an attempt to connect failed, or a connection ended; a `Reason` has the words of the server too.

    lasting: an operator has to repair it.
    died: the program of the server ended by itself.
    served: seconds that the upstream had been ready.
    retry_after: seconds after which the server asked to be tried again.
    """

    reason: str
    lasting: bool = False
    died: bool = False
    served: float = 0.0
    retry_after: float | None = None


def failure_of(server: ServerConfig, error: Exception, end_reason: str | None = None) -> Failure:
    """Return the failure of an attempt to connect; `end_reason` is of the program launched for it, if that ended."""
    if end_reason is not None:
        return Failure(program_ended(end_reason), died=True)
    if isinstance(error, TimeoutError):
        limit = f"{server.limits.connect_timeout:g} s"
        return Failure(f"it did not answer within {limit} of connecting (`limits.connect_timeout` in its config)")
    if isinstance(error, LoginRequired):
        return Failure(f"{LOGIN_REQUIRED}: connect an account with `aggregator connect {server.id}`", lasting=True)
    if isinstance(error, UpstreamError):
        lasting = isinstance(error, UpstreamRefused) or error.details.get("status") in _NOT_THERE
        return Failure(Reason(error.message, error.said), lasting, retry_after=error.details.get("retry_after"))
    if isinstance(error, RpcError):
        return Failure(Reason(f"it refused to start, with JSON-RPC error {error.code}", error.message))
    if isinstance(error, PeerGone):
        return Failure(error.reason, died=server.type == "stdio")
    return Failure(error_text(error))


def program_ended(end_reason: str) -> str:
    """Return the reason for a lost connection to an address whose program, started by us, has ended."""
    return Reason(f"the program it is served by is gone: {end_reason}", said_in(end_reason))
