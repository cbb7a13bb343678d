"""The port to the source of access tokens; the upstream does not know how tokens are obtained."""

from collections.abc import Sequence
from typing import Protocol

from aggregator.config.server_config import ServerConfig
from aggregator.domain.errors import UpstreamUnavailable
from aggregator.domain.grant_owner import GrantOwner


class NoTokenNow(UpstreamUnavailable):
    """The authorization server issues no token now: nothing was sent. The server itself may be well."""


class Credentials(Protocol):
    """The access token for the requests of one owner to one server.

    header: the value of `Authorization` for a request sent now; None if one has to be waited for.
    """

    @property
    def header(self) -> str | None: ...

    async def ready(self) -> None:
        """Wait until `header` has a token that is not expired, or until none is needed yet.

        Raises:
            LoginRequired: a user has to connect the account, or connect it again.
            UpstreamUnavailable: the authorization server cannot be reached.
        """
        ...

    async def refused(self, sent: str | None, status: int, challenges: Sequence[str]) -> bool:
        """Handle a response that refused a request; return True if it may be sent once more, with `header`.

        sent: the `Authorization` that the request had. status: 401 or 403. challenges: the values of its
        `WWW-Authenticate` fields, in order.

        Raises:
            LoginRequired: a user has to connect the account, or consent to more (`scopes`: all to ask for).
            UpstreamUnavailable: the authorization server cannot be reached.
        """
        ...


class CredentialsSource(Protocol):
    """The source of credentials, for servers with `auth` in their configuration. It calls `Supervisor.account_changed`
    for every grant that begins or ends, also in another process.
    """

    def credentials(self, server: ServerConfig, owner: GrantOwner) -> Credentials:
        """Return the credentials for the requests of an owner to a server, without any request yet."""
        ...

    async def has_any(self, server: ServerConfig) -> GrantOwner | None:
        """Return an owner with a usable account, or None."""
        ...
