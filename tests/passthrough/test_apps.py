"""Tools that a server keeps for its apps, where only models come in."""

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
