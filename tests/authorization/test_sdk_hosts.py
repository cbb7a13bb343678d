"""The SDK's client, which knows nothing but the gateway's address, signs a person in and calls."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from aggregator.config.auth.issuers import AuthConfig
from aggregator.identity.tokens import jwks
from tests.authorization.authorization_server import AuthorizationServer
from tests.authorization.resource_harness import Issuers, ResourceHarness, policies
from tests.authorization.sdk_host import Memory, signed_in
from tests.peers.serving import BackgroundLoop

STEP_UP: Final = {"allow": ["shop.*"], "scopes": {"shop.put": ["orders:write"]}}


@dataclass
class Place:
    """A gateway whose tokens are meant for its own address, and their issuer."""

    gateway: ResourceHarness
    issuer: AuthorizationServer

    @property
    def url(self) -> str:
        return f"{self.gateway.url}/mcp"

    def accept(self, audience: str) -> None:
        """Have the gateway accept tokens for this audience alone."""
        auth = self.gateway.config.auth.model_dump()
        for issuer in auth["issuers"]:
            issuer["audience"] = [audience]
        self.gateway.app.access.accept(AuthConfig.model_validate(auth))


@pytest.fixture
def place(background: BackgroundLoop, patched: pytest.MonkeyPatch, tmp_path: Path) -> Place:
    """A gateway of its own for each test."""
    issuers = Issuers(background, "one")
    agents = {**policies(issuers)["agents"], "clerk": STEP_UP}
    gateway = ResourceHarness(background, tmp_path, issuers, rules={"agents": agents})
    found = Place(gateway, issuers["one"])
    found.accept(found.url)
    return found


async def test_host_finds_the_issuer_signs_in_and_calls(place: Place) -> None:
    async with signed_in(place.url, "alice") as client:
        assert {tool.name for tool in (await client.list_tools()).tools} >= {"shop.get", "shop.put"}
        result = await client.call_tool("shop.get", {})
        assert not result.is_error
    asked = [form for name, form in place.issuer.requests if name in ("authorize", "token")]
    assert {form["resource"] for form in asked} == {place.url}
    assert place.issuer.counts["token"] == 1
    assert {facts["aud"] for facts in place.issuer.access.values()} == {place.url}


# Addresses that ask for names or definitions of a form, and the resource that each belongs to.
WISHES: Final = {
    "/mcp?schema=gemini": "/mcp",
    "/mcp?names=compatible&schema=openai": "/mcp",
    "/mcp/compatible?schema=gemini": "/mcp",
    "/mcp/clerk?schema=gemini": "/mcp/clerk",
    "/mcp/clerk/compatible?schema=anthropic": "/mcp/clerk",
}


@pytest.mark.parametrize("address", WISHES)
async def test_wishes_in_the_address_are_no_part_of_the_resource(place: Place, address: str) -> None:
    """The host's token is for the plain address, and good at it; the wishes are heeded all the same."""
    resource = f"{place.gateway.url}{WISHES[address]}"
    place.accept(resource)
    memory = Memory()
    async with signed_in(f"{place.gateway.url}{address}", "alice", memory) as client:
        assert "shop__get" in {tool.name for tool in (await client.list_tools()).tools}
        assert not (await client.call_tool("shop__get", {})).is_error
    asked = [form for name, form in place.issuer.requests if name in ("authorize", "token")]
    assert {form["resource"] for form in asked} == {resource}
    assert {facts["aud"] for facts in place.issuer.access.values()} == {resource}
    async with signed_in(resource, "alice", memory) as client:
        assert "shop.get" in {tool.name for tool in (await client.list_tools()).tools}
    assert place.issuer.counts["token"] == 1, "the same token is good at the plain address"


async def test_host_asks_for_more_scopes_when_a_tool_needs_them(place: Place) -> None:
    async with signed_in(place.url, "alice") as client:
        result = await client.call_tool("shop.put", {"amount": 1})
        assert not result.is_error, result
        assert "shop.put" in {tool.name for tool in (await client.list_tools()).tools}
    scopes = [form["scope"].split() for name, form in place.issuer.requests if name == "authorize"]
    assert len(scopes) == 2
    assert "orders:write" not in scopes[0]
    assert "orders:write" in scopes[1]
    assert [call["name"] for call in place.gateway.shop.calls] == ["put"]


async def test_two_people_of_one_host_are_two_agents(place: Place) -> None:
    async with signed_in(place.url, "alice") as alice, signed_in(place.url, "rita") as rita:
        assert "shop.put" in {tool.name for tool in (await alice.list_tools()).tools}
        assert "shop.put" not in {tool.name for tool in (await rita.list_tools()).tools}


async def test_host_whose_token_counts_no_longer_gets_another(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jwks, "ASK_EVERY", 0.0)
    async with signed_in(place.url, "alice") as alice:
        await alice.list_tools()
        # The issuer withdraws its key; the gateway learns that with the next person's token.
        place.issuer.keys.rotate()
        async with signed_in(place.url, "rita") as rita:
            await rita.list_tools()
        asked = place.issuer.counts["token"]
        assert not (await alice.call_tool("shop.get", {})).is_error
    assert place.issuer.counts["token"] == asked + 1
