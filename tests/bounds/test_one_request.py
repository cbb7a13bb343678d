"""Where a request ends and for whom it is, as proxies read it too: what they pass on as one is never read as two."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from tests.bounds.web_harness import MODERN, RawConnection, WebHarness, call, head, web_harness

# What Java's HTTP client asks for with every request, and what proxies pass on that are set up for WebSockets.
UPGRADES: Final = {
    "h2c": {"connection": "Upgrade, HTTP2-Settings", "upgrade": "h2c", "http2_settings": "AAEAAEAAAAIAAAAB"},
    "websocket": {"connection": "upgrade", "upgrade": "websocket"},
}
TARGETS: Final = {
    "http://127.0.0.1/healthz": 200,
    "http://tools.example.com/healthz": 400,
    "https://tools.example.com/healthz": 400,
    "http://127.0.0.1@tools.example.com/healthz": 400,
    "HTTP://127.0.0.1:80/healthz": 400,
}


def post(message: Any, **headers: str) -> tuple[bytes, bytes]:
    """The head and the body of a call of 2026-07-28."""
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    return head("POST", "/mcp", content_length=str(len(body)), **MODERN, **headers), body


async def until_read(it: WebHarness, connection: RawConnection) -> None:
    """Return once the bytes on the connection have been read: a call on another connection is answered afterwards."""
    await connection.writer.drain()
    assert (await it.call()).status == 200


@pytest.mark.parametrize("asked", UPGRADES)
async def test_the_body_of_a_request_for_another_protocol_is_its_body(tmp_path: Path, asked: str) -> None:
    """In one piece with its head, or after it: it is answered, and none of its body is a request."""
    async with web_harness(tmp_path) as it, it.connect() as connection:
        for apart in (False, True):
            opening, body = post(call(say="outer"), **UPGRADES[asked])
            connection.send(opening)
            if apart:
                await until_read(it, connection)
            connection.send(body)
            assert b'"outer"' in (await connection.answer()).body

        inner = b"".join(post(call(say="inner")))
        opening, body = post(inner, **UPGRADES[asked])
        connection.send(opening)
        await until_read(it, connection)
        before = it.upstream.count("tools/call")
        connection.send(body)
        assert (await connection.answer()).status == 400
        assert (await connection.ask("/mcp", call(say="after"), **MODERN)).json()["result"]["content"][0][
            "text"
        ] == "after"
        assert it.upstream.count("tools/call") == before + 1, "what stood in the body was called"


async def test_requests_for_another_protocol_may_wait_for_their_turn(tmp_path: Path) -> None:
    async with web_harness(tmp_path) as it, it.connect() as connection:
        whole = b"".join(post(call(say="one of five"), **UPGRADES["h2c"]))
        connection.send(whole * 5 + b"".join(post(call(say="last"))))
        for _ in range(5):
            assert b'"one of five"' in (await connection.answer()).body
        assert b'"last"' in (await connection.answer()).body


async def test_no_tunnel_is_made(tmp_path: Path) -> None:
    async with web_harness(tmp_path) as it, it.connect() as connection:
        connection.send(b"CONNECT 127.0.0.1:80 HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n" + head("GET", "/healthz"))
        assert (await connection.answer()).status == 400
        assert await connection.ended() == b""


async def test_fields_behind_a_body_are_no_headers(tmp_path: Path) -> None:
    """A proxy looks at headers, and may pass trailers on as they came."""
    async with web_harness(tmp_path, agents=["one"]) as it, it.connect() as connection:
        body = json.dumps(call()).encode()
        opening = head("POST", "/mcp", transfer_encoding="chunked", trailer="x-api-key", **MODERN)
        connection.send(
            opening + b"%x\r\n%b\r\n0\r\nx-api-key: " % (len(body), body) + it.keys["one"].encode() + b"\r\n\r\n"
        )
        assert (await connection.answer()).status == 401
        assert it.upstream.count("tools/call") == 0


@pytest.mark.parametrize("target", TARGETS)
async def test_an_absolute_target_names_the_host(tmp_path: Path, target: str) -> None:
    """Together with a `Host` that says otherwise it is refused: a proxy may have looked at either."""
    async with web_harness(tmp_path) as it, it.connect() as connection:
        connection.send(head("GET", target))
        assert (await connection.answer()).status == TARGETS[target]


async def test_an_absolute_target_of_another_host_is_not_served(tmp_path: Path) -> None:
    async with web_harness(tmp_path) as it, it.connect() as connection:
        connection.send(b"GET http://tools.example.com/v1/tools HTTP/1.1\r\n\r\n")
        assert (await connection.answer()).status == 421
