"""The Streamable HTTP frontend by its rules: sessions, the modern ladder, and who is let in at all."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

import httpx2
import pytest

from tests.end_to_end.conftest import OpenHarness
from tests.end_to_end.scripted_host import (
    ACCEPT,
    BOUND,
    CLIENT_INFO,
    ENVELOPE,
    META,
    MODERN,
    VERSIONS,
    HttpWire,
    SseWire,
    http_client,
    routing_headers,
)
from tests.end_to_end.server_harness import ServerHarness, local_entry
from tests.peers.toolbox import DEFINITIONS, Json

SESSION: Final = "mcp-session-id"


@pytest.fixture
async def client(harness: ServerHarness) -> AsyncIterator[httpx2.AsyncClient]:
    async with http_client(harness.url) as running:
        yield running


def opening(version: str) -> Json:
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": CLIENT_INFO}
    return {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}


async def initialized(client: httpx2.AsyncClient, version: str) -> dict[str, str]:
    """The headers of a new session."""
    response = await client.post("/mcp", json=opening(version), headers=ACCEPT)
    assert response.status_code == 200
    return {**ACCEPT, SESSION: response.headers[SESSION], "mcp-protocol-version": version}


def request(method: str, params: Json | None = None, request_id: Any = 1) -> Json:
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params or {}}


def modern(method: str = "tools/call", **params: Any) -> Json:
    named = {"name": "local_modern.echo", "arguments": {}} if method == "tools/call" else {}
    return request(method, {**named, "_meta": ENVELOPE, **params})


def modern_headers(message: Json) -> dict[str, str]:
    return {**ACCEPT, "mcp-protocol-version": MODERN, **routing_headers(message)}


# -- sessions of the handshake eras


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
@pytest.mark.parametrize(("session", "status"), [(None, 400), ("never-was", 404)])
async def test_a_session_is_needed(client: httpx2.AsyncClient, method: str, session: str | None, status: int) -> None:
    """F1: no session id: 400; one that is not known: 404 (L/basic/transports, Session Management)."""
    headers = ACCEPT | ({SESSION: session} if session else {})
    body = request("tools/list") if method == "POST" else None
    response = await client.request(method, "/mcp", json=body, headers=headers)
    assert response.status_code == status
    assert "initialize" in response.json()["error"]["message"]


async def test_a_deleted_session_is_gone(client: httpx2.AsyncClient) -> None:
    """F1: DELETE ends it; from then on 404, and another session is not touched."""
    one, other = await initialized(client, VERSIONS[0]), await initialized(client, VERSIONS[1])
    assert (await client.delete("/mcp", headers=one)).status_code in (200, 204)
    assert (await client.post("/mcp", json=request("tools/list"), headers=one)).status_code == 404
    assert (await client.delete("/mcp", headers=one)).status_code == 404
    assert (await client.post("/mcp", json=request("ping"), headers=other)).json()["result"] == {}


async def test_deleting_a_session_cancels_what_runs_in_it(harness: ServerHarness, key: str) -> None:
    """F1: the upstream is told, as nobody is left to hear the answer."""
    async with harness.host("http", MODERN) as watcher:
        async with harness.host("http", VERSIONS[1]) as host:
            call = host.call("raw_2025.hold", {"key": key})
            await watcher.call("raw_2025.witness", {"entry": f"started {key}"}).result()
        await watcher.call("raw_2025.witness", {"entry": f"cancelled {key}"}).result()
        call.drop()


async def test_one_standing_stream_for_a_session(harness: ServerHarness) -> None:
    """F1: a second GET is 409; once the first is closed another may stand."""
    async with harness.host("http", VERSIONS[1]) as host, http_client(harness.url) as client:
        assert isinstance(host.wire, HttpWire)
        headers = {**host.wire.headers({}), "accept": "text/event-stream"}
        async with client.stream("GET", "/mcp", headers=headers) as first:
            assert first.headers["content-type"].startswith("text/event-stream")
            assert (await client.get("/mcp", headers=headers)).status_code == 409
        async with asyncio.timeout(BOUND):
            status = 409
            while status == 409:
                # The server learns of the closed connection in its own time.
                async with client.stream("GET", "/mcp", headers=headers) as again:
                    status = again.status_code
        assert status == 200


async def test_a_disconnect_is_no_cancellation_before_2026(harness: ServerHarness, key: str) -> None:
    """F1: in a handshake era a closed connection says nothing: the call runs on to its end (L/basic/transports)."""
    async with harness.host("http", VERSIONS[1]) as host:
        call = host.call("raw_2025.hold", {"key": key})
        await host.call("raw_2025.witness", {"entry": f"started {key}"}).result()
        call.drop()
        await host.call("raw_2025.release", {"key": key}).result()
        await host.call("raw_2025.witness", {"entry": f"finished {key}"}).result()


async def test_batches_belong_to_2025_03_26(client: httpx2.AsyncClient) -> None:
    """F1: several messages in one post, their answers in one; a revision later the same is 400."""
    batch = [
        request("ping", request_id=1),
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        request("tools/call", {"name": "local_legacy.echo", "arguments": {"n": 1}}, "two"),
        request("no/such", request_id=3),
    ]
    headers = await initialized(client, "2025-03-26")
    answers = {answer["id"]: answer for answer in (await client.post("/mcp", json=batch, headers=headers)).json()}
    assert answers.keys() == {1, "two", 3}
    assert answers[1]["result"] == {}
    assert answers["two"]["result"]["structuredContent"]["received"]["arguments"] == {"n": 1}
    assert answers[3]["error"]["code"] == -32601
    only = await client.post("/mcp", json=batch[1:2], headers=headers)
    assert (only.status_code, only.content) == (202, b"")
    later = await client.post("/mcp", json=batch, headers=await initialized(client, VERSIONS[0]))
    assert later.status_code == 400
    empty = await client.post("/mcp", json=[], headers=headers)
    assert empty.status_code == 400


async def test_a_revision_nobody_knows_is_answered_with_ours(client: httpx2.AsyncClient) -> None:
    """F1: the handshake names the latest we speak of that era (L/basic/lifecycle)."""
    response = await client.post("/mcp", json=opening("1999-01-01"), headers=ACCEPT)
    assert response.json()["result"]["protocolVersion"] == "2025-11-25"


async def test_the_same_id_twice_at_once(harness: ServerHarness, key: str) -> None:
    """F1: an id that is still running is refused, and the running one is not disturbed."""
    async with harness.host("http", VERSIONS[1]) as host:
        assert isinstance(host.wire, HttpWire)
        call = host.call("raw_2025.hold", {"key": key})
        await host.call("raw_2025.witness", {"entry": f"started {key}"}).result()
        twice = host.wire.start(request("ping", request_id=call.id))
        assert (await twice.error())["code"] == -32600
        await host.call("raw_2025.release", {"key": key}).result()
        assert (await call.result())["content"][0]["text"] == key


# -- the modern ladder


def _altered(headers: dict[str, str], **changed: str | None) -> dict[str, str]:
    for name, value in changed.items():
        headers.pop(name.replace("_", "-"), None)
        if value is not None:
            headers[name.replace("_", "-")] = value
    return headers


LADDER: Final[list[Any]] = [
    pytest.param({"mcp_protocol_version": "2025-11-25"}, {}, 400, -32020, id="another-version-header"),
    pytest.param({"mcp_protocol_version": None}, {}, 400, -32020, id="no-version-header"),
    pytest.param({"mcp_method": "tools/list"}, {}, 400, -32020, id="another-method-header"),
    pytest.param({"mcp_method": None}, {}, 400, -32020, id="no-method-header"),
    pytest.param({"mcp_name": "other.tool"}, {}, 400, -32020, id="another-name-header"),
    pytest.param({"mcp_name": None}, {}, 400, -32020, id="no-name-header"),
    pytest.param(
        {"mcp_protocol_version": "2099-01-01"},
        {"_meta": {**ENVELOPE, f"{META}protocolVersion": "2099-01-01"}},
        400,
        -32022,
        id="a-version-nobody-speaks",
    ),
    pytest.param({}, {"_meta": {}}, 400, -32602, id="empty-envelope"),
    pytest.param({}, {"_meta": {f"{META}protocolVersion": MODERN}}, 400, -32602, id="no-capabilities"),
    pytest.param({"mcp_name": "no.such"}, {"name": "no.such"}, 400, -32602, id="unknown-tool"),
]


@pytest.mark.parametrize(("headers", "params", "status", "code"), LADDER)
async def test_the_modern_ladder(
    client: httpx2.AsyncClient, headers: dict[str, str | None], params: Json, status: int, code: int
) -> None:
    """F1: headers and body are compared; each failure has its code and its HTTP status (SH, Server Validation)."""
    message = modern(**params)
    response = await client.post("/mcp", json=message, headers=_altered(modern_headers(modern()), **headers))
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)
    assert response.json()["id"] == 1


async def test_an_unsupported_version_names_the_supported(client: httpx2.AsyncClient) -> None:
    """F1: -32022 carries what would do (S/basic/versioning)."""
    params = {"_meta": {**ENVELOPE, f"{META}protocolVersion": "2099-01-01"}}
    message = request("server/discover", params)
    headers = {**modern_headers(message), "mcp-protocol-version": "2099-01-01"}
    error = (await client.post("/mcp", json=message, headers=headers)).json()["error"]
    assert error["code"] == -32022
    assert error["data"]["requested"] == "2099-01-01"
    assert MODERN in error["data"]["supported"]


@pytest.mark.parametrize("method", ["no/such", "ping", "logging/setLevel", "resources/subscribe"])
async def test_what_the_era_does_not_have(client: httpx2.AsyncClient, method: str) -> None:
    """F1: unknown and removed methods: 404 and -32601 (SH)."""
    message = modern(method)
    response = await client.post("/mcp", json=message, headers=modern_headers(message))
    assert (response.status_code, response.json()["error"]["code"]) == (404, -32601)


async def test_a_modern_request_needs_no_session(client: httpx2.AsyncClient) -> None:
    """F1: nothing but the request itself; the answer opens none and says who answered."""
    message = modern()
    response = await client.post("/mcp", json=message, headers=modern_headers(message))
    assert response.status_code == 200
    assert SESSION not in response.headers
    assert response.json()["result"]["_meta"][f"{META}serverInfo"]["name"] == "aggregator"


async def test_a_wrapped_name_header_is_unwrapped(client: httpx2.AsyncClient) -> None:
    """F1: `=?base64?...?=` means what it holds (SEP-2243); a tool with such a name is merely unknown here."""
    message = modern(name="工具.知识")
    response = await client.post("/mcp", json=message, headers=modern_headers(message))
    assert response.json()["error"]["code"] == -32602


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_the_modern_era_only_posts(client: httpx2.AsyncClient, method: str) -> None:
    """F1: no standing stream and no session to end: 405."""
    response = await client.request(method, "/mcp", headers={**ACCEPT, "mcp-protocol-version": MODERN})
    assert (response.status_code, response.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_notification_is_taken(client: httpx2.AsyncClient, version: str) -> None:
    """F1: 202 and no body, in every era."""
    message: Json = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "none"}}
    if version == MODERN:
        message["params"]["_meta"] = ENVELOPE
        headers = modern_headers(message)
    else:
        headers = await initialized(client, version)
    response = await client.post("/mcp", json=message, headers=headers)
    assert (response.status_code, response.content) == (202, b"")


# -- who is let in


@pytest.mark.parametrize("path", ["/mcp", "/sse", "/messages", "/metrics", "/v1/tools", "/"])
async def test_another_host_is_refused(client: httpx2.AsyncClient, path: str) -> None:
    """F1: DNS rebinding: a name that is not ours is 421."""
    response = await client.get(path, headers={"host": "evil.example:80"})
    assert response.status_code == 421


@pytest.mark.parametrize("path", ["/mcp", "/sse", "/messages"])
@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost.evil.example"])
async def test_another_origin_is_refused(client: httpx2.AsyncClient, path: str, origin: str) -> None:
    """F1: a page that is not ours is 403 (L/basic/transports, Security Warning)."""
    response = await client.post(path, json=request("ping"), headers={**ACCEPT, "origin": origin})
    assert response.status_code == 403
    assert "access-control-allow-origin" not in response.headers


@pytest.mark.parametrize("origin", ["http://localhost:3000", "http://127.0.0.1", "http://[::1]:9"])
async def test_pages_of_other_programs_here_are_refused(client: httpx2.AsyncClient, origin: str) -> None:
    """F1: what another port of this machine serves is not ours."""
    response = await client.post("/mcp", json=opening(VERSIONS[1]), headers={**ACCEPT, "origin": origin})
    assert response.status_code == 403


async def test_our_own_pages_are_let_in(client: httpx2.AsyncClient) -> None:
    """F1: and may read the answer."""
    origin = str(client.base_url).rstrip("/")
    response = await client.post("/mcp", json=opening(VERSIONS[1]), headers={**ACCEPT, "origin": origin})
    assert response.status_code == 200
    assert response.headers["access-control-allow-origin"] == origin
    assert SESSION in response.headers["access-control-expose-headers"].lower()


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_body_over_the_limit(client: httpx2.AsyncClient, chunked: bool) -> None:
    """F1: 413, whether the size was declared or not."""
    body = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"' + b"x" * (4 * 2**20) + b'"}}'

    async def parts() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 2**18):
            yield body[start : start + 2**18]

    response = await client.post("/mcp", content=parts() if chunked else body, headers=ACCEPT)
    assert response.status_code == 413


async def test_a_limit_of_ones_own(open_harness: OpenHarness) -> None:
    """F1: `http.max_body_bytes` holds for both web frontends."""
    harness = open_harness({"box": local_entry()}, http={"max_body_bytes": 2000})
    body = request("ping", {"x": "x" * 3000})
    async with (
        harness.host("sse", VERSIONS[0]) as host,
        http_client(harness.url) as client,
    ):
        assert isinstance(host.wire, SseWire)
        endpoint = await host.wire.endpoint
        assert (await client.post("/mcp", json=body, headers=ACCEPT)).status_code == 413
        assert (await client.post(endpoint, json=body)).status_code == 413
        assert (await host.call("box.echo").result())["content"]


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", None])
async def test_a_body_that_is_not_said_to_be_json(client: httpx2.AsyncClient, kind: str | None) -> None:
    """F1: 415: what a page may send without asking is not taken."""
    headers = {"accept": ACCEPT["accept"]} | ({"content-type": kind} if kind else {})
    response = await client.post("/mcp", content=b"{}", headers=headers)
    assert response.status_code == 415


@pytest.mark.parametrize("body", [b"", b"{", b"nonsense", b'{"a":1} x', b"\xff\xfe"])
async def test_a_body_that_is_not_json(client: httpx2.AsyncClient, body: bytes) -> None:
    """F1: 400 and -32700."""
    response = await client.post("/mcp", content=body, headers=ACCEPT)
    assert (response.status_code, response.json()["error"]["code"]) == (400, -32700)


@pytest.mark.parametrize("body", ["1", '"x"', "null", '{"id":1}', '{"jsonrpc":"2.0","method":7,"id":1}'])
async def test_json_that_is_no_message(client: httpx2.AsyncClient, body: str) -> None:
    """F1: a 4xx with words, never a 500."""
    response = await client.post("/mcp", content=body.encode(), headers=await initialized(client, VERSIONS[1]))
    assert response.status_code == (202 if body == '{"id":1}' else 400)


async def test_health_pages(client: httpx2.AsyncClient, harness: ServerHarness) -> None:
    """F1: alive, and ready with the state of every server."""
    alive, ready = await client.get("/healthz"), await client.get("/readyz")
    assert (alive.status_code, alive.json()) == (200, {"status": "ok"})
    assert ready.status_code == 200
    assert ready.json()["ready"] is True
    assert ready.json()["servers"].keys() == harness.app.upstreams.keys()
    sse = ready.json()["servers"]["sse"]
    assert (sse["state"], sse["reason"], sse["tools"]) == ("ready", "", len(DEFINITIONS))
    assert sse["since"] > 0
    assert (await client.get("/nowhere")).status_code == 404


# -- the SSE frontend


async def test_a_message_for_no_session_of_the_sse_frontend(client: httpx2.AsyncClient) -> None:
    """F1: 404; what is not JSON is 400; other methods are 405."""
    missing = await client.post("/messages?session_id=none", json=request("ping"))
    assert missing.status_code == 404
    assert (await client.get("/messages")).status_code == 405
    assert (await client.post("/sse", json={})).status_code == 405


async def test_the_sse_frontend_says_where_to_post(harness: ServerHarness) -> None:
    """F1: the first event is `endpoint`, on the same origin (2024-11-05)."""
    async with harness.host("sse", "2024-11-05") as host:
        assert isinstance(host.wire, SseWire)
        endpoint = await host.wire.endpoint
        assert endpoint.startswith("/messages?session_id=")
        assert host.greeting["protocolVersion"] == "2024-11-05"
