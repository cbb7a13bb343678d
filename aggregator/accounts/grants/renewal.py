"""The renewal of users' grants: one refresh for each version, by one of all processes.

Law: new tokens are used only after they are stored, and the old refresh token stays until then. So a process that ends
in the middle leaves a working grant: the next one presents the old refresh token again.
"""

import asyncio
import logging
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from aggregator.accounts.grants.account import Account
from aggregator.accounts.grants.failures import (
    TokenFailed,
    login_required,
    not_asked,
    not_renewed,
    refused,
    unavailable,
    unusable,
)
from aggregator.accounts.grants.issuers import Issuers
from aggregator.accounts.grants.ports import TokenEvents
from aggregator.accounts.grants.store import UNREADABLE, GrantStore, StoredGrant
from aggregator.accounts.grants.tokens import AccessToken, GrantTokens, access_token
from aggregator.accounts.oauth.token_requests import refresh, revoke
from aggregator.accounts.oauth.token_response import TokenRefused, TokenResponse, TokenUnavailable

log = logging.getLogger(__name__)

# Seconds between two looks for what another process does, at first and at most; and how long it is waited for.
_LOOK: Final = 0.02
_LOOK_AT_MOST: Final = 0.25
_CLAIMS_WAITED_FOR: Final = 3
# The part of the time of a claim in which the issuer has to answer; the rest is for storing.
_OF_LEASE: Final = 0.8
# Tokens that could not be stored yet.
_UNSTORED_AT_MOST: Final = 1_000
_NOT_OURS: Final = frozenset({"invalid_client", "unauthorized_client"})


@dataclass(frozen=True, slots=True)
class _Unstored:
    """Tokens that the issuer gave, and the database did not take yet."""

    version: int
    tokens: GrantTokens


class Renewal:
    """The renewal in one process, for users' grants. `forced` means that the server refused a token."""

    def __init__(
        self,
        store: GrantStore,
        issuers: Issuers,
        events: TokenEvents,
        lease: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._issuers = issuers
        self._events = events
        self._lease = lease
        self._clock = clock
        self._unstored: dict[str, _Unstored] = {}

    async def token(self, account: Account, held: AccessToken | None, *, forced: bool) -> AccessToken | None:
        """Return a usable token; None if the account was never connected. held: the cached one.

        Raises:
            TokenFailed: there is none.
            StorageError: the database failed.
        """
        until = time.monotonic() + _CLAIMS_WAITED_FOR * self._lease
        pause = _LOOK
        while time.monotonic() < until:
            stored = await self._stored(account)
            if stored is None:
                return None
            found = self._checked(account, stored)
            newer = held is None or found.version != held.version
            usable = found.usable(self._clock()) and (newer or not forced)
            if usable and not found.due(self._clock()):
                return found
            if not found.renewable:
                return self._last(account, found, usable=usable)
            vault = await self._store.vault()
            record = stored.record
            claimant = self._claimant()
            if await vault.grants.claim(record.id, record.version, claimant, self._lease):
                renewed = await self._renew(account, stored, claimant)
                if renewed is not None:
                    return renewed
            elif usable:
                return found
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LOOK_AT_MOST)
        raise TokenFailed(unavailable(account.server.id, "another process gets new tokens for it"), passes=True)

    def _claimant(self) -> str:
        """Return a name for one attempt: two of one process must not share a claim."""
        return secrets.token_hex(16)

    def _last(self, account: Account, found: AccessToken, *, usable: bool) -> AccessToken:
        """Return a token that cannot be renewed, while it counts."""
        if usable:
            return found
        why = "its token has ended, and its issuer gave no way to a new one"
        raise TokenFailed(login_required(account.server.id, account.owner, why))

    async def _stored(self, account: Account) -> StoredGrant | None:
        stored = await self._store.find(account)
        if stored is None or (unstored := self._unstored.get(stored.record.id)) is None:
            return stored
        if unstored.version == stored.record.version:
            await self._store.renew(stored.record, unstored.tokens)
        self._unstored.pop(stored.record.id, None)
        return await self._store.find(account)

    def _checked(self, account: Account, stored: StoredGrant) -> AccessToken:
        problem = stored.record.problem
        if problem is None and stored.tokens is None:
            problem = UNREADABLE
        if problem is not None or stored.tokens is None:
            why = not_renewed(problem) if problem is not None and problem != UNREADABLE else UNREADABLE
            raise TokenFailed(login_required(account.server.id, account.owner, why))
        renewable = stored.tokens.refresh is not None
        return access_token(stored.tokens, stored.record.version, renewable=renewable)

    async def _renew(self, account: Account, stored: StoredGrant, claimant: str) -> AccessToken | None:
        """Get new tokens for a claimed grant; None if it has to be read again.

        Raises:
            TokenFailed: there are none.
        """
        record, before = stored.record, stored.tokens
        assert before is not None, "only what can be opened is renewed"
        try:
            response = await self._refreshed_in_time(account, before)
        except TokenRefused as error:
            await self._refused(account, stored, claimant, error)
            return None
        except TokenUnavailable as error:
            await self._release(record.id, claimant)
            raise TokenFailed(
                unavailable(account.server.id, not_asked(error.reason), error.retry_after),
                retry_after=error.retry_after,
                passes=True,
            ) from None
        tokens = before.renewed(response, self._clock())
        if len(self._unstored) < _UNSTORED_AT_MOST:
            self._unstored[record.id] = _Unstored(record.version, tokens)
        stays = await self._store.renew(record, tokens)
        self._unstored.pop(record.id, None)
        if not stays:
            await self._drop(account, tokens)
            return None
        details = {"issuer": tokens.issuer.issuer, "expires": tokens.expires}
        said = f"the account of {account.owner} at {account.server.id} has a new token"
        self._events.token_event("refreshed", said, account.server.id, account.owner, details)
        return access_token(tokens, record.version + 1, renewable=tokens.refresh is not None)

    async def _refreshed_in_time(self, account: Account, before: GrantTokens) -> TokenResponse:
        """Ask the issuer while the claim lasts: later another process may present the same refresh token."""
        try:
            async with asyncio.timeout(self._lease * _OF_LEASE):
                return await self._refreshed(account, before)
        except TimeoutError:
            raise TokenUnavailable(f"{before.issuer.issuer} took too long to renew a token") from None

    async def _refreshed(self, account: Account, before: GrantTokens) -> TokenResponse:
        """Ask the issuer, at its current token endpoint if the stored one does not answer as one."""
        fetch, issuer = self._issuers.fetch(account), before.issuer
        client = self._issuers.current_client(account, issuer, before.client)
        assert before.refresh is not None, "only what can be renewed is"
        try:
            return await refresh(fetch, issuer, client, before.refresh, resource=before.resource, scopes=before.scopes)
        except TokenRefused as error:
            if not error.error.startswith("http_"):
                raise
            now = await self._issuers.read_again(account, issuer)
            if now.token_endpoint == issuer.token_endpoint:
                raise
        return await refresh(fetch, now, client, before.refresh, resource=before.resource, scopes=before.scopes)

    async def _refused(self, account: Account, stored: StoredGrant, claimant: str, error: TokenRefused) -> None:
        """Record a refusal; return if another process has stored newer tokens meanwhile.

        Raises:
            TokenFailed: a user has to connect the account again, or the operator has to fix something.
        """
        record, server = stored.record, account.server.id
        details = {"issuer": record.issuer, "error": error.error}
        said = f"{record.issuer} refused to renew the account of {account.owner} at {server}: {error}"
        configured = account.client is not None
        if error.error == "invalid_grant" or (error.error in _NOT_OURS and not configured):
            why = f"{record.issuer} does not renew it any more ({error.error})"
            if not await self._store.mark(record, why):
                return
            log.warning("%s", said)
            self._events.token_event("refresh_refused", said, server, account.owner, details)
            raise TokenFailed(login_required(server, account.owner, not_renewed(why)))
        await self._release(record.id, claimant)
        log.warning("%s", said)
        self._events.token_event("refresh_refused", said, server, account.owner, details)
        failure = unusable if error.error in _NOT_OURS else unavailable
        raise TokenFailed(failure(server, refused(f"{record.issuer} answers {error}")), passes=True)

    async def _release(self, id: str, claimant: str) -> None:
        vault = await self._store.vault()
        await vault.grants.release(id, claimant)

    async def _drop(self, account: Account, tokens: GrantTokens) -> None:
        """Revoke tokens that arrived too late: the grant was ended, or connected anew, during the request."""
        vault = await self._store.vault()
        if await vault.grants.get(account.row_id(tokens.issuer.issuer)) is not None:
            return
        try:
            await revoke(self._issuers.fetch(account), tokens.issuer, tokens.client, tokens.refresh or tokens.access)
        except (TokenRefused, TokenUnavailable) as error:
            log.info("tokens that are not kept could not be ended at %s: %s", tokens.issuer.issuer, error)
