"""Headers of 2026-07-28: rebuilt for each hop, compared with the body, and what was wrong with one hop stays there."""

from typing import Final

import pytest

from tests.end_to_end.scripted_host import ACCEPT, ENVELOPE, MODERN, VERSIONS, ScriptedHost, http_client
from tests.end_to_end.server_harness import ServerHarness, write_config
from tests.peers.serving import BackgroundLoop, serving
from tests.peers.toolbox import Json
from tests.server_requests.asking_server_web import AskingWebServer

NAMED: Final = {
    "mcp-protocol-version": MODERN,
    "mcp-method": "tools/call",
    "mcp-name": "steady.header",
    "mcp-param-first": "Oslo",
}


@pytest.fixture(scope="module")
def asking_servers() -> dict[str, AskingWebServer]:
    return {name: AskingWebServer("modern") for name in ("changing", "steady")}


@pytest.fixture(scope="module")
def harness(
    background: BackgroundLoop, tmp_path_factory: pytest.TempPathFactory, asking_servers: dict[str, AskingWebServer]
) -> ServerHarness:
    """Servers whose headers are looked at: of one they change."""
    servers = {
        name: {"type": "http", "url": f"{background.open(serving(asking_server))}/mcp"}
        for name, asking_server in asking_servers.items()
    }
    return ServerHarness(background, write_config(tmp_path_factory.mktemp("headers"), servers))


@pytest.fixture
def changing(harness: ServerHarness, asking_servers: dict[str, AskingWebServer]) -> AskingWebServer:
    asking_servers["changing"].requests.clear()
    return asking_servers["changing"]


@pytest.fixture
def steady(harness: ServerHarness, asking_servers: dict[str, AskingWebServer]) -> AskingWebServer:
    asking_servers["steady"].requests.clear()
    return asking_servers["steady"]


def sent(asking_server: AskingWebServer, method: str) -> list[dict[str, str]]:
    """The headers of every such request that came."""
    return [headers for headers in asking_server.requests if headers.get("mcp-method") == method]


async def called(host: ScriptedHost, how: str) -> Json:
    """The response to a call that has a header, with the arguments inside another's where `how` says so."""
    arguments = {"place": "Tromsø"}
    if how == "by a meta tool":
        return await host.call("call_tool", {"name": "changing.header", "arguments": arguments}).message()
    # These hosts know the tool from before its header got another name.
    return await host.call("changing.header", arguments).message()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("how", ["directly", "by a meta tool"])
async def test_a_header_that_is_another_by_now_is_looked_up_and_sent_once_more(
    harness: ServerHarness, changing: AskingWebServer, version: str, how: str
) -> None:
    """One refetch, one retry, and the host hears nothing of it."""
    before = changing.server.header
    now = changing.server.header = "second" if before == "first" else "first"
    changing.refuse_headers = 1
    async with harness.host("sse", version) as host:
        message = await called(host, how)
    assert message["result"]["content"][0]["text"] == "Tromsø"
    first, again = sent(changing, "tools/call")
    assert first[f"mcp-param-{before}"] == again[f"mcp-param-{now}"] == "=?base64?VHJvbXPDuA==?="
    assert f"mcp-param-{before}" not in again
    assert again["mcp-name"] == "header"
    assert len(sent(changing, "tools/list")) == 1


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("how", ["directly", "by a meta tool"])
async def test_a_server_that_refuses_its_own_headers(
    harness: ServerHarness, changing: AskingWebServer, version: str, how: str
) -> None:
    """It is not asked a third time, and its -32020, which is about our hop, is not taken for the host's."""
    changing.refuse_headers = 5
    async with harness.host("sse", version) as host:
        message = await called(host, how)
    assert message["error"]["code"] == -32603
    assert message["error"]["data"]["error"]["code"] == -32020
    assert message["error"]["data"]["server"] == "changing"
    assert changing.refuse_headers == 3


@pytest.mark.parametrize(
    "more",
    [
        *([(name, value)] for name, value in NAMED.items()),
        [("Mcp-Name", "steady.note")],
        [("MCP-PARAM-FIRST", "Rome")],
    ],
)
async def test_a_header_that_stands_twice_is_refused(
    harness: ServerHarness, steady: AskingWebServer, more: list[tuple[str, str]]
) -> None:
    """Also in other letters, and where both say the same: whoever reads the first need not be who reads the last."""
    assert await status(harness, [*NAMED.items(), *more]) == (400, -32020)
    assert not sent(steady, "tools/call")


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, (200, None)),
        ({"mcp-param-first": "=?base64?T3Nsbw==?="}, (200, None)),
        ({"mcp-param-unknown": "x"}, (200, None)),
        ({"mcp-param-first": "oslo"}, (400, -32020)),
        ({"mcp-param-first": None}, (400, -32020)),
        ({"mcp-param-first": "=?base64?T3Nsbx==?="}, (400, -32020)),
        ({"mcp-name": "header"}, (400, -32020)),
        ({"mcp-name": "STEADY.HEADER"}, (400, -32020)),
        ({"mcp-name": "steady__header"}, (400, -32020)),
        ({"mcp-name": "=?base64?c3RlYWR5LmhlYWRlcg==?="}, (200, None)),
        ({"mcp-method": "TOOLS/CALL"}, (400, -32020)),
        ({"mcp-protocol-version": "2027-01-01"}, (400, -32020)),
    ],
)
async def test_headers_are_compared_with_the_body(
    harness: ServerHarness, steady: AskingWebServer, changed: dict[str, str | None], expected: tuple[int, int | None]
) -> None:
    """Status and code together; what is refused reaches no server."""
    headers = {name: value for name, value in {**NAMED, **changed}.items() if value is not None}
    assert await status(harness, list(headers.items())) == expected
    assert len(sent(steady, "tools/call")) == (expected[0] == 200)


async def status(harness: ServerHarness, headers: list[tuple[str, str]]) -> tuple[int, int | None]:
    """HTTP status and error code of a call with these headers."""
    body = {
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "steady.header", "arguments": {"place": "Oslo"}, "_meta": ENVELOPE},
    }  # fmt: skip
    async with http_client(harness.url) as client:
        answer = await client.post("/mcp", json=body, headers=[*ACCEPT.items(), *headers])
    return answer.status_code, answer.json().get("error", {}).get("code")
