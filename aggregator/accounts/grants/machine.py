"""Tokens obtained without a user at a browser: for the aggregator's own account, and by exchange for a user's token."""

import logging
import time
from dataclasses import dataclass, field
from typing import Final

from aggregator.accounts.grants.account import Account
from aggregator.accounts.grants.failures import TokenFailed, login_required, not_asked, refused, unavailable, unusable
from aggregator.accounts.grants.issuers import Issuers
from aggregator.accounts.grants.ports import GrantSettings
from aggregator.accounts.grants.tokens import AccessToken, GrantTokens, access_token
from aggregator.accounts.oauth.challenges import Challenge
from aggregator.accounts.oauth.discovery import DiscoveryFailed, ProtectedServer
from aggregator.accounts.oauth.fetch import FetchFailed
from aggregator.accounts.oauth.metadata import read_issuer
from aggregator.accounts.oauth.registration import ConfiguredClient, Registration, configured_client
from aggregator.accounts.oauth.scopes import first_scopes
from aggregator.accounts.oauth.token_requests import (
    ID_JAG,
    ID_TOKEN,
    client_credentials,
    exchange_token,
    jwt_bearer,
)
from aggregator.accounts.oauth.token_response import TokenRefused, TokenResponse, TokenUnavailable
from aggregator.domain.bounds.lru import LruCache
from aggregator.domain.grant_owner import GrantOwner
from aggregator.domain.principal import TokenFacts

log = logging.getLogger(__name__)

_CALLERS: Final = 10_000


@dataclass(frozen=True, slots=True)
class _SignedIn:
    """A signed-in user: their ID token, its expiry, and the number of the sign-in."""

    id_token: str = field(repr=False)
    expires: float
    number: int


class MachineTokens:
    """The tokens of accounts whose `auth.grant` needs no user at a browser; they stay in memory."""

    asks_person = False

    def __init__(self, settings: GrantSettings, issuers: Issuers) -> None:
        self._settings = settings
        self._issuers = issuers
        self._callers: LruCache[GrantOwner, TokenFacts] = LruCache(_CALLERS)
        self._signed_in: LruCache[GrantOwner, _SignedIn] = LruCache(_CALLERS)
        self._sign_ins = 0
        self._version = 0

    def saw(self, owner: GrantOwner, token: TokenFacts) -> None:
        """Take note of a caller's token, which is exchanged for one of a server."""
        self._callers.put(owner, token)

    def signed_in(self, owner: GrantOwner, id_token: str, expires: float) -> None:
        """Store the ID token of a user, valid until a wall-clock time."""
        self._sign_ins += 1
        self._signed_in.put(owner, _SignedIn(id_token, expires, self._sign_ins))

    def sign_in_of(self, owner: GrantOwner) -> int | None:
        """Return a number for a user's valid sign-in, different for each; None without one."""
        found = self._signed_in.get(owner)
        return found.number if found is not None and time.time() < found.expires else None

    def any_signed_in(self, idp: str | None) -> GrantOwner | None:
        """Return a user who is signed in at an issuer now, or None."""
        owners = [owner for owner, _ in self._signed_in.items() if owner.names[0] == idp]
        return next((owner for owner in owners if self.sign_in_of(owner) is not None), None)

    async def token(
        self, account: Account, held: AccessToken | None, challenge: Challenge | None, *, forced: bool
    ) -> AccessToken | None:
        """See `credentials.TokenSource`."""
        if challenge is None:
            # The server's demands are unknown until its first refusal.
            return None
        try:
            found = await self._issuers.known(account, challenge)
            response, client, scopes = await self._asked(account, found, challenge)
        except DiscoveryFailed as error:
            raise TokenFailed(unavailable(account.server.id, not_asked(error.reason)), passes=True) from None
        except FetchFailed as error:
            raise TokenFailed(unavailable(account.server.id, not_asked(error.reason)), passes=True) from None
        except TokenUnavailable as error:
            failure = unavailable(account.server.id, not_asked(error.reason), error.retry_after)
            raise TokenFailed(failure, retry_after=error.retry_after, passes=True) from None
        except TokenRefused as error:
            self._issuers.forget(account)
            raise TokenFailed(unusable(account.server.id, refused(str(error))), passes=True) from None
        self._version += 1
        tokens = GrantTokens(
            access=response.access,
            refresh=None,
            id_token=None,
            issuer=found.issuer,
            client=client,
            resource=found.resource,
            asked=scopes,
            scopes=response.scopes,
            since=time.time(),
            expires=response.expires_at,
        )
        return access_token(tokens, self._version, renewable=True)

    async def _asked(
        self, account: Account, found: ProtectedServer, challenge: Challenge | None
    ) -> tuple[TokenResponse, Registration, tuple[str, ...] | None]:
        client = self._client(account, found)
        fetch = self._issuers.fetch(account)
        challenged = challenge.scopes if challenge is not None else None
        scopes = first_scopes(challenged, found.scopes, None, account.auth.scopes)
        if challenge is not None and challenge.params.get("error") == "insufficient_scope":
            scopes = challenged
        match account.auth.grant:
            case "client_credentials":
                response = await client_credentials(fetch, found.issuer, client, resource=found.resource, scopes=scopes)
            case "token_exchange":
                response = await exchange_token(
                    fetch, found.issuer, client, self._callers_token(account), resource=found.resource, scopes=scopes
                )
            case _:
                vouched = await self._vouched(account, found, scopes)
                response = await jwt_bearer(
                    fetch, found.issuer, client, vouched, resource=found.resource, scopes=scopes
                )
        return response, client, scopes

    def _client(self, account: Account, found: ProtectedServer) -> Registration:
        client = account.client
        if client is None:
            url = self._settings.client_id_url
            if url is not None and found.issuer.client_id_metadata_document_supported:
                return Registration(found.issuer.issuer, url, kind="document")
            why = "it needs `auth.client_id`, which its issuer gives out"
            raise TokenFailed(unusable(account.server.id, why))
        return configured_client(found.issuer, client)

    def _callers_token(self, account: Account) -> str:
        """Return the token to exchange: the configured one, or the token of the calling user."""
        if account.auth.subject_token is not None:
            return account.auth.subject_token
        facts = self._callers.get(account.owner)
        if facts is None or not facts.text or facts.expires <= time.time():
            why = "the call has to come with an access token of the person, which is exchanged for one of this server"
            raise TokenFailed(login_required(account.server.id, account.owner, why))
        return facts.text

    async def _vouched(self, account: Account, found: ProtectedServer, scopes: tuple[str, ...] | None) -> str:
        """Return the company issuer's assertion about a user for the server's issuer (ID-JAG)."""
        idp = account.auth.idp
        configured = next((one for one in self._settings.auth.issuers if one.issuer == idp), None)
        if idp is None or configured is None or configured.sign_in is None:
            why = "`auth.idp` has to be one of `auth.issuers`, with `sign_in`"
            raise TokenFailed(unusable(account.server.id, why))
        fetch = self._issuers.fetch_of(idp, account)
        issuer = await read_issuer(fetch, idp)
        own = ConfiguredClient(configured.sign_in.client_id, configured.sign_in.client_secret)
        response = await exchange_token(
            fetch,
            issuer,
            configured_client(issuer, own),
            self._id_token(account, idp),
            subject_token_type=ID_TOKEN,
            requested_token_type=ID_JAG,
            meant_for=found.issuer.issuer,
            resource=found.resource,
            scopes=scopes,
        )
        return response.access

    def _id_token(self, account: Account, idp: str) -> str:
        if account.auth.subject_token is not None:
            return account.auth.subject_token
        owner = account.owner
        of_idp = owner.kind == "user" and owner.names[0] == idp
        found = self._signed_in.get(owner) if of_idp and self.sign_in_of(owner) is not None else None
        if found is None:
            why = f"the person has to sign in here at {idp}"
            raise TokenFailed(login_required(account.server.id, owner, why))
        return found.id_token
