"""Connecting an account: from a one-time link through the user's browser to a grant.

Law: a link and its answer count once, within ten minutes, in the browser that followed the link.
"""

import hmac
import logging
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aggregator.accounts.grants.account import Account
from aggregator.accounts.grants.errors import ConnectFailed
from aggregator.accounts.grants.issuers import Issuers
from aggregator.accounts.grants.ports import GrantSettings, TokenEvents
from aggregator.accounts.grants.store import GrantStore
from aggregator.accounts.grants.tokens import GrantTokens
from aggregator.accounts.grants.values import ConnectOutcome, ConnectPage, DevicePrompt
from aggregator.accounts.oauth.authorization import AnswerRefused, LoginAttempt, UnsafeIssuer, begin, check_answer
from aggregator.accounts.oauth.challenges import Challenge
from aggregator.accounts.oauth.discovery import DiscoveryFailed, ProtectedServer, canonical_resource
from aggregator.accounts.oauth.metadata import IssuerMetadata
from aggregator.accounts.oauth.registration import Registration, RegistrationFailed
from aggregator.accounts.oauth.scopes import first_scopes
from aggregator.accounts.oauth.token_requests import (
    DeviceAuthorization,
    device_authorization,
    device_poll,
    exchange_code,
)
from aggregator.accounts.oauth.token_response import TokenRefused, TokenResponse, TokenUnavailable
from aggregator.accounts.storage.records import digest_of
from aggregator.config.server_config import ServerConfig
from aggregator.domain.grant_owner import GrantOwner
from aggregator.domain.principal import Principal, TokenFacts

log = logging.getLogger(__name__)

LIFE: Final = 600.0
_CODE_BYTES: Final = 24
_UNKNOWN: Final = "The link was used already, or has expired."
# A device code belongs to no redirect address.
_DEVICE_REDIRECT: Final = "http://127.0.0.1/connect/callback"


@dataclass(frozen=True, slots=True)
class _ConnectRequest:
    """A stored request to connect one account. attempt, browser: set after a browser has followed the link."""

    server: str
    resource: str
    owner: GrantOwner
    asked_by: Principal
    scopes: tuple[str, ...]
    challenge: Challenge | None
    expires: float
    attempt: LoginAttempt | None = None
    browser: str | None = None
    issuer: IssuerMetadata | None = None
    client: Registration | None = None

    def to_json(self) -> dict[str, Any]:
        by = self.asked_by
        return {
            "server": self.server,
            "resource": self.resource,
            "owner": self.owner.key,
            "agent": [by.agent_id, by.tenant, list(by.roles), by.key_id],
            "token": by.token.to_json() if by.token is not None else None,
            "scopes": list(self.scopes),
            "challenge": dict(self.challenge.params) if self.challenge is not None else None,
            "expires": self.expires,
            "attempt": self.attempt.to_json() if self.attempt is not None else None,
            "browser": self.browser,
            "issuer": self.issuer.to_json() if self.issuer is not None else None,
            "client": self.client.to_json() if self.client is not None else None,
        }

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> "_ConnectRequest":
        agent, tenant, roles, key_id = kept["agent"]
        token = TokenFacts.from_json(kept["token"]) if kept["token"] is not None else None
        return cls(
            kept["server"],
            kept["resource"],
            GrantOwner.from_key(kept["owner"]),
            Principal(agent, tenant, tuple(roles), key_id, token),
            tuple(kept["scopes"]),
            Challenge("bearer", kept["challenge"]) if kept["challenge"] is not None else None,
            kept["expires"],
            LoginAttempt.from_json(kept["attempt"]) if kept["attempt"] is not None else None,
            kept["browser"],
            IssuerMetadata.from_json(kept["issuer"]) if kept["issuer"] is not None else None,
            Registration.from_json(kept["client"]) if kept["client"] is not None else None,
        )


class ConnectingAccounts:
    """The accounts that are being connected."""

    def __init__(self, settings: GrantSettings, store: GrantStore, issuers: Issuers, events: TokenEvents) -> None:
        self._settings = settings
        self._store = store
        self._issuers = issuers
        self._events = events

    async def begin(
        self,
        server: ServerConfig,
        owner: GrantOwner,
        asked_by: Principal,
        scopes: Sequence[str],
        challenge: Challenge | None,
    ) -> tuple[str, float]:
        """Return the code of a new link, and when it expires."""
        code, expires = secrets.token_urlsafe(_CODE_BYTES), time.time() + LIFE
        # The server may name another authorization server by now.
        self._issuers.forget(Account(server, owner))
        resource = digest_of(canonical_resource(server.url or ""))
        asked = _ConnectRequest(server.id, resource, owner, asked_by, tuple(scopes), challenge, expires)
        await self._store.put_connect(code, asked.to_json(), expires)
        return code, expires

    async def opened(self, code: str) -> ConnectPage | None:
        """See `Grants.opened`."""
        found = await self._store.connect(code)
        if found is None:
            return None
        asked = _ConnectRequest.from_json(found[1])
        account = await self._account(asked)
        protected = await self._protected(account, asked)
        again = await self._store.find(account) is not None
        return ConnectPage(
            asked.server,
            asked.owner,
            asked.asked_by,
            protected.issuer.issuer,
            account.shown,
            self._scopes(account, asked, protected),
            asked.expires,
            again,
            signs_in=account.auth.how.signs_in,
        )

    async def start(self, code: str, redirect_uri: str, browser: str) -> str:
        """See `Grants.start`."""
        found = await self._store.connect(code)
        if found is None:
            raise ConnectFailed(_UNKNOWN)
        record, kept = found
        asked = _ConnectRequest.from_json(kept)
        account = await self._account(asked)
        protected = await self._protected(account, asked)
        try:
            client = await self._issuers.client(account, protected.issuer, redirect_uri)
            attempt = begin(
                protected.issuer,
                client,
                redirect_uri,
                resource=protected.resource,
                scopes=self._scopes(account, asked, protected),
            )
        except RegistrationFailed as error:
            raise ConnectFailed(error.reason, transient=error.transient) from None
        except UnsafeIssuer as error:
            raise ConnectFailed(error.reason) from None
        more = {
            "attempt": attempt.to_json(),
            "browser": digest_of(browser),
            "issuer": protected.issuer.to_json(),
            "client": client.to_json(),
        }
        if not await self._store.change_connect(record.id, {**kept, **more}, attempt.state):
            raise ConnectFailed(_UNKNOWN)
        return attempt.url

    async def answered(
        self, params: Mapping[str, str] | Sequence[tuple[str, str]], browser: str | None
    ) -> tuple[ConnectOutcome, Account | None]:
        """See `Grants.answered`; also returns the account if it is connected."""
        pairs = list(params.items() if isinstance(params, Mapping) else params)
        states = [value for name, value in pairs if name == "state"]
        found = await self._store.connect_of_state(states[0]) if len(states) == 1 else None
        if found is None:
            return ConnectOutcome(False, _UNKNOWN), None
        record, kept = found
        asked = _ConnectRequest.from_json(kept)
        here = digest_of(browser) if browser is not None else ""
        if not hmac.compare_digest(here, asked.browser or "-"):
            # The state leaked to another browser, so the right browser may not use it either.
            await (await self._store.vault()).connects.take_state(record.id, digest_of(states[0]))
            said = "This is not the browser that went on from the link. Nothing was done."
            return ConnectOutcome(False, said, asked.server, asked.owner), None
        vault = await self._store.vault()
        if not await vault.connects.take_state(record.id, digest_of(states[0])):
            return ConnectOutcome(False, _UNKNOWN), None
        try:
            account = await self._finish(asked, pairs)
        except (AnswerRefused, ConnectFailed) as error:
            said = f"The account at {asked.server} is not connected: {error.reason}."
            log.info("%s", said)
            self._events.token_event("connect_refused", said, asked.server, asked.owner, {})
            return ConnectOutcome(False, said, asked.server, asked.owner), None
        await vault.connects.remove(record.id)
        return self._connected(account), account

    async def _finish(self, asked: _ConnectRequest, pairs: Sequence[tuple[str, str]]) -> Account:
        attempt, issuer, client = asked.attempt, asked.issuer, asked.client
        if attempt is None or issuer is None or client is None:
            raise ConnectFailed(_UNKNOWN)
        code = check_answer(attempt, pairs)
        account = await self._account(asked)
        client = self._issuers.current_client(account, issuer, client)
        try:
            response = await exchange_code(self._issuers.fetch(account), issuer, client, attempt, code)
        except TokenRefused as error:
            if error.error == "invalid_client" and client.kind == "dynamic":
                await self._store.forget_client(issuer.issuer, attempt.redirect_uri)
            raise ConnectFailed(f"{issuer.issuer} answers {error}") from None
        except TokenUnavailable as error:
            raise ConnectFailed(error.reason, transient=True) from None
        await self._keep(account, response, issuer, client, attempt.resource, attempt.scopes)
        return account

    async def _keep(
        self,
        account: Account,
        response: TokenResponse,
        issuer: IssuerMetadata,
        client: Registration,
        resource: str | None,
        asked: tuple[str, ...] | None,
    ) -> None:
        tokens = GrantTokens(
            access=response.access,
            refresh=response.refresh,
            id_token=response.id_token,
            issuer=issuer,
            client=client,
            resource=resource,
            asked=asked,
            scopes=response.scopes,
            since=time.time(),
            expires=response.expires_at,
        )
        await self._store.put(account, tokens)

    def _connected(self, account: Account) -> ConnectOutcome:
        server, owner = account.server.id, account.owner
        said = f"The account of {owner} at {server} is connected."
        self._events.token_event("connected", said, server, owner, {})
        return ConnectOutcome(True, said, server, owner)

    async def _account(self, asked: _ConnectRequest) -> Account:
        """Return the account, for the server's current configuration."""
        server = self._settings.find(asked.server)
        if server is None or server.auth is None:
            raise ConnectFailed(f"There is no server {asked.server} with `auth` any more.")
        server = await self._settings.complete(server)
        if digest_of(canonical_resource(server.url or "")) != asked.resource:
            raise ConnectFailed(f"The address of {asked.server} was changed since the link was made.")
        return Account(server, asked.owner)

    async def _protected(self, account: Account, asked: _ConnectRequest) -> ProtectedServer:
        try:
            return await self._issuers.known(account, asked.challenge)
        except DiscoveryFailed as error:
            raise ConnectFailed(error.reason, transient=error.transient) from None

    def _scopes(self, account: Account, asked: _ConnectRequest, protected: ProtectedServer) -> tuple[str, ...] | None:
        if asked.scopes:
            return asked.scopes
        return first_scopes(None, protected.scopes, protected.issuer.scopes_supported, account.auth.scopes)

    # -- at another device

    async def begin_device(
        self, server: ServerConfig, owner: GrantOwner, asked_by: Principal, challenge: Challenge | None
    ) -> tuple[DevicePrompt, "DevicePolling"]:
        """Return the prompt for the user, and the polling that waits for the answer."""
        resource = digest_of(canonical_resource(server.url or ""))
        asked = _ConnectRequest(server.id, resource, owner, asked_by, (), challenge, time.time() + LIFE)
        account = await self._account(asked)
        protected = await self._protected(account, asked)
        scopes = self._scopes(account, asked, protected)
        try:
            client = await self._issuers.client(account, protected.issuer, _DEVICE_REDIRECT)
            device = await device_authorization(
                self._issuers.fetch(account), protected.issuer, client, resource=protected.resource, scopes=scopes
            )
        except RegistrationFailed as error:
            raise ConnectFailed(error.reason, transient=error.transient) from None
        except (TokenRefused, TokenUnavailable) as error:
            raise ConnectFailed(f"{protected.issuer.issuer}: {error}") from None
        polling = DevicePolling(account, protected, client, device, scopes)
        prompt = DevicePrompt(
            secrets.token_urlsafe(_CODE_BYTES),
            device.user_code,
            device.verification_uri,
            device.verification_uri_complete,
            device.expires_at,
            device.interval,
        )
        return prompt, polling

    async def poll_device(self, polling: "DevicePolling", interval: float | None) -> ConnectOutcome | float:
        """Ask once; return the outcome, or in how many seconds to ask again."""
        account, found = polling.account, polling.protected
        try:
            answer = await device_poll(
                self._issuers.fetch(account),
                found.issuer,
                polling.client,
                polling.device,
                resource=found.resource,
                interval=interval,
                scopes=polling.scopes,
            )
        except TokenRefused as error:
            said = f"The account at {account.server.id} is not connected: {error}."
            return ConnectOutcome(False, said, account.server.id, account.owner)
        except TokenUnavailable as error:
            return max(error.retry_after or 0.0, polling.device.interval)
        if isinstance(answer, float):
            return answer
        await self._keep(account, answer, found.issuer, polling.client, found.resource, polling.scopes)
        return self._connected(account)


@dataclass(frozen=True, slots=True)
class DevicePolling:
    """The connecting of an account from another device."""

    account: Account
    protected: ProtectedServer
    client: Registration
    device: DeviceAuthorization
    scopes: tuple[str, ...] | None
