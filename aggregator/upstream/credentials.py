"""The port to what gives an upstream its access tokens; the upstream knows nothing of how they are got."""

from collections.abc import Sequence
from typing import Protocol

from aggregator.config.server_config import ServerConfig
from aggregator.domain.errors import UpstreamUnavailable
from aggregator.domain.grant_owner import GrantOwner


class NoTokenNow(UpstreamUnavailable):
    """The authorization server gives no token now: nothing was sent. It says nothing about the server itself."""


class Credentials(Protocol):
    """The access token for the requests of one owner to one server.

    header: the value of `Authorization` for a request that is sent now; None where there is none without waiting.
    """

    @property
    def header(self) -> str | None: ...

    async def ready(self) -> None:
        """Wait until `header` is that of a token that has not expired, or is known not to be needed yet.

        Raises:
            LoginRequired: a person has to connect the account first, or again.
            UpstreamUnavailable: the authorization server cannot be reached.
        """
        ...

    async def refused(self, sent: str | None, status: int, challenges: Sequence[str]) -> bool:
        """Take note of a response that refused a request; return True if it may be sent once more, with `header`.

        sent: the `Authorization` that the request had. status: 401 or 403. challenges: the values of its
        `WWW-Authenticate` fields, in order.

        Raises:
            LoginRequired: a person has to connect the account, or agree to more (`scopes`: all to be asked for).
            UpstreamUnavailable: the authorization server cannot be reached.
        """
        ...


class CredentialsSource(Protocol):
    """The source of credentials, for servers with `auth` in their configuration. It tells `Supervisor.account_changed`
    of every grant that begins or ends, also of those that another process made.
    """

    def credentials(self, server: ServerConfig, owner: GrantOwner) -> Credentials:
        """Return the credentials for the requests of an owner to a server; nothing is asked yet."""
        ...

    async def has_any(self, server: ServerConfig) -> GrantOwner | None:
        """Return an owner who has connected an account that can be used; None while there is none."""
        ...
