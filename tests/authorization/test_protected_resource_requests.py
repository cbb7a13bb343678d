"""Credentials of a request, the challenges and the metadata documents of the gateway as a protected resource."""

import re
from collections.abc import Iterator
from typing import Final

import httpx2
import pytest

from aggregator.accounts.oauth.challenges import parse
from tests.authorization.resource_harness import LIST, MODERN_HEADERS, Issuers, ResourceHarness, ask, good
from tests.peers.serving import BackgroundLoop

WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"
# A path for each frontend, and the resource that it is part of.
RESOURCES: Final = {
    "/mcp": "/mcp",
    "/mcp/clerk": "/mcp/clerk",
    "/mcp?names=compatible": "/mcp",
    "/mcp/compatible": "/mcp",
    "/mcp/clerk/compatible": "/mcp/clerk",
    "/sse": "/sse",
    "/sse/compatible": "/sse",
    "/messages?session_id=x": "/sse",
    "/v1/tools": "/v1",
}


def send(client: httpx2.Client, *authorization: str, query: str = "", **more: str) -> httpx2.Response:
    """Send a request with these `Authorization` fields."""
    headers = [*MODERN_HEADERS.items(), *(("authorization", one) for one in authorization), *more.items()]
    return client.post(f"/mcp{query}", json=LIST, headers=headers)


def test_scheme_may_be_in_any_case(issuers: Issuers, client: httpx2.Client) -> None:
    token = good(issuers["one"])
    for scheme in ("Bearer", "bearer", "BEARER", "Bearer  "):
        assert send(client, f"{scheme} {token}").status_code == 200


def test_one_credential_alone_is_taken(issuers: Issuers, gateway: ResourceHarness, client: httpx2.Client) -> None:
    token, key = good(issuers["one"]), gateway.keys["clerk"]
    assert send(client, f"Bearer {token}", f"Bearer {token}").status_code == 400
    assert send(client, f"Bearer {token}", f"Bearer {good(issuers['one'], 'rita')}").status_code == 400
    assert send(client, f"Bearer {token}", **{"x-api-key": key}).status_code == 400
    assert send(client, f"Bearer {token}, Bearer {token}").status_code in (400, 401)
    assert send(client, f"Bearer {key}").status_code == 200
    assert send(client, **{"x-api-key": key}).status_code == 200


def test_token_is_taken_from_the_header_alone(issuers: Issuers, client: httpx2.Client) -> None:
    token = good(issuers["one"])
    assert send(client, query=f"?access_token={token}").status_code in (400, 401)
    assert send(client, f"Bearer {token}", query=f"?access_token={token}").status_code in (400, 401)
    assert send(client, **{"x-api-key": token}).status_code == 401
    assert send(client, f"Basic {token}").status_code == 401
    assert send(client, f"DPoP {token}").status_code == 401
    assert send(client, token).status_code == 401
    assert send(client, "Bearer").status_code == 401
    assert send(client, f"Bearer {token} x").status_code == 401
    assert send(client, f"Bearer\t{token}").status_code in (400, 401)
    assert send(client, f'Bearer "{token}"').status_code == 401
    cookies = {"cookie": f"access_token={token}; Authorization=Bearer {token}"}
    assert send(client, **cookies).status_code == 401
    form = client.post("/mcp", data={"access_token": token})
    assert form.status_code in (400, 401, 415)
    inside = {**LIST, "access_token": token, "authorization": f"Bearer {token}"}
    assert client.post("/mcp", json=inside, headers=MODERN_HEADERS).status_code == 401


def test_connection_keeps_nothing_of_another_token(issuers: Issuers, client: httpx2.Client) -> None:
    """Requests on one connection, alternating: what is remembered of a connection is of the same credentials."""
    alice, rita = good(issuers["one"]), good(issuers["two"], "rita")
    for _ in range(5):
        assert "shop_put" in _names(ask(client, alice))
        assert "shop_put" not in _names(ask(client, rita))
        assert ask(client, f"{alice[:-4]}AAAA").status_code == 401
        assert ask(client, None).status_code == 401


def _names(answer: httpx2.Response) -> str:
    return re.sub(r"[^a-z]+", "_", " ".join(tool["name"] for tool in answer.json()["result"]["tools"]))


def test_agents_endpoint_is_for_that_agents_tokens(issuers: Issuers, client: httpx2.Client) -> None:
    assert ask(client, good(issuers["one"]), "/mcp/clerk").status_code == 200
    assert ask(client, good(issuers["one"], "rita"), "/mcp/clerk").status_code == 403
    assert ask(client, good(issuers["one"], "rita"), "/mcp/nobody").status_code == 403


@pytest.mark.parametrize("path", RESOURCES)
def test_challenge_leads_to_a_document_that_names_the_resource(
    path: str, issuers: Issuers, gateway: ResourceHarness, client: httpx2.Client
) -> None:
    answer = client.get(path)
    assert answer.status_code == 401
    fields = answer.headers.get_list("www-authenticate")
    assert len(fields) == 1
    (challenge,) = parse(fields)
    assert challenge.scheme.lower() == "bearer"
    # RFC 6750, 3: without credentials no error is named.
    assert set(challenge.params) == {"realm", "resource_metadata", "scope"}
    assert challenge.params["scope"] == "mcp"
    found = client.get(challenge.params["resource_metadata"])
    document = found.json()
    assert document["resource"] == f"{gateway.url}{RESOURCES[path]}"
    assert document["authorization_servers"] == [issuers[name].issuer for name in ("one", "two", "strict")]
    assert document["bearer_methods_supported"] == ["header"]
    assert document["scopes_supported"] == ["mcp"]
    assert found.headers["content-type"].startswith("application/json")
    refused = client.get(path, headers={"authorization": "Bearer a.b.c"})
    assert 'error="invalid_token"' in refused.headers["www-authenticate"]


@pytest.mark.parametrize("path", ["", "/mcp", "/mcp/", "/mcp/clerk", "/mcp/anyone", "/sse", "/v1"])
def test_document_is_where_clients_look_for_it(path: str, gateway: ResourceHarness, client: httpx2.Client) -> None:
    found = client.get(f"{WELL_KNOWN}{path}", headers={"origin": "https://inspector.example.com"})
    if found.status_code == 403:
        pytest.fail("a page that connects to this server has to read the document")
    assert found.status_code == 200
    assert found.json()["resource"] == f"{gateway.url}{path.rstrip('/')}"
    assert found.headers["access-control-allow-origin"] in ("*", "https://inspector.example.com")


@pytest.mark.parametrize(
    ("path", "resource"),
    [("/mcp/compatible", "/mcp"), ("/mcp/clerk/compatible/", "/mcp/clerk"), ("/sse/compatible", "/sse")],
)
def test_an_address_with_a_spelling_is_no_resource_of_its_own(
    path: str, resource: str, issuers: Issuers, gateway: ResourceHarness, client: httpx2.Client
) -> None:
    """4 of issue 32: audience and metadata are those of the plain address, and its tokens are good there."""
    assert client.get(f"{WELL_KNOWN}{path}").json()["resource"] == f"{gateway.url}{resource}"
    token = good(issuers["one"])
    for address in ("/mcp", "/mcp?names=compatible", "/mcp/compatible"):
        headers = {**MODERN_HEADERS, "authorization": f"Bearer {token}"}
        answer = client.post(address, json=LIST, headers=headers)
        assert answer.status_code == 200, (address, answer.text)
        assert ("shop__put" in answer.text) is ("compatible" in address)


def test_agents_documents_tell_nothing_of_agents(client: httpx2.Client) -> None:
    """The document of an agent that is there and one that is not differ in the name alone."""
    one, other = (client.get(f"{WELL_KNOWN}/mcp/{name}") for name in ("clerk", "nobody"))
    assert (one.status_code, one.text.replace("clerk", "nobody")) == (other.status_code, other.text)


@pytest.mark.parametrize(
    "path", ["/elsewhere", "/mcp/a/b", "/mcp/%2e%2e", "/mcp/<x>", '/mcp/"', "//mcp", "/mcp%0d%0ax"]
)
def test_there_is_no_document_for_what_is_no_resource(path: str, client: httpx2.Client) -> None:
    assert client.get(f"{WELL_KNOWN}{path}").status_code in (400, 404)


@pytest.mark.parametrize(
    "path", ['/mcp/"x', "/mcp/a%22,%20x=%22", "/mcp/a%0d%0aset-cookie:%20x", "/mcp/\\", "/mcp/%c3%a9", "/mcp/a%00"]
)
def test_nothing_of_a_path_gets_into_a_challenge(path: str, gateway: ResourceHarness, client: httpx2.Client) -> None:
    answer = client.post(path, json=LIST, headers=MODERN_HEADERS)
    assert answer.status_code in (400, 401, 404)
    if answer.status_code == 401:
        (challenge,) = parse(answer.headers.get_list("www-authenticate"))
        assert challenge.params["resource_metadata"] == f"{gateway.url}{WELL_KNOWN}"
    assert "set-cookie" not in answer.headers


def test_host_of_an_attacker_is_never_named(client: httpx2.Client) -> None:
    """A request with another `Host` is refused, so no document names an address that its sender chose."""
    for headers in ({"host": "evil.example.com"}, {"x-forwarded-host": "evil.example.com"}):
        for path in (WELL_KNOWN, f"{WELL_KNOWN}/mcp", "/mcp"):
            answer = client.get(path, headers=headers)
            assert "evil" not in answer.headers.get("www-authenticate", "")
            assert answer.status_code in (401, 403, 421) or "evil" not in answer.text


def test_metrics_and_console_take_tokens_for_what_they_are(
    issuers: Issuers, gateway: ResourceHarness, client: httpx2.Client
) -> None:
    forwarded = {"x-forwarded-for": "192.0.2.7"}
    clerk, meter = ({"authorization": f"Bearer {good(issuers['one'], who)}"} for who in ("alice", "meter"))
    assert client.get("/metrics", headers=forwarded).status_code == 401
    assert client.get("/metrics", headers={**forwarded, **clerk}).status_code == 403
    assert client.get("/metrics", headers={**forwarded, **meter}).status_code == 200
    # The console is for people who are signed in there, and for keys with a role at it.
    for path in ("/console/tools", "/console/calls", "/console/health"):
        assert client.get(path, headers=meter).status_code in (302, 303, 401, 403)


@pytest.fixture(scope="module")
def proxied(
    background: BackgroundLoop, issuers: Issuers, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[httpx2.Client]:
    """The proxy before a gateway with `public_url`, under another host and below a path; it says who asks and how."""
    http = {"public_url": "https://tools.example.com/ai", "trusted_proxies": ["127.0.0.1"]}
    gateway = ResourceHarness(background, tmp_path_factory.mktemp("proxied"), issuers, http=http)
    with gateway.http() as made:
        made.headers |= {"host": "tools.example.com", "x-forwarded-for": "192.0.2.7", "x-forwarded-proto": "https"}
        yield made


@pytest.mark.parametrize("prefix", ["", "/ai"])
def test_proxied_challenge_and_document_name_the_public_address(prefix: str, proxied: httpx2.Client) -> None:
    public = "https://tools.example.com"
    place = parse([proxied.get("/mcp").headers["www-authenticate"]])[0].params["resource_metadata"]
    assert place in (f"{public}/ai{WELL_KNOWN}/mcp", f"{public}{WELL_KNOWN}/ai/mcp")
    for asked in (f"{WELL_KNOWN}{prefix}/mcp", place.removeprefix(public).removeprefix("/ai")):
        assert proxied.get(asked).json()["resource"] == f"{public}/ai/mcp"


def test_forwarded_hosts_are_not_believed(proxied: httpx2.Client) -> None:
    for name in ("x-forwarded-host", "forwarded", "x-original-host"):
        answer = proxied.get("/mcp", headers={name: "host=evil.example.com"})
        assert "evil" not in answer.headers["www-authenticate"]
