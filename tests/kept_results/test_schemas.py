"""Output schemas stay true: what a list promises, the answer has."""

import json
from typing import Any, Final

from tests.kept_results.conftest import HANDLE, ITEMS, LONG, OpenLarge, handle_of, text_block

STRUCTURED: Final[Any] = {"items": ITEMS}
RESULT: Final[Any] = {"content": [text_block(json.dumps(STRUCTURED))], "structuredContent": STRUCTURED}
ROOM: Final = {"agents": {"one": {"allow": ["*"], "limits": {"shop.*": {"result_bytes": 4000}}}}}


async def test_a_tool_called_by_its_name_keeps_its_structured_result(open_large: OpenLarge) -> None:
    async with open_large(expose="all") as harness:
        harness.answer_with(**RESULT)
        host = harness.host("one")
        result = await harness.result(host, "shop.stock")
        assert result["structuredContent"] == STRUCTURED
        assert len(result["content"][0]["text"]) < len(LONG) / 2
        assert "structuredContent" not in result["_meta"]["aggregator/shortened"]


async def test_through_call_tool_it_is_left_out(open_large: OpenLarge) -> None:
    """No list told the model of a schema on this way; `_meta` says what is missing."""
    async with open_large(expose="search") as harness:
        harness.answer_with(**RESULT)
        host = harness.host("one")
        result = await harness.result(host, "call_tool", {"name": "shop.stock"})
        assert "structuredContent" not in result
        assert result["_meta"]["aggregator/shortened"]["structuredContent"] == "left out"
        assert str(ITEMS[0]["name"]) in await harness.page(host, handle_of(result), offset=0)


async def test_a_tool_without_a_schema_has_its_structured_result_counted(open_large: OpenLarge) -> None:
    async with open_large() as harness:
        harness.answer_with(content=[], structuredContent=STRUCTURED)
        result = await harness.result(harness.host("one"), "shop.orders")
        assert "structuredContent" not in result
        assert handle_of(result)


async def test_lists_leave_schemas_out_where_the_configuration_says_so(open_large: OpenLarge) -> None:
    async with open_large(expose="all", results={"output_schemas": False}) as harness:
        harness.answer_with(**RESULT)
        host = harness.host("one")
        assert not [tool for tool in await harness.listed(host) if "outputSchema" in tool]
        assert "structuredContent" not in await harness.result(host, "shop.stock")
    async with open_large(expose="all") as harness:
        assert [tool["name"] for tool in await harness.listed(harness.host("one")) if "outputSchema" in tool]


async def test_beyond_the_bytes_of_a_policy_it_is_marked_as_an_error(open_large: OpenLarge) -> None:
    """A client refuses an answer without the promised part; the handle reads the whole in pages of that size."""
    async with open_large(ROOM) as harness:
        harness.answer_with(**RESULT)
        host = harness.host("one")
        result = await harness.result(host, "shop.stock")
        assert result["isError"] is True
        assert "structuredContent" not in result
        assert len(json.dumps(result)) < 4000 + 1500
        page = await harness.page(host, handle_of(result), offset=0, limit=9_000)
        assert len(page.encode()) <= 4000
        read = await harness.ask(host, "resources/read", {"uri": f"aggregator://results/{handle_of(result)}"})
        assert "read_result" in read["error"]["message"]
        assert HANDLE.search(json.dumps(read)) is None
        through = await harness.result(host, "call_tool", {"name": "shop.stock"})
        assert "isError" not in through
