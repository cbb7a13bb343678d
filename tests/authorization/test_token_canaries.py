"""Tokens and secrets of issuers are nowhere to be read: in logs, database, pages, answers, and texts of objects."""

import logging
from pathlib import Path
from typing import Final

import httpx2
import pytest

from tests.authorization.authorization_server import answer_with
from tests.authorization.resource_harness import OTHERS, Issuers, ResourceHarness, ask, good
from tests.end_to_end.scripted_host import ACCEPT, ENVELOPE, MODERN, over_http, over_sse
from tests.peers.canary import Canaries, contents
from tests.peers.serving import BackgroundLoop
from tests.polling import until

PAGES: Final = ("", "/calls", "/health", "/servers", "/tools", "/agents", "/policies", "/approvals")
# The tests' own clients and servers say more of a request than the gateway may.
OURS: Final = ("aggregator", "aiohttp", "uvicorn.error", "asyncio")


@pytest.fixture
def canaries(tmp_path: Path) -> Canaries:
    """The secrets of this test."""
    return Canaries(tmp_path)


@pytest.fixture
def issuers(background: BackgroundLoop, patched: pytest.MonkeyPatch) -> Issuers:
    """An issuer of JWTs, and one of opaque tokens."""
    return Issuers(background, "one", "opaque")


@pytest.fixture
def gateway(background: BackgroundLoop, issuers: Issuers, canaries: Canaries, tmp_path: Path) -> ResourceHarness:
    """A gateway with secrets at both issuers."""
    secret = canaries.plain("introspection secret")
    issuers["opaque"].opaque = True
    issuers["opaque"].add_client("aggregator", secret)
    asked = {"introspection": {"client_id": "aggregator", "client_secret": secret, "cache": 1}}
    signing = {"sign_in": {"client_id": "aggregator", "client_secret": canaries.plain("sign-in secret")}}
    auth = {"vault_key": canaries.plain("vault key") + "0" * 8}
    return ResourceHarness(background, tmp_path, issuers, {"opaque": asked, "one": signing}, auth=auth)


async def test_tokens_and_secrets_are_nowhere(
    gateway: ResourceHarness, issuers: Issuers, canaries: Canaries, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in OURS:
        caplog.set_level(logging.DEBUG, name)
    one, opaque = issuers["one"], issuers["opaque"]
    makers = {
        "good": good(one),
        "opaque": good(opaque, "bob"),
        "wrong audience": good(one, audience=OTHERS),
        "opaque of others": good(opaque, audience=OTHERS),
        "expired": good(one, lifetime=-600),
        "stranger": good(one, "mallory"),
        "forged": f"{good(one)[:-8]}AAAAAAAA",
        "no JWT": "".join(reversed(good(opaque))),
        "two lines": good(one, sub="a\nb"),
        "in a query": good(one, "rita"),
        "twice": good(one, "bob"),
        "as a key": good(one, "robot", client="robot"),
        "while down": good(opaque, "rita"),
    }
    for what, token in makers.items():
        # The first part is the same for all, and says nothing.
        canaries.add(what, token.partition(".")[2] or token)
    told: list[bytes] = []

    def keep(answer: httpx2.Response) -> None:
        told.append(answer.content + repr(answer.headers).encode())

    with gateway.http() as client:
        for what, token in makers.items():
            if what not in ("in a query", "twice", "as a key", "while down"):
                keep(ask(client, token))
        keep(client.post(f"/mcp?access_token={makers['in a query']}", json={}))
        both = [("authorization", f"Bearer {makers['twice']}"), ("authorization", f"Bearer {makers['good']}")]
        keep(client.post("/mcp", json={}, headers=both))
        keep(client.post("/mcp", json={}, headers={"x-api-key": makers["as a key"]}))
        opaque.instead["introspect"] = one.instead["jwks"] = answer_with(500)
        keep(ask(client, makers["while down"]))
        one.keys.rotate()
        keep(ask(client, good(one)))
        opaque.instead.clear()
        params = {"name": "shop.get", "arguments": {}, "_meta": ENVELOPE}
        headers = {**ACCEPT, "mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": "shop.get"}
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        keep(client.post("/mcp", json=call, headers={**headers, "authorization": f"Bearer {makers['good']}"}))
        for page in ("/readyz", "/healthz", "/metrics", "/v1/openapi.json", "/.well-known/oauth-protected-resource"):
            keep(client.get(page, headers={"authorization": f"Bearer {makers['opaque']}"}))
    async with over_http(gateway.url, "2025-11-25", makers["good"]) as host:
        assert await host.list()
    async with over_sse(gateway.url, "2025-11-25", makers["opaque"]) as host:
        assert await host.list()
    assert len(gateway.shop.calls) == 1
    rows = gateway.app.call_log if hasattr(gateway.app, "call_log") else None
    told.append(repr([gateway.config, gateway.app.access, gateway.app.access.tokens, rows]).encode())
    async with gateway.signed_in() as browser:
        for page in PAGES:
            keep(await browser.get(f"/console{page}", follow_redirects=True))

    def written() -> bytes:
        return contents(tmp_path / "console.db")

    # The refusals and the call are written by and by.
    await until(lambda: b"shop.get" in written() and b"login_refused" in written())
    assert canaries.seen_in(written()) == []
    assert canaries.seen_in(b"\n".join(told)) == []
    logged = [record for record in caplog.records if record.name.startswith(OURS)]
    text = "\n".join(f"{record.getMessage()} {record.exc_info or ''}" for record in logged)
    assert text
    assert canaries.seen_in(text.encode()) == []
