"""Who comes in with a token, at each frontend, and what those are told who do not."""

from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from tests.end_to_end.scripted_host import ACCEPT
from tests.peers.serving import BackgroundLoop
from tests.tokens.conftest import TokenHarness, challenge_of, modern
from tests.tokens.test_token_sessions import INITIALIZE

PRM: Final = "/.well-known/oauth-protected-resource"
# Each web frontend in each era: the method, the path, and the rest of a request.
REQUESTS: Final[list[tuple[str, str, dict[str, Any]]]] = [
    ("POST", "/mcp", modern("tools/list")),
    ("POST", "/mcp", {"json": INITIALIZE, "headers": ACCEPT}),
    ("POST", "/mcp/one", modern("tools/list")),
    ("GET", "/sse", {}),
    ("POST", "/messages?session_id=x", {"json": {}}),
    ("GET", "/v1/tools", {}),
]


async def test_a_token_lets_its_owners_agent_in(harness: TokenHarness) -> None:
    async with harness.with_token(harness.token()) as client:
        response = await client.post("/mcp", **modern("tools/list"))
    assert response.status_code == 200
    assert response.json()["result"]["tools"]


async def test_a_token_for_another_audience_is_refused(harness: TokenHarness) -> None:
    async with harness.with_token(harness.token(audience="https://elsewhere.example.com/mcp")) as client:
        response = await client.post("/mcp", **modern("tools/list"))
    assert response.status_code == 401
    assert 'error="invalid_token"' in challenge_of(response.headers)
    assert f'resource_metadata="{harness.url}/.well-known/oauth-protected-resource/mcp"' in challenge_of(
        response.headers
    )


async def test_each_endpoint_is_a_resource_of_its_own(harness: TokenHarness) -> None:
    async with harness.with_token(None) as client:
        for path in ("", "/mcp", "/mcp/one", "/sse", "/v1"):
            document = (await client.get(f"/.well-known/oauth-protected-resource{path}")).json()
            assert document["resource"] == f"{harness.url}{path}"
            assert document["authorization_servers"] == [harness.idp.issuer]
            assert document["scopes_supported"] == ["mcp"]


@pytest.mark.parametrize(("method", "path", "more"), REQUESTS)
async def test_every_frontend_says_where_tokens_come_from(
    harness: TokenHarness, method: str, path: str, more: dict[str, Any]
) -> None:
    """Without a token the first scopes are named, without an error; with a bad one there is an error."""
    async with harness.with_token(None) as client:
        bare = await client.request(method, path, **more)
    resource = {"/messages?session_id=x": "/sse", "/v1/tools": "/v1"}.get(path, path)
    told = f'Bearer realm="aggregator", resource_metadata="{harness.url}{PRM}{resource}", scope="mcp"'
    assert bare.status_code == 401
    assert challenge_of(bare.headers) == told
    async with harness.with_token(harness.token(lifetime=-60)) as client:
        expired = await client.request(method, path, **more)
    assert expired.status_code == 401
    why = 'error="invalid_token", error_description="This token has expired.", '
    assert challenge_of(expired.headers) == told.replace("resource_metadata", f"{why}resource_metadata")


async def test_keys_stay_and_are_told_from_tokens(harness: TokenHarness) -> None:
    token, key = harness.token(), harness.keys["one"]
    async with harness.with_token(None) as client:

        async def status(**headers: str) -> int:
            return (await client.get("/v1/tools", headers=headers)).status_code

        assert await status(authorization=f"Bearer {key}") == 200
        assert await status(**{"x-api-key": key}) == 200
        assert await status(**{"x-api-key": token}) == 401
        assert await status(authorization=f"Bearer {token}", **{"x-api-key": key}) == 400
        assert (await client.get(f"/v1/tools?access_token={token}")).status_code == 400
        assert (await client.get(f"/v1/tools?access_token={token}")).headers.get("www-authenticate") is None


async def test_a_good_token_of_a_stranger_is_no_reason_to_log_in_again(harness: TokenHarness) -> None:
    """403 without a challenge: another token of the same person would not help. The agent's endpoint is its own."""
    async with harness.with_token(harness.token("mallory")) as client:
        stranger = await client.get("/v1/tools")
    assert stranger.status_code == 403
    assert "www-authenticate" not in stranger.headers
    async with harness.with_token(harness.token("bob")) as client:
        assert (await client.post("/mcp/one", **modern("tools/list"))).status_code == 403
        assert (await client.post("/mcp/two", **modern("tools/list"))).status_code == 200


async def test_pages_of_any_origin_may_read_where_tokens_come_from(harness: TokenHarness) -> None:
    page = {"origin": "https://inspector.example.com"}
    async with harness.with_token(None) as client:
        document = await client.get(f"{PRM}/mcp", headers=page)
        preflight = await client.options(f"{PRM}/mcp", headers={**page, "access-control-request-method": "GET"})
        assert (await client.get("/v1/tools", headers=page)).status_code == 403
        assert (await client.get(f"{PRM}/nothing", headers=page)).status_code == 404
        elsewhere = await client.get(f"{PRM}/mcp", headers={"host": "rebound.example.com"})
    assert document.status_code == 200
    assert document.headers["access-control-allow-origin"] == "*"
    assert preflight.status_code == 204
    assert elsewhere.status_code == 421


async def test_floods_of_wrong_tokens_are_slowed_and_good_ones_get_in(harness: TokenHarness) -> None:
    """Wrong tokens are told to wait; a good token from the same address is let in all the same."""
    good = harness.token("alice", lifetime=1000)
    header, claims, _ = good.split(".")
    async with harness.with_token(f"{header}.{claims}.{'A' * 86}") as client:
        statuses = [(await client.get("/v1/tools")).status_code for _ in range(8)]
    assert set(statuses) == {401, 429}
    async with harness.with_token(good) as client:
        assert (await client.get("/v1/tools")).status_code == 200


async def test_a_token_without_the_scopes_of_a_tool_is_asked_for_more(harness: TokenHarness) -> None:
    """403 names all scopes that a token for the tool needs, those that this one has too; with them the call is made, in
    the session that was open.
    """
    few, more = harness.token(scopes=["openid"]), harness.token(scopes=["openid", "mcp", "write"])
    call = modern("tools/call", name="shop.echo", arguments={"text": "hi"})
    plain = {"name": "shop.echo", "arguments": {"text": "hi"}}
    legacy = {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": plain}
    async with harness.with_token(few) as client:
        session = {**ACCEPT, "mcp-session-id": await opened(client)}
        over_mcp = await client.post("/mcp", **call)
        refused = [over_mcp, await client.post("/mcp", json=legacy, headers=session)]
        refused.append(await client.post("/v1/tool_calls", json={"tool_call": plain}))
    for response, resource in zip(refused, ("/mcp", "/mcp", "/v1"), strict=True):
        assert response.status_code == 403
        asked = challenge_of(response.headers)
        assert 'error="insufficient_scope"' in asked
        assert f'resource_metadata="{harness.url}{PRM}{resource}"' in asked
        assert set(asked.partition('scope="')[2].partition('"')[0].split()) == {"openid", "mcp", "write"}
    assert over_mcp.json()["result"]["_meta"]["aggregator/error"]["code"] == "insufficient_scope"
    async with harness.with_token(more) as client:
        assert (await client.post("/mcp", **call)).json()["result"]["content"]
        assert "isError" not in (await client.post("/mcp", json=legacy, headers=session)).json()["result"]
        assert (await client.post("/v1/tool_calls", json={"tool_call": plain})).status_code == 200
    async with harness.with_token(few) as client:
        # What one token may do in a session, another one may not.
        assert (await client.post("/mcp", json=legacy, headers=session)).status_code == 403
    async with harness.with_token(harness.keys["one"]) as client:
        assert (await client.post("/v1/tool_calls", json={"tool_call": plain})).status_code == 200


async def test_behind_a_proxy_resources_have_the_addresses_that_hosts_use(
    loop: BackgroundLoop, tmp_path: Path, harness: TokenHarness
) -> None:
    """With a path in `public_url`, metadata are found before and behind it; a challenge names what comes through."""
    http = {"public_url": "https://tools.example.com/ai", "trusted_proxies": ["127.0.0.1"]}
    behind = TokenHarness(loop, tmp_path, harness.idp, http=http)
    proxied = {"host": "tools.example.com", "x-forwarded-for": "192.0.2.7"}
    async with behind.with_token(None) as client:
        refused = await client.post("/mcp", **merged(modern("tools/list"), proxied))
        assert f'resource_metadata="https://tools.example.com/ai{PRM}/mcp"' in challenge_of(refused.headers)
        for path in (f"{PRM}/mcp", f"/ai{PRM}/mcp", f"{PRM}/ai/mcp"):
            document = (await client.get(path, headers=proxied)).json()
            assert document["resource"] == "https://tools.example.com/ai/mcp"
        assert (await client.get(f"{PRM}/mcp")).json()["resource"] == f"{behind.url}/mcp"


async def opened(client: httpx2.AsyncClient) -> str:
    """Open a session of the handshake era; return its id."""
    return (await client.post("/mcp", json=INITIALIZE, headers=ACCEPT)).headers["mcp-session-id"]


def merged(request: dict[str, Any], headers: dict[str, str]) -> dict[str, Any]:
    """Return a request with further headers."""
    return {**request, "headers": {**request["headers"], **headers}}
