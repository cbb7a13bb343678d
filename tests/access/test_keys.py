"""Admission by API keys on the web frontends of a running server."""

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import httpx2
import pytest

from aggregator.identity import throttle
from aggregator.identity.keys import NewKey, new_key, policy_line
from aggregator.storage.database import open_database
from aggregator.storage.opening import Database
from tests.access.gateway_harness import tool
from tests.access.recording_toolbox import RecordingToolbox
from tests.access.secured_harness import WEB_HOST_KINDS, OpenHarness, SecuredHarness, write_policies
from tests.end_to_end.scripted_host import ACCEPT, ENVELOPE, LEGACY, MODERN, http_client
from tests.polling import until
from tests.tool_lists import of_servers

POLICIES: Final = {"agents": {"one": {"allow": ["shop.*"]}, "two": {"allow": ["shop.get"]}}}
LIST: Final = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": ENVELOPE}}
HEADERS: Final = {**ACCEPT, "mcp-protocol-version": MODERN, "mcp-method": "tools/list"}
HELLO: Final = {
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": LEGACY[-1], "capabilities": {}, "clientInfo": {"name": "x", "version": "0"}},
}  # fmt: skip


@pytest.fixture
def harness(open_harness: OpenHarness, storage: str) -> SecuredHarness:
    return open_harness(
        {"shop": RecordingToolbox([tool("get"), tool("put")]).config_entry()}, POLICIES, storage=storage
    )


@asynccontextmanager
async def database(url: str) -> AsyncIterator[Database]:
    """Open the database as another process does."""
    async with open_database(url) as opened:
        yield opened


async def listed(client: httpx2.AsyncClient, path: str = "/mcp", **headers: str) -> httpx2.Response:
    return await client.post(path, json=LIST, headers={**HEADERS, **headers})


async def made(url: str, agent: str, expires: float | None = None) -> NewKey:
    key = new_key(agent, now=time.time(), expires=expires)
    async with database(url) as opened:
        await opened.keys.add(key.record)
    return key


async def noticed(harness: SecuredHarness, key: NewKey) -> None:
    """Wait until the running server knows a new key; trying it before would count as guessing."""
    await until(lambda: len(harness.app.access.keyring) > len(harness.keys))
    assert await accepted(harness, key.text)


async def accepted(harness: SecuredHarness, key: str) -> bool:
    async with http_client(harness.url, key) as client:
        return (await listed(client)).status_code == 200


@pytest.mark.parametrize("path", ["/mcp", "/mcp/one", "/sse", "/messages?session_id=x", "/mcp/", "/sse/"])
async def test_without_a_key_nobody_is_let_in(harness: SecuredHarness, path: str) -> None:
    """D4: 401, and how to do better; whatever the method and the body."""
    async with harness.client() as client:
        for method in ("GET", "POST", "DELETE", "PUT"):
            refused = await client.request(method, path, content=b"{not json", headers=HEADERS)
            assert refused.status_code == 401, (method, path)
            assert refused.headers["www-authenticate"].startswith("Bearer")
            assert "result" not in refused.json()


@pytest.mark.parametrize("form", ["bearer", "BEARER", "x-api-key"])
async def test_a_key_comes_in_one_header(harness: SecuredHarness, form: str) -> None:
    """D4: `Authorization: Bearer` or `X-API-Key`."""
    key = harness.keys["one"]
    headers = {"x-api-key": key} if form == "x-api-key" else {"authorization": f"{form} {key}"}
    async with harness.client() as client:
        answer = await listed(client, **headers)
    assert of_servers(one["name"] for one in answer.json()["result"]["tools"]) == ["shop.get", "shop.put"]


async def test_wrong_keys_are_refused(harness: SecuredHarness, storage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """D4: unknown, mistyped, expired and not even a key: 401."""
    monkeypatch.setattr(throttle, "FREE", 100)
    expired = await made(storage, "one", expires=time.time() - 1)
    unknown = new_key("one", now=time.time()).text
    key = harness.keys["one"]
    mistyped = key[:-1] + ("A" if key[-1] != "A" else "B")
    async with harness.client() as client:
        for text in (expired.text, unknown, mistyped, "agk_", "local", "one", "x" * 10_000):
            answer = await listed(client, authorization=f"Bearer {text}")
            assert answer.status_code == 401, text
            assert answer.headers["www-authenticate"].startswith("Bearer")
        for header in (f"Basic {key}", f"Bearer {key} {key}", f"Bearer {key},{key}", key, "Bearer", f"Bearer  {key}x"):
            assert (await listed(client, authorization=header)).status_code == 401, header


async def test_exactly_one_key(harness: SecuredHarness) -> None:
    """D4: two different ones are refused, and one in the URL even if it is right."""
    one, two = harness.keys["one"], harness.keys["two"]
    async with harness.client() as client:
        different = await listed(client, **{"authorization": f"Bearer {one}", "x-api-key": two})
        assert different.status_code == 400
        twice = [("authorization", f"Bearer {one}"), ("authorization", f"Bearer {two}"), *HEADERS.items()]
        assert (await client.post("/mcp", json=LIST, headers=twice)).status_code == 400
        for query in (f"key={one}", f"api_key={one}", "token=abc", f"anything={one}", f"x={one.replace('_', '%5F')}"):
            for path in (f"/mcp?{query}", f"/sse?{query}", f"/mcp/one?{query}"):
                refused = await listed(client, path, authorization=f"Bearer {one}")
                assert refused.status_code == 400, path
                assert one not in refused.text


async def test_an_endpoint_takes_the_keys_of_its_agent_only(harness: SecuredHarness) -> None:
    """D4: 403 for another's, for one that is nobody's, and for look-alikes."""
    async with harness.client("one") as client:
        assert (await listed(client, "/mcp/one")).status_code == 200
        for other in ("two", "nobody", "ONE", "one%20", "one/", "one/two", "../mcp/two", "%6Fne%00"):
            assert (await listed(client, f"/mcp/{other}")).status_code in (403, 404), other
        assert (await listed(client, "/mcp/one/compatible")).status_code == 200
        assert (await listed(client, "/mcp/two/compatible")).status_code == 403
        assert (await listed(client, "/mcp/compatible")).status_code == 200
        hello = await client.post("/mcp/one", json=HELLO, headers=ACCEPT)
        session = {"mcp-session-id": hello.headers["mcp-session-id"]}
        ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        assert (await client.post("/mcp/two", json=ping, headers={**ACCEPT, **session})).status_code == 403


async def test_guessing_is_slowed(harness: SecuredHarness) -> None:
    """D4: 429 with Retry-After; a valid key goes on working, and so does one that was never seen there."""
    async with harness.client("one") as client:
        wrong = [await listed(client, authorization=f"Bearer {new_key('one', now=0.0).text}") for _ in range(8)]
        assert [answer.status_code for answer in wrong[:5]] == [401] * 5
        assert wrong[-1].status_code == 429
        assert int(wrong[-1].headers["retry-after"]) >= 1
        assert wrong[-1].headers["connection"] == "close"
        assert (await listed(client)).status_code == 200
    assert await accepted(harness, harness.keys["two"])


async def test_a_revoked_key_ends_within_a_moment(harness: SecuredHarness, storage: str) -> None:
    """D4: on the running server, also for sessions it has open; a new one works without a restart."""
    key = await made(storage, "one")
    await noticed(harness, key)
    async with http_client(harness.url, key.text) as client:
        hello = await client.post("/mcp", json=HELLO, headers=ACCEPT)
        session = {**ACCEPT, "mcp-session-id": hello.headers["mcp-session-id"]}
        ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
        assert (await client.post("/mcp", json=ping, headers=session)).status_code == 200
        async with database(storage) as opened:
            await opened.keys.revoke(key.record.key_id, now=time.time())

        async def ended() -> bool:
            return (await client.post("/mcp", json=ping, headers=session)).status_code == 401

        await until(ended)
        assert (await client.delete("/mcp", headers=session)).status_code == 401
    assert await accepted(harness, harness.keys["one"])


async def test_a_key_ends_with_its_line(harness: SecuredHarness) -> None:
    """D4, F6: a key of a policy file is taken out like any other rule."""
    key = harness.keys["two"]
    assert await accepted(harness, key)
    before = harness.revision
    new = new_key("two", now=time.time())
    write_policies(harness.policies, {"agents": {"two": {"keys": [policy_line(new.record)]}}}, "keys.yaml")

    await harness.wait_for_policies(before)
    assert not await accepted(harness, key)
    assert await accepted(harness, new.text)


async def test_a_session_belongs_to_the_key_that_opened_it(harness: SecuredHarness, storage: str) -> None:
    """D4: with another key it is not found: another agent's, or another key of the same agent."""
    second = await made(storage, "one")
    await noticed(harness, second)
    ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
    async with harness.client("one") as client:
        hello = await client.post("/mcp", json=HELLO, headers=ACCEPT)
        session = {**ACCEPT, "mcp-session-id": hello.headers["mcp-session-id"]}
        for thief in (harness.client("two"), http_client(harness.url, second.text)):
            async with thief:
                assert (await thief.post("/mcp", json=ping, headers=session)).status_code == 404
                assert (await thief.delete("/mcp", headers=session)).status_code == 404
                standing = {**session, "accept": "text/event-stream"}
                assert (await thief.get("/mcp", headers=standing)).status_code == 404
                answer = {"jsonrpc": "2.0", "id": 1, "result": {"action": "accept", "content": {"allow": True}}}
                assert (await thief.post("/mcp", json=answer, headers=session)).status_code == 404
        assert (await client.post("/mcp", json=ping, headers=session)).status_code == 200


async def test_a_message_of_another_key_is_not_taken(harness: SecuredHarness) -> None:
    """D4: the SSE frontend's address is no secret to rely on."""
    async with harness.connect_as(("sse", LEGACY[-1]), "one") as host, harness.client("two") as thief:
        endpoint = await host.wire.endpoint  # type: ignore[attr-defined]
        message = {"jsonrpc": "2.0", "id": 99, "method": "tools/list"}
        assert (await thief.post(endpoint, json=message)).status_code == 404
        async with harness.client() as nobody:
            assert (await nobody.post(endpoint, json=message)).status_code == 401
        assert of_servers(one["name"] for one in await host.list()) == ["shop.get", "shop.put"]


@pytest.mark.parametrize("host_kind", WEB_HOST_KINDS)
async def test_keyless_loopback_is_local_where_the_policies_name_it(
    open_harness: OpenHarness, host_kind: tuple[str, str]
) -> None:
    """D4: only then, only on this machine, and only with what `local` may do."""
    agents = {"one": {"allow": ["*"]}, "local": {"allow": ["shop.get"]}}
    harness = open_harness(
        {"shop": RecordingToolbox([tool("get"), tool("put")]).config_entry()}, {"agents": agents}, agents=["one"]
    )
    async with harness.host(*host_kind) as host:
        assert [one["name"] for one in await host.list()] == ["shop.get"]
    async with harness.client() as client:
        assert (await listed(client, "/mcp/one")).status_code == 401
        assert (await listed(client, authorization=f"Bearer {new_key('one', now=0.0).text}")).status_code == 401
    before = harness.revision
    harness.set_policies({"agents": {"one": {"allow": ["*"]}}})
    await harness.wait_for_policies(before)
    async with harness.client() as client:
        assert (await listed(client)).status_code == 401


async def test_what_is_refused_says_nothing_of_agents(harness: SecuredHarness, storage: str) -> None:
    """D4: the words for an unknown id and a wrong secret are the same, and no agent is named."""
    real = harness.keys["one"]
    same_id = new_key("one", now=0.0).text
    async with harness.client() as client:
        unknown = await listed(client, authorization=f"Bearer {same_id}")
        others = await client.post("/mcp/two", json=LIST, headers={**HEADERS, "authorization": f"Bearer {real}"})
    assert "one" not in json.dumps(unknown.json()).replace("one key", "")
    assert "one" not in others.text.replace("one key", "")
