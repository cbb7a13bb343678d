"""Programs of `run_code`: each result reaches them whole, and what they print is shown as any large result."""

import json

import pytest

from aggregator.code import programs
from tests.access.gateway_harness import LEGACY, MODERN
from tests.kept_results.conftest import ITEMS, OpenLarge, handle_of
from tests.peers.toolbox import Json


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


@pytest.mark.parametrize("version", [LEGACY, MODERN])
async def test_a_program_that_fails_names_the_calls_it_made(
    open_large: OpenLarge, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their results are read on, in the order in which they ended; searches are no calls of tools."""
    # Nothing makes the index here.
    monkeypatch.setattr("aggregator.gateway.views.finder._INDEX_WAIT", 0.01)
    code = (
        "search_tools('orders')\n"
        "call_tool('shop.orders', {'page': 1})\n"
        "try:\n    call_tool('shop.nothing', {'a': '" + "x" * 300 + "'})\nexcept RuntimeError:\n    pass\n"
        "1 / 0"
    )
    async with open_large(expose="code") as harness:
        host = harness.host("local", version)
        result = await harness.result(host, "run_code", {"code": code})
        assert result["isError"] is True
        lines = result["content"][0]["text"].splitlines()
        first = next(number for number, line in enumerate(lines) if line.startswith("These calls were made"))
        assert "ZeroDivisionError" in lines[first - 1]
        assert lines[first + 1] == '[0] {"name":"shop.orders","arguments":{"page":1}}: done'
        assert lines[first + 2].startswith('[1] {"name":"shop.nothing","arguments":{"a":"xxx')
        assert lines[first + 2].endswith("x…: failed")
        assert len(lines) == first + 3
        handle = handle_of(result)
        assert str(ITEMS[2_900]["name"]) in await harness.page(host, handle, path="[0][2900].name")
        assert (await harness.page(host, handle, path="[1]")).startswith("null")
        for without in ("1 / 0", "search_tools('orders')\n1 / 0", "call_tool('shop.orders')", "call_tool('shop.x')"):
            result = await harness.result(host, "run_code", {"code": without})
            assert "These calls were made" not in json.dumps(result)


async def test_what_stands_beside_a_value_is_not_kept_with_it(open_large: OpenLarge) -> None:
    async def answering(params: Json) -> Json:
        return {"content": [{"type": "text", "text": "Drive north"}], "structuredContent": {"km": 7}}

    async with open_large(expose="code") as harness:
        harness.fake_upstreams["shop"].answer = answering
        host = harness.host("local")
        result = await harness.result(host, "run_code", {"code": "r = call_tool('shop.orders')\nprint(r.text)\n1 / 0"})
        assert result["content"][0]["text"].startswith("Drive north\n")
        assert (await harness.page(host, handle_of(result), path="[0].km")).startswith("7")


async def test_many_calls_are_counted_and_large_ones_not_kept(
    open_large: OpenLarge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "_CHARACTERS_KEPT", 300_000)
    async with open_large(expose="code") as harness:
        code = "for n in range(25):\n    call_tool('shop.orders', {'n': n})\n1 / 0"
        result = await harness.result(harness.host("local"), "run_code", {"code": code})
        assert result["content"][0]["text"].splitlines()[-1] == "and 5 more"
        handle = handle_of(result)
        for path, kept in (("[0][0].id", True), ("[24]", False)):
            page = await harness.page(harness.host("local"), handle, path=path)
            assert page.startswith("null") is not kept


async def test_without_a_database_the_calls_are_named_alone(open_large: OpenLarge) -> None:
    async with open_large(storage=None, expose="code") as harness:
        result = await harness.result(harness.host("local"), "run_code", {"code": "call_tool('shop.orders')\n1 / 0"})
        text = result["content"][0]["text"]
        assert text.splitlines()[-1] == '[0] {"name":"shop.orders","arguments":{}}: done'
        assert "read_result" not in text
