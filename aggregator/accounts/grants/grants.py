"""The grants of one process: credentials for upstream servers, and the ways to connect accounts."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from aggregator.accounts.grants.account import Account, account_id
from aggregator.accounts.grants.connecting import ConnectingAccounts, DevicePolling
from aggregator.accounts.grants.credentials import GrantCredentials
from aggregator.accounts.grants.failures import TokenFailed, connect_command
from aggregator.accounts.grants.issuers import Issuers
from aggregator.accounts.grants.machine import MachineTokens
from aggregator.accounts.grants.ports import (
    AccountChanged,
    ConnectBase,
    GrantSettings,
    NoPages,
    TokenEvents,
    Unrecorded,
)
from aggregator.accounts.grants.renewal import Renewal
from aggregator.accounts.grants.sign_in_attempts import SignInAttempts
from aggregator.accounts.grants.store import GrantStore, StoredGrant, VaultDatabase, owner_in
from aggregator.accounts.grants.tokens import AccessToken
from aggregator.accounts.grants.values import ConnectedAccount, ConnectLink, ConnectOutcome, ConnectPage, DevicePrompt
from aggregator.accounts.oauth.authorization import LoginAttempt
from aggregator.accounts.oauth.challenges import Challenge
from aggregator.accounts.oauth.discovery import canonical_resource
from aggregator.accounts.oauth.token_requests import revoke
from aggregator.accounts.oauth.token_response import TokenRefused, TokenResponse, TokenUnavailable
from aggregator.accounts.storage.records import Version
from aggregator.config.server_config import ServerConfig
from aggregator.domain.bounds.lru import LruCache
from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.grant_owner import GrantOwner, owner_of
from aggregator.domain.principal import Principal, TokenFacts
from aggregator.storage.errors import StorageError

log = logging.getLogger(__name__)

_CREDENTIALS: Final = 10_000
_DEVICES: Final = 100
# Seconds that a link must still be valid to be issued again.
_STILL_GOOD: Final = 300.0
# Seconds between two looks for what other processes did.
_LOOK: Final = 0.5
_MOMENT: Final = 0.05
# Seconds that requests for tokens have to end, once the program ends.
_ENDS_WITHIN: Final = 12.0


class PersonTokens:
    """The tokens of users' grants; see `credentials.TokenSource`."""

    asks_person = True

    def __init__(self, renewal: Renewal, lost: Callable[[Account], None]) -> None:
        """Create it. lost: called with an account that its user has to connect again."""
        self._renewal = renewal
        self._lost = lost

    async def token(
        self, account: Account, held: AccessToken | None, challenge: Challenge | None, *, forced: bool
    ) -> AccessToken | None:
        """See `credentials.TokenSource`."""
        try:
            return await self._renewal.token(account, held, forced=forced)
        except TokenFailed as failed:
            if held is not None and not failed.passes:
                self._lost(account)
            raise


class Grants:
    """The grants of one process. base: set by the owner of the connect pages (`NoPages` until then).

    Errors: `ConnectFailed` (`accounts/grants/errors.py`) if connecting fails, StorageError of the database.
    """

    def __init__(
        self,
        settings: GrantSettings,
        database: VaultDatabase,
        path: Path | None,
        events: TokenEvents | None = None,
    ) -> None:
        self.base: ConnectBase = NoPages()
        self.on_change: AccountChanged | None = None
        self._settings = settings
        self._events = events or Unrecorded()
        self._store = GrantStore(database, settings.auth.vault_key, path)
        self._issuers = Issuers(settings, self._store)
        self._machine = MachineTokens(settings, self._issuers)
        renewal = Renewal(self._store, self._issuers, self._events, settings.lease)
        self._person = PersonTokens(renewal, self._on_lost)
        self._sign_ins = SignInAttempts(self._store)
        self._connecting = ConnectingAccounts(settings, self._store, self._issuers, self._events)
        self._credentials: LruCache[tuple[str, str, str | None, str], GrantCredentials] = LruCache(_CREDENTIALS)
        self._links: LruCache[tuple[object, ...], tuple[str, float]] = LruCache(_CREDENTIALS)
        self._devices: LruCache[str, DevicePolling] = LruCache(_DEVICES)
        self._tasks = Tasks("grants")
        self._getting = Tasks("tokens of grants")
        self._news = asyncio.Event()

    def __repr__(self) -> str:
        return f"<Grants, {len(self._credentials)} credentials in use>"

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Learn inside of what other processes do; end what runs on the way out."""
        async with self._getting, self._tasks:
            self._tasks.start(self._watch())
            try:
                yield
            finally:
                # A refresh in flight may have ended the old tokens: store its new tokens first.
                with suppress(TimeoutError):
                    async with asyncio.timeout(_ENDS_WITHIN):
                        await self._getting.wait_ended()

    # -- tokens

    def credentials(self, server: ServerConfig, owner: GrantOwner) -> GrantCredentials:
        """Return the credentials for an owner's requests to a server, without a request yet. Equal arguments give the
        same object.

        Their LoginRequired has no link: `begin` makes one, with the wanted scopes.
        """
        account = Account(server, owner)
        key = (server.id, canonical_resource(server.url or ""), account.auth.issuer, owner.key)
        found = self._credentials.get(key)
        if found is None:
            source = self._person if account.auth.how.by_person else self._machine
            found = GrantCredentials(account, source, self._getting, self._settings.hide)
            self._credentials.put(key, found)
        found.account = account
        return found

    def saw(self, principal: Principal) -> None:
        """Take note of a caller's token, for servers whose tokens are exchanged for it. To be called before a call."""
        if principal.token is not None:
            self._machine.saw(owner_of(principal, "user"), principal.token)

    async def has_any(self, server: ServerConfig) -> GrantOwner | None:
        """Return an owner with a usable grant for a server, for `lists: connected`, or None."""
        if server.auth is not None and server.auth.how.signs_in:
            return self._machine.any_signed_in(server.auth.idp)
        vault = await self._store.vault()
        for record in await vault.grants.of_server(server.id):
            owner = owner_in(record)
            if owner is not None and record.problem is None:
                stored = await self._store.find(Account(server, owner))
                if stored is not None and stored.tokens is not None:
                    return owner
        return None

    # -- connecting

    async def begin(
        self,
        server: ServerConfig,
        owner: GrantOwner,
        asked_by: Principal,
        *,
        scopes: Sequence[str] = (),
        challenge: Challenge | None = None,
    ) -> ConnectLink:
        """Return a one-time link with which `asked_by` connects an account of `owner`, within ten minutes at most.

        Who asks again soon gets the same link, so that a program that repeats a call does not fill the database.
        """
        bearer = asked_by.token.bearer if asked_by.token is not None else None
        key = (server.id, owner.key, asked_by.agent_id, asked_by.key_id, bearer, tuple(scopes))
        code, expires = self._links.get(key) or ("", 0.0)
        if expires < time.time() + _STILL_GOOD or await self._store.connect(code) is None:
            challenge = challenge or self._challenge(server, owner)
            code, expires = await self._connecting.begin(server, owner, asked_by, scopes, challenge)
            self._links.put(key, (code, expires))
        base = await self.base.address()
        url = f"{base}/connect/{code}" if base is not None else None
        return ConnectLink(code, url, expires, connect_command(server.id, owner))

    def _challenge(self, server: ServerConfig, owner: GrantOwner) -> Challenge | None:
        """Return the last challenge of a server to an owner, or else to anyone here."""
        seen = [one for (id, *_), one in self._credentials.items() if id == server.id and one.challenge is not None]
        own = [one for one in seen if one.account.owner == owner]
        return next((one.challenge for one in (*own, *seen)), None)

    async def opened(self, code: str) -> ConnectPage | None:
        """Return the subject of a link; None if it is unknown, used or expired.

        Raises:
            ConnectFailed: the server's issuer cannot be reached.
        """
        return await self._connecting.opened(code)

    async def begin_sign_in(self, code: str, attempt: LoginAttempt, browser: str) -> None:
        """Store the sign-in attempt that precedes connecting; browser: as of `start`.

        Raises:
            ConnectFailed: the link has ended.
        """
        await self._sign_ins.begin(code, attempt, browser)

    async def sign_in_answered(
        self, params: Mapping[str, str] | Sequence[tuple[str, str]], browser: str | None
    ) -> tuple[str, LoginAttempt]:
        """Return the code of the link and the attempt that the answer to a sign-in belongs to, which is used up.

        Raises:
            ConnectFailed: there is none, or this is another browser.
        """
        return await self._sign_ins.answered(params, browser)

    async def start(self, code: str, redirect_uri: str, browser: str) -> str:
        """Return the address to send the browser to. browser: the secret of its cookie, to which the answer is bound.

        Raises:
            ConnectFailed: the link has ended, or there is no way to the server's issuer.
        """
        return await self._connecting.start(code, redirect_uri, browser)

    async def answered(
        self, params: Mapping[str, str] | Sequence[tuple[str, str]], browser: str | None
    ) -> ConnectOutcome:
        """Process the answer from the browser. browser: None if it has no cookie, which is refused."""
        outcome, account = await self._connecting.answered(params, browser)
        if account is not None:
            self._changed(account.server.id, account.owner, connected=True)
        return outcome

    async def begin_device(self, server: ServerConfig, owner: GrantOwner, asked_by: Principal) -> DevicePrompt:
        """Return the prompt for a user at another device.

        Raises:
            ConnectFailed: the server's issuer does not offer it, or cannot be reached.
        """
        prompt, way = await self._connecting.begin_device(server, owner, asked_by, self._challenge(server, owner))
        self._devices.put(prompt.code, way)
        return prompt

    async def finish_device(self, code: str) -> ConnectOutcome:
        """Wait until the user has agreed or declined, or the time is over."""
        way = self._devices.pop(code)
        if way is None:
            return ConnectOutcome(False, "This code was used already, or is unknown.")
        interval: float | None = None
        while True:
            await asyncio.sleep(interval or way.device.interval)
            answer = await self._connecting.poll_device(way, interval)
            if not isinstance(answer, float):
                break
            interval = answer
        if answer.connected:
            self._changed(way.account.server.id, way.account.owner, connected=True)
        return answer

    async def wait(self, owner: GrantOwner, server: ServerConfig, seconds: float) -> bool:
        """Wait until the owner has a usable grant that is newer than this call or was missing then; False on
        timeout.
        """
        before = await self._version(server, owner)
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while (now := await self._version(server, owner)) is None or now == before:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(_LOOK):
                            await self._news.wait()
                    await asyncio.sleep(_MOMENT)
                return True
        return False

    async def _version(self, server: ServerConfig, owner: GrantOwner) -> tuple[str, int] | None:
        if server.auth is not None and server.auth.how.signs_in:
            number = self._machine.sign_in_of(owner)
            return ("sign-in", number) if number is not None else None
        vault = await self._store.vault()
        found = await vault.grants.of_account(account_id(server.id, owner))
        return next(((one.id, one.version) for one in found if one.problem is None), None)

    async def signed_in(self, code: str, person: TokenFacts, tokens: TokenResponse) -> None:
        """Store the ID token of a user who signed in here, for servers with the grant `enterprise`; for these, the link
        of this code is then finished.
        """
        if tokens.id_token is None:
            return
        owner = GrantOwner("user", (person.issuer, person.subject))
        self._machine.signed_in(owner, tokens.id_token, person.expires)
        for _, one in list(self._credentials.items()):
            if one.account.owner == owner and one.account.auth.how.signs_in:
                one.changed()
        server = await self._sign_ins.end(code, self._settings.find)
        if server is not None:
            self._changed(server, owner, connected=True)
        else:
            self._notify_waiting()

    # -- what there is

    async def list(self, owner: GrantOwner | None = None) -> tuple[ConnectedAccount, ...]:
        """Return the grants, of one owner or of all, by server and owner."""
        vault, sealer = await self._store.vault(), await self._store.sealer()
        found = []
        for record in await vault.grants.all():
            of = owner_in(record)
            if of is None or owner not in (None, of):
                continue
            readable = self._store.opened(sealer, record).tokens is not None
            problem = record.problem or (None if readable else "it cannot be decrypted with the vault key of now")
            found.append(
                ConnectedAccount(
                    record.server,
                    of,
                    record.issuer,
                    record.resource,
                    record.scopes,
                    "connected" if problem is None else "broken",
                    problem,
                    record.expires,
                    record.renewable,
                    record.created,
                    record.updated,
                )
            )
        return tuple(sorted(found, key=lambda one: (one.server, one.owner.key)))

    async def revoke(self, server: str, owner: GrantOwner) -> bool:
        """End a grant, here at once and at its issuer if the issuer supports that; False if there was none."""
        ended = await self._store.remove(server, owner)
        for stored in ended:
            self._changed(server, owner, connected=False)
            await self._end(server, stored)
            said = f"the account of {owner} at {server} is not connected any more"
            self._events.token_event("revoked", said, server, owner, {"issuer": stored.record.issuer})
        return bool(ended)

    async def _end(self, server: str, stored: StoredGrant) -> None:
        tokens, config = stored.tokens, self._settings.find(server)
        if tokens is None or config is None or config.auth is None:
            return
        owner = owner_in(stored.record)
        assert owner is not None, "it was found by its owner"
        fetch = self._issuers.fetch(Account(config, owner))
        token, hint = (
            (tokens.refresh, "refresh_token") if tokens.refresh is not None else (tokens.access, "access_token")
        )
        try:
            await revoke(fetch, tokens.issuer, tokens.client, token, hint=hint)
        except (TokenRefused, TokenUnavailable) as error:
            log.warning("the account at %s is ended here, but not at %s: %s", server, tokens.issuer.issuer, error)

    # -- changes

    def _changed(self, server: str, owner: GrantOwner, *, connected: bool) -> None:
        for (id, *_), one in list(self._credentials.items()):
            if id == server and one.account.owner == owner:
                one.changed()
        self._notify_waiting()
        if self.on_change is not None:
            self.on_change(server, owner, connected=connected)

    def _on_lost(self, account: Account) -> None:
        if self.on_change is not None:
            self.on_change(account.server.id, account.owner, connected=False)

    def _notify_waiting(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def _watch(self) -> None:
        """Look twice each second if a process has connected or ended an account."""
        seen: tuple[Version, int] | None = None
        while True:
            try:
                vault = await self._store.vault()
                version = await vault.version()
                if seen is None or version[0] != seen[0][0]:
                    # The database was replaced: drop all cached state.
                    self._forget_all(first=seen is None)
                elif version != seen[0]:
                    for change in await vault.changes_after(seen[1]):
                        self._take(change)
                seen = version, version[1]
            except StorageError as error:
                log.debug("the accounts cannot be looked at: %s", error)
            await asyncio.sleep(_LOOK)

    def _forget_all(self, *, first: bool) -> None:
        if not first:
            for _, one in list(self._credentials.items()):
                one.changed()

    def _take(self, change: Mapping[str, object]) -> None:
        """Apply a change by a process; applying this process's own change again does no harm."""
        server, key, connected = change.get("server"), change.get("owner"), change.get("connected")
        if change.get("by") != self._store.process and isinstance(server, str) and isinstance(key, str):
            with suppress(ValueError):
                self._changed(server, GrantOwner.from_key(key), connected=connected is True)
