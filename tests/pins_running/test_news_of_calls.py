"""The answer of a call in whose course the server added tools: it says how many wait, and how they are approved."""

from pathlib import Path
from typing import Any

import pytest

from aggregator.gateway.calls.delivery import NEWS_KEY
from tests.pins_running.pins_harness import ChangingServer, PinsHarness, reworded, running, tool
from tests.polling import until

ADDED = (tool("order"), tool("invoice"), tool("refund"), tool("bill"))
SAID = (
    "shop added tools: 2 tools wait for an approval. An operator approves them with `aggregator pins approve shop`, or "
    "sets `on_new: show` for a server that adds tools by design."
)


@pytest.fixture
def shop(tmp_path: Path) -> ChangingServer:
    return ChangingServer(tmp_path)


def news(answer: Any) -> Any:
    return answer["_meta"].get(NEWS_KEY)


async def announce(harness: PinsHarness) -> Any:
    """Return the answer of the call in whose course the server announces its tools."""
    answer = await harness.call("shop.announce")
    # A second announcement within a moment waits for nothing.
    harness.upstream("shop")._next_news = 0.0
    return answer


async def test_the_answer_says_what_waits_once(shop: ChangingServer) -> None:
    async with running(shop.config(), storage=shop.storage) as harness:
        await harness.settled()
        assert news(await announce(harness)) is None, "it has the same tools"
        shop.says(*ADDED)
        answer = await announce(harness)
        assert news(answer) == SAID
        assert answer["content"] == [{"type": "text", "text": "announce was called"}], "a host's own call is whole"
        assert news(await announce(harness)) is None
        assert news(await harness.call("shop.order")) is None
        shop.says(*ADDED, tool("ship"))
        assert "3 tools wait" in news(await announce(harness))


async def test_what_waits_already_is_no_news(shop: ChangingServer) -> None:
    """Fewer of them, or the same after other changes; one that was away in between is new again."""
    async with running(shop.config(), storage=shop.storage) as harness:
        await harness.settled()
        said = []
        for more in ((), ADDED[2:], ADDED[2:3], ADDED[2:3], ADDED[2:], ADDED[3:], ADDED[2:3]):
            shop.says(*ADDED[:2], *more)
            said.append(news(await announce(harness)) is not None)
        assert said == [False, True, False, False, True, False, True]


async def test_a_model_reads_it(shop: ChangingServer) -> None:
    async with running(shop.config(), storage=shop.storage) as harness:
        await harness.settled()
        shop.says(*ADDED)
        answer = await harness.call("call_tool", name="shop.announce", arguments={})
        assert [block["text"] for block in answer["content"]] == ["announce was called", f"[{SAID}]"]


async def test_a_program_reads_the_value_alone(shop: ChangingServer) -> None:
    """With the news behind it, JSON would be a text to the program. The next answer has the news."""
    async with running(shop.config(), storage=shop.storage, expose="code") as harness:
        await harness.settled()
        shop.says(*ADDED)
        answer = await harness.call("run_code", code="return await call_tool('shop.announce', {})")
        assert [block["text"] for block in answer["content"]] == ["announce was called"]
        assert news(await harness.call("shop.order")) == SAID


async def test_after_a_restart_too(shop: ChangingServer) -> None:
    """The kept list is the one that the server has; what waited before the connection is no news of the call."""
    async with running(shop.config(), storage=shop.storage) as harness:
        await harness.settled()
        shop.says(tool("order"), tool("invoice"), tool("ship"))
        assert "1 tool waits" in news(await announce(harness))
        await harness.settled()
    async with running(shop.config(), storage=shop.storage) as harness:
        assert news(await announce(harness)) is None
        shop.says(*ADDED, tool("ship"))
        assert "3 tools wait" in news(await announce(harness))


@pytest.mark.parametrize("settings", [{"on_new": "show"}, {"on_change": "warn"}])
async def test_what_is_shown_is_not_said(shop: ChangingServer, settings: Any) -> None:
    async with running(shop.config(**settings), storage=shop.storage) as harness:
        await harness.settled()
        shop.says(*ADDED)
        assert news(await announce(harness)) is None
        assert "shop.refund" in harness.tools()


async def test_other_words_are_no_new_tools(shop: ChangingServer) -> None:
    async with running(shop.config(), storage=shop.storage) as harness:
        await harness.settled()
        shop.says(tool("order"), reworded("invoice", "Other words."))
        assert news(await announce(harness)) is None


async def test_a_server_that_does_not_list_holds_up_no_answer(
    shop: ChangingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result comes without the news, which the next one has once the list is there."""
    monkeypatch.setattr("aggregator.upstream.upstream.NEWS_WAIT", 0.0)
    async with running(shop.config(), storage=shop.storage) as harness:
        await harness.settled()
        shop.says(*ADDED)
        assert news(await announce(harness)) is None
        await until(lambda: harness.app.pins is not None and harness.app.pins.held_count("shop") == 2, "it is read")
        assert news(await harness.call("shop.order")) == SAID
        assert news(await harness.call("shop.order")) is None


async def test_a_tool_that_was_not_announced_is_looked_for_when_it_is_called(shop: ChangingServer) -> None:
    """FastMCP sends no notification for `add_tool`, and declares that it announces nothing."""
    shop.says(quiet=True)
    async with running(shop.config(), storage=shop.storage) as harness:
        await harness.settled()
        shop.says(*ADDED[:3])
        refused = await harness.call("shop.refund")
        assert "shop.refund is held" in refused["content"][0]["text"]
        # From now on the server is known to add tools without a word.
        assert news(await harness.call("shop.order")) is not None
        shop.says(*ADDED)
        harness.upstream("shop")._next_news = 0.0
        assert news(await harness.call("shop.order")) == SAID
        assert news(await harness.call("shop.order")) is None


async def test_the_next_process_knows_that_it_adds_tools_without_a_word(shop: ChangingServer) -> None:
    shop.says(quiet=True)
    async with running(shop.config(on_new="show"), storage=shop.storage) as harness:
        await harness.settled()
        shop.says(*ADDED[:3])
        answer = await harness.call("shop.refund")
        assert answer["content"][0]["text"] == "refund was called"
        await until(lambda: "shop.refund" in harness.tools(), "it is shown")
        await harness.settled()
    async with running(shop.config(on_new="show"), storage=shop.storage) as harness:
        await until(lambda: harness.upstream("shop").news == "", "it is known")
        shop.says(*ADDED)
        await harness.call("shop.order")
        assert "shop.bill" in harness.tools()


async def test_a_server_without_a_word_is_asked_again_after_calls(
    shop: ChangingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aggregator.upstream.lists.lists.LOOK_AFTER", 0.01)
    shop.says(quiet=True)
    async with running(shop.config(), storage=shop.storage) as harness:
        await harness.settled()
        shop.says(*ADDED)
        await harness.call("shop.order")
        await until(lambda: harness.app.pins is not None and harness.app.pins.held_count("shop") == 2, "it is read")


async def test_a_server_that_announces_its_tools_is_not_asked_for_an_unknown_one(shop: ChangingServer) -> None:
    async with running(shop.config(), storage=shop.storage) as harness:
        await harness.settled()
        shop.says(*ADDED)
        error = await harness.refused("tools/call", {"name": "shop.refund", "arguments": {}})
        assert "Unknown tool" in str(error)
