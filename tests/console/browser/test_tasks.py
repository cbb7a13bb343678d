"""The tasks that the console is for, done as a person does them."""

import re

import pytest
from playwright.async_api import expect

from aggregator.storage.audit.read import AuditReader, LogFilter
from aggregator.storage.database import open_database
from tests.console.browser.conftest import OpenTab
from tests.console.browser.gateway import Gateway
from tests.console.browser.tab import Tab
from tests.console.demo.world import LAST_WORDS, SHOP
from tests.polling import until

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_sign_in_by_link(gateway: Gateway, open_as: OpenTab) -> None:
    """The link signs in once: the page has a button, so that what previews links uses none up."""
    link = await gateway.link("viewer", "jonas")
    async with open_as(None) as tab:
        await tab.page.goto(link)
        await tab.page.reload()
        await tab.page.get_by_role("button", name="Sign in").click()
        await expect(tab.page.get_by_text("jonas, viewer")).to_be_visible()
        await tab.page.goto(link)
        await tab.page.get_by_role("button", name="Sign in").click()
        await expect(tab.page.get_by_role("alert")).to_contain_text("used already")


async def test_sign_in_by_key_and_out(gateway: Gateway, open_as: OpenTab) -> None:
    """A key without a role opens nothing; after signing out the cookie is worth nothing."""
    key, plain = await gateway.console_key("sales-desk", "approver"), await gateway.console_key("sales-desk", None)
    async with open_as(None) as tab:
        await tab.go("/calls?q=status:denied")
        for given in (plain, key):
            await tab.page.get_by_label("The key").fill(given)
            await tab.page.get_by_role("button", name="Sign in").click()
            if given == plain:
                await expect(tab.page.get_by_role("alert")).to_contain_text("--console")
        await expect(tab.page).to_have_url(f"{gateway.url}/console/calls?q=status:denied")
        cookies = await tab.context.cookies()
        await tab.page.get_by_role("button", name="Sign out").click()
        await tab.context.add_cookies(cookies)  # type: ignore[arg-type]
        await tab.go("/")
        await expect(tab.page.get_by_label("The key")).to_be_visible()


async def test_why_a_server_is_down(tab: Tab) -> None:
    """From the list of servers to the last words of the one that is away."""
    await tab.go("/servers")
    row = tab.page.get_by_role("row").filter(has_text="erp")
    await expect(row).to_contain_text("unavailable")
    await row.get_by_role("link").first.click()
    await expect(tab.page.get_by_role("main")).to_contain_text(LAST_WORDS)
    await expect(tab.page.get_by_role("main")).to_contain_text("exit code 3")


async def test_try_a_tool_as_another_agent(gateway: Gateway, tab: Tab) -> None:
    """The call takes the road of every call: it is on record as that agent's, made at the console by this person."""
    await tab.go("/tools?q=list+the+orders+of+a+customer")
    await tab.page.get_by_role("link", name="crm.list_orders").first.click()
    form = tab.page.locator("form.try").first
    await form.get_by_label("As agent").fill("sales-desk")
    await form.get_by_label("customer_id").fill("c-9")
    await form.get_by_label("limit").fill("500")
    await form.get_by_role("button", name="Call it").click()
    tried = tab.page.locator("#tried")
    await expect(tried).to_contain_text("at most 50")
    await form.get_by_label("limit").fill("5")
    await form.get_by_role("button", name="Call it").click()
    await expect(tried).to_contain_text("400 x model B")
    async with open_database(gateway.world.storage) as database:
        found = await AuditReader(database.engine).newest(LogFilter(agent="sales-desk", tool="crm.list_orders"), 1)
    kept = found[0].values
    assert (kept["frontend"], kept["user_id"], kept["status"]) == ("console", "maria", "ok")


async def test_compare_two_definitions(gateway: Gateway, open_as: OpenTab) -> None:
    """A server that changes what it says of a tool: after its restart the difference is marked."""
    async with open_as("operator") as tab:
        await tab.go("/tools/crm.send_offer/versions")
        await expect(tab.page.get_by_role("radio")).to_have_count(2)
        gateway.world.use_definitions("crm-2", "crm")
        await tab.go("/servers/crm")
        await tab.page.get_by_role("button", name="Restart").click()

        async def two_are_kept() -> bool:
            await tab.go("/tools/crm.send_offer/versions")
            return await tab.page.get_by_role("radio").count() == 4

        await until(two_are_kept, "the new definition is kept")
        await tab.page.get_by_role("button", name="Compare").click()
        await expect(tab.page.locator("ins").first).to_contain_text("last three invoices")
        await expect(tab.page.get_by_role("main")).to_contain_text("bcc")


async def test_what_a_deny_changes(tab: Tab) -> None:
    """A line is put into a file beside the one in force; who loses what is said, and nothing is written."""
    await tab.go("/policies/diff?name=shop.yaml")
    edited = SHOP.replace('      - "*.delete_*"\n', '      - "*.delete_*"\n      - "mail.*"\n')
    await tab.page.get_by_label("As it would be").fill(edited)
    await tab.page.get_by_role("button", name="What would change?").click()
    changes = tab.page.locator("#changes")
    await expect(changes).to_contain_text("Nothing was written")
    group = changes.locator("details.group").filter(has_text="mail.*")
    await expect(group).to_contain_text("2 agents lose 3 tools")
    await group.locator("summary").click()
    await expect(group).to_contain_text("sales-desk")
    await tab.page.get_by_label("As it would be").fill(SHOP.replace("roles:", "rolls:", 1))
    await tab.page.get_by_role("button", name="What would change?").click()
    await expect(changes).to_contain_text("would not come into force")
    await tab.go("/tools?as=sales-desk&q=read+a+mail+thread")
    await expect(tab.page.get_by_role("link", name="mail.read_thread")).to_be_visible()


async def test_why_is_told_with_the_line(tab: Tab) -> None:
    """For an agent, a tool and arguments: each rule that spoke, with its file and line, which opens the file there."""
    await tab.go("/policies?agent=support-bot&tool=crm.delete_customer")
    answer = tab.page.locator("#answer")
    await expect(answer).to_contain_text("*.delete_*")
    await answer.get_by_role("link", name="shop.yaml:9").first.click()
    await expect(tab.page.locator("#L9, .lit, mark").first).to_contain_text("*.delete_*")


async def test_a_refused_part_of_a_page_is_told(open_as: OpenTab) -> None:
    """What scripts ask for and do not get is said on the page, which keeps what was typed; nothing fails in silence."""
    async with open_as("operator") as tab:
        await tab.go("/policies/diff?name=shop.yaml")
        await tab.page.get_by_label("As it would be").fill("roles: {}")
        await tab.page.locator("form.edit input[name=csrf]").evaluate("(field) => { field.value = 'old' }")
        await tab.page.get_by_role("button", name="What would change?").click()
        await expect(tab.page.get_by_role("main")).to_contain_text("This form is too old")
        await expect(tab.page.get_by_label("As it would be")).to_have_value("roles: {}")
        tab.troubles[:] = [one for one in tab.troubles if "Response Status Error Code 400" not in one]


async def test_a_session_that_ended_leads_to_where_one_signs_in(gateway: Gateway, open_as: OpenTab) -> None:
    """Also where only a part of a page was asked for; one comes back to the same page."""
    async with open_as(None) as tab:
        await tab.page.goto(await gateway.link("viewer", "petra"))
        await tab.page.get_by_role("button", name="Sign in").click()
        await tab.go("/tools?level=2")
        await tab.context.clear_cookies()
        await tab.page.get_by_placeholder("Search, as search_tools does").fill("weather")
        await tab.page.wait_for_url(re.compile(r"/console/sign-in\?then="))
        assert "level%3D2" in tab.page.url
