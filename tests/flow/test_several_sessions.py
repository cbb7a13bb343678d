"""Hosts that open a session for each call, and conversations of several calls, which stay apart."""

from pathlib import Path
from typing import Final

import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.flow.flow_harness import FlowHarness, MovedClock, policies
from tests.flow.served_harness import ServedHarness
from tests.peers.serving import BackgroundLoop

LEGACY_MODE: Final = "legacy"


async def _in_a_session(harness: ServedHarness, *names: str) -> list[bool]:
    """Call tools in a session of the SDK's client that is theirs alone; return which were refused."""
    async with (
        harness.client("ada") as http,
        Client(streamable_http_client(f"{harness.url}/mcp", http_client=http), mode=LEGACY_MODE) as client,
    ):
        return [bool((await client.call_tool(name)).is_error) for name in names]


async def test_a_session_for_each_call_of_the_sdk(tmp_path: Path) -> None:
    """As adapters do it that have no session of their own: what one read is known to the next."""
    with BackgroundLoop() as background:
        harness = ServedHarness(background, tmp_path, storage=f"sqlite+aiosqlite:///{tmp_path}/harness.db")
        assert await _in_a_session(harness, "mail.send") == [False]
        assert await _in_a_session(harness, "web.fetch") == [False]
        assert await _in_a_session(harness, "mail.send") == [True]
        assert len(harness.mail.calls) == 1


async def test_conversations_of_several_calls_stay_apart(tmp_path: Path) -> None:
    with BackgroundLoop() as background:
        harness = ServedHarness(background, tmp_path, storage=f"sqlite+aiosqlite:///{tmp_path}/harness.db")
        assert await _in_a_session(harness, "web.fetch", "mail.list") == [False, False]
        assert await _in_a_session(harness, "mail.list", "mail.send") == [False, False]


async def test_what_a_session_of_one_call_read_is_its_own_once_it_makes_more(tmp_path: Path) -> None:
    """A session that began before keeps what it took over."""
    async with FlowHarness(tmp_path, MovedClock()) as harness:
        reader, before, after = (harness.legacy(session=name) for name in ("reader", "before", "after"))
        await harness.call(reader, "web.fetch")
        assert await harness.outcome(before, "mail.send") == "not_confirmed"
        await harness.call(reader, "mail.list")
        assert await harness.outcome(before, "mail.send") == "not_confirmed"
        assert await harness.outcome(after, "mail.send") == "ok"


async def test_what_a_session_took_over_ends_with_what_its_key_knows(tmp_path: Path) -> None:
    clock = MovedClock()
    async with FlowHarness(tmp_path, clock) as harness:
        await harness.call(harness.legacy(session="reader"), "web.fetch")
        host = harness.legacy(session="two")
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
