"""The errors that callers see, as values: many wait for one outcome, and each raises an error of its own."""

from collections.abc import Callable, Sequence
from typing import Any

from aggregator.domain.errors import UpstreamError, UpstreamUnavailable
from aggregator.domain.grant_owner import GrantOwner
from aggregator.domain.missing import LoginRequired

# Make the error anew.
Failure = Callable[[], UpstreamError]


def connect_command(server: str, owner: GrantOwner) -> str:
    """Return the command with which a person connects an account."""
    agent = f" --agent {owner.names[1]}" if owner.kind == "agent" else ""
    return f"aggregator connect {server}{agent}"


def login_required(server: str, owner: GrantOwner, why: str = "", scopes: Sequence[str] = ()) -> Failure:
    """Return the error that an account has to be connected. scopes: those that are to be asked for."""
    said = f"The account of {owner} at {server} has to be connected {'again: ' + why if why else 'first'}."
    details: dict[str, Any] = {"command": connect_command(server, owner)}
    if scopes:
        details["scopes"] = list(scopes)
    return lambda: LoginRequired(server, said, **details)


def unavailable(server: str, why: str, retry_after: float | None = None) -> Failure:
    """Return the error that there is no token at the moment."""
    said = f"{server} cannot be called now: {why.rstrip('.')}."
    details = {"retry_after": max(1, round(retry_after))} if retry_after is not None else {}
    return lambda: UpstreamUnavailable(server, said, **details)


def unusable(server: str, why: str) -> Failure:
    """Return the error that the operator has to mend something before there can be a token."""
    said = f"{server} cannot be called: {why.rstrip('.')}."
    return lambda: UpstreamUnavailable.for_good(server, said)


class TokenFailed(Exception):
    """The lack of a token, for a reason that `failure` makes the error of.

    passes: asking again may help, in `retry_after` seconds where that is known.
    """

    def __init__(self, failure: Failure, *, retry_after: float | None = None, passes: bool = False) -> None:
        super().__init__("no token")
        self.failure = failure
        self.retry_after = retry_after
        self.passes = passes
