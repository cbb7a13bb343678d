"""Streamable HTTP upstreams that forget, break off, or belong to one era only."""

import asyncio
from pathlib import Path

import pytest
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.end_to_end.conftest import OpenHarness
from tests.end_to_end.scripted_host import BOUND, MODERN, VERSIONS, http_client
from tests.end_to_end.server_harness import ServerHarness, raw_stdio_entry, write_config
from tests.peers.sdk import BREAK_OFF, Recorder, http_app, sse_app
from tests.peers.serving import BackgroundLoop, serving
from tests.peers.toolbox import DEFINITIONS, Toolbox


async def forget(app: Recorder, url: str) -> set[str]:
    """End the aggregator's sessions at the upstream behind its back, of calls and of lists; returns which they were."""
    sessions = {headers["mcp-session-id"] for _, headers in app.requests if "mcp-session-id" in headers}
    async with http_client(url) as client:
        for session in sessions:
            known = {"mcp-session-id": session, "mcp-protocol-version": VERSIONS[1]}
            response = await client.delete(url, headers=known)
            assert response.status_code == 200
    return sessions


async def test_a_forgotten_session_is_opened_anew_and_the_call_succeeds(
    background: BackgroundLoop, open_harness: OpenHarness
) -> None:
    """C2, F1: 404 for the session: initialize again, once for many calls, and every call gets its result."""
    app = http_app()
    url = f"{background.open(serving(app))}/mcp"
    harness = open_harness({"box": {"type": "http", "url": url, "protocol": "legacy"}})
    async with harness.host("http", MODERN) as host:
        assert (await host.call("box.echo", {"n": 0}).result())["content"]
        forgotten = await forget(app, url)
        before = len(app.requests)
        results = await asyncio.gather(*(host.call("box.echo", {"n": n}).result() for n in range(20)))
        assert [r["structuredContent"]["received"]["arguments"]["n"] for r in results] == list(range(20))
        opened = {headers.get("mcp-session-id") for _, headers in app.requests[before:]} - {None, *forgotten}
        assert len(opened) == 1
        assert harness.app.upstreams["box"].state == "ready"


class LateRefusal:
    """ASGI: the second call in a forgotten session is refused only while the new session is being opened."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._calls = 0
        self._opening, self._go_on = asyncio.Event(), asyncio.Event()
        self.refused = asyncio.Event()
        self.forgotten: set[str] = set()

    async def go_on(self) -> None:
        """Let the new session be opened."""
        self._go_on.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        session = dict(scope.get("headers", ())).get(b"mcp-session-id", b"").decode()
        second = False
        if self.forgotten and scope["method"] == "POST":
            if session in self.forgotten:
                self._calls += 1
                second = self._calls == 2
            elif not session:
                self._opening.set()
                await self._go_on.wait()
        if second:
            await self._opening.wait()
        await self._app(scope, receive, send)
        if second:
            self.refused.set()


async def test_a_late_404_while_the_session_is_opened_anew(
    background: BackgroundLoop, open_harness: OpenHarness
) -> None:
    """F1: what a request was sent with decides what its 404 means, not what the connection holds by then."""
    app = http_app()
    late = LateRefusal(app)
    url = f"{background.open(serving(late))}/mcp"
    harness = open_harness({"box": {"type": "http", "url": url, "protocol": "legacy"}})
    async with harness.host("http", MODERN) as host, http_client(harness.url) as client:
        assert (await host.call("box.echo").result())["content"]
        late.forgotten = await forget(app, url)
        calls = [host.call("box.echo", {"n": n}) for n in range(2)]
        async with asyncio.timeout(BOUND):
            await background.elsewhere(late.refused.wait())
        for _ in range(5):
            # Once the aggregator has answered this, it has read the 404 that lay there before.
            await client.get("/healthz")
        await background.elsewhere(late.go_on())
        results = [await call.message() for call in calls]
    assert [r["result"]["structuredContent"]["received"]["arguments"]["n"] for r in results] == [0, 1]


async def test_changes_still_arrive_after_a_new_session(background: BackgroundLoop, open_harness: OpenHarness) -> None:
    """C5: the standing stream belongs to the new session too."""
    app = http_app()
    url = f"{background.open(serving(app))}/mcp"
    harness = open_harness({"box": {"type": "http", "url": url, "protocol": "legacy"}})
    async with harness.host("sse", VERSIONS[1]) as host:
        await app.seen(lambda method, _: method == "GET")
        before = len(app.requests)
        forgotten = await forget(app, url)
        # The stream that broke off is tried again, and learns that its session is gone.
        await app.seen(lambda method, _: method == "GET", before)
        assert (await host.call("box.echo").result())["content"]
        await app.seen(lambda method, headers: method == "GET" and headers["mcp-session-id"] not in forgotten, before)
        host.inbox.messages.clear()
        await host.call("box.grow", {"name": "grown"}).result()
        await host.inbox.named("notifications/tools/list_changed")
        assert "box.grown" in [tool["name"] for tool in await host.list()]


async def test_a_broken_stream_is_resumed(background: BackgroundLoop, open_harness: OpenHarness) -> None:
    """F1: the server ends the stream before it answers; the answer comes on a GET with Last-Event-ID."""
    app = http_app(Toolbox([*DEFINITIONS, BREAK_OFF]), resumable=True)
    url = f"{background.open(serving(app))}/mcp"
    harness = open_harness({"box": {"type": "http", "url": url, "protocol": "legacy"}})
    async with harness.host("http", MODERN) as host:
        result = await host.call("box.break_off").result()
    assert result["content"] == [{"type": "text", "text": "after all"}]
    assert any(method == "GET" and "last-event-id" in headers for method, headers in app.requests)


async def test_headers_of_a_modern_upstream(background: BackgroundLoop, open_harness: OpenHarness) -> None:
    """F1, D1: version, method and name repeat the body; the operator's headers go along and no session does."""
    app = http_app()
    url = f"{background.open(serving(app))}/mcp"
    harness = open_harness({"box": {"url": url, "headers": {"X-Team": "blue"}}})
    async with harness.host("http", VERSIONS[1]) as host:
        await host.call("box__echo").result()
    method, headers = app.requests[-1]
    assert method == "POST"
    assert headers["mcp-protocol-version"] == MODERN
    assert (headers["mcp-method"], headers["mcp-name"]) == ("tools/call", "echo")
    assert headers["x-team"] == "blue"
    assert "mcp-session-id" not in headers


async def test_a_url_alone_may_be_an_sse_server(background: BackgroundLoop, open_harness: OpenHarness) -> None:
    """C2, E2, E7: `url` without a type: Streamable HTTP first, then SSE."""
    harness = open_harness({"box": {"url": f"{background.open(serving(sse_app()))}/sse"}})
    upstream = harness.app.upstreams["box"]
    assert (upstream.state, upstream.transport) == ("ready", "sse"), upstream.reason
    async with harness.host("http", MODERN) as host:
        assert (await host.call("box.echo").result())["content"]


@pytest.mark.parametrize(("status", "words"), [(401, "credentials"), (403, "credentials"), (500, "500"), (302, "url")])
async def test_a_status_that_is_no_answer(
    background: BackgroundLoop, open_harness: OpenHarness, status: int, words: str
) -> None:
    """D3, C4: marked unavailable with a reason an operator can act on; nothing of it is listed."""
    app = Response("no", status, headers={"location": "http://elsewhere.example/?key=secret"})
    harness = open_harness(
        {"box": {"type": "http", "url": f"{background.open(serving(app))}/mcp"}, "raw": raw_stdio_entry()}
    )
    assert harness.app.upstreams["box"].state == "unavailable"
    assert words in harness.app.upstreams["box"].reason_for_operator
    assert "secret" not in harness.app.upstreams["box"].reason
    async with harness.host("http", MODERN) as host:
        assert {tool["name"].partition(".")[0] for tool in await host.list()} == {"raw"}
        result = await host.call("box.echo").result()
    assert result["isError"] is True
    assert result["_meta"]["aggregator/error"]["state"] == "unavailable"


async def test_an_aggregator_that_closes_ends_its_session(background: BackgroundLoop, tmp_path: Path) -> None:
    """F1: DELETE for the session on the way out (L/basic/transports, Session Management)."""
    app = http_app()
    url = f"{background.open(serving(app))}/mcp"
    with BackgroundLoop() as own:
        ServerHarness(own, write_config(tmp_path, {"box": {"type": "http", "url": url, "protocol": "legacy"}}))
    assert [method for method, _ in app.requests][-1] == "DELETE"
