"""Shows a browser what hostile servers, hosts and agents wrote: nothing runs, nothing is loaded, the page is ours."""

import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from aggregator.storage.database import open_database
from tests.console.browser.tab import PHONE, Tab, open_tab
from tests.console.console_harness import ConsoleHarness
from tests.console.hostile import MARKUP, POLICIES, TEXT, calls, servers
from tests.end_to_end.scripted_host import MODERN
from tests.peers.serving import BackgroundLoop

pytestmark = pytest.mark.asyncio(loop_scope="session")

PAGES: Final = (
    "/",
    "/calls",
    "/approvals",
    "/tools",
    "/tools?q=pay&level=3",
    "/tools/evil.fail",
    "/tools/evil.fail/versions",
    "/servers",
    "/servers/dead",
    "/agents/clerk",
    "/policies?agent=clerk&tool=evil.fail",
    "/health",
    "/events",
)
_META: Final = {"aggregator/conversation_id": TEXT, "aggregator/user_id": TEXT}


@dataclass
class HostileGateway:
    """A gateway in front of hostile servers."""

    console: ConsoleHarness
    states: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return self.console.url

    @url.setter
    def url(self, url: str) -> None:
        raise AttributeError(url)

    async def link(self, role: Any = "operator", person: str = "maria") -> str:
        """Return a link to sign in with."""
        return f"{self.url}{await self.console.link(role, person)}"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostileGateway]:
    """Run the gateway in a loop of its own, since the browser has the tests' loop."""
    audit = {"capture": "full", "flush_interval": "10ms", "max_captured_bytes": "1MiB"}
    with BackgroundLoop() as background:
        folder = tmp_path_factory.mktemp("hostile")
        yield HostileGateway(ConsoleHarness(background, folder, servers(), POLICIES, audit=audit))


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def victim(browser: Browser, hostile: HostileGateway) -> AsyncIterator[Tab]:
    """Open a tab of an operator, whose name is hostile too, after calls of every kind."""
    async with hostile.console.connect_as(("http", MODERN), "clerk") as host:
        for name, arguments in calls():
            await host.ask("tools/call", {"name": name, "arguments": arguments}, _META).message()
    async with open_tab(browser, hostile, "operator", MARKUP[:60]) as tab:
        yield tab


async def unharmed(tab: Tab) -> None:
    """Hold a page to it that no script of another ran, and no frame, image or form of another is there."""
    assert await tab.page.evaluate("window.hacked === undefined")
    assert await tab.page.locator("img, iframe, object, embed, style, form[action*='evil.example']").count() == 0
    assert tab.troubles == []


@pytest.mark.parametrize("path", PAGES)
async def test_nothing_runs_and_the_page_is_whole(victim: Tab, path: str) -> None:
    """At both widths: texts without a place to break make no page wider than its window."""
    for width, height in ((1280, 900), PHONE):
        await victim.page.set_viewport_size({"width": width, "height": height})
        assert await victim.go(path) == 200
        await unharmed(victim)
        assert await victim.overflow() == 0, f"wider than {width} pixels"
        await expect(victim.page.locator("header.top nav")).to_be_visible()


async def test_a_question_with_hostile_arguments(victim: Tab, hostile: HostileGateway) -> None:
    async with open_database(hostile.console.database_url) as database:
        (question,) = await database.approvals.list("pending", now=time.time())
    for width, height in ((1280, 900), PHONE):
        await victim.page.set_viewport_size({"width": width, "height": height})
        await victim.go(f"/approvals/{question.id}")
        await unharmed(victim)
        assert await victim.overflow() == 0
    await expect(victim.page.get_by_title("letters of more than one script").first).to_be_visible()


async def test_a_call_with_hostile_values(victim: Tab) -> None:
    """Whatever was called: a tool of theirs, one that is not there, the search."""
    await victim.go("/calls")
    links = await victim.page.locator("#rows a.tool").evaluate_all("(all) => all.map((link) => link.pathname)")
    assert len(links) == len(calls())
    for link in links:
        await victim.page.goto(f"{victim.gateway.url}{link}")
        await unharmed(victim)
        assert await victim.overflow() == 0, link


async def test_rows_that_arrive_are_as_harmless(victim: Tab, hostile: HostileGateway) -> None:
    """What the stream brings is put into a page that runs already."""
    await victim.page.set_viewport_size({"width": 1280, "height": 900})
    await victim.go("/calls?q=status:error")
    await expect(victim.page.locator("[data-state-text]")).to_have_text("live")
    before = await victim.page.locator("#rows tr").count()
    async with hostile.console.connect_as(("http", MODERN), "clerk") as host:
        await host.ask("tools/call", {"name": "evil.fail", "arguments": {"text": TEXT}}, _META).message()
    await expect(victim.page.locator("#rows tr")).to_have_count(before + 1)
    await unharmed(victim)
