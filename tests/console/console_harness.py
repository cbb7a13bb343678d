"""A running gateway with its console and its audit, and people who are signed in at it."""

import re
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import httpx2

from aggregator.app.app import App
from aggregator.app.build import build_app
from aggregator.app.console import console_parts
from aggregator.frontends.console.entry import Console
from aggregator.frontends.server import WebServer
from aggregator.identity.keys import new_key
from aggregator.redaction.redactor import Redactor
from aggregator.storage.console_sessions import new_secret
from aggregator.storage.database import open_database
from aggregator.storage.records import ConsoleRole
from tests.access.gateway_harness import tool
from tests.access.recording_toolbox import RecordingToolbox
from tests.access.secured_harness import SecuredHarness
from tests.peers.serving import BackgroundLoop
from tests.peers.toolbox import Json

# What a browser sends with a form of our own page.
OWN_PAGE: Final = {"sec-fetch-site": "same-origin"}
_TOKEN: Final = re.compile(r'name="csrf" value="([0-9a-f]+)"')

SHOP: Final = [
    tool("get", {"id": {"type": "string"}}, description="Reads the shop's goods."),
    tool("put", {"amount": {"type": "integer"}}, description="Orders goods."),
    tool("wipe", description="Removes all goods."),
]
POLICIES: Final = {
    "agents": {
        "clerk": {"allow": ["shop.*"], "deny": ["shop.wipe"], "confirm": ["shop.put"], "confirm_by": "queue"},
        "reader": {"allow": ["shop.get"]},
    }
}


class ConsoleHarness(SecuredHarness):
    """A gateway on a free port, with an SQLite database, that serves the console."""

    def __init__(
        self,
        background: BackgroundLoop,
        folder: Path,
        servers: Mapping[str, Json] | None = None,
        policies: object = POLICIES,
        agents: tuple[str, ...] = ("clerk", "reader"),
        **settings: Any,
    ) -> None:
        self.database_url = f"sqlite+aiosqlite:///{folder / 'console.db'}"
        servers = servers if servers is not None else {"shop": RecordingToolbox(SHOP, {}).config_entry()}
        super().__init__(background, folder, servers, policies, agents, self.database_url, **settings)

    def build_app(self) -> tuple[App, WebServer]:
        redactor = Redactor()
        app = build_app(self.config, self._policies, self._storage, keeps_records=True, redactor=redactor)
        metrics = app.telemetry.enable_metrics(app.snapshot)
        console = Console(console_parts(app, redactor))
        return app, WebServer(app.gateway, self.config, app.access, app.report, metrics.page, console)

    async def link(self, role: ConsoleRole = "operator", person: str = "maria") -> str:
        """Make a link to sign in, as `aggregator console` does; return its path."""
        secret = new_secret()
        async with open_database(self.database_url) as database:
            await database.console.add_link(secret, person, role, now=time.time())
        return f"/console/enter/{secret}"

    async def role_key(self, role: ConsoleRole, label: str = "maria", agent: str = "people") -> str:
        """Make an API key with a role at the console; return it once the gateway knows it."""
        made = new_key(agent, now=time.time(), label=label)
        async with open_database(self.database_url) as database:
            await database.keys.add(replace(made.record, console_role=role))
        await self.background.elsewhere(self.app.key_sync.load())
        return made.text

    @asynccontextmanager
    async def signed_in(
        self, role: ConsoleRole = "operator", person: str = "maria"
    ) -> AsyncIterator[httpx2.AsyncClient]:
        """Give the browser of a person, without a browser: a client with the cookie of a session."""
        async with httpx2.AsyncClient(base_url=self.url, timeout=20) as client:
            entered = await client.post(await self.link(role, person), headers={**OWN_PAGE, **FORM}, content=b"")
            assert entered.status_code == 303, entered.text
            yield client


FORM: Final = {"content-type": "application/x-www-form-urlencoded"}


async def token(client: httpx2.AsyncClient, page: str = "/console/health") -> str:
    """Return the CSRF token of a page."""
    found = _TOKEN.search((await client.get(page)).text)
    assert found is not None
    return found[1]


async def post(client: httpx2.AsyncClient, path: str, **fields: str) -> httpx2.Response:
    """Send a form as a page of the console does."""
    given = {"csrf": await token(client), **fields}
    return await client.post(path, data=given, headers=OWN_PAGE)
