"""Questions to a person: found, read and answered in a browser while the agent waits in its own MCP client."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from playwright.async_api import expect

from tests.console.browser.conftest import OpenTab
from tests.console.browser.gateway import Gateway
from tests.console.browser.tab import PHONE, Tab
from tests.console.demo.requests import ASKED
from tests.peers.toolbox import Json
from tests.polling import until

pytestmark = pytest.mark.asyncio(loop_scope="session")

OFFER: Final = "crm.send_offer"


@asynccontextmanager
async def agent(gateway: Gateway, name: str) -> AsyncIterator[ClientSession]:
    """Connect the MCP SDK's own client as an agent."""
    async with (
        gateway.client(gateway.world.keys[name]) as client,
        streamable_http_client(f"{gateway.url}/mcp", http_client=client) as streams,
        ClientSession(*streams[:2]) as session,
    ):
        await session.initialize()
        yield session


async def asked(gateway: Gateway, session: ClientSession, arguments: Json) -> tuple["asyncio.Task[Any]", str]:
    """Have the agent call the tool that a person has to agree to; return the call and the question's id."""
    before = await gateway.questions()
    call = asyncio.create_task(session.call_tool(OFFER, arguments))
    new: list[str] = []

    async def is_asked() -> bool:
        new[:] = [one for one in await gateway.questions() if one not in before]
        return bool(new)

    await until(is_asked, "the question is queued")
    return call, new[0]


def told(result: Any) -> str:
    """Return the text that the agent was given."""
    return str(result.content[0].text)


async def test_approve_on_a_phone_while_the_agent_waits(gateway: Gateway, open_as: OpenTab) -> None:
    """The question comes up on a page that is open; the call goes on within a moment of the yes."""
    async with agent(gateway, "sales-desk") as session, open_as("approver", size=PHONE) as tab:
        await tab.go("/approvals")
        call, question = await asked(gateway, session, {"customer_id": "c-9", "subject": "By phone", "body": "Hello"})
        await tab.page.locator(f"a[href$='{question}']").tap()
        await expect(tab.page.get_by_role("heading", name="sales-desk wants")).to_be_visible()
        assert await tab.overflow() == 0
        await tab.page.get_by_role("button", name="Approve").tap()
        result = await call
        assert not result.is_error
        assert told(result).startswith("Sent: message 8812")
        await expect(tab.page.get_by_role("main")).to_contain_text("maria agreed")
        await expect(tab.page.get_by_role("button", name="Approve")).to_have_count(0)


async def test_deny_with_a_note_that_the_agent_gets(gateway: Gateway, open_as: OpenTab) -> None:
    """The same call gets the same no at once, and the page counts that it was made again."""
    arguments = {"customer_id": "c-118", "subject": "No", "body": "Nothing"}
    async with agent(gateway, "support-bot") as session, open_as("approver", "jonas") as tab:
        call, question = await asked(gateway, session, arguments)
        await tab.go(f"/approvals/{question}")
        await tab.page.get_by_label("Note").fill("Ask the customer for the order's number first.")
        await tab.page.get_by_role("button", name="Deny").click()
        result = await call
        assert result.is_error
        assert "Ask the customer for the order's number first." in told(result)
        assert "jonas" not in told(result)
        again = await session.call_tool(OFFER, arguments)
        assert again.is_error
        assert "Ask the customer" in told(again)
        await tab.go(f"/approvals/{question}")
        await expect(tab.page.get_by_role("main")).to_contain_text("1 more time")


async def test_find_the_hidden_argument(gateway: Gateway, tab: Tab) -> None:
    """What the tool's schema does not know stands out, and so does what cannot be seen; nothing is left out."""
    async with agent(gateway, "sales-desk") as session:
        call, question = await asked(gateway, session, dict(ASKED.arguments))
        await tab.go(f"/approvals/{question}")
        odd = tab.page.locator("dl.values .odd")
        await expect(odd).to_contain_text("bcc")
        await expect(odd).to_contain_text("not in the tool’s schema")
        await expect(odd).to_contain_text("archive@evil.example")
        await expect(tab.page.get_by_title("right-to-left override").first).to_be_visible()
        between = tab.page.get_by_text("characters between")
        hidden = tab.page.get_by_text("20. Model B")
        await expect(hidden).to_be_hidden()
        await between.click()
        await expect(hidden).to_be_visible()
        call.cancel()


async def test_what_was_answered_meanwhile_is_not_answered_twice(gateway: Gateway, open_as: OpenTab) -> None:
    """Two people look at one question: the second is told what the first said, and nothing is done."""
    async with (
        agent(gateway, "sales-desk") as session,
        open_as("approver") as tab,
        open_as("approver", "jonas") as other,
    ):
        call, question = await asked(gateway, session, {"customer_id": "c-9", "subject": "Twice", "body": "Hello"})
        for one in (tab, other):
            await one.go(f"/approvals/{question}")
        await tab.page.get_by_role("button", name="Deny").click()
        await expect(tab.page.get_by_role("main")).to_contain_text("maria said no")
        await other.page.get_by_role("button", name="Approve").click()
        await expect(other.page.get_by_role("main")).to_contain_text("Nothing was done")
        assert (await call).is_error


async def test_for_an_hour_these_arguments_are_not_asked_again(gateway: Gateway, tab: Tab) -> None:
    async with agent(gateway, "sales-desk") as session:
        arguments = {"customer_id": "c-9", "subject": "For an hour", "body": "Hello"}
        call, question = await asked(gateway, session, arguments)
        await tab.go(f"/approvals/{question}")
        await tab.page.get_by_label("these exact arguments").check()
        await tab.page.get_by_role("button", name="Approve").click()
        assert not (await call).is_error
        before = await gateway.questions()
        assert not (await session.call_tool(OFFER, arguments)).is_error
        assert await gateway.questions() == before
        await tab.go(f"/approvals/{question}")
        await expect(tab.page.get_by_role("main")).to_contain_text("2 times")
