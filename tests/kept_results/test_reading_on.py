"""A result that is too large is shown in part, and all of it can be read on by the one who got it."""

import asyncio
import json
import secrets
from pathlib import Path
from typing import Any, Final

import pytest

from aggregator.domain.errors import AggregatorError
from aggregator.domain.text.tokens import estimate
from aggregator.results.gateway.handles import URI_HEAD
from aggregator.results.gateway.keeper import GONE
from aggregator.results.read.document import ResultDocument
from aggregator.results.read.read import read_page
from aggregator.results.storage import KeptResults
from aggregator.storage.errors import StorageFull
from tests.access.gateway_harness import LEGACY, MODERN
from tests.kept_results.conftest import CANARY, LONG, OpenLarge, handle_of, text_block

LIMITS: Final = {"agents": {"one": {"allow": ["*"], "limits": {"shop.*": {"result_tokens": 500}}}}}
BOTH: Final = {"agents": {"one": {"allow": ["*"]}, "two": {"allow": ["*"]}}}


@pytest.mark.parametrize("version", [LEGACY, MODERN])
async def test_the_beginning_is_shown_and_the_rest_read_to_its_end(open_large: OpenLarge, version: str) -> None:
    """Nothing is lost between the pages."""
    async with open_large() as harness:
        host = harness.host("one", version)
        result = await harness.result(host, "shop.orders")
        beginning = result["content"][0]["text"]
        shown = sum(estimate(block["text"]) for block in result["content"] if block["type"] == "text")
        assert shown <= 2_000
        read, handle = beginning, handle_of(result)
        at = result["_meta"]["aggregator/shortened"]["next"]
        assert LONG.startswith(beginning)
        while at is not None:
            page = await harness.app.gateway._meta._keeper.open(host.principal, handle, lambda *_: True)
            found = read_page(page.document, offset=at, limit=9_000)
            assert found.body in await harness.page(host, handle, offset=at, limit=9_000)
            read, at = read[:at] + found.body, found.next
        assert read == LONG


async def test_a_small_result_and_an_error_stay_as_they_are(open_large: OpenLarge) -> None:
    async with open_large() as harness:
        host = harness.host("one")
        for given in ({"content": [text_block("x")]}, {"content": [text_block(LONG)], "isError": True}):
            harness.answer_with(**given)
            assert (await harness.result(host, "shop.orders"))["content"] == given["content"]


@pytest.mark.parametrize("settings", [{"storage": None}, {"results": {"max_tokens": 0}}])
async def test_without_a_database_or_a_bound_it_is_passed_on_whole(open_large: OpenLarge, settings: Any) -> None:
    """Nor is there anything to read on with."""
    async with open_large(**settings, expose="all") as harness:
        host = harness.host("one")
        assert (await harness.result(host, "shop.orders"))["content"] == [text_block(LONG)]
        assert "read_result" not in [tool["name"] for tool in await harness.listed(host)]


async def test_the_tool_to_read_on_is_the_last_of_a_whole_list(open_large: OpenLarge) -> None:
    async with open_large(expose="all") as harness:
        listed = await harness.listed(harness.host("one"))
        assert [tool["name"] for tool in listed] == ["shop.orders", "shop.stock", "read_result"]
        assert estimate(json.dumps(listed[-1], separators=(",", ":"))) <= 110
    async with open_large(LIMITS, expose="all", results={"max_tokens": 0}) as harness:
        assert "read_result" in [tool["name"] for tool in await harness.listed(harness.host("one"))]


async def test_a_policy_may_show_less(open_large: OpenLarge) -> None:
    """The strictest counts, and also for the pages."""
    async with open_large(LIMITS) as harness:
        host = harness.host("one")
        result = await harness.result(host, "shop.orders")
        assert sum(estimate(block.get("text", "")) for block in result["content"]) <= 500 + 160
        assert estimate(await harness.page(host, handle_of(result), offset=0, limit=5_000)) <= 600


async def test_any_replica_reads_it_and_the_next_start(open_large: OpenLarge) -> None:
    async with open_large() as first, open_large() as second:
        result = await first.result(first.host("one"), "shop.orders")
        handle = handle_of(result)
        assert CANARY in await second.page(second.host("one"), handle)
    async with open_large() as third:
        assert CANARY in await third.page(third.host("one"), handle)


async def test_another_agent_learns_nothing_however_often_it_tries(open_large: OpenLarge) -> None:
    """One sentence for a handle of another agent, for one that never was, and for what is no handle."""
    async with open_large(BOTH) as harness:
        owner, other = harness.host("one"), harness.host("two")
        handle = handle_of(await harness.result(owner, "shop.orders"))
        said = set()
        for text in (handle, f"aggregator://results/{handle}", "agr_" + "a" * 24, "x", "", handle[:-1]):
            answer = await harness.result(other, "read_result", {"handle": text})
            assert answer["isError"] is True
            said.add(answer["content"][0]["text"])
        assert len(said) == 1
        assert GONE in said.pop()
        assert CANARY in await harness.page(owner, handle)
        keeper, principal = harness.app.gateway._meta._keeper, other.principal
        for _ in range(2_000):
            with pytest.raises(AggregatorError, match="no such result"):
                await keeper.open(principal, "agr_" + secrets.token_urlsafe(18), lambda *_: True)


@pytest.mark.parametrize("asked", [{"offset": 12.0}, {"offset": "12"}, {"limit": 200.0, "offset": None}])
async def test_whole_numbers_in_the_forms_of_json(open_large: OpenLarge, asked: Any) -> None:
    async with open_large() as harness:
        host = harness.host("one")
        handle = handle_of(await harness.result(host, "shop.orders"))
        assert "[Characters" in await harness.page(host, handle, **asked)


async def test_nothing_of_it_stands_in_the_file_of_the_database(open_large: OpenLarge, tmp_path: Path) -> None:
    """Neither the result nor the handle."""
    async with open_large() as harness:
        handle = handle_of(await harness.result(harness.host("one"), "shop.orders"))
        written = b"".join(file.read_bytes() for file in sorted(tmp_path.glob("kept.db*")))  # noqa: ASYNC240
        assert len(written) > 10_000
        for secret in (handle, handle.removeprefix("agr_"), CANARY):
            assert secret.encode() not in written


async def test_it_is_over_after_a_while(open_large: OpenLarge) -> None:
    """By the clock of who reads; expired rows go with the next pruning."""
    async with open_large(results={"keep": "10m"}) as harness:
        host, keeper = harness.host("one"), harness.app.gateway._meta._keeper
        handle, now = handle_of(await harness.result(host, "shop.orders")), keeper._clock()
        assert CANARY in await harness.page(host, handle)
        keeper._clock = lambda: now + 601.0
        assert GONE in json.dumps(await harness.result(host, "read_result", {"handle": handle}))
        database = await harness.app.database.open()
        assert database is not None
        assert await database.prune(None, None, now=now + 601.0) == 2


async def test_what_could_not_be_stored_is_passed_on_whole(
    open_large: OpenLarge, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No handle is ever given for it; over the bytes of a policy, the answer says that the rest is lost."""

    async def full(*_: object, **__: object) -> bool:
        raise StorageFull("the disk is full")

    monkeypatch.setattr(KeptResults, "add", full)
    async with open_large() as harness:
        assert (await harness.result(harness.host("one"), "shop.orders"))["content"] == [text_block(LONG)]
        harness.set_policies({"agents": {"one": {"allow": ["*"], "limits": {"shop.*": {"result_bytes": 3000}}}}})
        cut = await harness.result(harness.host("one"), "shop.orders")
        assert "agr_" not in json.dumps(cut)
        assert "The rest is lost" in cut["content"][-1]["text"]


async def test_what_is_denied_by_now_is_not_read_on(open_large: OpenLarge) -> None:
    """Neither by the tool nor as a resource; allowed again, it is there."""
    allowed = {"agents": {"one": {"allow": ["*"]}}}
    async with open_large(allowed) as harness:
        host = harness.host("one")
        handle = handle_of(await harness.result(host, "shop.orders"))
        assert CANARY in json.dumps(await harness.ask(host, "resources/read", {"uri": URI_HEAD + handle}))
        harness.set_policies({"agents": {"one": {"allow": ["*"], "deny": ["shop.orders"]}}})
        assert GONE in json.dumps(await harness.result(host, "read_result", {"handle": handle}))
        assert CANARY not in json.dumps(await harness.ask(host, "resources/read", {"uri": URI_HEAD + handle}))
        harness.set_policies(allowed)
        assert CANARY in await harness.page(host, handle)


async def test_many_at_once_have_a_handle_each(open_large: OpenLarge) -> None:
    async with open_large() as harness:
        host = harness.host("one")
        results = await asyncio.gather(*(harness.result(host, "shop.orders") for _ in range(30)))
        handles = {handle_of(result) for result in results}
        assert len(handles) == 30
        for page in await asyncio.gather(*(harness.page(host, handle) for handle in handles)):
            assert CANARY in page


async def test_a_changed_row_is_no_result(open_large: OpenLarge) -> None:
    """Parts that were swapped or damaged are refused as if there were none."""
    async with open_large() as harness:
        host = harness.host("one")
        handle = handle_of(await harness.result(host, "shop.orders"))
        database = await harness.app.database.open()
        assert database is not None
        async with database.engine.write() as connection:
            await connection.exec_driver_sql("UPDATE kept_result_parts SET sealed = zeroblob(100)")
        assert GONE in json.dumps(await harness.result(host, "read_result", {"handle": handle}))


@pytest.mark.parametrize("asked", [{"offset": 10**9}, {"path": "nothing.there"}, {"grep": "("}, {"limit": 0}])
async def test_a_page_that_cannot_be_is_refused_with_words(open_large: OpenLarge, asked: Any) -> None:
    async with open_large() as harness:
        host = harness.host("one")
        handle = handle_of(await harness.result(host, "shop.orders"))
        answer = await harness.result(host, "read_result", {"handle": handle, **asked})
        assert answer["isError"] is True
        assert handle not in answer["content"][0]["text"]


async def test_a_document_keeps_every_byte(open_large: OpenLarge) -> None:
    """The whole is read as a resource too, with what is no text, and by its caller alone."""
    image = {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"}
    async with open_large(BOTH) as harness:
        harness.answer_with(content=[text_block(LONG), image])
        result = await harness.result(harness.host("one"), "shop.orders")
        assert image in result["content"]
        link = next(block for block in result["content"] if block["type"] == "resource_link")
        for version in (LEGACY, MODERN):
            read = (await harness.ask(harness.host("one", version), "resources/read", {"uri": link["uri"]}))["result"]
            assert [item.get("text") for item in read["contents"]] == [LONG, None]
            assert read["contents"][1]["blob"] == image["data"]
            refused = await harness.ask(harness.host("two", version), "resources/read", {"uri": link["uri"]})
            assert handle_of(result) not in json.dumps(refused)
            assert refused["error"]["code"] in (-32002, -32602)
    assert ResultDocument.of({"content": [text_block(LONG)]}).text == LONG
