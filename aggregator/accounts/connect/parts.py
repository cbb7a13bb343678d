"""The services that the pages for connecting use. Quick to import."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from aggregator.accounts.grants.values import ConnectOutcome, ConnectPage
from aggregator.domain.principal import Principal, TokenFacts
from aggregator.identity.identify import Refused, RequestFacts
from aggregator.identity.keyring import Keyring

if TYPE_CHECKING:
    from aggregator.accounts.oauth.authorization import LoginAttempt
    from aggregator.accounts.oauth.token_response import TokenResponse

CONNECT_PATH: Final = "/connect"
CALLBACK: Final = f"{CONNECT_PATH}/callback"
SIGNED_IN: Final = f"{CONNECT_PATH}/signed-in"


class ConnectingGrants(Protocol):
    """The part of `grants.Grants` that the pages need."""

    async def opened(self, code: str) -> ConnectPage | None: ...

    async def start(self, code: str, redirect_uri: str, browser: str) -> str: ...

    async def begin_sign_in(self, code: str, attempt: "LoginAttempt", browser: str) -> None: ...

    async def sign_in_answered(
        self, params: Mapping[str, str] | Sequence[tuple[str, str]], browser: str | None
    ) -> "tuple[str, LoginAttempt]": ...

    async def signed_in(self, code: str, person: TokenFacts, tokens: "TokenResponse") -> None: ...

    async def answered(
        self, params: Mapping[str, str] | Sequence[tuple[str, str]], browser: str | None
    ) -> ConnectOutcome: ...


# Receives the outcome of connecting.
OutcomeSeen = Callable[[ConnectOutcome], None]


class PersonSignIns(Protocol):
    """The sign-in of users at their issuers; see `identity.sign_in.SignIns`."""

    def offers(self, issuer: str) -> bool: ...

    async def begin(self, issuer: str, redirect_uri: str) -> "LoginAttempt": ...

    async def finish(
        self, attempt: "LoginAttempt", params: Mapping[str, str] | Sequence[tuple[str, str]]
    ) -> "tuple[TokenFacts, TokenResponse]": ...


class KeyCheck(Protocol):
    """The check of credentials, and the keys that there are; see `gateway.access.Access`."""

    @property
    def keyring(self) -> Keyring: ...

    def authenticate(self, facts: RequestFacts) -> Principal | Refused: ...
