"""A server that was not asked for anything yet says by one request what it wants."""

import json

import pytest

from aggregator.accounts.oauth.fetch import GuardedFetch
from aggregator.accounts.oauth.probe import ask_for_challenge
from tests.oauth.site import Site

WANTS = {"www-authenticate": 'Bearer scope="a b", resource_metadata="https://x.example/y"'}


async def test_the_challenge_of_a_refused_request_is_returned(site: Site) -> None:
    site.say("/mcp", {}, 401, WANTS)
    found = await ask_for_challenge(GuardedFetch(), f"{site.url}/mcp", {"X-Tenant": "t"})
    assert found is not None
    assert found.scopes == ("a", "b")
    (asked,) = site.asked
    assert json.loads(asked.body)["method"] == "tools/list"
    assert asked.headers["x-tenant"] == "t"
    assert "authorization" not in asked.headers


async def test_a_server_with_event_streams_is_asked_for_one(site: Site) -> None:
    site.say("/sse", {}, 405, WANTS)
    assert await ask_for_challenge(GuardedFetch(), f"{site.url}/sse") is None
    assert [asked.verb for asked in site.asked] == ["POST", "GET"]


@pytest.mark.parametrize(("status", "headers"), [(200, WANTS), (500, WANTS), (401, {}), (302, {"location": "/x"})])
async def test_no_challenge_is_none(site: Site, status: int, headers: dict[str, str]) -> None:
    site.say("/mcp", {}, status, headers)
    assert await ask_for_challenge(GuardedFetch(), f"{site.url}/mcp") is None
