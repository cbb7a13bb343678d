"""Where a result is from is said with it, and does not change what it says."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.gateway.calls.provenance import updated_at
from tests.access.gateway_harness import LEGACY, MODERN
from tests.meta.conftest import SERVERS, OpenHarness
from tests.peers.toolbox import Json, text_result, without_provenance

KEY = "aggregator/provenance"
INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


@pytest.mark.parametrize("version", [LEGACY, MODERN])
@pytest.mark.parametrize("through", [False, True])
async def test_every_result_says_where_it_is_from(open_harness: OpenHarness, version: str, through: bool) -> None:
    """Proves: C15. Server, time and schema version, on a direct call and through `call_tool`; the rest is untouched."""
    async with open_harness() as harness:
        host = harness.host("local", version)
        asked = ("call_tool", {"name": "maps.drive"}) if through else ("maps.drive", {})
        result = (await harness.call(host, *asked))["result"]
        provenance = result["_meta"][KEY]
        assert provenance["server"] == "maps"
        assert INSTANT.fullmatch(provenance["retrieved_at"])
        (tool,) = [tool for tool in harness.app.gateway.catalog.tools if tool.name == "maps.drive"]
        assert provenance["schema_version"] == tool.version
        assert "updated_at" not in provenance
        assert without_provenance(result)["content"] == text_result("did drive")["content"]


@pytest.mark.parametrize(
    ("more", "updated"),
    [
        ({"structuredContent": {"updated_at": "2024-05-01"}}, "2024-05-01"),
        ({"_meta": {"lastModified": "2024-05-02T00:00:00Z"}}, "2024-05-02T00:00:00Z"),
        ({"content": [{"type": "text", "text": "x", "annotations": {"lastModified": "2024-05-03"}}]}, "2024-05-03"),
        ({"structuredContent": {"updated_at": 5}}, None),
        ({"structuredContent": {"updated_at": "x" * 50}}, None),
        ({"content": [None, "x", {"annotations": 5}]}, None),
    ],
)
async def test_the_servers_own_update_time_is_carried(
    open_harness: OpenHarness, more: Json, updated: str | None
) -> None:
    """Proves: C15. As the server writes it, wherever it may; nonsense is not carried."""

    async def answering(params: Json) -> Json:
        return {"content": [], **more}

    async with open_harness() as harness:
        harness.fake_upstreams["maps"].answer = answering
        result = (await harness.call(harness.host("local"), "maps.drive"))["result"]
        assert result["_meta"][KEY].get("updated_at") == updated


async def test_it_is_shown_where_the_operator_wants_it(open_harness: OpenHarness) -> None:
    """Proves: C15. `attribution: visible` adds a last block of text; what is refused has no source."""

    async def dated(params: Json) -> Json:
        return {**text_result("sunny"), "structuredContent": {"updated_at": "2024-05-01"}}

    servers = {**SERVERS, "maps": {**SERVERS["maps"], "attribution": "visible"}}
    async with open_harness(servers=servers) as harness:
        harness.fake_upstreams["maps"].answer = dated
        first, last = (await harness.call(harness.host("local"), "maps.drive"))["result"]["content"]
        assert first["text"] == "sunny"
        assert re.fullmatch(
            rf"\[Source: maps \(Maps and weather\), retrieved {INSTANT.pattern}, data of 2024-05-01\]", last["text"]
        )
        assert len((await harness.call(harness.host("local"), "git.create_issue"))["result"]["content"]) == 1
        refused = (await harness.call(harness.host("local"), "maps.drive", {"from": 5}))["result"]
        assert KEY not in refused["_meta"]


@given(
    st.recursive(
        st.none() | st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_no_result_is_too_odd(value: Json) -> None:
    """Proves: C15. Whatever a server answers, looking for its update time raises nothing."""
    for part in ("content", "structuredContent", "_meta"):
        found = updated_at({part: value})
        assert found is None or isinstance(found, str)


async def test_a_server_cannot_say_it_in_our_name(open_harness: OpenHarness) -> None:
    """Proves: C15, D9. What carries our keys is ours."""

    async def lying(params: Json) -> Json:
        return {"content": [], "_meta": {KEY: {"server": "git"}, "aggregator/error": {"code": "x"}, "vendor/x": 1}}

    async with open_harness() as harness:
        harness.fake_upstreams["maps"].answer = lying
        meta = (await harness.call(harness.host("local"), "maps.drive"))["result"]["_meta"]
        assert meta[KEY]["server"] == "maps"
        assert meta.keys() == {KEY, "vendor/x"}


@pytest.mark.parametrize("parts", [("_meta", "structuredContent"), ("structuredContent", "_meta")])
def test_the_newest_time_is_told_wherever_it_stands(parts: tuple[str, str]) -> None:
    """Also among blocks; what is no such time is passed over."""
    newer, older = "2026-02-01", "2025-12-31"
    block = {"type": "text", "annotations": {"lastModified": older}}
    for first, second in ((newer, older), (older, newer)):
        assert updated_at({parts[0]: {"updated_at": first}, parts[1]: {"lastUpdated": second}}) == newer
        assert updated_at({parts[0]: {"updatedAt": first, "last_modified": second}}) == newer
    assert updated_at({parts[0]: {"updated_at": newer}, "content": [block]}) == newer
    assert updated_at({parts[0]: {"updated_at": ""}, "content": [{"type": "text"}, block]}) == older
    assert updated_at({parts[0]: {"updated_at": ""}}) is None
    assert updated_at({parts[0]: {"updated_at": "x" * 40}}) == "x" * 40
    assert updated_at({parts[0]: {"updated_at": "x" * 41}}) is None
