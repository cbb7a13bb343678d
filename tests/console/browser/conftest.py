"""A browser, a gateway in front of the demo's servers, and tabs of signed-in people."""

import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial
from typing import Final

import pytest
import pytest_asyncio
from playwright.async_api import Browser, async_playwright

from tests.console.browser.chromium import ARGUMENTS, NOT_RUN, find_chromium
from tests.console.browser.gateway import Gateway, running_gateway
from tests.console.browser.tab import Tab, open_tab
from tests.console.demo.requests import ASKED, CALLS, MERGE
from tests.console.demo.world import AGENTS, write_world
from tests.polling import until

CONVERSATION: Final = {"aggregator/conversation_id": "c-42"}
OpenTab = Callable[..., AbstractAsyncContextManager[Tab]]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """Start the browser of all tests of this process; each tab has a context of its own."""
    path = find_chromium()
    if path is None:
        pytest.skip(NOT_RUN)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS), chromium_sandbox=False)
        yield browser
        await browser.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def gateway(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateway]:
    """Run `aggregator serve` with the demo's servers, which answer at once. One tool of the maps is held."""
    folder = tmp_path_factory.mktemp("demo")
    shutil.rmtree(folder)
    world = write_world(folder, at_once=True)
    world.use_definitions("maps-1", "maps")
    async with running_gateway(world) as running:
        await running.change("maps", "maps")
        yield running


@pytest.fixture(scope="session")
def open_as(browser: Browser, gateway: Gateway) -> OpenTab:
    """Open a tab: of a person with a role, signed in by link, or of a stranger with `role=None`."""
    return partial(open_tab, browser, gateway)


@pytest_asyncio.fixture(loop_scope="session")
async def tab(open_as: OpenTab) -> AsyncIterator[Tab]:
    """Open a tab of an operator at 1280 pixels."""
    async with open_as("operator") as opened:
        yield opened


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def with_calls(gateway: Gateway) -> None:
    """Let the agents make one call of each kind, two of which wait for a person."""
    async with AsyncExitStack() as stack:
        hosts = {agent: await stack.enter_async_context(gateway.host(agent)) for agent in AGENTS}
        for one in CALLS:
            await hosts[one.agent].call(one.tool, one.arguments, **CONVERSATION).message()
        for one in (ASKED, MERGE):
            hosts[one.agent].call(one.tool, one.arguments, **CONVERSATION)

        async def both_wait() -> bool:
            return {ASKED.tool, MERGE.tool} <= set((await gateway.questions()).values())

        await until(both_wait, "both questions are queued")
