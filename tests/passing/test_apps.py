"""Tools that a server keeps for its apps, where only models come in."""

from tests.journeys.hosts import client_for
from tests.passing.conftest import OpenHouse
from tests.passing.everything import Everything
from tests.passing.shelves import local


async def test_no_model_gets_at_them_by_v1(open_house: OpenHouse) -> None:
    """Neither listed nor called; others of the same server are."""
    house = open_house({"box": local(Everything())})
    async with client_for(house.url) as client:
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
