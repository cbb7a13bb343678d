"""The way to the authorization server of an account: fetches, discovery, and the aggregator's client id there."""

from functools import partial
from typing import Final
from urllib.parse import urlsplit

from aggregator.accounts.grants.account import Account
from aggregator.accounts.grants.ports import GrantSettings
from aggregator.accounts.grants.store import GrantStore
from aggregator.accounts.oauth.challenges import Challenge
from aggregator.accounts.oauth.discovery import ProtectedServer, discover
from aggregator.accounts.oauth.fetch import FetchFailed, GuardedFetch
from aggregator.accounts.oauth.metadata import IssuerMetadata, read_issuer
from aggregator.accounts.oauth.probe import ask_for_challenge
from aggregator.accounts.oauth.registration import Registration, configured_client, register
from aggregator.domain.bounds.lru import LruCache

_SERVERS: Final = 1_000


class Issuers:
    """The authorization servers of accounts.

    Rule: an address named by a server is never requested in a private network, unless the server itself is configured
    in it.
    """

    def __init__(self, settings: GrantSettings, store: GrantStore, fetch: GuardedFetch | None = None) -> None:
        self._settings = settings
        self._store = store
        self._fetch = fetch or GuardedFetch(settings.auth.private_hosts)
        self._found: LruCache[tuple[str, str, str | None], ProtectedServer] = LruCache(_SERVERS)

    def fetch(self, account: Account) -> GuardedFetch:
        """Return the fetches for one account."""
        fetch = self._near(account)
        issuer = account.auth.issuer
        return fetch.within(issuer) if issuer is not None else fetch

    def _near(self, account: Account) -> GuardedFetch:
        """Return the fetches for the server of an account, by its proxy and with the authorities that count for it."""
        fetch = self._fetch.learning(partial(self._settings.hide, account.source))
        return fetch.within(account.url, account.server.proxy, account.server.tls)

    def fetch_of(self, issuer: str, account: Account) -> GuardedFetch:
        """Return the fetches for an issuer that the operator configured, on behalf of an account."""
        return self._fetch.learning(partial(self._settings.hide, account.source)).within(issuer)

    async def discover(self, account: Account, challenge: Challenge | None) -> ProtectedServer:
        """Return what protects a server, asked anew.

        Raises:
            DiscoveryFailed: it was not found.
        """
        found = await discover(self._near(account), account.url, challenge, account.auth.issuer)
        self._found.put(self._key(account), found)
        return found

    async def known(self, account: Account, challenge: Challenge | None) -> ProtectedServer:
        """Return the discovered authorization of a server, from the cache if possible.

        Raises:
            DiscoveryFailed: it was not found.
        """
        found = self._found.get(self._key(account))
        if found is not None:
            return found
        if challenge is None:
            challenge = await ask_for_challenge(self.fetch(account), account.url, account.server.headers)
        return await self.discover(account, challenge)

    def forget(self, account: Account) -> None:
        """Drop the cached discovery of the account's server."""
        self._found.pop(self._key(account))

    def _key(self, account: Account) -> tuple[str, str, str | None]:
        return account.server.id, account.url, account.auth.issuer

    async def read_again(self, account: Account, issuer: IssuerMetadata) -> IssuerMetadata:
        """Return the current metadata of an issuer, or the known ones if they cannot be read."""
        if issuer.assumed:
            return issuer
        try:
            return await read_issuer(self.fetch(account), issuer.issuer)
        except FetchFailed:
            return issuer

    async def client(self, account: Account, issuer: IssuerMetadata, redirect_uri: str) -> Registration:
        """Return the aggregator's client id: a known one, or a new one.

        Raises:
            RegistrationFailed: there is none, and registration is impossible.
        """
        if account.client is None:
            kept = await self._store.client(issuer.issuer, redirect_uri)
            if kept is not None and redirect_uri in kept.redirect_uris:
                return kept
        found = await register(
            self.fetch(account),
            issuer,
            redirect_uri,
            configured=account.client,
            client_id_url=self._document(redirect_uri),
            scopes=account.auth.scopes or None,
        )
        if found.kind == "dynamic":
            await self._store.put_client(found, redirect_uri)
        return found

    def _document(self, redirect_uri: str) -> str | None:
        """Return the URL of the aggregator's metadata document if it names this redirect address."""
        url = self._settings.client_id_url
        configured = self._settings.auth.client_id_url
        if url is None or configured is not None:
            return configured
        return url if urlsplit(url).netloc == urlsplit(redirect_uri).netloc else None

    def current_client(self, account: Account, issuer: IssuerMetadata, client: Registration) -> Registration:
        """Return the client id of a grant with the secret that is configured for it now."""
        configured = account.client
        if configured is not None and configured.client_id == client.client_id:
            return configured_client(issuer, configured)
        return client
