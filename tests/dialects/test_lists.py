"""What hosts of model APIs are listed, and how their calls reach the server."""

import asyncio
from typing import Any, Final

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.dialects import gateway
from aggregator.dialects.mend.apis import APIS
from aggregator.dialects.names import Schemas
from aggregator.domain.principal import Principal
from aggregator.frontends.web.sessions.session_ids import SessionIds
from aggregator.gateway.host import AddressWishes, Host
from aggregator.replicas.group.clock import GroupClock
from aggregator.replicas.group.shared_key import SharedKey
from tests.dialects.conftest import DEFINITIONS, MendingHarness, OpenMending
from tests.dialects.model_apis import refusals
from tests.end_to_end.scripted_host import ACCEPT, META, MODERN, routing_headers
from tests.peers.toolbox import Json

HOSTS: Final = {"claude-ai": "anthropic", "openai-mcp": "openai", "gemini-cli-mcp-client": "gemini", "Zed": "portable"}
OWN: Final = {one["name"]: one["inputSchema"] for one in DEFINITIONS}


async def ask(client: httpx2.AsyncClient, method: str, info: str = "x", address: str = "/mcp", **params: Any) -> Json:
    """Send a request of 2026-07-28; return its result."""
    envelope = {
        f"{META}protocolVersion": MODERN,
        f"{META}clientInfo": {"name": info, "version": "0"},
        f"{META}clientCapabilities": {},
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": envelope, **params}}
    headers = {**ACCEPT, "mcp-protocol-version": MODERN, **routing_headers(message)}
    answer = await client.post(address, json=message, headers=headers)
    assert answer.status_code == 200, answer.text
    result: Json = answer.json()["result"]
    return result


async def listed(client: httpx2.AsyncClient, info: str = "x", address: str = "/mcp") -> dict[str, Json]:
    tools = (await ask(client, "tools/list", info, address))["tools"]
    return {one["name"].removeprefix("shop").lstrip("._"): one for one in tools}


async def call(harness: MendingHarness, client: httpx2.AsyncClient, name: str, given: Json, **more: str) -> Any:
    """Call a tool; return the arguments that reached the server."""
    before = len(harness.box.calls)
    result = await ask(client, "tools/call", name=name, arguments=given, **more)
    assert result.get("isError") is not True, result
    (sent,) = harness.box.calls[before:]
    return sent["arguments"]


@pytest.mark.parametrize("name", HOSTS)
async def test_a_host_is_listed_what_its_model_api_takes(open_mending: OpenMending, name: str) -> None:
    """6 of issue 32: by `clientInfo`, in both eras; a tool that no form is taken of costs itself alone."""
    harness = open_mending()
    async with harness.client("one") as client:
        modern = await listed(client, name)
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": name, "version": "0"}}
        begun = await client.post(
            "/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}, headers=ACCEPT
        )
        session = {**ACCEPT, "mcp-session-id": begun.headers["mcp-session-id"]}
        found = await client.post("/mcp", json={"jsonrpc": "2.0", "id": 2, "method": "tools/list"}, headers=session)
    dialect = HOSTS[name]
    assert refusals(dialect, list(modern.values()), names=False) == []
    assert ("big" in modern) is (dialect in ("anthropic", "openai"))
    legacy = {one["name"]: one["inputSchema"] for one in found.json()["result"]["tools"]}
    assert legacy == {one["name"]: one["inputSchema"] for one in modern.values()}
    assert modern["any_top"]["inputSchema"] != OWN["any_top"]


async def test_others_are_listed_what_the_server_said(open_mending: OpenMending) -> None:
    """6 of issue 32: without a known model API nothing changes, and one list is never another's in a cache."""
    harness = open_mending(http={"names": "canonical"})
    async with harness.client("one") as client:
        found = await listed(client)
        result = await ask(client, "tools/list")
        asked = await ask(client, "tools/list", address="/mcp?schema=original")
    assert {name: one["inputSchema"] for name, one in found.items()} == OWN
    assert result["cacheScope"] == "private"
    assert {one["name"]: one["inputSchema"] for one in asked["tools"]} == {
        f"shop.{name}": own for name, own in OWN.items()
    }


@pytest.mark.parametrize("dialect", sorted(APIS))
async def test_an_address_asks_for_a_dialect(open_mending: OpenMending, dialect: str) -> None:
    """6 of issue 32: names and definitions are as the API takes them, and each listed tool can be called."""
    harness = open_mending()
    async with harness.client("one") as client:
        found = (await ask(client, "tools/list", address=f"/mcp?schema={dialect}"))["tools"]
        assert refusals(dialect, found) == []
        for _ in range(3):
            got = await call(harness, client, "shop__plain", {"a": "x"}, address=f"/mcp?schema={dialect}")
            assert got == {"a": "x"}
        dotted = (await ask(client, "tools/list", address=f"/mcp?schema={dialect}&names=canonical"))["tools"]
    assert {one["name"].replace("__", ".") for one in found} == {one["name"] for one in dotted}


@pytest.mark.parametrize("address", ["/mcp/compatible", "/mcp?names=compatible"])
async def test_the_address_of_frameworks_is_of_every_model_api(open_mending: OpenMending, address: str) -> None:
    """4 and 6 of issue 32: frameworks pass names and definitions to an API that is not known; both are taken."""
    harness = open_mending()
    async with harness.client("one") as client:
        found = (await ask(client, "tools/list", address=address))["tools"]
        assert [refusals(api, found) for api in ("anthropic", "openai", "gemini", "portable")] == [[]] * 4
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "mcp", "version": "0"}}
        begun = await client.post(
            address, json={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}, headers=ACCEPT
        )
        session = {**ACCEPT, "mcp-session-id": begun.headers["mcp-session-id"]}
        legacy = await client.post("/mcp", json={"jsonrpc": "2.0", "id": 2, "method": "tools/list"}, headers=session)
        assert [one["inputSchema"] for one in legacy.json()["result"]["tools"]] == [one["inputSchema"] for one in found]
        for _ in range(3):
            given = {"filter_id_": "x", "_top": 5}
            sent = await call(harness, client, "shop__odd", given, address=address)
            assert sent == {"filter[id]": "x", "$top": 5}
        # Who wants another form says so, and a known host has the one of its own API.
        sign = "&" if "?" in address else "?"
        plain = await listed(client, address=f"{address}{sign}schema=original")
        assert {name: one["inputSchema"] for name, one in plain.items()} == OWN
        assert (await listed(client, "claude-ai", address))["big"]["inputSchema"] == OWN["big"]
    async with harness.client("two") as client:
        assert refusals("gemini", list((await listed(client, address=address)).values()), names=False) == []


async def test_an_unknown_dialect_is_refused(open_mending: OpenMending) -> None:
    harness = open_mending()
    async with harness.client("one") as client:
        for query in ("schema=mine", "schema=", "schema=openai&schema=gemini"):
            answer = await client.post(f"/mcp?{query}", json={}, headers=ACCEPT)
            assert answer.status_code == 400
            assert "`schema=openai-strict`" in answer.text


async def test_arguments_in_the_mended_form_are_read_back(open_mending: OpenMending) -> None:
    """6 of issue 32: the first call of a connection and repeated ones, in the form of the original too."""
    harness = open_mending()
    strict = "/mcp?schema=openai-strict"
    async with harness.client("one") as client:
        for _ in range(4):
            given = {"who": "x", "how": None, "free": '{"a": null}'}
            assert await call(harness, client, "shop__optional", given, address=strict) == {
                "who": "x",
                "free": {"a": None},
            }
            own = {"who": "x", "free": {"b": 1}}
            assert await call(harness, client, "shop__optional", own, address=strict) == own
            odd = {"filter_id_": "x", "_top": 5}
            for address in ("/mcp?schema=anthropic", "/mcp?schema=gemini"):
                assert await call(harness, client, "shop__odd", odd, address=address) == {"filter[id]": "x", "$top": 5}
        # The same call of a host without a dialect is decided as it came.
        refused = await ask(client, "tools/call", name="shop.odd", arguments={"filter_id_": "x"})
        named = await ask(client, "tools/call", address=strict, name="call_tool",
                          arguments={"name": "shop.optional", "arguments": {"who": "x", "free": '["a"]'}})  # fmt: skip
    assert refused["isError"] is True
    assert named["isError"] is True


async def test_arguments_are_read_back_and_then_corrected(open_mending: OpenMending) -> None:
    """Both in one call: a name of the mended form with a text for a number, and JSON as Python writes it."""
    harness = open_mending(coerce=True)
    async with harness.client("one") as client:
        for _ in range(3):
            for address in ("/mcp?schema=anthropic", "/mcp?schema=gemini"):
                given: dict[str, Any] = {"filter_id_": "x", "_top": "+5"}
                sent = await call(harness, client, "shop__odd", given, address=address)
                assert sent == {"filter[id]": "x", "$top": 5}
            given = {"who": "x", "how": None, "free": "{'a': None,}"}
            sent = await call(harness, client, "shop__optional", given, address="/mcp?schema=openai-strict")
            assert sent == {"who": "x", "free": {"a": None}}


async def test_no_call_has_the_event_loop_wait_for_mending(
    open_mending: OpenMending, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call may come before any list, and mending a large schema takes long."""
    in_loops: list[bool] = []
    make = gateway.in_dialect

    def noted(*given: Any) -> Any:
        try:
            asyncio.get_running_loop()
            in_loops.append(True)
        except RuntimeError:
            in_loops.append(False)
        return make(*given)

    monkeypatch.setattr(gateway, "in_dialect", noted)
    harness = open_mending()
    async with harness.client("one") as client:
        for address in ("/mcp?schema=gemini", "/mcp?schema=anthropic"):
            for _ in range(3):
                await call(harness, client, "shop__odd", {"filter[id]": "x"}, address=address)
    assert in_loops == [False, False]


async def test_the_original_is_still_the_check(open_mending: OpenMending) -> None:
    """6 of issue 32: what the mended schema allows and the original does not is refused; policies count as ever."""
    harness = open_mending()
    async with harness.client("one") as client:
        empty = await ask(client, "tools/call", address="/mcp?schema=openai", name="shop__any_top", arguments={})
    async with harness.client("held") as client:
        found = await listed(client, "claude-ai")
        assert refusals("anthropic", list(found.values()), names=False) == []
        assert found["plain"]["inputSchema"]["properties"]["a"]["maxLength"] == 3
        long = await ask(client, "tools/call", "claude-ai", name="shop__plain", arguments={"a": "long"})
        assert await call(harness, client, "shop__plain", {"a": "abc"}, info="claude-ai") == {"a": "abc"}
    assert empty["_meta"]["aggregator/error"]["code"] == "invalid_arguments"
    assert long["_meta"]["aggregator/error"]["code"] == "invalid_arguments"
    assert [one["arguments"] for one in harness.box.calls] == [{"a": "abc"}]


async def test_a_policy_or_a_frontend_sets_the_dialect(open_mending: OpenMending) -> None:
    """6 of issue 32: the agent's own outdoes the address, that the frontend's, that what the host says of itself."""
    harness = open_mending(http={"schemas": "openai-strict"})
    async with harness.client("two") as client:
        assert (
            refusals("gemini", list((await listed(client, address="/mcp?schema=original")).values()), names=False) == []
        )
        assert await call(harness, client, "shop__odd", {"filter_id_": "x"}) == {"filter[id]": "x"}
    async with harness.client("one") as client:
        assert refusals("openai-strict", list((await listed(client, "claude-ai")).values()), names=False) == []
        found = await listed(client, "claude-ai", "/mcp?schema=original")
    assert found["any_top"]["inputSchema"] == OWN["any_top"]


async def test_what_is_mended_and_left_out_is_told(open_mending: OpenMending) -> None:
    """6 of issue 32: `list_servers` says it to the host that it concerns, with the reason."""
    harness = open_mending()
    async with harness.client("one") as client:
        for arguments in ({}, {"server": "shop"}):
            told = await ask(
                client, "tools/call", address="/mcp?schema=gemini", name="list_servers", arguments=arguments
            )
            text = told["content"][0]["text"]
            assert "Not listed to this host, for the Gemini API: shop.big (its schema is too large)." in text
            assert "2 definitions mended for the Gemini API: " in text
            plain = await ask(client, "tools/call", name="list_servers", arguments=arguments)
            assert "mended" not in plain["content"][0]["text"]
        # It is left out of the list alone.
        assert await call(harness, client, "shop__big", {"p1": {"q1": "x"}}, address="/mcp?schema=gemini") == {
            "p1": {"q1": "x"}
        }


async def test_an_api_that_takes_so_many_tools_gets_no_more(open_mending: OpenMending) -> None:
    """6 of issue 32: one tool too many would fail the request; the others are called by their names."""
    plain = DEFINITIONS[-1]
    harness = open_mending([plain | {"name": f"tool_{number}"} for number in range(130)])
    async with harness.client("one") as client:
        assert len(await listed(client, "openai-mcp")) == 128
        assert len(await listed(client, "claude-ai")) == 130
        told = await ask(client, "tools/call", "openai-mcp", name="list_servers", arguments={})
        assert "takes 128 tools: of 130, the first are listed" in told["content"][0]["text"]
        assert await call(harness, client, "shop__tool_129", {"a": "x"}, info="openai-mcp") == {"a": "x"}
        # A framework may choose among all of them itself; only an API that is named has a number.
        assert len(await listed(client, address="/mcp/compatible")) == 130
        told = await ask(client, "tools/call", address="/mcp/compatible", name="list_servers", arguments={})
        assert "takes 128 tools" not in told["content"][0]["text"]
        assert len(await listed(client, address="/mcp/compatible?schema=portable")) == 128
        assert len(await listed(client, "Zed", "/mcp/compatible")) == 128


async def test_the_application_interface_reads_back_too(open_mending: OpenMending) -> None:
    """6 of issue 32: `/v1` and MCP share the dialects."""
    harness = open_mending()
    async with harness.client("one") as client:
        tools = (await client.get("/v1/tools?format=anthropic")).json()["tools"]
        (odd,) = (one for one in tools if one["name"] == "shop__odd")
        assert "filter_id_" in odd["input_schema"]["properties"]
        use = {"type": "tool_use", "id": "1", "name": "shop__odd", "input": {"filter_id_": "x"}}
        answer = await client.post("/v1/tool_calls", json={"role": "assistant", "content": [use]})
    assert answer.status_code == 200, answer.text
    assert [one["arguments"] for one in harness.box.calls] == [{"filter[id]": "x"}]


@given(st.sampled_from(["original", *APIS]), st.booleans(), st.sampled_from([None, "canonical", "compatible"]))
def test_another_replica_lists_in_the_same_dialect(dialect: Schemas, wished: bool, names: Any) -> None:
    """6 of issue 32: the id of a session says the dialect, whether its host or its address chose it."""
    key = SharedKey()
    key.use("s" * 32)
    ids = SessionIds(key, GroupClock(), 60.0)
    wishes = AddressWishes(names, dialect if wished else None)
    host = Host("http", None, Principal("ada"), version="2025-11-25", wishes=wishes)
    host.set_client_info({"name": {"anthropic": "claude-ai", "openai": "openai-mcp"}.get(dialect, "x")})
    facts = ids.read(ids.issue(host)[0])
    assert facts is not None
    again = facts.host(None, Principal("ada"))
    assert (again.dialect, again.schemas, again.style, again.wishes, again.lists_all) == (
        host.dialect, host.schemas, host.style, host.wishes, host.lists_all,
    )  # fmt: skip


async def test_meta_tools_are_called_in_the_dialect_too(open_mending: OpenMending) -> None:
    """6 of issue 32: with a short list, `strict` hosts send null for what they leave out, and objects as texts."""
    harness = open_mending(expose="search")
    strict = "/mcp?schema=openai-strict"
    async with harness.client("one") as client:
        shown = (await ask(client, "tools/list", address=strict))["tools"]
        assert refusals("openai-strict", shown) == []
        members = {one["name"]: dict.fromkeys(one["inputSchema"]["properties"]) for one in shown}
        asked = {**members["search_tools"], "query": "plain"}
        found = await ask(client, "tools/call", address=strict, name="search_tools", arguments=asked)
        assert "shop.plain" in found["content"][0]["text"]
        for _ in range(3):
            inner = {**members["call_tool"], "name": "shop.plain", "arguments": '{"a": "x"}'}
            assert await call(harness, client, "call_tool", inner, address=strict) == {"a": "x"}
