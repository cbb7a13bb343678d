"""Sessions, running requests and hops belong to the person and the program of a token, not to their agent alone."""

import asyncio
import json
import time

import httpx2
import pytest

from aggregator.domain.principal import Principal, TokenFacts
from aggregator.frontends.web.sessions.session_ids import SessionIds
from aggregator.gateway.host import Host
from aggregator.replicas.group.clock import GroupClock
from aggregator.replicas.group.shared_key import SharedKey
from tests.end_to_end.scripted_host import ACCEPT, CLIENT_INFO
from tests.peers.toolbox import Json
from tests.polling import until
from tests.tokens.conftest import TokenHarness

INITIALIZE: Json = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": CLIENT_INFO},
}
LIST = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}


async def test_a_session_is_its_owners_whatever_agent_others_are(harness: TokenHarness) -> None:
    """`carol` and `alice` are the same agent: the session of one is still none for the other, nor for another program
    or the key of that agent; a later token of the same person and program goes on with it.
    """
    async with harness.with_token(harness.token("alice")) as client:
        opened = await client.post("/mcp", json=INITIALIZE, headers=ACCEPT)
        session = {**ACCEPT, "mcp-session-id": opened.headers["mcp-session-id"]}
        assert (await client.post("/mcp", json=LIST, headers=session)).status_code == 200
    others = (harness.token("carol"), harness.token("alice", client="other"), harness.keys["one"])
    for text in others:
        async with harness.with_token(text) as client:
            assert (await client.post("/mcp", json=LIST, headers=session)).status_code == 404
    async with harness.with_token(harness.token("alice", lifetime=1800)) as client:
        assert (await client.post("/mcp", json=LIST, headers=session)).status_code == 200


async def test_each_message_over_sse_is_decided_by_the_token_it_was_sent_with(harness: TokenHarness) -> None:
    """The stream was opened with a token that does not have the scope of the tool; a later token has it."""
    narrow, wide = (harness.token("alice", client="sse", scopes=scopes) for scopes in (["mcp"], ["mcp", "write"]))
    call = {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "shop.echo", "arguments": {}}}
    async with (
        harness.with_token(narrow) as first,
        harness.with_token(wide) as later,
        asyncio.timeout(60),
        first.stream("GET", "/sse", headers={"accept": "text/event-stream"}) as response,
    ):
        data = (line.removeprefix("data: ") async for line in response.aiter_lines() if line.startswith("data: "))
        endpoint = await anext(data)

        async def answer(client: httpx2.AsyncClient, message: Json) -> str:
            assert (await client.post(endpoint, json=message)).status_code == 202
            while json.loads(text := await anext(data)).get("id") != message["id"]:
                pass
            return text

        await answer(first, INITIALIZE)
        await first.post(endpoint, json={"jsonrpc": "2.0", "method": "notifications/initialized"})
        refused = ["insufficient_scope" in await answer(client, call) for client in (first, later, first, later)]
    assert refused == [True, False, True, False]


def test_a_sealed_id_names_its_owner() -> None:
    """Each replica that can read an id knows whose it is, however long their names are."""
    ids = SessionIds(SharedKey(), GroupClock())
    owner = TokenFacts("https://login.example.com", "a" * 1_000, "program")
    session_id, _ = ids.issue(Host("http", None, Principal("one", token=owner)))
    facts = ids.read(session_id)
    assert facts is not None
    assert facts.is_of(Principal("one", token=TokenFacts("https://login.example.com", "a" * 1_000, "program")))
    assert not facts.is_of(Principal("one"))
    assert not facts.is_of(Principal("one", key_id="k"))
    assert not facts.is_of(Principal("one", token=TokenFacts("https://login.example.com", "a", "program")))
    plain, _ = ids.issue(Host("http", None, Principal("one")))
    without = ids.read(plain)
    assert without is not None
    assert not without.is_of(Principal("one", token=owner))


async def test_what_runs_ends_with_the_token_unless_another_took_its_place(
    harness: TokenHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the end of a token its stream ends; a newer token of the same person and program keeps it up."""
    access = harness.app.access
    principal = await _principal(harness, harness.token("alice", client="short", lifetime=60))
    newer = harness.token("alice", client="short", lifetime=7200)
    ended = asyncio.Event()
    harness.app.gateway.revocation.add(principal, ended.set)
    now = time.time()
    assert access.holds(principal)
    monkeypatch.setattr("aggregator.gateway.access.time.time", lambda: now + 3600)
    assert not access.holds(principal)
    await until(ended.is_set)
    monkeypatch.undo()
    await _principal(harness, newer)
    monkeypatch.setattr("aggregator.gateway.access.time.time", lambda: now + 3600)
    assert access.holds(principal)


async def test_another_replica_looks_itself_who_is_let_in(harness: TokenHarness) -> None:
    """The facts of a hop are those of the token, which itself stays where it came to."""
    principal = await _principal(harness, harness.token("alice", scopes=["mcp"], groups=["staff"]))
    assert principal.token is not None
    told = principal.token.to_json()
    assert principal.token.text not in str(told)
    facts = TokenFacts.from_json(told)
    there = harness.app.access.let_in("one", None, facts)
    assert there is not None
    assert there.is_same_caller(principal)
    assert there.token == principal.token
    assert harness.app.access.let_in("two", None, facts) is None
    expired = TokenFacts.from_json({**told, "client": "gone", "expires": 1.0})
    assert harness.app.access.let_in("one", None, expired) is None


async def _principal(harness: TokenHarness, text: str) -> Principal:
    """Return what the aggregator makes of a token."""
    async with harness.with_token(text) as client:
        assert (await client.get("/v1/tools")).status_code == 200
    assert harness.app.access.tokens is not None
    known = harness.app.access.tokens.known(text, time.time())
    assert known is not None
    assert isinstance(known.principal, Principal)
    return known.principal
