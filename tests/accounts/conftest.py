"""A running aggregator in front of a server that wants a token, with accounts that a test connects."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from aggregator.app.app import App
from aggregator.app.build import build_app
from aggregator.domain.grant_owner import GrantOwner
from aggregator.frontends.server import WebServer
from tests.access.secured_harness import SecuredHarness
from tests.accounts.known_accounts import Account, KnownAccounts
from tests.authorization.authorization_server import AuthorizationServer, authorization_server
from tests.authorization.protected_mcp_server import ProtectedServer, protected_mcp_server
from tests.peers.serving import BackgroundLoop
from tests.peers.toolbox import Json

# The audience of tokens for this gateway.
OURS = "https://gateway.example.com/mcp"
AGENTS = ("one", "two", "three", "four")


class AccountsHarness(SecuredHarness):
    """A `SecuredHarness` with accounts; the agents `one` and `two` are of one tenant, the others of another."""

    def __init__(self, background: BackgroundLoop, folder: Path, entry: Json, **settings: Any) -> None:
        self.idp: AuthorizationServer = background.open(authorization_server())
        self.protected: ProtectedServer = background.open(protected_mcp_server(self.idp))
        self.accounts = KnownAccounts(self.idp)
        tenants = {"one": "north", "two": "north", "three": "south", "four": "south"}
        allowed = {name: {"tenant": tenants[name], "allow": ["files.*"]} for name in AGENTS}
        url = self.protected.sse_url if entry.get("type") == "sse" else self.protected.url
        servers = {"files": {"url": url, "health": {"enabled": False}, **entry}}
        # People with a token are one agent in each tenant.
        people = [{"groups": [name], "agent": f"{name}-people"} for name in ("north", "south")]
        allowed |= {f"{name}-people": {"tenant": name, "allow": ["files.*"]} for name in ("north", "south")}
        policies = {"agents": allowed, "tenants": {"north": {}, "south": {}}, "who": people}
        issuers = [{"issuer": self.idp.issuer, "audience": [OURS]}]
        super().__init__(background, folder, servers, policies, AGENTS, auth={"issuers": issuers}, **settings)

    def person(self, subject: str, tenant: str) -> str:
        """Return a token of a person for this gateway."""
        return self.idp.token(subject, audience=OURS, groups=[tenant])

    def build_app(self) -> tuple[App, WebServer]:
        """Build the application with the accounts, and its web frontends."""
        app = build_app(self.config, self._policies, self._storage, accounts=self.accounts)
        return app, WebServer(app.gateway, self.config, app.access, app.report)

    async def connect(self, owner: GrantOwner, subject: str, scopes: Iterable[str] = ("mcp",)) -> Account:
        """Connect an account of this owner, and wait until its tools are known."""
        upstream = self.app.upstreams["files"]

        async def connected() -> None:
            await self.accounts.connect(upstream.config, owner, subject, tuple(scopes))
            self.app.supervisor.account_changed("files", owner, connected=True)

        await self.background.elsewhere(connected())
        return self.accounts.accounts["files", owner]

    async def visit(self, url: str, subject: str) -> None:
        """Connect the account of a person who followed a link."""
        await self.background.elsewhere(self.accounts.visit(url, subject))

    async def ready_to_call(self) -> None:
        """Wait until the server is there."""
        upstream = self.app.upstreams["files"]

        async def ready() -> None:
            while upstream.state != "ready":
                await upstream.lifecycle.changed()

        await self.background.elsewhere(ready())

    @property
    def ran(self) -> list[str]:
        """The people whose calls the server has run."""
        return self.protected.callers


OpenAccounts = Callable[..., AccountsHarness]


@pytest.fixture
def open_accounts(tmp_path: Path) -> Iterator[OpenAccounts]:
    """Open a harness for one test, in a background loop of its own."""
    with BackgroundLoop() as running:

        def opened(**fields: Any) -> AccountsHarness:
            return AccountsHarness(running, tmp_path, fields)

        yield opened
