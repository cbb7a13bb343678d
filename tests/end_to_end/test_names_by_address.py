"""The spelling of names by the address of a host: `?names=compatible`, and `/compatible` behind the path."""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest
from mcp import ClientSession
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from aggregator.domain.names import Style
from aggregator.domain.principal import Principal
from aggregator.frontends.web.address_wishes import query_of, take_out_wishes, wishes_of
from aggregator.frontends.web.sessions.session_ids import SessionIds
from aggregator.gateway.host import AddressWishes, Host
from aggregator.replicas.group.clock import GroupClock
from aggregator.replicas.group.shared_key import SharedKey
from tests.end_to_end.conftest import OpenHarness
from tests.end_to_end.programs import serving
from tests.end_to_end.scripted_host import ACCEPT, ENVELOPE, MODERN, VERSIONS, routing_headers
from tests.end_to_end.server_harness import ServerHarness, local_entry, write_config
from tests.end_to_end.test_sdk_hosts import greet
from tests.peers.toolbox import Json
from tests.pins_running.changing_stdio import EMPTY
from tests.pins_running.pins_harness import PROGRAM

TRANSPORTS: Final[dict[str, Callable[[str], Any]]] = {"/mcp": streamable_http_client, "/sse": sse_client}
COMPATIBLE: Final = ["?names=compatible", "/compatible", "/compatible/", "?a=b&names=compatible&names=compatible"]
WRONG: Final = ["?names=dotless", "?names=", "?names=canonical&names=compatible", "/compatible?names=canonical"]


async def spelled(url: str, path: str, address: str, version: str) -> set[str]:
    """List the tools at an address, call one by its listed name, and return the separators of the names."""
    async with TRANSPORTS[path](f"{url}{path}{address}") as streams, ClientSession(*streams) as session:
        await greet(session, version)
        names = [tool.name for tool in (await session.list_tools()).tools]
        (echo,) = (name for name in names if re.fullmatch(r"local_modern(\.|__)echo", name))
        for _ in range(3):
            assert not (await session.call_tool(echo, {"text": "x"})).is_error
    return {found[1] for name in names if (found := re.fullmatch(r"local_modern(\.|__)\w+", name))}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("address", COMPATIBLE)
async def test_an_address_asks_for_the_spelling(harness: ServerHarness, version: str, address: str) -> None:
    """4 of issue 32: both forms, every era; the plain address is as before, and a session keeps what it began with."""
    assert await spelled(harness.url, "/mcp", address, version) == {"__"}
    assert await spelled(harness.url, "/mcp", "", version) == {"."}


@pytest.mark.parametrize("address", ["?names=compatible", "/compatible"])
async def test_sse_has_such_addresses_too(harness: ServerHarness, address: str) -> None:
    assert await spelled(harness.url, "/sse", address, "2025-11-25") == {"__"}
    assert await spelled(harness.url, "/sse", "?names=canonical", "2025-11-25") == {"."}


async def test_the_address_outdoes_the_setting(open_harness: OpenHarness) -> None:
    harness = open_harness({"local_modern": local_entry()}, http={"names": "compatible"})
    assert await spelled(harness.url, "/mcp", "?names=canonical", MODERN) == {"."}
    assert await spelled(harness.url, "/mcp", "", MODERN) == {"__"}


def modern(method: str, **params: Any) -> Json:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": ENVELOPE, **params}}


@pytest.mark.parametrize("path", ["/mcp", "/sse"])
@pytest.mark.parametrize("address", WRONG)
async def test_an_unknown_value_is_refused_with_words(harness: ServerHarness, path: str, address: str) -> None:
    """4 of issue 32: 400, and the words name the values that there are."""
    async with httpx2.AsyncClient(base_url=harness.url) as client:
        if path == "/sse":
            answer = await client.get(f"{path}{address}", headers={"accept": "text/event-stream"})
        else:
            answer = await client.post(f"{path}{address}", json=modern("tools/list"), headers=ACCEPT)
    assert answer.status_code == 400
    assert "`names=compatible`" in answer.text
    assert "`names=canonical`" in answer.text


@pytest.mark.parametrize("path", ["/mcp", "/sse"])
@pytest.mark.parametrize(
    ("query", "meant"),
    [
        ("schemas=openai", "schema"),
        ("Schema=openai", "schema"),
        ("schema%5B%5D=gemini", "schema"),
        ("shema=portable", "schema"),
        ("schemas=", "schema"),
        ("schema=openai&schemas=openai", "schema"),
        ("name=compatible", "names"),
        ("NAMES=compatible", "names"),
        ("name=dotless", "names"),
        ("a=b&nmaes=compatible", "names"),
    ],
)
async def test_a_misspelt_member_is_refused_with_words(
    harness: ServerHarness, path: str, query: str, meant: str
) -> None:
    """It was ignored: the host got names or schemas that it had not asked for, without a word."""
    async with httpx2.AsyncClient(base_url=harness.url) as client:
        if path == "/sse":
            answer = await client.get(f"{path}?{query}", headers={"accept": "text/event-stream"})
        else:
            answer = await client.post(f"{path}?{query}", json=modern("tools/list"), headers=ACCEPT)
    assert answer.status_code == 400
    assert f"`{meant}` is meant" in answer.text
    assert f"`{meant}=" in answer.text


@pytest.mark.parametrize(
    "query", ["key=openai", "tenant=names", "scheme=https", "game=1", "model=openai", "n%61mespace=compatible", "a"]
)
async def test_a_foreign_member_is_ignored(harness: ServerHarness, query: str) -> None:
    """Keys, traces and the like of a proxy or a host are none of ours."""
    call = modern("tools/list")
    async with httpx2.AsyncClient(base_url=harness.url) as client:
        answer = await client.post(f"/mcp?{query}", json=call, headers={**ACCEPT, **headers_of(call)})
    assert answer.status_code == 200, answer.text
    assert "local_modern.echo" in answer.text


async def test_one_connection_may_use_both_addresses(harness: ServerHarness) -> None:
    """4 of issue 32: what a connection remembers of a repeated call is remembered with the whole address."""
    call = modern("tools/call", name="local_modern.ecko", arguments={})
    echo = modern("tools/call", name="local_modern.echo", arguments={"text": "x"})
    async with httpx2.AsyncClient(base_url=harness.url) as client:
        for _ in range(3):
            for address, nearest in (("/mcp", "local_modern.echo"), ("/mcp?names=compatible", "local_modern__echo")):
                good = await client.post(address, json=echo, headers={**ACCEPT, **headers_of(echo)})
                assert good.json()["result"]["structuredContent"]["received"]["name"] == "echo"
                missed = await client.post(address, json=call, headers={**ACCEPT, **headers_of(call)})
                assert nearest in missed.json()["error"]["data"]["nearest"]


def headers_of(message: Json) -> dict[str, str]:
    return {"mcp-protocol-version": MODERN, **routing_headers(message)}


async def test_a_session_keeps_its_spelling_whatever_later_addresses_say(harness: ServerHarness) -> None:
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "0"}}
    async with httpx2.AsyncClient(base_url=harness.url) as client:
        begun = await client.post(
            "/mcp/compatible", json={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}, headers=ACCEPT
        )
        headers = {**ACCEPT, "mcp-session-id": begun.headers["mcp-session-id"]}
        listed = await client.post("/mcp", json={"jsonrpc": "2.0", "id": 2, "method": "tools/list"}, headers=headers)
    assert "local_modern__echo" in listed.text


@pytest.mark.parametrize("wished", ["compatible", "canonical", None])
@pytest.mark.parametrize("setting", ["compatible", "canonical", None])
def test_another_replica_spells_names_as_the_first_one(wished: Style | None, setting: Style | None) -> None:
    """4 of issue 32: the id of a session says what its address asked for."""
    key = SharedKey()
    key.use("s" * 32)
    ids = SessionIds(key, GroupClock(), 60.0)
    host = Host("http", setting, Principal("ada"), version="2025-11-25", wishes=AddressWishes(wished))
    host.set_client_info({"name": "x"})
    facts = ids.read(ids.issue(host)[0])
    assert facts is not None
    again = facts.host(setting, Principal("ada"))
    assert (again.style, again.names, again.wishes) == (host.style, host.names, host.wishes)
    assert host.style == (wished or setting or "canonical")


@pytest.mark.parametrize(
    ("path", "query", "plain", "asked"),
    [
        ("/mcp/compatible", b"", "/mcp", "compatible"),
        ("/mcp/compatible", b"a=b", "/mcp", "compatible"),
        ("/mcp/shop/compatible", b"", "/mcp/shop", "compatible"),
        ("/mcp/compatible/compatible", b"", "/mcp/compatible", "compatible"),
        ("/mcp", b"names=canonical", "/mcp", "canonical"),
        ("/mcp/shop", b"a=b", "/mcp/shop", None),
        ("/mcpx/compatible", b"", "/mcpx/compatible", None),
        ("/v1/compatible", b"", "/v1/compatible", None),
    ],
)
def test_what_an_address_asks_for(path: str, query: bytes, plain: str, asked: str | None) -> None:
    scope = {"path": path, "query_string": query}
    take_out_wishes(scope, "/mcp", "/sse")
    assert (scope["path"], wishes_of(scope).names) == (plain, asked)
    # The part that goes along with a request to another replica.
    assert query_of(scope) == (f"?names={asked}" if asked else "")


def test_an_endpoint_at_the_root_has_the_path_too() -> None:
    scope = {"path": "/compatible", "query_string": b""}
    take_out_wishes(scope, "/", "/sse")
    assert (scope["path"], scope["query_string"]) == ("/", b"names=compatible")


async def test_serve_prints_the_address_for_frameworks(tmp_path: Path) -> None:
    """4 of issue 32: the line at the start has an address that can be copied: no part of it is redacted."""
    config = write_config(tmp_path, {"local_modern": local_entry()})
    async with serving(config) as program:
        assert await spelled(program.url, "/mcp", "/compatible", MODERN) == {"__"}
        (line,) = (one for one in program.log if "for agent frameworks" in one)
        assert line.rstrip().endswith(f" {program.url}/mcp/compatible")


@pytest.mark.parametrize("address", ["", "?names=compatible", "/compatible", "/compatible?schema=openai-strict"])
async def test_tools_that_become_one_name_stay_two(open_harness: OpenHarness, tmp_path: Path, address: str) -> None:
    """4 of issue 32: names that are the same in one form, or those of our own tools, each lead to their own tool."""
    own = {"a": ["b_c", "b.c", "call_tool", "read_result", "search_tools"], "a_b": ["c"], "d": ["e.f", "e_f", "e-f"]}
    for server, names in own.items():
        says = {name: f"{server}|{name}" for name in names}
        (tmp_path / server).write_text(
            json.dumps({"tools": [{"name": one, "inputSchema": EMPTY} for one in names], "says": says})
        )
    harness = open_harness(
        {
            server: {"command": sys.executable, "args": ["-I", "-S", str(PROGRAM), str(tmp_path / server)]}
            for server in own
        },
        expose="all",
    )
    async with streamable_http_client(f"{harness.url}/mcp{address}") as streams, ClientSession(*streams) as session:
        await session.initialize()
        names = [tool.name for tool in (await session.list_tools()).tools if not tool.name.endswith("announce")]
        assert len(names) == len(set(names))
        assert not address or not [name for name in names if re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) is None]
        said = {(await session.call_tool(name, {})).content[0].text for name in names}  # type: ignore[union-attr]
    assert said >= {f"{server}|{name}" for server, names in own.items() for name in names}
