"""Output schemas stay true: what a list promises, the answer has."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from tests.access.gateway_harness import LEGACY, MODERN, GatewayHarness, make_config, tool
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


SHAPES: Final[Any] = {
    "object": {"type": "object", "properties": {"a": {}}},
    "list": {"type": "array"},
    "either": {"anyOf": [{"type": "object"}, {"type": "array"}]},
    "nullable": {"type": ["object", "null"]},
}


@pytest.mark.parametrize("output_schemas", [True, False])
async def test_hosts_of_earlier_revisions_get_schemas_of_objects_alone(tmp_path: Path, output_schemas: bool) -> None:
    """SEP-2106: others came with 2026-07-28, and an earlier host refuses the whole list for one of them."""
    config = make_config(tmp_path, {"shop": {"command": "played"}}, results={"output_schemas": output_schemas})
    tools = {"shop": [tool("none"), *(tool(name, outputSchema=schema) for name, schema in SHAPES.items())]}
    async with GatewayHarness(config, tools) as harness:
        for version in (LEGACY, MODERN):
            shown = {one["name"]: one.get("outputSchema") for one in await harness.listed(harness.host("one", version))}
            told = SHAPES if version == MODERN else {"object": SHAPES["object"]}
            expected = {f"shop.{name}": told.get(name) if output_schemas else None for name in ("none", *SHAPES)}
            assert {name: schema for name, schema in shown.items() if name in expected} == expected
        plain = harness.host("one", LEGACY)
        assert await harness.listed(plain) == await harness.listed(plain)
