"""Grants on a real database, with a real authorization server and a protected server.

async with accounts(tmp_path) as here:
    await here.connect("alice")                       # through begin, start, the issuer's redirect, answered
    header = await here.header("alice")
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import aiohttp

from aggregator.accounts.config import ServerAuthConfig
from aggregator.accounts.grants.account import Account
from aggregator.accounts.grants.credentials import GrantCredentials
from aggregator.accounts.grants.grants import Grants
from aggregator.accounts.grants.ports import GrantSettings
from aggregator.accounts.grants.values import ConnectOutcome
from aggregator.config.auth.issuers import AuthConfig
from aggregator.config.server_config import ServerConfig
from aggregator.domain.grant_owner import GrantOwner
from aggregator.domain.principal import Principal
from aggregator.storage.lazy_database import LazyDatabase
from tests.authorization.authorization_server import AuthorizationServer, authorization_server
from tests.authorization.protected_mcp_server import ProtectedServer, protected_mcp_server

REDIRECT = "http://127.0.0.1:1/connect/callback"
VAULT_KEY = "a vault key for tests, which is long enough"


@dataclass
class Events:
    """Token events, as they would be written into the audit."""

    seen: list[tuple[str, str, str, dict[str, Any]]] = field(default_factory=list)

    def token_event(self, kind: str, said: str, server: str, owner: GrantOwner, details: Any) -> None:
        """See `TokenEvents`."""
        self.seen.append((kind, said, server, dict(details)))

    @property
    def kinds(self) -> list[str]:
        return [kind for kind, *_ in self.seen]


def owner(name: str) -> GrantOwner:
    """Return the agent of that name as an owner."""
    return GrantOwner("agent", ("", name))


@dataclass
class Accounts:
    """One process' grants, and whom they deal with."""

    idp: AuthorizationServer
    server: ProtectedServer
    config: ServerConfig
    grants: Grants
    url: str
    events: Events
    changes: list[tuple[str, GrantOwner, bool]] = field(default_factory=list)

    def credentials(self, name: str) -> GrantCredentials:
        return self.grants.credentials(self.config, owner(name))

    async def header(self, name: str) -> str | None:
        """Return what a request of an agent would be sent with."""
        found = self.credentials(name)
        await found.ready()
        return found.header

    async def age(self, name: str, seconds: float) -> None:
        """Make the token of an agent, as it is stored, older."""
        store = self.grants._store
        stored = await store.find(Account(self.config, owner(name)))
        assert stored is not None
        assert stored.tokens is not None
        expires = None if stored.tokens.expires is None else stored.tokens.expires - seconds
        older = replace(stored.tokens, since=stored.tokens.since - seconds, expires=expires)
        assert await store.renew(stored.record, older)

    async def connect(self, name: str, browser: str = "browser") -> ConnectOutcome:
        """Connect the account of an agent, whom the issuer knows by the same name."""
        link = await self.grants.begin(self.config, owner(name), Principal(name))
        return await self.answer(await self.grants.start(link.code, REDIRECT, browser), name, browser)

    async def answer(self, url: str, name: str, browser: str) -> ConnectOutcome:
        """Go where a browser is sent, and bring back what it gets."""
        return await self.grants.answered(await self.agreed(url, name), browser)

    async def agreed(self, url: str, name: str) -> list[tuple[str, str]]:
        """Return what the issuer sends the browser back with once a person has agreed."""
        async with aiohttp.ClientSession() as session, session.get(f"{url}&user={name}", allow_redirects=False) as got:
            assert got.status == 302, await got.text()
            return parse_qsl(urlsplit(got.headers["location"]).query)


def server_config(url: str, **auth: Any) -> ServerConfig:
    """Return a server with `auth`."""
    found = ServerAuthConfig(**{"per": "agent", **auth})
    return ServerConfig(id="docs", key="docs", prefix="docs", type="http", url=url, auth=found)


async def _as_it_is(server: ServerConfig) -> ServerConfig:
    return server


@asynccontextmanager
async def process(
    url: str,
    config: ServerConfig,
    events: Events,
    *,
    path: Path | None = None,
    key: str | None = VAULT_KEY,
    lease: float = 15.0,
) -> AsyncIterator[Grants]:
    """Give the grants of one more process on a database."""
    settings = GrantSettings({config.id: config}.get, _as_it_is, AuthConfig(vault_key=key), lease=lease)
    database = LazyDatabase(url, None)
    async with database:
        grants = Grants(settings, database, path, events)
        async with grants.running():
            yield grants


@asynccontextmanager
async def accounts(url: str, *, lease: float = 15.0, **auth: Any) -> AsyncIterator[Accounts]:
    """Give grants on the database at `url`."""
    events = Events()
    async with AsyncExitStack() as stack:
        idp = await stack.enter_async_context(authorization_server())
        server = await stack.enter_async_context(protected_mcp_server(idp))
        config = server_config(server.url, **auth)
        grants = await stack.enter_async_context(process(url, config, events, lease=lease))
        here = Accounts(idp, server, config, grants, url, events)

        def changed(server: str, account: GrantOwner, *, connected: bool) -> None:
            here.changes.append((server, account, connected))

        grants.on_change = changed
        yield here
