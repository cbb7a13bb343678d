"""Accounts in a browser: an operator connects and revokes in the console, a host's link is followed on a phone."""

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from tests.authorization.authorization_server import authorization_server
from tests.authorization.protected_mcp_server import protected_mcp_server
from tests.console.browser.gateway import Gateway
from tests.console.browser.tab import PHONE, Tab, open_tab
from tests.console.demo.world import World
from tests.end_to_end.programs import serving
from tests.end_to_end.scripted_host import MODERN, over_http
from tests.peers.toolbox import Json
from tests.polling import until

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(loop_scope="session")
async def accounts(tmp_path: Path) -> AsyncIterator[Gateway]:
    """Run a gateway before one server, of which each agent uses an account of its own."""
    async with authorization_server() as idp, protected_mcp_server(idp) as server:
        config = tmp_path / "aggregator.json"
        storage = f"sqlite+aiosqlite:///{tmp_path / 'kept.db'}"
        entry = {"url": server.url, "auth": {"per": "agent"}}
        config.write_text(json.dumps({"mcpServers": {"files": entry}, "storage": storage}))
        async with serving(config) as program:
            yield Gateway(World(tmp_path, config, tmp_path / "policies", {}), program.url, program.log)


async def whoami(gateway: Gateway) -> Json:
    """Call the tool that says whose account it is called with, without a key on this machine."""
    async with over_http(gateway.url, MODERN) as host:
        return await host.call("files.whoami").result()


async def is_fine(tab: Tab) -> None:
    """Hold a page to what all pages are held to."""
    assert await tab.faults() == []
    assert await tab.overflow() == 0


async def test_accounts_are_connected_followed_and_revoked(browser: Browser, accounts: Gateway) -> None:
    async with open_tab(browser, accounts, "operator") as tab:
        await tab.go("/connections")
        await is_fine(tab)
        await tab.page.get_by_role("row", name="the aggregator").get_by_role("button", name="Connect").click()
        await expect(tab.page.get_by_text("The account of the aggregator at files is connected.")).to_be_visible()

        async def asked() -> bool:
            return "connect/" in str((await whoami(accounts))["content"])

        await until(asked, "the tools are listed, and the agent is asked to connect its account")
        found = re.search(r"http://\S+/connect/[\w-]+", (await whoami(accounts))["content"][0]["text"])
        assert found is not None
        async with open_tab(browser, accounts, None, size=PHONE, dark=True) as phone:
            await phone.page.goto(found[0])
            await is_fine(phone)
            await phone.page.get_by_role("button", name="Continue").click()
            await expect(phone.page.get_by_text("The account of agent local at files is connected.")).to_be_visible()
            await is_fine(phone)
            at_issuer(phone)

        async def works() -> bool:
            return not (await whoami(accounts)).get("isError")

        await until(works, "calls are made with the account")
        await tab.go("/connections")
        await is_fine(tab)
        await tab.page.get_by_role("row", name="agent local").get_by_role("button", name="Revoke").click()
        await expect(tab.page.get_by_role("heading", name="Not connected")).to_be_visible()
        assert (await whoami(accounts))["isError"] is True
        at_issuer(tab)


def at_issuer(tab: Tab) -> None:
    """Forget the one request that belongs elsewhere: to the page of the issuer."""
    tab.troubles[:] = [
        one for one in tab.troubles if not re.match(r"request: http://127\.0\.0\.1:\d+/authorize\?", one)
    ]
