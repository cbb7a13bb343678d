"""Programs of `run_code`: each result reaches them whole, and what they print is shown as any large result."""

import json

import pytest

from tests.access.gateway_harness import LEGACY, MODERN
from tests.kept_results.conftest import ITEMS, OpenLarge, handle_of


@pytest.mark.parametrize("version", [LEGACY, MODERN])
async def test_a_program_has_all_of_a_result(open_large: OpenLarge, version: str) -> None:
    """Also where a policy lets a model see little; a result in bytes is bounded for programs too."""
    agents = {"one": {"allow": ["*"], "expose": "code", "limits": {"*": {"result_tokens": 300}}}}
    async with open_large({"agents": agents}) as harness:
        host = harness.host("one", version)
        result = await harness.result(host, "run_code", {"code": "len(call_tool('shop.orders'))"})
        assert result["content"] == [{"type": "text", "text": str(len(ITEMS))}]
        agents["one"]["limits"] = {"*": {"result_bytes": 3_000}}
        harness.set_policies({"agents": agents})
        result = await harness.result(host, "run_code", {"code": "len(call_tool('shop.orders')) < 3_500"})
        assert result["content"] == [{"type": "text", "text": "true"}]


@pytest.mark.parametrize("version", [LEGACY, MODERN])
async def test_what_a_program_prints_is_read_on(open_large: OpenLarge, version: str) -> None:
    async with open_large(expose="code") as harness:
        host = harness.host("local", version)
        result = await harness.result(host, "run_code", {"code": "import json\njson.dumps(call_tool('shop.orders'))"})
        assert len(json.dumps(result)) < 20_000
        assert str(ITEMS[2_900]["name"]) in await harness.page(host, handle_of(result), path="[2900].name")


async def test_without_a_database_the_rest_is_left_out(open_large: OpenLarge) -> None:
    async with open_large(storage=None, expose="code") as harness:
        code = "import json\nprint(json.dumps(call_tool('shop.orders')))"
        result = await harness.result(harness.host("local"), "run_code", {"code": code})
        assert "more characters are left out" in result["content"][0]["text"]
