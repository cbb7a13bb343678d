"""Calls as they happen: rows that arrive, one call in full, a lost connection, all of it by keys alone."""

import re
from dataclasses import replace
from typing import Final

import pytest
from playwright.async_api import Browser, expect

from aggregator.storage.audit.read import AuditReader, LogFilter
from aggregator.storage.database import open_database
from tests.console.browser.conftest import OpenTab
from tests.console.browser.cut_line import line_to
from tests.console.browser.gateway import Gateway
from tests.console.browser.tab import PHONE, Tab, open_tab
from tests.polling import until

pytestmark = pytest.mark.asyncio(loop_scope="session")

# Of the stream, which is opened again after a pause.
_AGAIN: Final = 15_000.0


def of(conversation: str) -> dict[str, str]:
    """Return the metadata of a call of one conversation."""
    return {"aggregator/conversation_id": conversation}


async def is_live(tab: Tab) -> None:
    """Wait until the stream of a list is open."""
    await expect(tab.page.locator("[data-state-text]")).to_have_text("live", timeout=_AGAIN)


async def test_a_call_arrives_and_is_opened(gateway: Gateway, tab: Tab) -> None:
    """The row comes by itself, once; its page has the arguments, the answer, and the way step by step."""
    async with gateway.host("sales-desk") as host:
        await tab.go("/calls?q=conversation:arrives")
        await expect(tab.page.locator("#rows tr")).to_have_count(0)
        await is_live(tab)
        await host.call("crm.get_customer", {"customer_id": "c-9"}, **of("arrives")).result()
        await host.call("crm.get_customer", {"customer_id": "c-9"}, **of("another")).result()
        row = tab.page.locator("#rows tr")
        await expect(row).to_have_count(1)
        await expect(row).to_contain_text("sales-desk")
        await row.get_by_role("link").click()
        shown = tab.page.locator("#call")
        await expect(shown).to_contain_text("c-9")
        await expect(shown).to_contain_text("Li & Partners Trading Co.")
        await expect(shown.locator(".steps")).to_contain_text("crm")
        await expect(shown).to_contain_text("aggregator call")


async def test_find_the_refusals_of_an_agent_and_the_line(tab: Tab, with_calls: None) -> None:
    """From the list to the rule that refused, with file and line."""
    await tab.go("/calls")
    await tab.page.get_by_label("Find calls").fill("agent:support-bot status:refused")
    await tab.page.get_by_role("button", name="Find").click()
    rows = tab.page.locator("#rows tr")
    await expect(rows.first).to_contain_text("support-bot")
    assert await rows.count() == await rows.filter(has_text="denied").count() >= 3
    await rows.filter(has_text="delete_customer").first.get_by_role("link").first.click()
    shown = tab.page.locator("#call")
    await expect(shown).to_contain_text("*.delete_*")
    await expect(shown).to_contain_text("shop.yaml:9")


async def test_a_wrong_word_is_told_and_the_rows_stay(tab: Tab, with_calls: None) -> None:
    await tab.go("/calls?q=agnet:support-bot")
    await expect(tab.page.get_by_role("status").first).to_contain_text("agent")
    await expect(tab.page.locator("#rows tr").first).to_be_visible()


async def test_a_reference_is_opened(gateway: Gateway, tab: Tab) -> None:
    """The beginning of a trace's id, as an agent or a log gives it, leads to its call."""
    async with gateway.host("support-bot") as host:
        refused = await host.call("crm.delete_customer", {"customer_id": "c-1"}, **of("reference")).result()
    assert refused["isError"]
    traces: list[str] = []
    async with open_database(gateway.world.storage) as database:

        async def is_on_record() -> bool:
            rows = await AuditReader(database.engine).newest(LogFilter(agent="support-bot"), 10)
            traces[:] = [one.values["trace_id"] for one in rows if one.values.get("conversation_id") == "reference"]
            return bool(traces)

        await until(is_on_record, "the call is in the audit")
    await tab.go("/calls")
    await tab.page.get_by_label("Find calls").fill(traces[0][:8])
    await tab.page.get_by_role("button", name="Find").click()
    await expect(tab.page.get_by_role("main")).to_contain_text("crm.delete_customer")
    await expect(tab.page.get_by_role("main")).to_contain_text("*.delete_*")


async def test_the_connection_is_lost_and_comes_back(browser: Browser, gateway: Gateway) -> None:
    """The page says since when it is not live; once it is again, what happened meanwhile is there."""
    async with (
        line_to(gateway.url) as (line, url),
        gateway.host("sales-desk") as host,
        open_tab(browser, replace(gateway, url=url, states={}), "viewer", "jonas") as tab,
    ):
        await tab.go("/calls?q=conversation:lost")
        await is_live(tab)
        line.cut()
        await expect(tab.page.locator("[data-state-text]")).to_contain_text("not live since", timeout=_AGAIN)
        await host.call("crm.get_customer", {"customer_id": "c-9"}, **of("lost")).result()
        await expect(tab.page.locator("#rows tr")).to_have_count(0)
        line.mend()
        await expect(tab.page.locator("#rows tr")).to_have_count(1, timeout=_AGAIN)
        await is_live(tab)
        await host.call("crm.get_customer", {"customer_id": "c-9"}, **of("lost")).result()
        await expect(tab.page.locator("#rows tr")).to_have_count(2)
        tab.troubles.clear()


async def test_pause_holds_the_list(gateway: Gateway, tab: Tab) -> None:
    async with gateway.host("sales-desk") as host:
        await tab.go("/calls?q=conversation:pause")
        await is_live(tab)
        await tab.page.get_by_role("button", name="Pause").click()
        await expect(tab.page.locator("[data-state-text]")).to_have_text("paused")
        await host.call("crm.get_customer", {"customer_id": "c-9"}, **of("pause")).result()
        await expect(tab.page.locator("#rows tr")).to_have_count(0)
        await tab.page.get_by_role("button", name="Pause").click()
        await expect(tab.page.locator("#rows tr")).to_have_count(1, timeout=_AGAIN)


async def test_a_question_is_told_on_every_page(gateway: Gateway, tab: Tab) -> None:
    """The title and the navigation count what waits, on a page that has nothing else to do with it."""
    await tab.go("/servers")
    before = len(await gateway.questions())
    async with gateway.host("code-agent-07") as host:
        host.call("github.merge_pull_request", {"repo": "acme/shop", "number": 9}, **of("title"))
        await expect(tab.page).to_have_title(re.compile(rf"^\({before + 1}\) "), timeout=_AGAIN)
        await expect(tab.page.locator("#nav-approvals")).to_contain_text(str(before + 1))


async def test_by_keys_alone(tab: Tab, with_calls: None) -> None:
    """Search, choose, open, close and go elsewhere without a mouse; the focus can be seen."""
    await tab.go("/calls")
    await tab.page.keyboard.press("/")
    await tab.page.keyboard.type("agent:sales-desk")
    await tab.page.keyboard.press("Enter")
    await tab.page.wait_for_url(re.compile("q=agent"))
    await tab.page.keyboard.press("j")
    focused = tab.page.locator("#rows a.tool:focus")
    await expect(focused).to_be_visible()
    outline = await focused.evaluate("(link) => getComputedStyle(link).outlineStyle")
    assert outline != "none"
    await tab.page.keyboard.press("Enter")
    await expect(tab.page.locator("#call")).to_be_visible()
    await tab.page.keyboard.press("Escape")
    await expect(tab.page.locator("#call")).to_have_count(0)
    await tab.page.keyboard.press("g")
    await tab.page.keyboard.press("t")
    await tab.page.wait_for_url(re.compile("/console/tools"))
    await tab.page.keyboard.press("Tab")
    await expect(tab.page.get_by_role("link", name="To the content")).to_be_focused()


async def test_one_call_on_a_phone(open_as: OpenTab, with_calls: None) -> None:
    async with open_as("approver", size=PHONE) as tab:
        await tab.go("/calls?q=agent:sales-desk")
        await tab.page.locator("#rows a.tool").first.tap()
        await expect(tab.page.locator("#call")).to_be_visible()
        await expect(tab.page.locator("#rows")).to_be_hidden()
        assert await tab.overflow() == 0


async def test_a_viewer_sees_no_values(open_as: OpenTab, with_calls: None) -> None:
    """Lists and sizes, no arguments and no answers; not as JSON either."""
    async with open_as("viewer", "petra") as tab:
        await tab.go("/calls?q=tool:crm.get_customer")
        await tab.page.locator("#rows a.tool").first.click()
        shown = tab.page.locator("#call")
        await expect(shown).to_contain_text("shown to approvers")
        assert "Li & Partners" not in await shown.inner_text()
        await tab.page.get_by_role("link", name=".json").click()
        assert "Li & Partners" not in await tab.text()
        assert "c-9" not in await tab.text()
