"""The settings and the ports of grants: servers, the place of the connect pages, and listeners for token events."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from aggregator.accounts.grants.values import ConnectOutcome, ConnectPage
from aggregator.config.auth.issuers import AuthConfig
from aggregator.config.server_config import ServerConfig
from aggregator.domain.grant_owner import GrantOwner
from aggregator.domain.principal import TokenFacts

if TYPE_CHECKING:
    from aggregator.accounts.oauth.authorization import LoginAttempt
    from aggregator.accounts.oauth.token_response import TokenResponse

# Returns the configuration of a server by its id, or None.
FindServer = Callable[[str], ServerConfig | None]
# Returns a configuration with the values of its secrets; raises UpstreamError if one has none.
CompleteServer = Callable[[ServerConfig], Awaitable[ServerConfig]]

# Registers the credentials of a source, by their names, for redaction in all output.
HideCredentials = Callable[[str, Mapping[str, str]], Awaitable[None]]


async def hide_nothing(source: str, named: Mapping[str, str], /) -> None:
    """Hide nothing: for commands that write nothing down."""


@dataclass(frozen=True, slots=True)
class GrantSettings:
    """The settings of grants.

    find, complete: the servers. client_id_url: the aggregator's client id metadata document. lease: seconds that one
    process has for getting new tokens, more than a request takes. hide: called with credentials before they are sent.
    """

    find: FindServer
    complete: CompleteServer
    auth: AuthConfig = field(default_factory=AuthConfig)
    client_id_url: str | None = None
    lease: float = 15.0
    hide: HideCredentials = hide_nothing


TokenEventKind = Literal["connected", "refreshed", "refresh_refused", "revoked", "connect_refused"]


class ConnectBase(Protocol):
    """The address of the pages that connect an account."""

    async def address(self) -> str | None:
        """Return the address that `/connect/CODE` is appended to; None if this process has no pages.

        A process without a web server may open a listener on this machine first.
        """
        ...


class TokenEvents(Protocol):
    """The audit of tokens. No argument contains a secret."""

    def token_event(
        self, kind: TokenEventKind, said: str, server: str, owner: GrantOwner, details: Mapping[str, Any]
    ) -> None:
        """Record an event. said: one sentence for operators."""
        ...


class AccountChanged(Protocol):
    """A function called after an account was connected or disconnected."""

    def __call__(self, server: str, account: GrantOwner, *, connected: bool) -> None: ...


class RunningGrants(Protocol):
    """The grants of a process, as what starts and ends them knows them; see `grants.Grants`."""

    base: ConnectBase
    on_change: AccountChanged | None

    def running(self) -> AbstractAsyncContextManager[None]: ...

    async def opened(self, code: str) -> ConnectPage | None: ...

    async def begin_sign_in(self, code: str, attempt: "LoginAttempt", browser: str) -> None: ...

    async def sign_in_answered(
        self, params: Mapping[str, str] | Sequence[tuple[str, str]], browser: str | None
    ) -> "tuple[str, LoginAttempt]": ...

    async def signed_in(self, code: str, person: TokenFacts, tokens: "TokenResponse") -> None: ...

    async def start(self, code: str, redirect_uri: str, browser: str) -> str: ...

    async def answered(
        self, params: Mapping[str, str] | Sequence[tuple[str, str]], browser: str | None
    ) -> ConnectOutcome: ...


class NoPages:
    """A process in which accounts cannot be connected by a link."""

    async def address(self) -> str | None:
        """See `ConnectBase`."""
        return None


class Unrecorded:
    """Token events of a process without an audit."""

    def token_event(
        self, kind: TokenEventKind, said: str, server: str, owner: GrantOwner, details: Mapping[str, Any]
    ) -> None:
        """See `TokenEvents`."""
