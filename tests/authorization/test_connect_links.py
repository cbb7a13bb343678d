"""An account is connected with a host's link, in a browser; those whom the link was not made for get nothing.

The pages, the vault and the server's issuer are real; the browser is a client with cookies that follows redirects.
"""

import re
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2
import pytest

from aggregator.accounts.connect.entry import Connect
from aggregator.app.app import App
from aggregator.domain.grant_owner import GATEWAY
from aggregator.domain.principal import LOCAL
from aggregator.frontends.server import WebServer
from aggregator.frontends.web.own_address import OwnAddress
from tests.access.secured_harness import SecuredHarness
from tests.authorization.authorization_server import AuthorizationServer, authorization_server
from tests.authorization.protected_mcp_server import ProtectedServer, protected_mcp_server
from tests.authorization.sdk_host import browse
from tests.end_to_end.scripted_host import MODERN, over_http
from tests.peers.serving import BackgroundLoop
from tests.peers.toolbox import Json
from tests.polling import until

SAME: Final = {"sec-fetch-site": "same-origin"}
POLICIES: Final = {"agents": {name: {"allow": ["files.*"]} for name in ("one", "two")}}


class ConnectHarness(SecuredHarness):
    """A gateway with pages, before a server of which each agent uses an account of its own."""

    def __init__(self, background: BackgroundLoop, folder: Path, lists: str = "gateway") -> None:
        self.theirs: AuthorizationServer = background.open(authorization_server())
        self.server: ProtectedServer = background.open(protected_mcp_server(self.theirs))
        auth = {"type": "oauth", "per": "agent", "lists": lists}
        entry: Json = {"url": self.server.url, "auth": auth, "health": {"enabled": False}}
        storage = f"sqlite+aiosqlite:///{folder}/kept.db"
        super().__init__(background, folder, {"files": entry}, POLICIES, ("one", "two"), storage)
        self.connect.listens = self.url

    def build_app(self) -> tuple[App, WebServer]:
        """Build the application with its pages for connecting."""
        app, _ = super().build_app()
        grants = app.grants
        assert grants is not None
        self.connect = Connect(grants, OwnAddress(self.config.http), app.access, None)
        grants.base = self.connect
        return app, WebServer(app.gateway, self.config, app.access, app.report, connect=self.connect)

    async def whoami(self, agent: str) -> Json:
        """Call the tool that says whose account it is called with."""
        async with over_http(self.url, MODERN, self.keys[agent]) as host:
            return await host.call("files.whoami").result()

    async def list_tools(self) -> None:
        """Have the aggregator itself read the server's lists, with an account that its operator connects."""
        await self.background.elsewhere(self._connect_gateway())

        async def listed() -> bool:
            async with over_http(self.url, MODERN, self.keys["one"]) as host:
                return "files.whoami" in {tool["name"] for tool in await host.list()}

        await until(listed)

    async def _connect_gateway(self) -> None:
        grants: Any = self.app.grants
        link = await grants.begin(self.app.upstreams["files"].config, GATEWAY, LOCAL)
        back = f"{self.url}/connect/callback"
        answer = await browse(await grants.start(link.code, back, "browser"), "operator")
        params = {"code": answer.code, "state": answer.state, "iss": answer.iss}
        assert (await grants.answered(params, "browser")).connected

    async def link(self, agent: str) -> str:
        """The path of the link that an agent's host is given."""
        result = await self.whoami(agent)
        assert result["isError"] is True
        found = re.search(rf"{re.escape(self.url)}(/connect/\S+)", result["content"][0]["text"])
        assert found is not None, result
        return found[1].rstrip(".")

    def browser(self, user: str = "alice") -> httpx2.AsyncClient:
        """The browser of a person who is signed in at the server's issuer."""
        return httpx2.AsyncClient(base_url=self.url, cookies={"user": user}, timeout=20, trust_env=False)


@pytest.fixture
async def harness(background: BackgroundLoop, patched: pytest.MonkeyPatch, tmp_path: Path) -> ConnectHarness:
    """A gateway of its own for each test, which has read the server's lists."""
    made = ConnectHarness(background, tmp_path)
    await made.list_tools()
    made.theirs.counts.clear()
    return made


def issuer_link(page: httpx2.Response, issuer: str) -> str:
    """The address of the issuer on the page that leads there."""
    found = re.search(rf'"({re.escape(issuer)}/authorize\?[^"]+)"', page.text)
    assert found is not None, page.text
    return found[1].replace("&amp;", "&")


async def test_person_connects_with_the_link_of_the_call(harness: ConnectHarness) -> None:
    link = await harness.link("one")
    async with harness.browser("alice.there") as browser:
        assert (await browser.get(link)).status_code == 200
        page = await browser.post(link, data={"key": harness.keys["one"]}, headers=SAME)
        assert page.status_code == 200, page.text
        assert harness.keys["one"] not in page.text
        done = await browser.get(issuer_link(page, harness.theirs.issuer), follow_redirects=True)
        assert done.status_code == 200, done.text
        # Neither the link nor the answer of the issuer counts twice.
        assert (await browser.get(link)).status_code == 404
        assert (await browser.get(str(done.url))).status_code == 400

    async def works() -> bool:
        return "structuredContent" in await harness.whoami("one")

    await until(works)
    assert (await harness.whoami("one"))["structuredContent"]["sub"] == "alice.there"
    # The other agent is still asked to connect an account of its own.
    assert (await harness.whoami("two"))["isError"] is True
    assert set(harness.server.callers) == {"alice.there"}


async def test_link_is_of_no_use_to_another(harness: ConnectHarness) -> None:
    link = await harness.link("one")
    async with harness.browser() as browser:
        for key in (harness.keys["two"], "", "agk_nonsense", harness.keys["one"][:-2]):
            assert (await browser.post(link, data={"key": key}, headers=SAME)).status_code == 403
        elsewhere = {"sec-fetch-site": "cross-site", "origin": "https://evil.example.com"}
        right = {"key": harness.keys["one"]}
        for headers in (elsewhere, {"origin": "null"}, {}, {"sec-fetch-site": "same-site"}):
            assert (await browser.post(link, data=right, headers=headers)).status_code == 403
        assert (await browser.get(f"{link}?key={harness.keys['one']}")).status_code == 200
    assert harness.theirs.counts["authorize"] == harness.theirs.counts["register"] == 0


async def test_victim_who_agrees_for_an_attacker_connects_nothing(harness: ConnectHarness) -> None:
    """The attacker begins with their own link, and has another person go to the issuer with what they were given."""
    link = await harness.link("two")
    async with harness.browser() as attacker, harness.browser("victim") as victim:
        page = await attacker.post(link, data={"key": harness.keys["two"]}, headers=SAME)
        answer = await victim.get(issuer_link(page, harness.theirs.issuer), follow_redirects=True)
        assert answer.status_code == 400
        assert urlsplit(str(answer.url)).path == "/connect/callback"
    assert (await harness.whoami("two"))["isError"] is True
    assert harness.theirs.counts["token"] == 0


async def test_answer_of_another_issuer_is_refused(harness: ConnectHarness) -> None:
    """RFC 9207: with the state and a code, but the wrong `iss`; and with none, though one is promised."""
    for issuer in ("https://login.example.com", f"{harness.theirs.issuer}/", None):
        link = await harness.link("one")
        harness.theirs.answer_issuer = issuer
        async with harness.browser() as browser:
            page = await browser.post(link, data={"key": harness.keys["one"]}, headers=SAME)
            answer = await browser.get(issuer_link(page, harness.theirs.issuer), follow_redirects=True)
            assert answer.status_code == 400
    assert harness.theirs.counts["token"] == 0


async def test_first_person_begins_from_a_host(
    background: BackgroundLoop, patched: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    harness = ConnectHarness(background, tmp_path, lists="connected")

    async def away() -> bool:
        return harness.app.upstreams["files"].needs_account

    await until(away)
    async with over_http(harness.url, MODERN, harness.keys["one"]) as host:
        listed = await host.call("list_servers", {"server": "files"}).result()
    for result in (listed, await harness.whoami("one")):
        (error,) = (part for part in result["_meta"].values() if isinstance(part, dict) and "url" in part)
        assert error["code"] == "login_required"
        assert error["url"] in result["content"][0]["text"]
    link = await harness.link("one")
    async with harness.browser("alice.there") as browser:
        await browser.get(link)
        page = await browser.post(link, data={"key": harness.keys["one"]}, headers=SAME)
        done = await browser.get(issuer_link(page, harness.theirs.issuer), follow_redirects=True)
        assert done.status_code == 200, done.text

    async def works() -> bool:
        return "structuredContent" in await harness.whoami("one")

    await until(works)
    # The tools are known now; what the other agent lacks is an account of its own.
    assert await harness.link("two") != link
