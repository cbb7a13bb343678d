"""Scopes that a tool needs: the 403 with its challenge, and the way on with a token that has more."""

import asyncio
from collections.abc import Iterator
from typing import Any, Final

import httpx2
import pytest

from aggregator.accounts.oauth.challenges import Challenge, parse
from aggregator.domain.principal import Principal, TokenFacts
from aggregator.gateway.host import Host
from tests.authorization.authorization_server import AuthorizationServer
from tests.authorization.resource_harness import Issuers, ResourceHarness, good, policies
from tests.end_to_end.scripted_host import ACCEPT, ENVELOPE, MODERN, over_http, over_sse
from tests.peers.serving import BackgroundLoop
from tests.peers.toolbox import Json

LEGACY: Final = "2025-11-25"


@pytest.fixture(scope="module")
def issuers(background: BackgroundLoop, patched: pytest.MonkeyPatch) -> Issuers:
    """One issuer."""
    return Issuers(background, "one")


@pytest.fixture(scope="module")
def gateway(background: BackgroundLoop, issuers: Issuers, tmp_path_factory: pytest.TempPathFactory) -> ResourceHarness:
    """A gateway whose tool `shop.put` needs two scopes."""
    agents = policies(issuers)["agents"]
    clerk = {"allow": ["shop.*"], "scopes": {"shop.put": ["orders:write", "orders:read"]}}
    return ResourceHarness(
        background, tmp_path_factory.mktemp("scopes"), issuers, rules={"agents": {**agents, "clerk": clerk}}
    )


@pytest.fixture
def issuer(issuers: Issuers) -> AuthorizationServer:
    """The one issuer."""
    return issuers["one"]


@pytest.fixture
def client(gateway: ResourceHarness) -> Iterator[httpx2.Client]:
    """A client of the shared gateway."""
    with gateway.http() as made:
        yield made


def put(client: httpx2.Client, token: str) -> httpx2.Response:
    """Call the tool in 2026-07-28."""
    params: Json = {"name": "shop.put", "arguments": {"amount": 1}, "_meta": ENVELOPE}
    headers = {**ACCEPT, "mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": "shop.put"}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return client.post("/mcp", json=body, headers={**headers, "authorization": f"Bearer {token}"})


def challenge_of(answer: httpx2.Response) -> Challenge:
    """The one challenge of a refusal for want of scopes."""
    assert answer.status_code == 403, answer.text
    (challenge,) = parse(answer.headers.get_list("www-authenticate"))
    assert challenge.params["error"] == "insufficient_scope"
    return challenge


@pytest.mark.parametrize("had", [(), ("mcp",), ("orders:read",), ("orders:write",), ("ORDERS:WRITE", "orders:read")])
def test_missing_scope_is_asked_for_and_nothing_is_called(
    had: tuple[str, ...], issuer: AuthorizationServer, gateway: ResourceHarness, client: httpx2.Client
) -> None:
    calls = len(gateway.shop.calls)
    challenge = challenge_of(put(client, good(issuer, scopes=had)))
    # All that this call needs in one challenge, those included that the token has (spec, scope challenge handling).
    assert set(challenge.params["scope"].split()) >= {"orders:write", "orders:read"}
    assert challenge.params["resource_metadata"] == f"{gateway.url}/.well-known/oauth-protected-resource/mcp"
    assert len(gateway.shop.calls) == calls


def test_token_with_the_scopes_that_were_asked_for_may_call(
    issuer: AuthorizationServer, gateway: ResourceHarness, client: httpx2.Client
) -> None:
    scopes = challenge_of(put(client, good(issuer, scopes=["mcp"]))).params["scope"].split()
    calls = len(gateway.shop.calls)
    assert put(client, good(issuer, scopes=scopes)).status_code == 200
    assert put(client, issuer.token(audience="aggregator", scope=scopes)).status_code == 200
    assert put(client, issuer.token(audience="aggregator", scope=None, scp=scopes)).status_code == 200
    assert len(gateway.shop.calls) == calls + 3


async def test_tool_stays_listed(issuer: AuthorizationServer, gateway: ResourceHarness) -> None:
    async with over_http(gateway.url, MODERN, good(issuer)) as host:
        assert "shop.put" in {tool["name"] for tool in await host.list()}


def test_key_is_not_concerned(gateway: ResourceHarness, client: httpx2.Client) -> None:
    assert put(client, gateway.keys["clerk"]).status_code == 200


def test_legacy_session_gets_the_same_challenge_and_goes_on(
    issuer: AuthorizationServer, gateway: ResourceHarness, client: httpx2.Client
) -> None:
    hello = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "h", "version": "0"}}
    first, second = (
        {"authorization": f"Bearer {good(issuer, scopes=scopes)}"} for scopes in ([], ["orders:write", "orders:read"])
    )
    opened = client.post(
        "/mcp",
        json={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        headers={**ACCEPT, **first},
    )
    session = {**ACCEPT, "mcp-session-id": opened.headers["mcp-session-id"]}
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "shop.put", "arguments": {}}}
    challenge_of(client.post("/mcp", json=call, headers={**session, **first}))
    # With the wider token the same session goes on.
    assert client.post("/mcp", json={**call, "id": 3}, headers={**session, **second}).status_code == 200
    # And a narrower token in the same session is refused again.
    challenge_of(client.post("/mcp", json={**call, "id": 4}, headers={**session, **first}))


def test_plain_http_gets_the_challenge(issuer: AuthorizationServer, client: httpx2.Client) -> None:
    call = {"tool_call": {"name": "shop.put", "arguments": {"amount": 1}}}
    answer = client.post("/v1/tool_calls", json=call, headers={"authorization": f"Bearer {good(issuer)}"})
    assert set(challenge_of(answer).params["scope"].split()) >= {"orders:write", "orders:read"}


async def test_sse_says_it_in_words(issuer: AuthorizationServer, gateway: ResourceHarness) -> None:
    calls = len(gateway.shop.calls)
    async with over_sse(gateway.url, LEGACY, good(issuer)) as host:
        result = await host.call("shop.put", {"amount": 1}).result()
    assert result["isError"] is True
    assert "orders:write" in result["content"][0]["text"]
    assert len(gateway.shop.calls) == calls


def test_batch_calls_only_what_its_token_may(
    issuer: AuthorizationServer, gateway: ResourceHarness, client: httpx2.Client
) -> None:
    token = {"authorization": f"Bearer {good(issuer)}"}
    hello = {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "h", "version": "0"}}
    opened = client.post(
        "/mcp",
        json={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        headers={**ACCEPT, **token},
    )
    session = {**ACCEPT, **token, "mcp-session-id": opened.headers["mcp-session-id"]}
    batch = [
        {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": name, "arguments": {}}}
        for number, name in enumerate(("shop.get", "shop.put"), 2)
    ]
    calls = len(gateway.shop.calls)
    answer = client.post("/mcp", json=batch, headers=session)
    assert "orders:write" in answer.text + answer.headers.get("www-authenticate", "")
    assert [call["name"] for call in gateway.shop.calls[calls:]] in (["get"], [])


async def test_requests_of_one_session_are_each_decided_by_their_own_token(
    gateway: ResourceHarness, issuer: AuthorizationServer
) -> None:
    most, least = good(issuer, scopes=["orders:write", "orders:read"]), good(issuer)
    async with over_http(gateway.url, LEGACY, least) as host:
        wire: Any = host.wire
        headers = {**ACCEPT, "mcp-protocol-version": LEGACY, "mcp-session-id": wire.session}

        async def ask(client: httpx2.AsyncClient, number: int) -> bool:
            params = {"name": "shop.put", "arguments": {"amount": 1}}
            body = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
            answer = await client.post("/mcp", json=body, headers=headers)
            return answer.status_code == 200 and "insufficient_scope" not in answer.text

        async with gateway.bearer(most) as may, gateway.bearer(least) as may_not:
            calls = [ask(may_not if number % 2 else may, 100 + number) for number in range(40)]
            allowed = await asyncio.gather(*(call for call in calls))
    assert allowed == [number % 2 == 0 for number in range(40)]


def test_token_of_a_later_request_does_not_change_one_that_is_being_decided() -> None:
    first, later = (
        Principal("clerk", token=TokenFacts("https://one.example", "alice", scopes=scopes))
        for scopes in (frozenset[str](), frozenset({"orders:write"}))
    )
    session = Host("http", None, first)
    asked = session.of_request("tools/call", first)
    session.principal = later
    assert (asked.principal, asked.copied_from) == (first, session)
    assert session.of_request("tools/list", later) is session
