"""Hosts that open a session for each call, without a list, and conversations, which begin with one and stay apart."""

from pathlib import Path
from typing import Final

import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.flow.flow_harness import FlowHarness, MovedClock, policies
from tests.flow.served_harness import ServedHarness
from tests.peers.serving import BackgroundLoop

LEGACY_MODE: Final = "legacy"


async def _in_a_session(harness: ServedHarness, *names: str, lists: bool = False) -> list[bool]:
    """Call tools in a session of the SDK's client that is theirs alone; return which were refused."""
    async with (
        harness.client("ada") as http,
        Client(streamable_http_client(f"{harness.url}/mcp", http_client=http), mode=LEGACY_MODE) as client,
    ):
        if lists:
            await client.list_tools()
        return [bool((await client.call_tool(name)).is_error) for name in names]


async def test_a_session_for_each_call_of_the_sdk(tmp_path: Path) -> None:
    """As adapters do it that have no session of their own: what one read is known to the next."""
    with BackgroundLoop() as background:
        harness = ServedHarness(background, tmp_path, storage=f"sqlite+aiosqlite:///{tmp_path}/harness.db")
        assert await _in_a_session(harness, "mail.send") == [False]
        assert await _in_a_session(harness, "web.fetch") == [False]
        assert await _in_a_session(harness, "mail.send") == [True]
        assert len(harness.mail.calls) == 1


async def test_conversations_stay_apart(tmp_path: Path) -> None:
    """They begin with a list of tools, be they of one call or of many."""
    with BackgroundLoop() as background:
        harness = ServedHarness(background, tmp_path, storage=f"sqlite+aiosqlite:///{tmp_path}/harness.db")
        assert await _in_a_session(harness, "web.fetch", lists=True) == [False]
        assert await _in_a_session(harness, "mail.send", lists=True) == [False]
        assert await _in_a_session(harness, "mail.list", "mail.send", lists=True) == [False, False]
        assert await _in_a_session(harness, "mail.send") == [True]


async def test_what_a_session_is_is_said_by_its_first_call(tmp_path: Path) -> None:
    """A list that comes later changes nothing: what was taken over stays, and what was read later elsewhere does not
    come."""
    clock = MovedClock()
    async with FlowHarness(tmp_path, clock) as harness:
        reader, before, after = (harness.legacy(session=name, listed=False) for name in ("reader", "before", "after"))
        assert await harness.outcome(before, "mail.list") == "ok"
        clock.time += 1.0
        await harness.call(reader, "web.fetch")
        assert await harness.outcome(before, "mail.send") == "ok"
        assert await harness.outcome(after, "mail.send") == "not_confirmed"
        after.listed = True
        assert await harness.outcome(after, "mail.send") == "not_confirmed"


async def test_what_a_session_took_over_ends_with_what_its_key_knows(tmp_path: Path) -> None:
    clock = MovedClock()
    async with FlowHarness(tmp_path, clock) as harness:
        await harness.call(harness.legacy(session="reader"), "web.fetch")
        host = harness.legacy(session="two", listed=False)
        assert await harness.outcome(host, "mail.send") == "not_confirmed"
        clock.time += 1_801.0
        assert await harness.outcome(host, "mail.send") == "ok"


@pytest.mark.parametrize(("conversation", "end"), [("session", "ok"), ("key", "not_confirmed")])
async def test_all_that_comes_with_a_key_can_be_one_conversation(tmp_path: Path, conversation: str, end: str) -> None:
    """`conversation: key`: sessions are not told apart, and what was read decays."""
    clock, rules = MovedClock(), policies(conversation=conversation)
    async with FlowHarness(tmp_path, clock, rules) as harness:
        one, two = harness.legacy(session="one"), harness.legacy(session="two")
        for name in ("web.fetch", "mail.list"):
            await harness.call(one, name)
        assert await harness.outcome(two, "mail.send") == end
        clock.time += 1_801.0
        assert await harness.outcome(two, "mail.send") == "ok"
