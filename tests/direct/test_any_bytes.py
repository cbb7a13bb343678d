"""Any bytes, cut anywhere: a connection that knows heads answers as one that has the parser read every message."""

import json
import os
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aggregator.frontends.server import WebServer
from tests.bounds.web_harness import head
from tests.direct.bytes_connection import BytesConnection
from tests.direct.direct_harness import DIRECT, PIPELINE, DirectHarness, direct_harness
from tests.end_to_end.scripted_host import ENVELOPE, MODERN
from tests.peers.serving import BackgroundLoop
from tests.peers.toolbox import Json

NAMED: Final = {"mcp_protocol_version": MODERN, "mcp_method": "tools/call", "mcp_name": "old.any"}


def message(**more: Any) -> bytes:
    """A call, as a body."""
    params: Json = {"name": "old.any", "arguments": {"n": 1}, "_meta": ENVELOPE}
    return json.dumps({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params, **more}).encode()


def post(body: bytes = message(), length: object = None, **headers: str) -> bytes:
    size = str(len(body) if length is None else length)
    return head("POST", "/mcp", content_length=size, **NAMED, **headers) + body


KNOWN: Final = post()
BODY: Final = message()
HEAD: Final = KNOWN[: -len(BODY)]
LENGTH: Final = b"content-length: %d\r\n" % len(BODY)


def _length(*lines: bytes) -> bytes:
    """The call with other fields in place of its length."""
    assert LENGTH in KNOWN
    return KNOWN.replace(LENGTH, b"".join(lines))


CHUNKED: Final = _length(b"transfer-encoding: chunked\r\n")[: -len(BODY)] + b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
PIECES: Final = {
    "known": KNOWN,
    "known, another id": post(message(id="a longer id")),
    "two": KNOWN + KNOWN,
    "half a head": KNOWN[:60],
    "half a body": KNOWN[:-20],
    "line ends before": b"\r\n" + KNOWN,
    "many line ends before": b"\r\n\r\n\r\n" + KNOWN,
    "line ends": b"\r\n",
    "a blank": b" ",
    "too long": post(length=len(BODY) + len(KNOWN)),
    "too short": post(length=len(BODY) - 1),
    "no length": _length(),
    "length 0": post(b""),
    "a request as body": post(KNOWN),
    "a head as body": post(KNOWN[: -len(BODY)]),
    "no JSON": post(b"{"),
    "not a call": post(b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{}}'),
    "a notification": post(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}'),
    "a batch": post(b"[%b]" % BODY),
    "length with zeros": _length(b"content-length: 000%d\r\n" % len(BODY)),
    "length with many zeros": _length(b"content-length: 00000000000%d\r\n" % len(BODY)),
    "length with a sign": _length(b"content-length: +%d\r\n" % len(BODY)),
    "length with blanks": _length(b"content-length: \t %d \r\n" % len(BODY)),
    "length without blank": _length(b"content-length:%d\r\n" % len(BODY)),
    "length before a colon": _length(b"content-length : %d\r\n" % len(BODY)),
    "a list of lengths": _length(b"content-length: %d, %d\r\n" % (len(BODY), len(BODY))),
    "two lengths": _length(LENGTH, LENGTH),
    "two lengths that differ": _length(LENGTH, b"content-length: 3\r\n"),
    "two lengths, one in capitals": _length(LENGTH, b"Content-Length: 3\r\n"),
    "a length on a folded line": _length(b"x: y\r\n " + LENGTH, LENGTH),
    "length folded": _length(b"content-length:\r\n %d\r\n" % len(BODY)),
    "length in capitals": _length(LENGTH.replace(b"content-length", b"CONTENT-LENGTH")),
    "length with a bare line end": _length(LENGTH.replace(b"\r\n", b"\n")),
    "a field with a bare line end": _length(b"x: y\n", LENGTH),
    "a bare carriage return": _length(b"x: y\rz: a\r\n", LENGTH),
    "a zero byte": _length(b"x: \x00\r\n", LENGTH),
    "bare line ends": KNOWN.replace(b"\r\n", b"\n"),
    "chunked": CHUNKED,
    "chunked with trailers": CHUNKED[:-2] + b"x-user-id: u\r\n\r\n",
    "chunked and a length": _length(LENGTH, b"transfer-encoding: chunked\r\n"),
    "chunked in other words": _length(LENGTH, b"Transfer-Encoding : xchunked\r\n"),
    "an encoding that is none": _length(LENGTH, b"transfer-encoding: identity\r\n"),
    "upgrade": _length(LENGTH, b"connection: upgrade\r\nupgrade: websocket\r\n"),
    "upgrade to HTTP/2": _length(LENGTH, b"connection: upgrade\r\nupgrade: h2c\r\nhttp2-settings: AA\r\n"),
    "upgrade after a bare line end": _length(LENGTH, b"x: y\nupgrade: websocket\r\nconnection: upgrade\r\n"),
    "expect": _length(LENGTH, b"expect: 100-continue\r\n"),
    "close": _length(LENGTH, b"connection: close\r\n"),
    "keep alive": _length(LENGTH, b"connection: keep-alive\r\n"),
    "HTTP/1.0": KNOWN.replace(b"HTTP/1.1", b"HTTP/1.0"),
    "HTTP/1.0, kept alive": _length(LENGTH, b"connection: keep-alive\r\n").replace(b"HTTP/1.1", b"HTTP/1.0"),
    "HTTP/2": KNOWN.replace(b"HTTP/1.1", b"HTTP/2.0"),
    "an absolute target": KNOWN.replace(b" /mcp ", b" http://127.0.0.1/mcp "),
    "an absolute target elsewhere": KNOWN.replace(b" /mcp ", b" http://elsewhere.example/mcp "),
    "another path": KNOWN.replace(b" /mcp ", b" /mcp/ "),
    "a query": KNOWN.replace(b" /mcp ", b" /mcp?a=1 "),
    "another host": KNOWN.replace(b"host: 127.0.0.1", b"host: elsewhere.example"),
    "two hosts": _length(LENGTH, b"host: elsewhere.example\r\n"),
    "a page": _length(LENGTH, b"origin: http://elsewhere.example\r\n"),
    "our own page": _length(LENGTH, b"origin: http://127.0.0.1\r\n"),
    "a proxy": _length(LENGTH, b"x-forwarded-for: 192.0.2.1\r\n"),
    "another name": KNOWN.replace(b"mcp-name: old.any", b"mcp-name: old.number"),
    "a user": _length(LENGTH, b"x-user-id: u\r\n"),
    "GET": b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n",
    "HEAD": b"HEAD /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n",
    "CONNECT": b"CONNECT a:1 HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n",
    "no HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "a long head": _length(LENGTH, b"x: %b\r\n" % (b"y" * 5000)),
}  # fmt: skip


@st.composite
def _mutated(draw: st.DrawFn) -> bytes:
    """The call with some bytes replaced, left out or put in."""
    data = bytearray(KNOWN)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data) - 1))
        more = draw(st.sampled_from([b"", b"\r", b"\n", b"\r\n", b" ", b":", b"0", b"9", b"\x00", b"a", b"\xff"]))
        data[at : at + draw(st.integers(0, 2))] = more
    return bytes(data)


_PIECE: Final = st.sampled_from(sorted(PIECES)).map(PIECES.__getitem__)
_STREAM: Final = st.lists(st.one_of(st.just(KNOWN), _PIECE, _PIECE, _mutated()), min_size=1, max_size=4)


@st.composite
def _cut(draw: st.DrawFn) -> list[tuple[bytes, bool]]:
    """A stream of bytes in pieces, and after which of them the host waits for all answers."""
    found, rest = [(KNOWN, True)], draw(_STREAM)
    if draw(st.booleans()):
        data = b"".join(rest)
        places = sorted(draw(st.lists(st.integers(0, len(data)), max_size=3)))
        rest = [data[start:end] for start, end in zip([0, *places], [*places, len(data)], strict=True)]
    return [*found, *((piece, draw(st.booleans())) for piece in rest if piece)]


async def test_a_head_that_comes_before_its_body(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """D4: some clients write the two apart. A call of theirs is known too, once one has been answered."""
    async with direct_harness(tmp_path, monkeypatch) as it:
        web = WebServer(it.app.gateway, it.config, it.app.access, it.app.report)
        connection = BytesConnection(it, web)
        for _ in range(3):
            connection.transport.feed(HEAD)
            connection.transport.feed(BODY)
            await connection.settle()
        assert it.ways[-3:] == [PIPELINE, DIRECT, DIRECT]
        assert connection.written.count(b"HTTP/1.1 200 OK") == 3
        connection.transport.feed(HEAD)
        connection.protocol.shutdown()
        connection.transport.feed(BODY)
        await connection.settle()
        assert connection.written.count(b"HTTP/1.1 200 OK") == 4
        connection.transport.feed(HEAD)
        await connection.leave()
        it.nothing_is_left()


async def _answered(it: DirectHarness, web: WebServer, stream: list[tuple[bytes, bool]], *, knows: bool) -> Any:
    """Return all that a connection answers, whether it ended, and the calls that were made."""
    before = len(it.records)
    connection = BytesConnection(it, web, knows=knows)
    for data, waits in stream:
        connection.transport.feed(data)
        if waits:
            await connection.settle()
    await connection.settle()
    said = connection.written, connection.transport.is_closing(), connection.timers
    await connection.leave()
    it.nothing_is_left()
    return *said, [(record.asked_name, record.caller.user_id, record.arguments) for record in it.records[before:]]


def test_any_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """D4, D11: what is a request, whose it is and what it is answered does not depend on what came before."""
    with BackgroundLoop() as background:
        it = background.open(direct_harness(tmp_path, monkeypatch), leans=True)
        web = WebServer(it.app.gateway, it.config, it.app.access, it.app.report)

        def same(stream: list[tuple[bytes, bool]]) -> None:
            known = background.run(_answered(it, web, stream, knows=True))
            assert known == background.run(_answered(it, web, stream, knows=False)), stream[1:]

        for piece in PIECES.values():
            for waits in (True, False):
                same([(KNOWN, True), (piece, waits), (KNOWN, waits), (KNOWN, True)])

        for rest in ([BODY], [BODY[:9], BODY[9:]], [BODY + KNOWN], [KNOWN], [b"{" * len(BODY)], []):
            for waits in (True, False):
                same([(KNOWN, True), (HEAD, waits), *((piece, waits) for piece in rest), (KNOWN, True)])

        @settings(max_examples=int(os.environ.get("N", "100")), deadline=None, suppress_health_check=list(HealthCheck))
        @given(_cut())
        def check(stream: list[tuple[bytes, bool]]) -> None:
            same(stream)

        check()
    assert DIRECT in it.ways
