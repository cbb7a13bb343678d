"""Requests that somebody passed on, at every front end, and what is said of our own address."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, cast

import httpx2
import pytest

from aggregator.frontends.server import WebServer
from aggregator.frontends.web.host_guard import SOURCE
from aggregator.frontends.web.metrics_page import METRICS_PATH
from aggregator.identity.identify import Refused, RequestFacts
from aggregator.identity.source import source_of
from tests.access.conftest import MakeConfig
from tests.access.gateway_harness import GatewayHarness, tool
from tests.access.recording_toolbox import RecordingToolbox
from tests.access.secured_harness import OpenHarness
from tests.end_to_end.scripted_host import ACCEPT, ENVELOPE, MODERN
from tests.identity.test_source import MARKS
from tests.peers.toolbox import Json

LOCAL: Final = {"agents": {"local": {"allow": ["*"]}}}
LIST: Final = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": ENVELOPE}}
HEADERS: Final = {**ACCEPT, "mcp-protocol-version": MODERN, "mcp-method": "tools/list"}


@asynccontextmanager
async def entrance(
    config: MakeConfig, policies: Json | None = None, peer: str = "127.0.0.1", **http: Any
) -> AsyncIterator[tuple[WebServer, httpx2.AsyncClient]]:
    """Yield the web frontends of one server, with a page of metrics, and a client at `peer`."""
    made = config("shop").model_copy()
    made = made.model_copy(update={"http": type(made.http)(**http)})
    harness = GatewayHarness(made, {"shop": [tool("get")]}, policies)
    web = WebServer(harness.app.gateway, made, harness.app.access, harness.app.report, lambda: iter([b"# whole\n"]))
    transport = httpx2.ASGITransport(cast(Any, web.app), client=(peer, 4242))
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8642") as client:
        yield web, client


def frontends(web: WebServer) -> list[str]:
    """Return the path of every web frontend, read from the routes."""
    return [*web._frontends, "/mcp/", "/mcp/one"]


@pytest.mark.parametrize("policies", [None, LOCAL])
@pytest.mark.parametrize("trusted", [(), ("127.0.0.1",)])
async def test_a_forwarded_request_is_local_at_no_frontend(
    config: MakeConfig, policies: Json | None, trusted: tuple[str, ...]
) -> None:
    """D4: also from a trusted proxy, for a client that is this machine; without it the same request is let in."""
    async with entrance(config, policies, trusted_proxies=trusted) as (web, client):
        assert (await client.post("/mcp", json=LIST, headers=HEADERS)).status_code == 200
        assert (await client.get("/v1/tools")).status_code == 200
        for path in frontends(web):
            for mark in MARKS:
                for method in ("GET", "POST", "DELETE"):
                    passed_on = {**HEADERS, mark: "127.0.0.1"}
                    answer = await client.request(method, path, json=LIST, headers=passed_on)
                    assert answer.status_code in (401, 403), (path, mark, method)
                    assert "shop" not in answer.text


@pytest.mark.parametrize("host", ["127.0.0.1", "tools.example.com"])
@pytest.mark.parametrize("mark", [None, *MARKS])
async def test_pages_tell_the_whole_to_this_machine_only(config: MakeConfig, host: str, mark: str | None) -> None:
    """D4, D9: the details of `/readyz`, and the metrics."""
    headers = {"host": host, **({mark: "127.0.0.1"} if mark is not None else {})}
    async with entrance(config, LOCAL, allowed_hosts=["tools.example.com"]) as (_, client):
        ready = await client.get("/readyz", headers=headers)
        metrics = await client.get(METRICS_PATH, headers=headers)
    whole = host == "127.0.0.1" and mark is None
    assert ("servers" in ready.json(), metrics.text == "# whole\n") == (whole, whole)
    assert whole or metrics.status_code == 403


async def test_health_under_any_name(config: MakeConfig) -> None:
    """F1: a probe names the pod, or nothing of ours; what it is told names no server."""
    async with entrance(config, LOCAL) as (_, client):
        for path in ("/healthz", "/readyz"):
            answer = await client.get(path, headers={"host": "10.9.8.7:1"})
            assert (answer.status_code in (200, 503), len(answer.json())) == (True, 1)
        assert (await client.get(METRICS_PATH, headers={"host": "10.9.8.7:1"})).status_code == 421


@pytest.mark.parametrize(("trusted", "named"), [(["127.0.0.1"], "192.0.2.1"), ([], "127.0.0.1")])
async def test_wrong_keys_are_counted_for_whom_the_proxy_names(
    config: MakeConfig, trusted: list[str], named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D4: if it is believed; the audit names the same address."""
    async with entrance(config, LOCAL, trusted_proxies=trusted) as (web, client):
        seen: list[str | None] = []

        def refused(facts: RequestFacts, refused: Refused) -> None:
            seen.append(facts.source.address)

        monkeypatch.setattr(web._access._observer, "login_refused", refused)
        answers = []
        for at in range(12):
            others = "198.51.100.9" if at % 2 else "192.0.2.1"
            wrong = {"authorization": "Bearer agk_x", "x-forwarded-for": f"6.6.6.{at}, {others}"}
            answers.append((await client.post("/mcp", json=LIST, headers=wrong)).status_code)
    assert set(seen[::2]) == {named}
    assert answers.count(429) == (2 if trusted else 7)


# What a proxy sends, and what stands before `/messages` then.
PREFIXES: Final[list[tuple[Mapping[str, str], str]]] = [
    ({}, ""),
    ({"x-forwarded-for": "192.0.2.1"}, "/public"),
    ({"host": "tools.example.com"}, "/public"),
    ({"x-forwarded-prefix": "/ai"}, "/ai"),
    ({"x-forwarded-prefix": "/ai/tools/"}, "/ai/tools"),
    ({"x-forwarded-prefix": "/"}, ""),
    ({"x-forwarded-prefix": "//evil.example.com"}, "/public"),
    ({"x-forwarded-prefix": "https://evil.example.com"}, "/public"),
    ({"x-forwarded-prefix": "/a/../../b"}, "/public"),
    ({"x-forwarded-prefix": "/a?b"}, "/public"),
    ({"x-forwarded-prefix": "/a\\b"}, "/public"),
    # It is the path of a cookie, too, which ends there.
    ({"x-forwarded-prefix": "/a;Domain=evil.example.com"}, "/public"),
    ({"x-forwarded-prefix": "/a" * 1_000}, "/public"),
    ({"x-forwarded-prefix": "ai"}, "/public"),
    # Two say it: whose word counts cannot be told.
    (httpx2.Headers([("x-forwarded-prefix", "/ai"), ("x-forwarded-prefix", "/other")]), "/public"),
]


@pytest.mark.parametrize("trusts", [True, False])
async def test_sse_announces_the_path_that_its_host_finds(open_harness: OpenHarness, trusts: bool) -> None:
    """F1: the public URL's, or the prefix that a trusted proxy names; nobody else's word counts."""
    http = {"trusted_proxies": ["127.0.0.1"] if trusts else [], "public_url": "https://tools.example.com/public/"}
    harness = open_harness({"shop": RecordingToolbox([]).config_entry()}, LOCAL, ["one"], http=http)
    async with harness.client("one") as client:
        for sent, before in PREFIXES:
            expected = before if trusts or "x-forwarded-prefix" not in sent else "/public"
            async with client.stream("GET", "/sse", headers=sent) as response:
                said = [line async for line in _until_data(response)]
            assert said[-1].startswith(f"data: {expected}/messages?session_id="), (sent, said)


async def test_a_mounted_application_says_where_it_is(config: MakeConfig) -> None:
    """F1: `root_path` of ASGI, unless a proxy stands before it."""
    async with entrance(config, public_url="https://tools.example.com/public") as (web, _):
        for host, expected in (("127.0.0.1", "/mounted"), ("tools.example.com", "/public")):
            source = source_of("127.0.0.1", host, "1.1", [])
            scope = {"headers": [(b"host", host.encode())], "root_path": "/mounted", SOURCE: source}
            assert web._prefix(scope) == expected


async def _until_data(response: httpx2.Response) -> AsyncIterator[str]:
    async for line in response.aiter_lines():
        yield line
        if line.startswith("data: "):
            return


async def test_what_is_said_of_our_own_address(config: MakeConfig) -> None:
    """F1: the public URL, where there is one."""
    for public, before, server in (
        (None, "", "/"),
        ("https://t.example.com/ai/", "https://t.example.com/ai", "https://t.example.com/ai"),
    ):
        async with entrance(config, public_url=public) as (_, client):
            assert (await client.get("/")).json()["streamable_http"] == f"{before}/mcp"
            document = (await client.get("/v1/openapi.json")).json()
            assert document["servers"] == [{"url": server}]
