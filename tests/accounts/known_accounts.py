"""A source of credentials at the port of the upstreams: its tokens come from a test's authorization server at once."""

import asyncio
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass

from aggregator.accounts.grants.failures import connect_command, login_required
from aggregator.accounts.grants.values import ConnectLink
from aggregator.config.server_config import ServerConfig
from aggregator.domain.grant_owner import GrantOwner
from aggregator.domain.missing import LoginRequired
from aggregator.domain.principal import Principal
from aggregator.storage.errors import StorageError
from tests.authorization.authorization_server import AuthorizationServer


@dataclass
class Account:
    """One account that is connected: who it is, and the token of now."""

    subject: str
    scopes: tuple[str, ...]
    token: str
    refreshes: int = 0


class KnownCredentials:
    """The credentials of one owner for one server."""

    def __init__(self, home: "KnownAccounts", server: ServerConfig, owner: GrantOwner) -> None:
        self._home, self._server, self._owner = home, server, owner
        self._wanted = False

    @property
    def account(self) -> Account | None:
        return self._home.accounts.get((self._server.id, self._owner))

    @property
    def header(self) -> str | None:
        return f"Bearer {self.account.token}" if self.account is not None else None

    async def ready(self) -> None:
        if self._wanted and self.account is None:
            raise login_required(self._server.id, self._owner)()

    async def refused(self, sent: str | None, status: int, challenges: Sequence[str]) -> bool:
        self._home.challenges.append((status, tuple(challenges)))
        self._wanted = True
        account = self.account
        await self.ready()
        assert account is not None
        if status == 403:
            asked = challenges[0].partition('scope="')[2].partition('"')[0].split()
            wider = tuple(dict.fromkeys([*account.scopes, *asked]))
            raise LoginRequired(self._server.id, f"{self._server.id} wants more scopes.", scopes=wider)
        if sent == self.header:
            account.refreshes += 1
            account.token = self._home.new_token(self._server, account.subject, account.scopes)
        return True


class KnownAccounts:
    """All accounts; `links` are those that were handed out, by their addresses, with what they are for."""

    def __init__(self, idp: AuthorizationServer) -> None:
        self.idp = idp
        self.accounts: dict[tuple[str, GrantOwner], Account] = {}
        self.challenges: list[tuple[int, tuple[str, ...]]] = []
        self.links: dict[str, tuple[ServerConfig, GrantOwner, Principal, tuple[str, ...]]] = {}
        self.pages, self.away = True, False
        self.waiting = asyncio.Event()
        self._changed = asyncio.Event()

    def new_token(self, server: ServerConfig, subject: str, scopes: Sequence[str]) -> str:
        return self.idp.token(subject, audience=server.url, scopes=scopes)

    def credentials(self, server: ServerConfig, owner: GrantOwner) -> KnownCredentials:
        return KnownCredentials(self, server, owner)

    async def has_any(self, server: ServerConfig) -> GrantOwner | None:
        return next((owner for name, owner in self.accounts if name == server.id), None)

    def saw(self, principal: Principal) -> None:
        """Take a token; none is exchanged here."""

    async def begin(
        self, server: ServerConfig, owner: GrantOwner, asked_by: Principal, *, scopes: Sequence[str] = ()
    ) -> ConnectLink:
        if self.away:
            raise StorageError("The database is away.")
        code = secrets.token_urlsafe(12)
        url = f"https://gateway.example/connect/{code}"
        self.links[url] = (server, owner, asked_by, tuple(scopes))
        return ConnectLink(code, url if self.pages else None, time.time() + 600, connect_command(server.id, owner))

    async def wait(self, owner: GrantOwner, server: ServerConfig, seconds: float) -> bool:
        before = self.accounts.get((server.id, owner))
        self.waiting.set()
        while self.accounts.get((server.id, owner)) is before:
            await self._changed.wait()
        return True

    async def visit(self, url: str, subject: str) -> None:
        """Connect the account of a person who followed a link."""
        server, owner, _, scopes = self.links.pop(url)
        await self.connect(server, owner, subject, scopes)

    async def connect(
        self, server: ServerConfig, owner: GrantOwner, subject: str, scopes: Sequence[str] = ("mcp",)
    ) -> None:
        """Connect the account of a person."""
        token = self.new_token(server, subject, scopes)
        self.accounts[server.id, owner] = Account(subject, tuple(scopes), token)
        self._changed.set()
        self._changed = asyncio.Event()
