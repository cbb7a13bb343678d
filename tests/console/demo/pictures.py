"""Pictures of every page of the demo's console, at two widths, light and dark; those in docs/ are among them."""

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, Literal

from playwright.async_api import Browser, Page, async_playwright

from tests.console.browser.chromium import ARGUMENTS, NOT_RUN, find_chromium

Scheme = Literal["light", "dark"]
SIZES: Final[Mapping[int, int]] = {1280: 900, 360: 740}
SCHEMES: Final[Sequence[Scheme]] = ("light", "dark")
# Names of pictures, and the pages; of one call and one question, the newest that is worth a look.
PAGES: Final[Mapping[str, str]] = {
    "overview": "/",
    "calls": "/calls",
    "calls-refused": "/calls?q=status:denied",
    "call": "/calls?q=tool:github.search_code",
    "call-refused": "/calls?q=status:denied",
    "call-failed": "/calls?q=status:error",
    "approvals": "/approvals",
    "approval": "/approvals",
    "tools": "/tools",
    "tools-search": "/tools?q=send+an+offer",
    "tool": "/tools/crm.send_offer?as=sales-desk",
    "tool-held": "/tools/maps.route",
    "tool-versions": "/tools/crm.send_offer/versions",
    "servers": "/servers",
    "server": "/servers/erp",
    "pins": "/pins",
    "pins-server": "/pins/maps",
    "pins-item": "/pins/maps/item?kind=tool&item=route",
    "policies-held": "/policies?agent=sales-desk&tool=maps.route",
    "agents": "/agents",
    "agent": "/agents/sales-desk",
    "policies": "/policies",
    "policies-why": "/policies?agent=sales-desk&tool=crm.send_offer",
    "policy-file": "/policies/files/shop.yaml?line=9",
    "policy-diff": "/policies/diff?name=shop.yaml",
    "health": "/health",
    "events": "/events",
    "sign-in": "/sign-in",
}
# In these the first row is opened.
OPENED: Final[Mapping[str, str]] = {
    "call": "calls",
    "call-refused": "calls",
    "call-failed": "calls",
    "approval": "approvals",
}


@asynccontextmanager
async def a_browser() -> AsyncIterator[Browser]:
    """Start Chromium.

    Raises:
        RuntimeError: there is none.
    """
    path = find_chromium()
    if path is None:
        raise RuntimeError(NOT_RUN)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS), chromium_sandbox=False)
        try:
            yield browser
        finally:
            await browser.close()


async def take(link: str, folder: Path, only: Sequence[str] = ()) -> None:
    """Sign in by a link and take the pictures, of these pages or of all."""
    base = link.partition("/enter/")[0]
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    async with a_browser() as browser:
        state = await _signed_in(browser, link)
        for width, height in SIZES.items():
            for scheme in SCHEMES:
                size: Any = {"width": width, "height": height}
                context = await browser.new_context(
                    viewport=size, color_scheme=scheme, storage_state=state, locale="en-GB", device_scale_factor=1
                )
                page = await context.new_page()
                for name, path in PAGES.items():
                    if not only or name in only:
                        await _picture(page, base, name, path, folder / f"{name}-{width}-{scheme}.png")
                await context.close()


async def _picture(page: Page, base: str, name: str, path: str, file: Path) -> None:
    response = await page.goto(f"{base}{path}")
    if name in OPENED:
        links = page.locator(f"main a[href*='/{OPENED[name]}/']")
        if await links.count():
            await page.goto(f"{base}{(await links.first.get_attribute('href') or '').removeprefix('/console')}")
    if response is None or response.status != 200:
        print(f"{name}: status {response and response.status}", file=sys.stderr)
    # Bars and rows that come with the live stream.
    await asyncio.sleep(0.3)
    await page.screenshot(path=file)


async def _signed_in(browser: Browser, link: str) -> Any:
    context = await browser.new_context()
    page = await context.new_page()
    await page.goto(link)
    await page.get_by_role("button", name="Sign in").click()
    await page.wait_for_url(lambda url: "/enter/" not in url)
    state = await context.storage_state()
    await context.close()
    return state
