"""A tool that waits for an approval, from what needs a person on to the yes: it is a hole nowhere."""

import pytest
from playwright.async_api import expect

from tests.console.browser.conftest import OpenTab
from tests.console.browser.gateway import Gateway
from tests.console.browser.tab import PHONE, Tab
from tests.polling import until

pytestmark = pytest.mark.asyncio(loop_scope="session")
TOOL = "maps.route"


async def is_fine(tab: Tab) -> None:
    """Hold a page to what all pages are held to."""
    assert await tab.faults() == []
    assert await tab.overflow() == 0


@pytest.mark.parametrize("role", ["viewer", "approver"])
async def test_others_see_why_and_get_no_button(open_as: OpenTab, role: str) -> None:
    async with open_as(role, "petra") as tab:
        assert await tab.go(f"/tools/{TOOL}") == 200
        main = tab.page.get_by_role("main")
        await expect(main).to_contain_text("Not listed, and not called")
        await expect(main).to_contain_text("An operator approves it.")
        await expect(tab.page.get_by_role("button", name="Approve")).to_have_count(0)
        await is_fine(tab)


async def test_from_the_overview_to_the_yes(gateway: Gateway, open_as: OpenTab) -> None:
    """On a phone, in the dark: the overview names the server, its page what changed; after the yes it is a tool."""
    async with open_as("operator", size=PHONE, dark=True) as tab:
        await tab.go("/")
        needs = tab.page.get_by_role("listitem").filter(has_text="held: changed since approved")
        await needs.get_by_role("link", name="maps").tap()
        await expect(tab.page.locator("ins").first).to_be_visible()
        await is_fine(tab)
        await tab.page.get_by_role("link", name="The tool").tap()
        await expect(tab.page.get_by_role("heading", level=2, name=TOOL)).to_contain_text("held")
        await expect(tab.page.get_by_role("main")).to_contain_text("sales-desk")
        await is_fine(tab)
        await tab.page.get_by_role("button", name="Approve what it says now").tap()
        await tab.page.wait_for_url("**/pins/maps")

        async def is_there() -> bool:
            await tab.go(f"/tools/{TOOL}")
            return await tab.page.get_by_role("heading", name="What a model reads").count() == 1

        await until(is_there, "the tool is listed")
        await tab.go("/")
        await expect(tab.page.get_by_role("main")).not_to_contain_text("held: changed since approved")
