"""Holds every page to what all of them owe: readable on a phone, by keyboard and screen reader, in light and dark."""

from collections.abc import AsyncIterator
from typing import Final

import pytest
import pytest_asyncio
from playwright.async_api import expect

from tests.console.browser.conftest import OpenTab
from tests.console.browser.tab import PHONE, WIDE, Tab
from tests.console.demo.pictures import PAGES

pytestmark = pytest.mark.asyncio(loop_scope="session")


# Other rows of the same page.
_ALIKE: Final = frozenset({"calls-refused", "call-failed", "tools-search"})


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def reader(open_as: OpenTab, with_calls: None) -> AsyncIterator[Tab]:
    """A tab for all pages: a new one for each would cost more than what is looked at."""
    async with open_as("operator") as tab:
        yield tab


@pytest.mark.parametrize("name", sorted(PAGES.keys() - _ALIKE))
async def test_a_page_has_no_serious_fault(reader: Tab, name: str) -> None:
    """axe-core finds nothing serious, nothing is wider than the window, and the browser reports no violation."""
    assert await reader.go(PAGES[name]) == 200
    await reader.open_first(name)
    for size, scheme in ((WIDE, "light"), (PHONE, "dark")):
        await reader.page.set_viewport_size({"width": size[0], "height": size[1]})
        await reader.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        assert await reader.overflow() == 0, f"wider than {size[0]} pixels"
        assert await reader.faults() == [], f"{size[0]} pixels, {scheme}"
    assert (await reader.page.title()).endswith("aggregator")
    assert reader.troubles == []


async def test_the_keys_are_told_in_a_dialog(reader: Tab) -> None:
    """By `?`; it takes the focus, is read to the end by a screen reader, and goes with Esc or its button."""
    await reader.go("/health")
    await reader.page.keyboard.press("?")
    dialog = reader.page.get_by_role("dialog", name="Keys")
    await expect(dialog).to_be_visible()
    await expect(dialog.get_by_role("button", name="Close")).to_be_focused()
    assert await reader.faults() == []
    await reader.page.keyboard.press("Escape")
    await expect(dialog).to_be_hidden()
    await reader.page.keyboard.press("?")
    await dialog.get_by_role("button", name="Close").click()
    await expect(dialog).to_be_hidden()


async def test_without_scripts_all_is_there(open_as: OpenTab, with_calls: None) -> None:
    """Pages are whole before any script: the same rows, forms that are sent, no button that does nothing."""
    async with open_as("operator", java_script_enabled=False) as tab:
        await tab.go("/calls")
        await expect(tab.page.get_by_role("row").filter(has_text="crm.").first).to_be_visible()
        await tab.go("/tools?q=send+an+offer")
        await expect(tab.page.get_by_role("link", name="crm.send_offer").first).to_be_visible()
        await expect(tab.page.get_by_role("button", name="Copy")).to_have_count(0)
