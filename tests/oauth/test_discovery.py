"""The authorization server of a server is found in the order of the specification, and is who it says it is."""

from typing import Any

import pytest
from mcp.client.auth import utils as oracle

from aggregator.accounts.oauth.challenges import Challenge
from aggregator.accounts.oauth.discovery import DiscoveryFailed, canonical_resource, covers, discover
from aggregator.accounts.oauth.fetch import FetchFailed, GuardedFetch
from aggregator.accounts.oauth.metadata import (
    IssuerMetadata,
    issuer_metadata_urls,
    parse_issuer,
    read_issuer,
    resource_metadata_urls,
)
from tests.oauth.site import Site

PRM = "/.well-known/oauth-protected-resource"
ASM = "/.well-known/oauth-authorization-server"
OIDC = "/.well-known/openid-configuration"


def _issuer(site: Site, path: str = "", **more: Any) -> dict[str, Any]:
    issuer = site.url + path
    return {
        "issuer": issuer,
        "authorization_endpoint": f"{issuer}/authorize",
        "token_endpoint": f"{issuer}/token",
        "code_challenge_methods_supported": ["S256"],
        **more,
    }


@pytest.mark.parametrize(
    "issuer", ["https://a.example", "https://a.example/", "https://a.example/t", "https://a.example:8443/t/u/"]
)
def test_the_documents_are_looked_for_in_the_order_of_the_sdk(issuer: str) -> None:
    assert [*issuer_metadata_urls(issuer)] == oracle.build_oauth_authorization_server_metadata_discovery_urls(
        issuer, "https://mcp.example"
    )


@pytest.mark.parametrize("server", ["https://a.example/mcp", "https://a.example", "https://a.example/x/y?z=1"])
def test_resource_metadata_is_looked_for_as_the_sdk_does(server: str) -> None:
    expected = oracle.build_protected_resource_metadata_discovery_urls(None, server)
    assert [*resource_metadata_urls(server)] == expected


async def test_the_challenge_says_where_the_metadata_are(site: Site) -> None:
    site.say("/custom.json", {"resource": f"{site.url}/mcp", "authorization_servers": [site.url]})
    site.say(ASM, _issuer(site))
    challenge = Challenge("bearer", {"resource_metadata": f"{site.url}/custom.json", "scope": "a b"})
    found = await discover(GuardedFetch(), f"{site.url}/mcp", challenge)
    assert site.paths == ["/custom.json", ASM]
    assert found.resource == f"{site.url}/mcp"
    assert found.scopes == ("a", "b")
    assert found.issuer.token_endpoint == f"{site.url}/token"


async def test_without_a_challenge_the_path_comes_before_the_root(site: Site) -> None:
    site.say(PRM, {"resource": site.url, "authorization_servers": [f"{site.url}/t"], "scopes_supported": ["r", "w"]})
    site.say(f"/t{OIDC}", _issuer(site, "/t"))
    found = await discover(GuardedFetch(), f"{site.url}/mcp")
    assert site.paths == [f"{PRM}/mcp", PRM, f"{ASM}/t", f"{OIDC}/t", f"/t{OIDC}"]
    assert found.resource == site.url
    assert found.scopes == ("r", "w")


async def test_no_probe_too_many(site: Site) -> None:
    site.say(f"{PRM}/mcp", {"resource": f"{site.url}/mcp", "authorization_servers": [site.url, "https://b.example"]})
    site.say(ASM, _issuer(site))
    await discover(GuardedFetch(), f"{site.url}/mcp")
    assert site.paths == [f"{PRM}/mcp", ASM]


@pytest.mark.parametrize(
    ("resource", "server", "expected"),
    [
        ("https://a.example/mcp", "https://a.example/mcp", True),
        ("https://a.example/mcp/", "https://a.example/mcp", True),
        ("https://a.example", "https://a.example/mcp", True),
        ("https://A.example:443/", "https://a.example/mcp", True),
        ("https://a.example/m", "https://a.example/mcp", False),
        ("https://a.example/mcp/deeper", "https://a.example/mcp", False),
        ("https://b.example/mcp", "https://a.example/mcp", False),
        ("http://a.example/mcp", "https://a.example/mcp", False),
        ("https://a.example:8443/mcp", "https://a.example/mcp", False),
        ("https://a.example@b.example/mcp", "https://a.example/mcp", False),
        ("urn:a", "https://a.example/mcp", False),
    ],
)
def test_the_resource_has_to_be_the_server(resource: str, server: str, expected: bool) -> None:
    assert covers(resource, server) is expected


RELATIVE = ["https://as.example/x", "/x", "x", "//other.example/x"]


@pytest.mark.parametrize("endpoint", RELATIVE)
@pytest.mark.parametrize("issuer", ["https://as.example", "https://as.example/t"])
def test_a_relative_address_stands_under_its_issuer(issuer: str, endpoint: str) -> None:
    """RFC 3986, 5.2; an address that is whole stays as it is."""
    path = issuer.removeprefix("https://as.example")
    found = parse_issuer({"issuer": issuer, "token_endpoint": endpoint}, issuer, GuardedFetch())
    meant = ["https://as.example/x", "https://as.example/x", f"https://as.example{path}/x", "https://other.example/x"]
    assert found.token_endpoint == meant[RELATIVE.index(endpoint)]


def test_a_relative_issuer_stands_under_its_address() -> None:
    assert parse_issuer({"issuer": "/t"}, "https://as.example/t", GuardedFetch()).issuer == "https://as.example/t"
    for other in ("/u", "//evil.example/t", "", "[", "https://[/t"):
        with pytest.raises(FetchFailed, match="another issuer"):
            parse_issuer({"issuer": other}, "https://as.example/t", GuardedFetch())


@pytest.mark.parametrize("named", ["/elsewhere", "elsewhere", "{url}/elsewhere"])
@pytest.mark.parametrize(("resource", "servers"), [("/mcp", ["/t"]), ("{url}/mcp", ["t"]), ("mcp", ["{url}/t"])])
async def test_relative_addresses_of_a_resource_stand_under_the_server(
    site: Site, named: str, resource: str, servers: list[str]
) -> None:
    document = {
        "resource": resource.format(url=site.url),
        "authorization_servers": [one.format(url=site.url) for one in servers],
    }
    site.say("/elsewhere", document)
    site.say(f"{ASM}/t", _issuer(site, "/t"))
    challenge = Challenge("bearer", {"resource_metadata": named.format(url=site.url)})
    found = await discover(GuardedFetch(), f"{site.url}/mcp", challenge)
    assert site.paths == ["/elsewhere", f"{ASM}/t"]
    assert found.resource == f"{site.url}/mcp"
    assert found.issuer.issuer == f"{site.url}/t"


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("https://\u0440\u0430ypal.example/mcp", "https://??ypal.example/mcp,"),
        ("https://a.example/\u202e\u200b\x1b[31m", "https://a.example/???[31m,"),
        ("https://me:sekrit@a.example/mcp?key=sekrit#sekrit", "https://a.example/mcp,"),
        (f"https://a.example/{'x' * 400}", f"https://a.example/{'x' * 182},"),
        ("https://[a/mcp", "an address that cannot be read,"),
    ],
)
async def test_an_address_of_others_is_shown_plainly(site: Site, written: str, shown: str) -> None:
    """In ASCII alone, so that no name looks like another, and without what may be a secret."""
    site.say(f"{PRM}/mcp", {"resource": written, "authorization_servers": [site.url]})
    with pytest.raises(DiscoveryFailed) as failed:
        await discover(GuardedFetch(), f"{site.url}/mcp", None)
    assert f"another resource, {shown}" in str(failed.value)
    assert "sekrit" not in str(failed.value)


async def test_the_metadata_of_another_resource_are_refused(site: Site) -> None:
    site.say(f"{PRM}/mcp", {"resource": "https://evil.example/mcp", "authorization_servers": [site.url]})
    with pytest.raises(DiscoveryFailed, match=r"another resource, https://evil\.example/mcp"):
        await discover(GuardedFetch(), f"{site.url}/mcp")
    assert site.paths == [f"{PRM}/mcp"]


@pytest.mark.parametrize("issuer", ["https://attacker.example", "{url}/other", "{url}x", "", None, 5])
async def test_the_metadata_of_another_issuer_are_refused(site: Site, issuer: Any) -> None:
    site.say(f"{PRM}/mcp", {"resource": f"{site.url}/mcp", "authorization_servers": [site.url]})
    named = issuer.format(url=site.url) if isinstance(issuer, str) else issuer
    site.say(ASM, _issuer(site) | {"issuer": named})
    site.say(OIDC, _issuer(site))
    with pytest.raises(DiscoveryFailed, match="another issuer"):
        await discover(GuardedFetch(), f"{site.url}/mcp")


async def test_a_final_slash_at_the_root_is_no_other_issuer(site: Site) -> None:
    site.say(ASM, _issuer(site))
    fetch = GuardedFetch().within(site.url)
    assert (await read_issuer(fetch, f"{site.url}/")).issuer == site.url
    with pytest.raises(FetchFailed):
        parse_issuer({"issuer": f"{site.url}/t/"}, f"{site.url}/t", fetch)


@pytest.mark.parametrize("endpoint", ["http://as.example/token", "https://10.0.0.1/token", "javascript:alert(1)", 7])
@pytest.mark.parametrize("name", ["authorization_endpoint", "token_endpoint", "jwks_uri", "registration_endpoint"])
def test_an_endpoint_that_must_not_be_asked_makes_the_metadata_useless(name: str, endpoint: Any) -> None:
    with pytest.raises(FetchFailed, match=name):
        parse_issuer({"issuer": "https://as.example", name: endpoint}, "https://as.example", GuardedFetch())


async def test_a_public_server_does_not_lead_to_this_machine(site: Site) -> None:
    site.say(ASM, _issuer(site))
    fetch = GuardedFetch().within("https://mcp.example.com/mcp")
    with pytest.raises(FetchFailed, match="not https"):
        await read_issuer(fetch, site.url)
    assert site.asked == []


async def test_servers_of_2025_03_26_have_it_at_their_own_root(site: Site) -> None:
    site.say(ASM, _issuer(site))
    found = await discover(GuardedFetch(), f"{site.url}/mcp")
    assert found.issuer.token_endpoint == f"{site.url}/token"
    assert found.resource == f"{site.url}/mcp"
    assert site.asked[-1].headers["mcp-protocol-version"] == "2025-03-26"
    site.answers.clear()
    assumed = (await discover(GuardedFetch(), f"{site.url}/mcp")).issuer
    assert assumed == IssuerMetadata(
        site.url, f"{site.url}/authorize", f"{site.url}/token", f"{site.url}/register", assumed=True
    )
    with pytest.raises(DiscoveryFailed, match=r"name it as `auth\.issuer`"):
        await discover(GuardedFetch(), f"{site.url}/mcp", revision="2025-06-18")


async def test_an_issuer_that_is_configured_counts(site: Site) -> None:
    site.say(f"{PRM}/mcp", {"resource": f"{site.url}/mcp", "authorization_servers": ["https://b.example"]})
    site.say(f"{ASM}/own", _issuer(site, "/own"))
    found = await discover(GuardedFetch(), f"{site.url}/mcp", issuer=f"{site.url}/own")
    assert found.issuer.issuer == f"{site.url}/own"


@pytest.mark.parametrize("status", [500, 503, 429])
async def test_a_server_in_trouble_is_not_taken_for_an_old_one(site: Site, status: int) -> None:
    site.say(f"{PRM}/mcp", {}, status)
    with pytest.raises(DiscoveryFailed) as failed:
        await discover(GuardedFetch(), f"{site.url}/mcp")
    assert failed.value.transient
    assert site.paths == [f"{PRM}/mcp"]


async def test_a_redirect_of_one_place_leads_to_the_next(site: Site) -> None:
    site.say(f"{PRM}/mcp", {}, 302, {"location": "/login"})
    site.say(PRM, {"resource": site.url, "authorization_servers": [site.url]})
    site.say(ASM, _issuer(site))
    await discover(GuardedFetch(), f"{site.url}/mcp")
    assert site.paths == [f"{PRM}/mcp", PRM, ASM]


@pytest.mark.parametrize(
    "document",
    [{}, {"resource": 5}, {"resource": ""}, {"authorization_servers": ["https://a.example"]}, b"[]", b"<html>"],
)
async def test_metadata_that_are_none_are_told(site: Site, document: Any) -> None:
    site.say(f"{PRM}/mcp", document)
    with pytest.raises(DiscoveryFailed):
        await discover(GuardedFetch(), f"{site.url}/mcp")


@pytest.mark.parametrize("servers", [[], None, "https://a.example", [5]])
async def test_metadata_without_a_server_say_what_to_do(site: Site, servers: Any) -> None:
    site.say(f"{PRM}/mcp", {"resource": f"{site.url}/mcp", "authorization_servers": servers})
    with pytest.raises(DiscoveryFailed, match=r"`auth\.issuer`"):
        await discover(GuardedFetch(), f"{site.url}/mcp")


def test_the_identifier_of_a_server_is_its_address() -> None:
    assert canonical_resource("HTTPS://A.Example/mcp/#x") == "https://a.example/mcp"
    assert canonical_resource("https://a.example/") == "https://a.example"
    assert canonical_resource("https://a.example:8443/MCP?x=1") == "https://a.example:8443/MCP?x=1"


def test_metadata_can_be_kept() -> None:
    found = IssuerMetadata("https://a.example", scopes_supported=("a", "b"), assumed=True)
    assert IssuerMetadata.from_json({**found.to_json(), "of a later version": 1}) == found
