"""Redirects by an upstream: told, never followed, whichever request they answer. Our headers go to nobody else."""

import re
from pathlib import Path
from typing import Any, Final

import pytest

import aggregator
from aggregator.config.server_config import ServerConfig
from aggregator.upstream.transports.web import requests_to, without_query
from tests.polling import until

from .app_harness import code_of, running_app, server_config
from .raw_http import Handler, RawHttpServer, RawSseServer, ReceivedRequest, ReplyWriter, raw_http

pytestmark = pytest.mark.usefixtures("http_client")

SECRET: Final = "key-of-the-operator"
VERBS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
NUMBERS: Final = (301, 302, 303, 307, 308)
# The one module that may send requests: there the rule is kept.
SENDS: Final = "upstream/transports/http_clients/aiohttp_requests.py"


def http(raw: RawHttpServer, **rest: Any) -> ServerConfig:
    return server_config("web", **({"type": "http", "url": raw.url, "headers": {"x-api-key": SECRET}} | rest))


def redirecting(number: int, to: RawHttpServer) -> Handler:
    async def redirect(seen: ReceivedRequest, reply: ReplyWriter) -> None:
        assert seen.headers["x-api-key"] == SECRET
        await reply.send(number, location=to.url)

    return redirect


@pytest.mark.parametrize("verb", VERBS)
async def test_no_verb_follows_a_redirect(verb: str) -> None:
    """D1, D3: the response is what the server that was asked has said, and nobody else was asked."""
    async with raw_http() as raw, raw_http() as stranger, requests_to(http(raw)) as requests:
        for number in NUMBERS:
            raw.on[verb] = redirecting(number, stranger)
            async with requests.send(verb, raw.url, {}) as response:
                assert response.status == number
        assert raw.count(verb) == len(NUMBERS)
        assert not stranger.seen


@pytest.mark.parametrize("number", NUMBERS)
async def test_the_end_of_a_session_goes_nowhere_else(number: int) -> None:
    """D1, D3: the DELETE that says that a session is over."""
    async with raw_http() as raw, raw_http() as stranger:
        raw.on["DELETE"] = redirecting(number, stranger)
        async with running_app(http(raw)) as harness:
            await harness.check_echo("web.echo")
        assert raw.count("DELETE") == 2  # that of calls and that of lists
        assert not stranger.seen


@pytest.mark.parametrize("number", [302, 307])
@pytest.mark.parametrize("kind", ["http", "sse", "auto"])
async def test_a_server_that_redirects_all_of_a_sudden(kind: str, number: int) -> None:
    """D1, D3: calls, notifications, streams, new sessions, farewells: whatever is sent from then on."""
    async with raw_http(RawSseServer() if kind == "sse" else RawHttpServer()) as raw, raw_http() as stranger:
        async with running_app(http(raw, type=kind)) as harness:
            await harness.check_echo("web.echo")
            redirect = redirecting(number, stranger)
            raw.on = dict.fromkeys(("GET", "DELETE", "tools/call", "initialize", "server/discover", "ping"), redirect)
            assert code_of(await harness.call("web.echo")) == "upstream_refused"
            greeted = raw.count("GET") + raw.count("initialize")
            for stream in list(raw.tasks):
                stream.cancel()
            await until(lambda: raw.count("GET") + raw.count("initialize") > greeted, "it was tried again")
        assert not stranger.seen


def test_nothing_else_sends_requests() -> None:
    """D1, D3: the transports have no client session of their own, nor has anything else but notices, which follow no
    redirect either (tests/notify), requests between replicas, which follow none (tests/replicas), OAuth, which follows
    none (tests/oauth), and `aggregator add`, which follows those it may (tests/adding).
    """
    root = Path(aggregator.__file__).parent
    found = {
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        if re.search(r"\bClientSession\(|\baiohttp\.request\(|\burlopen\(|\ballow_redirects\b", path.read_text("utf-8"))
    }
    assert found == {
        SENDS,
        "notify/send/webhook.py",
        "accounts/oauth/pinned.py",
        "packages/download.py",
        "replicas/group/hop_client.py",
    }


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://u:p@a.example:8443/x?key=k#f", "https://a.example:8443/x"),
        ("https://key@a.example/", "https://a.example/"),
        ("//u:p@a.example/x", "//a.example/x"),
        ("/x?key=k", "/x"),
        ("http://[a", "an address that cannot be read"),
    ],
)
def test_an_address_is_told_without_its_keys(url: str, shown: str) -> None:
    """Proves: D9"""
    assert without_query(url) == shown
