"""The relays that calls are held against in the benchmarks: they do what a gateway does, or the ratio says nothing."""

import hashlib
import http.client
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from urllib.parse import urlsplit

import orjson
import pytest

from aggregator.wire.codec import decode
from benchmarks.host import HttpHost, list_tools
from benchmarks.messages import headers, request
from benchmarks.systems import echo_over_http, echo_server, relay_over_http, write_config
from tests.polling import until


@pytest.fixture(params=["a", "b"])
def letter(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["stdio", "http"])
def relay(request: pytest.FixtureRequest, letter: str, tmp_path: Path) -> Iterator[str]:
    """The address of a relay over an upstream of either transport."""
    with ExitStack() as stack:
        server = echo_server()
        if request.param == "http":
            server = {"type": "http", "url": stack.enter_context(echo_over_http())}
        yield stack.enter_context(relay_over_http(letter, write_config(tmp_path, {"echo": server})))[0]


def rows(folder: Path) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(folder / "calls.db")) as database:
        return database.execute("SELECT * FROM calls ORDER BY rowid").fetchall()


async def test_a_relay_answers_checks_and_records(relay: str, tmp_path: Path) -> None:
    host = HttpHost(relay)
    try:
        host.initialize()
        tools, _ = list_tools(host)
        assert [tool["name"] for tool in tools] == ["echo.echo"]
        for text in ("one", "two"):
            said = host.ask("tools/call", {"name": "echo.echo", "arguments": {"text": text}})
            assert said["result"] == {"content": [{"type": "text", "text": text}]}
        for refused in ({"name": "echo.other", "arguments": {}}, {"name": "echo.echo", "arguments": {"text": 1}}):
            assert host.ask("tools/call", refused)["error"]["code"] == -32602
    finally:
        host.close()

    await until(lambda: len(rows(tmp_path)) == 2)
    last = bytes(32)
    for *columns, chained in rows(tmp_path):
        last = hashlib.blake2b(last + orjson.dumps(columns), digest_size=32).digest()
        assert columns[1:4] == ["local", "echo", "ok"]
        assert chained == last


def test_a_relay_is_called_without_a_handshake(relay: str) -> None:
    """It restores the id of the host, which may be a text."""
    params = {"name": "echo.echo", "arguments": {"text": "one"}}
    body = request("modern", 1, "tools/call", params).replace(b'"id":1', b'"id":"mine"')
    parts = urlsplit(relay)
    with closing(http.client.HTTPConnection(parts.netloc, timeout=30)) as connection:
        connection.request("POST", parts.path, body, headers("modern", "tools/call", params, None))
        response = connection.getresponse()
        said = decode(response.read())
    assert response.status == 200
    assert said["id"] == "mine"
    assert said["result"] == {"resultType": "complete", "content": [{"type": "text", "text": "one"}]}
