"""One page of a person in a browser, all that must not happen there, and axe-core."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, Final, Protocol

from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Dialog, Page, Request

from tests.console.demo.pictures import OPENED

_AXE: Final = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8")
# All rules that axe-core has; what is at least serious counts.
_AXE_RUN: Final = "axe.run(document, {resultTypes: ['violations'], iframes: false, preload: false})"
WIDE: Final = (1280, 900)
PHONE: Final = (360, 740)
# Long waits of the browser are faults here: everything answers in milliseconds.
_PATIENCE: Final = 10_000.0


class Visited(Protocol):
    """A gateway at an address, with the cookies of people who are signed in, by name and role."""

    url: str
    states: dict[tuple[str, str], dict[str, Any]]

    async def link(self, role: Any = ..., person: str = ...) -> str:
        """Return a link to sign in with."""


@dataclass
class Tab:
    """A page at the console, and what went wrong there.

    `troubles` are violations of the Content-Security-Policy, errors of scripts, dialogs, and requests that leave the
    machine. A tab that ends with any fails its test.
    """

    gateway: Visited
    page: Page
    context: BrowserContext
    troubles: list[str] = field(default_factory=list)
    requested: list[str] = field(default_factory=list)

    async def go(self, path: str) -> int:
        """Open a page of the console, such as `/calls`; returns its status."""
        response = await self.page.goto(f"{self.gateway.url}/console{path}")
        assert response is not None
        return response.status

    async def open_first(self, name: str) -> None:
        """Open the first row of a list, where the picture of that name is of one."""
        if name in OPENED:
            await self.page.locator(f"main a[href*='/{OPENED[name]}/']").first.click()
            await self.page.wait_for_load_state()

    async def text(self) -> str:
        """Return all words of the page that can be seen."""
        return await self.page.inner_text("body")

    async def overflow(self) -> int:
        """Return by how many pixels the page is wider than its window."""
        wider: int = await self.page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        return wider

    async def faults(self) -> list[str]:
        """Return what axe-core finds on the page that is serious or critical, with the first place of each."""
        if not await self.page.evaluate("'axe' in window"):
            await self.page.evaluate(_AXE)
        found: dict[str, Any] = await self.page.evaluate(_AXE_RUN)
        return [
            f"{one['id']} ({one['impact']}): {one['nodes'][0]['target']} {one['nodes'][0]['html'][:160]}"
            for one in found["violations"]
            if one["impact"] in ("serious", "critical")
        ]

    def watch(self, page: Page) -> None:
        """Note all that must not happen on a page."""
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.troubles.append(f"script error: {error}"))
        page.on("dialog", self._dialog)
        page.on("request", self._requested)

    def _said(self, message: ConsoleMessage) -> None:
        # A page that is refused, or not there, is reported as a failed load; the tests look at statuses themselves.
        if message.type in ("error", "warning") and "Failed to load resource" not in message.text:
            self.troubles.append(f"{message.type}: {message.text}")

    async def _dialog(self, dialog: Dialog) -> None:
        self.troubles.append(f"dialog: {dialog.message}")
        await dialog.dismiss()

    def _requested(self, request: Request) -> None:
        self.requested.append(request.url)
        if not request.url.startswith((f"{self.gateway.url}/", "data:", "blob:")):
            self.troubles.append(f"request: {request.url}")


@asynccontextmanager
async def open_tab(
    browser: Browser,
    gateway: Visited,
    role: str | None,
    person: str = "maria",
    *,
    size: tuple[int, int] = WIDE,
    dark: bool = False,
    **more: Any,
) -> AsyncIterator[Tab]:
    """Open a tab of a person with a role, signed in; of a stranger with `role=None`.

    `more` are options of the browser context, such as `java_script_enabled`.
    """
    state = await _signed_in(browser, gateway, role, person) if role is not None else None
    width, height = size
    context = await browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if dark else "light",
        storage_state=state,  # type: ignore[arg-type]
        locale="en-GB",
        has_touch=size == PHONE,
        **more,
    )
    context.set_default_timeout(_PATIENCE)
    try:
        page = await context.new_page()
        tab = Tab(gateway, page, context)
        tab.watch(page)
        yield tab
        assert tab.troubles == []
    finally:
        await context.close()


async def _signed_in(browser: Browser, gateway: Visited, role: str, person: str) -> dict[str, Any]:
    """Sign a person in once, by a link; returns the cookies."""
    if (person, role) not in gateway.states:
        context = await browser.new_context()
        page = await context.new_page()
        await page.goto(await gateway.link(role, person))
        await page.get_by_role("button", name="Sign in").click()
        await page.wait_for_url(lambda url: "/enter/" not in url)
        gateway.states[person, role] = dict(await context.storage_state())
        await context.close()
    return gateway.states[person, role]
