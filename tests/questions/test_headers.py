"""Headers of 2026-07-28: rebuilt for each hop, compared with the body, and what was wrong with one hop stays there."""

from typing import Final

import pytest

from tests.journeys.hosts import ACCEPT, ENVELOPE, MODERN, VERSIONS, Host, client_for
from tests.journeys.house import House, written
from tests.peers.serving import Background, serving
from tests.peers.toolbox import Json
from tests.questions.asker_web import WebAsker

NAMED: Final = {
    "mcp-protocol-version": MODERN,
    "mcp-method": "tools/call",
    "mcp-name": "steady.header",
    "mcp-param-first": "Oslo",
}


@pytest.fixture(scope="module")
def askers() -> dict[str, WebAsker]:
    return {name: WebAsker("modern") for name in ("changing", "steady")}


@pytest.fixture(scope="module")
def house(background: Background, tmp_path_factory: pytest.TempPathFactory, askers: dict[str, WebAsker]) -> House:
    """Servers whose headers are looked at: of one they change."""
    servers = {
        name: {"type": "http", "url": f"{background.open(serving(asker))}/mcp"} for name, asker in askers.items()
    }
    return House(background, written(tmp_path_factory.mktemp("headers"), servers))


@pytest.fixture
def changing(house: House, askers: dict[str, WebAsker]) -> WebAsker:
    askers["changing"].requests.clear()
    return askers["changing"]


@pytest.fixture
def steady(house: House, askers: dict[str, WebAsker]) -> WebAsker:
    askers["steady"].requests.clear()
    return askers["steady"]


def sent(asker: WebAsker, method: str) -> list[dict[str, str]]:
    """The headers of every such request that came."""
    return [headers for headers in asker.requests if headers.get("mcp-method") == method]


async def called(host: Host, how: str) -> Json:
    """The response to a call that has a header, with the arguments inside another's where `how` says so."""
    arguments = {"place": "Tromsø"}
    if how == "by a meta tool":
        return await host.call("call_tool", {"name": "changing.header", "arguments": arguments}).message()
    # These hosts know the tool from before its header got another name.
    return await host.call("changing.header", arguments).message()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("how", ["directly", "by a meta tool"])
async def test_a_header_that_is_another_by_now_is_looked_up_and_sent_once_more(
    house: House, changing: WebAsker, version: str, how: str
) -> None:
    """One refetch, one retry, and the host hears nothing of it."""
    before = changing.asker.header
    now = changing.asker.header = "second" if before == "first" else "first"
    changing.refuse_headers = 1
    async with house.host("sse", version) as host:
        message = await called(host, how)
    assert message["result"]["content"][0]["text"] == "Tromsø"
    first, again = sent(changing, "tools/call")
    assert first[f"mcp-param-{before}"] == again[f"mcp-param-{now}"] == "=?base64?VHJvbXPDuA==?="
    assert f"mcp-param-{before}" not in again
    assert again["mcp-name"] == "header"
    assert len(sent(changing, "tools/list")) == 1


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("how", ["directly", "by a meta tool"])
async def test_a_server_that_refuses_its_own_headers(house: House, changing: WebAsker, version: str, how: str) -> None:
    """It is not asked a third time, and its -32020, which is about our hop, is not taken for the host's."""
    changing.refuse_headers = 5
    async with house.host("sse", version) as host:
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
    house: House, steady: WebAsker, more: list[tuple[str, str]]
) -> None:
    """Also in other letters, and where both say the same: whoever reads the first need not be who reads the last."""
    assert await status(house, [*NAMED.items(), *more]) == (400, -32020)
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
    house: House, steady: WebAsker, changed: dict[str, str | None], expected: tuple[int, int | None]
) -> None:
    """Status and code together; what is refused reaches no server."""
    headers = {name: value for name, value in {**NAMED, **changed}.items() if value is not None}
    assert await status(house, list(headers.items())) == expected
    assert len(sent(steady, "tools/call")) == (expected[0] == 200)


async def status(house: House, headers: list[tuple[str, str]]) -> tuple[int, int | None]:
    """HTTP status and error code of a call with these headers."""
    body = {
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "steady.header", "arguments": {"place": "Oslo"}, "_meta": ENVELOPE},
    }  # fmt: skip
    async with client_for(house.url) as client:
        answer = await client.post("/mcp", json=body, headers=[*ACCEPT.items(), *headers])
    return answer.status_code, answer.json().get("error", {}).get("code")
