"""The grants of the program itself, end to end: connected once by a browser, then refreshed without a person."""

from pathlib import Path

import httpx2

from aggregator.accounts.grants.grants import Grants
from aggregator.app.app import App
from aggregator.app.build import build_app
from aggregator.domain.grant_owner import SHARED
from aggregator.domain.principal import LOCAL
from aggregator.frontends.server import WebServer
from tests.accounts.conftest import AccountsHarness
from tests.accounts.test_shared_account import subject
from tests.authorization.sdk_host import BACK
from tests.end_to_end.scripted_host import MODERN
from tests.peers.serving import BackgroundLoop


class KeptHarness(AccountsHarness):
    """A harness whose accounts are kept in the database."""

    def build_app(self) -> tuple[App, WebServer]:
        """Build the application as the program does."""
        app = build_app(self.config, self._policies, self._storage)
        return app, WebServer(app.gateway, self.config, app.access, app.report)

    async def sign_in(self) -> None:
        """Follow a link in a browser, and come back with the answer."""
        grants = self.app.grants
        assert isinstance(grants, Grants)
        link = await grants.begin(self.app.upstreams["files"].config, SHARED, LOCAL)
        to = await grants.start(link.code, BACK, "a browser")
        async with httpx2.AsyncClient() as browser:
            back = (await browser.get(to)).headers["location"]
        outcome = await grants.answered(list(httpx2.URL(back).params.multi_items()), "a browser")
        assert outcome.connected, outcome.said


async def test_connected_once(tmp_path: Path) -> None:
    """The server is there as soon as the account is; a token that it refuses is renewed, and no call runs twice."""
    with BackgroundLoop() as running:
        storage = f"sqlite+aiosqlite:///{tmp_path / 'kept.db'}"
        harness = KeptHarness(running, tmp_path, {"auth": {"per": "shared"}}, storage=storage)
        assert "login required" in harness.app.upstreams["files"].reason
        await harness.background.elsewhere(harness.sign_in())
        await harness.ready_to_call()
        async with harness.connect_as(("http", MODERN), "one") as host:
            assert subject(await host.call("files.whoami").result()) == "alice"
            before = harness.protected.seen[-1]
            assert before is not None
            harness.protected.refuses.add(before.removeprefix("Bearer "))
            assert subject(await host.call("files.whoami").result()) == "alice"
        assert harness.protected.seen[-1] != before
        assert harness.ran == ["alice", "alice"]
