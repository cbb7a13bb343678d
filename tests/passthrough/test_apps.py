"""Tools that a server keeps for its apps, where only models come in."""

from pathlib import Path

import pytest

from tests.access.gateway_harness import GatewayHarness, error_data, make_config, tool
from tests.end_to_end.scripted_host import http_client
from tests.passthrough.conftest import OpenHarness
from tests.passthrough.everything import Everything
from tests.passthrough.upstreams import local


async def test_no_model_gets_at_them_by_v1(open_harness: OpenHarness) -> None:
    """Neither listed nor called; others of the same server are."""
    harness = open_harness({"box": local(Everything())})
    async with http_client(harness.url) as client:
        listed = (await client.get("/v1/tools")).text
        assert "box.links" in listed
        assert "box.app" not in listed
        answers = {
            name: (await client.post("/v1/tool_calls", json={"tool_call": {"name": name, "arguments": {}}})).text
            for name in ("box.app", "box.watched")
        }
    assert "Unknown tool" in answers["box.app"]
    assert "did app" not in answers["box.app"]
    assert "Unknown tool" not in answers["box.watched"]


@pytest.mark.parametrize("name", ["box.app", "box__app", "BOX.app", "app"])
async def test_no_model_gets_at_them_by_meta_tools(tmp_path: Path, name: str) -> None:
    """Neither described nor called, in any spelling; the host's own program calls them."""
    app = tool("app", _meta={"ui": {"visibility": ["app"]}})
    config = make_config(tmp_path, {"box": {"command": "played"}}, expose="search")
    harness = GatewayHarness(config, {"box": [app, tool("watched")]})
    host = harness.host("local")
    described = (await harness.call(host, "describe_tools", {"names": [name, "box.watched"]}))["result"]
    text = described["content"][0]["text"]
    assert '"missing":{' in text
    assert text.count("inputSchema") == 1
    assert error_data(await harness.call(host, "call_tool", {"name": name}))["code"] == "unknown_tool"
    assert harness.sent == []
    await harness.call(host, "call_tool", {"name": "box.watched"})
    await harness.call(host, "box.app")
    assert harness.sent == [("box", "watched"), ("box", "app")]
