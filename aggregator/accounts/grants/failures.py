"""The errors that callers see, as values: many wait for one outcome, and each raises its own error.

`why` is our own wording; as a `Reason` it also has the wording of an issuer or server, which only operators see.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from aggregator.domain.errors import UpstreamError, UpstreamUnavailable
from aggregator.domain.grant_owner import GrantOwner
from aggregator.domain.missing import LoginRequired
from aggregator.domain.reasons import Reason, said_in

# Our words for hosts about an authorization server: its address and its answers were chosen by others.
_NOT_ASKED: Final = "no token can be got from its authorization server now"
_REFUSED: Final = "its authorization server refuses the aggregator"
_NOT_RENEWED: Final = "its authorization server does not renew it any more"
# Make the error anew.
Failure = Callable[[], UpstreamError]


def connect_command(server: str, owner: GrantOwner) -> str:
    """Return the command that connects an account."""
    agent = f" --agent {owner.names[1]}" if owner.kind == "agent" else ""
    return f"aggregator connect {server}{agent}"


def login_required(server: str, owner: GrantOwner, why: str = "", scopes: Sequence[str] = ()) -> Failure:
    """Return the error that an account has to be connected. why: the reason if it was connected before. scopes: the
    scopes to request.
    """
    message = f"The account of {owner} at {server} has to be connected {f'again: {why}' if why else 'first'}."
    command = connect_command(server, owner)
    return lambda: LoginRequired(server, message, said=said_in(why), scopes=scopes, command=command)


def unavailable(server: str, why: str, retry_after: float | None = None) -> Failure:
    """Return the error that there is no token at the moment."""
    message = f"{server} cannot be called now: {why.rstrip('.')}."
    details: dict[str, Any] = {"retry_after": max(1, round(retry_after))} if retry_after is not None else {}
    return lambda: UpstreamUnavailable(server, message, said=said_in(why), **details)


def unusable(server: str, why: str) -> Failure:
    """Return the error that the operator has to mend something before there can be a token."""
    message = f"{server} cannot be called: {why.rstrip('.')}."
    return lambda: UpstreamUnavailable.for_good(server, message, said=said_in(why))


def not_asked(why: str) -> Reason:
    """Return the reason that an authorization server could not be reached; `why` is for operators."""
    return Reason(_NOT_ASKED, why)


def refused(why: str) -> Reason:
    """Return the reason that an authorization server refused; `why` is for operators."""
    return Reason(_REFUSED, why)


def not_renewed(why: str) -> Reason:
    """Return the reason that a grant ended; `why` is for operators."""
    return Reason(_NOT_RENEWED, why)


class TokenFailed(Exception):
    """No token is available; `failure` makes the error from the reason.

    passes: another attempt may succeed, after `retry_after` seconds if known.
    """

    def __init__(self, failure: Failure, *, retry_after: float | None = None, passes: bool = False) -> None:
        super().__init__("no token")
        self.failure = failure
        self.retry_after = retry_after
        self.passes = passes
