"""Holds pages of other origins off, in a browser that is signed in: they read nothing, do nothing and frame nothing.

The other origin is another port of this machine, which the browser calls the same site: a Strict cookie goes along.
"""

from collections.abc import AsyncIterator
from typing import Any, Final

import pytest
import pytest_asyncio
from playwright.async_api import Page, expect
from starlette.responses import HTMLResponse
from starlette.types import Receive, Scope, Send

from tests.console.browser.conftest import OpenTab
from tests.console.browser.gateway import Gateway
from tests.console.browser.tab import Tab
from tests.peers.serving import serving

pytestmark = pytest.mark.asyncio(loop_scope="session")

_READ: Final = """async (url) => {
    try { return await (await fetch(url, {credentials: 'include'})).text() } catch (error) { return 'refused' }
}"""
_POST: Final = """async ([url, fields, mode]) => {
    const body = new URLSearchParams(fields)
    try { return (await fetch(url, {method: 'POST', credentials: 'include', mode, body})).status } catch { return -1 }
}"""
_FRAMED: Final = """(url) => new Promise((done) => {
    const frame = document.createElement('iframe')
    frame.onload = () => {
        try { done(frame.contentDocument === null ? 'another origin' : frame.contentDocument.body.innerText) }
        catch (error) { done('another origin') }
    }
    frame.src = url
    document.body.append(frame)
})"""
_OPENED: Final = """async (url) => {
    const opened = window.open(url)
    for (let turn = 0; turn < 200 && !opened.closed; turn++) await new Promise((go) => setTimeout(go, 10))
    try { return [opened.closed, opened.document.title] } catch (error) { return [opened.closed, 'refused'] }
}"""
_SCRIPT: Final = """(url) => new Promise((done) => {
    const script = document.createElement('script')
    script.onload = () => done('loaded')
    script.onerror = () => done('refused')
    script.src = url
    document.head.append(script)
})"""


@pytest_asyncio.fixture(loop_scope="session")
async def elsewhere() -> AsyncIterator[str]:
    """A page at another port."""

    async def page(scope: Scope, receive: Receive, send: Send) -> None:
        await HTMLResponse("<!doctype html><title>elsewhere</title><p>A page of somebody else.")(scope, receive, send)

    async with serving(page) as address:
        yield address


@pytest_asyncio.fixture(loop_scope="session")
async def their_page(tab: Tab, elsewhere: str) -> AsyncIterator[Page]:
    """A tab of another origin in the browser of an operator; what goes wrong in it is as it should be."""
    page = await tab.context.new_page()
    await page.goto(elsewhere)
    yield page
    await tab.go("/health")
    await expect(tab.page.get_by_text("maria, operator")).to_be_visible()


async def test_nothing_is_read(their_page: Page, gateway: Gateway) -> None:
    for path in ("/console/health", "/console/health.json", "/console/calls.json", "/console/approvals.json"):
        assert await their_page.evaluate(_READ, f"{gateway.url}{path}") == "refused"
        assert await their_page.evaluate(_SCRIPT, f"{gateway.url}{path}") == "refused"


@pytest.mark.parametrize("mode", ["no-cors", "cors"])
async def test_nothing_is_done(their_page: Page, tab: Tab, gateway: Gateway, mode: str) -> None:
    """Not even with the token of a form, should it ever leak; a request that cannot be read is made all the same."""
    await tab.go("/health")
    csrf = await tab.page.locator("input[name=csrf]").first.get_attribute("value")
    for action in ("/sign-out", "/servers/crm/disable", "/approvals/none"):
        given: list[Any] = [f"{gateway.url}/console{action}", {"csrf": csrf}, mode]
        assert await their_page.evaluate(_POST, given) == (0 if mode == "no-cors" else -1)


async def test_no_form_of_theirs_is_taken(their_page: Page, tab: Tab, gateway: Gateway) -> None:
    await tab.go("/health")
    csrf = await tab.page.locator("input[name=csrf]").first.get_attribute("value")
    await their_page.evaluate(
        """([url, csrf]) => {
            const form = document.createElement('form')
            form.method = 'post'
            form.action = url
            form.innerHTML = `<input name="csrf" value="${csrf}">`
            document.body.append(form)
            form.submit()
        }""",
        [f"{gateway.url}/console/sign-out", csrf],
    )
    await expect(their_page.get_by_text("is not allowed here")).to_be_visible()


async def test_no_page_is_framed(their_page: Page, gateway: Gateway) -> None:
    """Clickjacking: an Approve under somebody's mouse."""
    assert await their_page.evaluate(_FRAMED, f"{gateway.url}/console/health") == "another origin"
    framed = [frame for frame in their_page.frames if frame is not their_page.main_frame]
    assert "maria" not in (await framed[0].content())


async def test_a_window_of_ours_is_out_of_their_hands(their_page: Page, gateway: Gateway) -> None:
    """An opener is cut off: it cannot lead the window to a page that looks like ours."""
    closed, title = await their_page.evaluate(_OPENED, f"{gateway.url}/console/health")
    assert closed, "the opener still holds the window"
    assert title == "refused" or "Health" not in title


async def test_a_link_from_elsewhere_leads_in(tab: Tab, gateway: Gateway, open_as: OpenTab) -> None:
    """A Strict cookie does not come with a link of another site, such as a chat: the page asks once more by itself."""
    port = gateway.url.rpartition(":")[2]

    async def page(scope: Scope, receive: Receive, send: Send) -> None:
        link = f"<!doctype html><a href='{gateway.url}/console/health'>Look</a>"
        await HTMLResponse(link)(scope, receive, send)

    async with serving(page) as address:
        # Another site, by its name; both lead to this machine.
        await tab.page.goto(address.replace("127.0.0.1", "localhost"))
        assert port not in tab.page.url
        await tab.page.get_by_text("Look").click()
        await expect(tab.page.get_by_text("maria, operator")).to_be_visible()
    tab.troubles.clear()
