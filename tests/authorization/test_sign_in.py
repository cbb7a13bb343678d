"""A person whose host came in with a token connects an account of their own, once they have signed in at the page.

The gateway, its pages, the vault and both issuers are real; the browser is a client with cookies.
"""

import re
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from aggregator.accounts.app.pages import connect_pages
from aggregator.app.app import App
from aggregator.domain.grant_owner import GATEWAY
from aggregator.domain.principal import LOCAL
from aggregator.frontends.server import WebServer
from tests.authorization.authorization_server import AuthorizationServer, authorization_server
from tests.authorization.protected_mcp_server import ProtectedServer, protected_mcp_server
from tests.authorization.resource_harness import Issuers, ResourceHarness, good, policies
from tests.authorization.sdk_host import browse
from tests.end_to_end.scripted_host import MODERN, over_http
from tests.peers.serving import BackgroundLoop
from tests.peers.toolbox import Json
from tests.polling import until

SAME: Final = {"sec-fetch-site": "same-origin"}
ALLOWED: Final = {"allow": ["files.*"]}


class SignInHarness(ResourceHarness):
    """A gateway with pages, between a company's people and a server at which each has an account."""

    def __init__(self, background: BackgroundLoop, folder: Path, **auth: str) -> None:
        issuers = Issuers(background, "company")
        self.company = issuers["company"]
        self.theirs: AuthorizationServer = background.open(authorization_server("/tenant"))
        self.server: ProtectedServer = background.open(protected_mcp_server(self.theirs))
        if auth:
            # The company vouches for its people at the server's issuer.
            auth["idp"] = self.company.issuer
            self.theirs.trusted.append(self.company)
            self.theirs.add_client("gateway", "s3")
        entry: Json = {"url": self.server.url, "auth": {"per": "user", **auth}, "health": {"enabled": False}}
        agents = {**policies(issuers)["agents"], "clerk": ALLOWED}
        client = {"sign_in": {"client_id": "gateway", "client_secret": "s3"}}
        super().__init__(background, folder, issuers, {"company": client}, {"agents": agents}, others={"files": entry})
        self.company.add_client("gateway", "s3", redirect_uris=[f"{self.url}/connect/signed-in"])
        self.connect.listens = self.url

    def build_app(self) -> tuple[App, WebServer]:
        """Build the application with its pages for connecting."""
        app, _ = super().build_app()
        self.connect = connect_pages(app)
        return app, WebServer(app.gateway, self.config, app.access, app.report, connect=self.connect)

    async def whoami(self, person: str) -> Json:
        async with over_http(self.url, MODERN, good(self.company, person)) as host:
            return await host.call("files.whoami").result()

    async def list_tools(self) -> None:
        """Have the aggregator itself read the server's lists."""
        await self.background.elsewhere(self._connect_gateway())

        async def listed() -> bool:
            async with over_http(self.url, MODERN, good(self.company)) as host:
                return "files.whoami" in {tool["name"] for tool in await host.list()}

        await until(listed)

    async def _connect_gateway(self) -> None:
        grants: Any = self.app.grants
        link = await grants.begin(self.app.upstreams["files"].config, GATEWAY, LOCAL)
        answer = await browse(await grants.start(link.code, f"{self.url}/connect/callback", "b"), "operator")
        params = {"code": answer.code, "state": answer.state, "iss": answer.iss}
        assert (await grants.answered(params, "b")).connected

    async def link_of(self, person: str) -> str:
        """The path of the link that a person's host is given."""
        result = await self.whoami(person)
        assert result["isError"] is True
        found = re.search(rf"{re.escape(self.url)}(/connect/\S+)", result["content"][0]["text"])
        assert found is not None, result
        return found[1].rstrip(".")

    def browser(self, user: str) -> httpx2.AsyncClient:
        """The browser of a person who is signed in at both issuers."""
        return httpx2.AsyncClient(base_url=self.url, cookies={"user": user}, timeout=20, trust_env=False)

    async def sign_in(self, browser: httpx2.AsyncClient, link: str) -> httpx2.Response:
        """Press the button of the page, and come back from the company's issuer."""
        page = await browser.post(link, headers=SAME)
        assert page.status_code == 200, page.text
        answer = await browser.get(leads_to(page, self.company))
        assert answer.status_code == 302, answer.text
        return await browser.get(answer.headers["location"])


def leads_to(page: httpx2.Response, issuer: AuthorizationServer) -> str:
    """The address of an issuer on a page that leads there."""
    found = re.search(rf'"({re.escape(issuer.issuer)}/authorize\?[^"]+)"', page.text)
    assert found is not None, page.text
    return found[1].replace("&amp;", "&")


@pytest.fixture
def harness(background: BackgroundLoop, patched: pytest.MonkeyPatch, tmp_path: Path) -> SignInHarness:
    return SignInHarness(background, tmp_path)


async def test_person_signs_in_and_connects_their_own_account(harness: SignInHarness) -> None:
    await harness.list_tools()
    link = await harness.link_of("alice")
    async with harness.browser("alice") as browser:
        shown = await browser.get(link)
        assert "Sign in and continue" in shown.text
        page = await harness.sign_in(browser, link)
        assert page.status_code == 200, page.text
        done = await browser.get(leads_to(page, harness.theirs), follow_redirects=True)
        assert done.status_code == 200, done.text
        # Neither sign-in nor answer counts twice.
        assert (await browser.get(str(page.url))).status_code == 400

    async def works() -> bool:
        return "structuredContent" in await harness.whoami("alice")

    await until(works)
    assert (await harness.whoami("alice"))["structuredContent"]["sub"] == "alice"
    # bob is the same agent, and has no account.
    assert (await harness.whoami("bob"))["isError"] is True


async def test_link_of_one_person_is_of_no_use_to_another(harness: SignInHarness) -> None:
    await harness.list_tools()
    before = harness.theirs.counts["authorize"]
    link = await harness.link_of("alice")
    async with harness.browser("bob") as browser:
        page = await harness.sign_in(browser, link)
    assert page.status_code == 403
    assert "made for another person" in page.text
    assert harness.theirs.counts["authorize"] == before


async def test_answer_counts_in_the_browser_that_went_on_only(harness: SignInHarness) -> None:
    await harness.list_tools()
    link = await harness.link_of("alice")
    async with harness.browser("alice") as browser, harness.browser("alice") as other:
        page = await browser.post(link, headers=SAME)
        answer = await browser.get(leads_to(page, harness.company))
        back = answer.headers["location"]
        assert (await other.get(back)).status_code == 400
        # The address is known to two by now.
        assert (await browser.get(back)).status_code == 400
        assert (await browser.get("/connect/signed-in?state=x&code=y")).status_code == 400
        for method in ("POST", "HEAD"):
            assert (await browser.request(method, "/connect/signed-in", headers=SAME)).status_code == 405


@pytest.mark.parametrize(
    "claims",
    [
        {"nonce": "n"},
        {"nonce": None},
        {"aud": "other"},
        {"aud": ["gateway", "other"]},
        {"azp": "other"},
        {"exp": 1},
        {"iat": None},
        {"iss": "https://other.example.com"},
    ],
)
async def test_id_token_that_proves_nothing_is_refused(
    harness: SignInHarness, monkeypatch: pytest.MonkeyPatch, claims: Json
) -> None:
    await harness.list_tools()
    link, sign = await harness.link_of("alice"), harness.company.keys.sign
    monkeypatch.setattr(harness.company.keys, "sign", lambda facts, **more: sign({**facts, **claims}, **more))
    async with harness.browser("alice") as browser:
        page = await harness.sign_in(browser, link)
    assert page.status_code == 400
    assert "is not accepted" in page.text


async def test_signing_in_is_enough_where_the_company_vouches(
    background: BackgroundLoop, patched: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    auth = {"grant": "enterprise", "client_id": "gateway", "client_secret": "s3", "lists": "connected"}
    harness = SignInHarness(background, tmp_path, **auth)
    link = await harness.link_of("alice")
    async with harness.browser("alice") as browser:
        done = await harness.sign_in(browser, link)
        assert done.status_code == 200, done.text
        assert "You are signed in" in done.text
        assert (await browser.get(link)).status_code == 404

    async def works() -> bool:
        return "structuredContent" in await harness.whoami("alice")

    await until(works)
    assert (await harness.whoami("alice"))["structuredContent"]["sub"] == "alice"
    assert (await harness.whoami("bob"))["isError"] is True
    assert set(harness.server.callers) == {"alice"}
