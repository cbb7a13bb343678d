"""The HTTP client of our own, byte by byte: responses in pieces of any size, and what ends a connection."""

import asyncio
import gzip
import zlib
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.upstream.transports.http_clients import plain_connection, plain_response
from aggregator.upstream.transports.http_clients.plain_connection import PlainConnection
from aggregator.upstream.transports.http_clients.plain_response import KnownHeads, PlainResponse
from aggregator.upstream.transports.http_clients.port import HttpFailure

BODY = b'{"jsonrpc":"2.0","id":1,"result":{}}'
JSON = b"content-type: application/json\r\n"
ASKED = b"POST /mcp HTTP/1.1\r\n\r\n"


def response(*lines: bytes, status: bytes = b"200 OK", body: bytes = BODY, version: bytes = b"1.1") -> bytes:
    return b"".join((b"HTTP/%b %b\r\n" % (version, status), *(line + b"\r\n" for line in lines), b"\r\n", body))


def sized(body: bytes = BODY, *lines: bytes, **rest: bytes) -> bytes:
    return response(b"content-type: application/json", b"content-length: %d" % len(body), *lines, body=body, **rest)


def chunks(*parts: bytes, extension: bytes = b"", trailer: bytes = b"") -> bytes:
    whole = b"".join(b"%x%b\r\n%b\r\n" % (len(part), extension, part) for part in parts)
    return whole + b"0\r\n" + trailer + b"\r\n"


def chunked(*parts: bytes, **rest: bytes) -> bytes:
    return response(b"content-type: application/json", b"transfer-encoding: chunked", body=chunks(*parts, **rest))


class RecordingTransport(asyncio.Transport):
    """A transport that only takes note."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.unsent = 0
        self.aborted = False
        self.reading = True

    def write(self, data: Any) -> None:
        self.written += data

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def is_closing(self) -> bool:
        return self.aborted

    def abort(self) -> None:
        self.aborted = True

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True


class ConnectionHarness:
    """One connection with nothing below it, and its owner."""

    def __init__(self, known_heads: KnownHeads | None = None) -> None:
        self.known_heads = known_heads or KnownHeads()
        self.idle_for: float | None = None
        self.ended = False
        self.transport = RecordingTransport()
        self.connection = PlainConnection(self)
        self.connection.connection_made(self.transport)

    def idle(self, connection: PlainConnection, seconds: float) -> None:
        self.idle_for = seconds

    def lost(self, connection: PlainConnection) -> None:
        self.ended = True

    def ask(self) -> PlainResponse:
        self.idle_for = None
        return self.connection.send(ASKED)

    def feed(self, *pieces: bytes) -> None:
        for piece in pieces:
            if not self.transport.aborted:
                self.connection.data_received(piece)

    def end(self, error: Exception | None = None) -> None:
        self.connection.connection_lost(error)


class Outcome(NamedTuple):
    """What was made of the bytes of one response."""

    status: int
    headers: dict[str, str]
    body: bytes
    failed: bool
    kept: bool


async def read(response: PlainResponse) -> bytes:
    return b"".join([part async for part in response.parts()])


def outcome(pieces: Sequence[bytes], known_heads: KnownHeads | None = None) -> Outcome:
    """Return what is made of a response that comes in these pieces; then the connection ends, unless it is kept."""

    async def run() -> Outcome:
        harness = ConnectionHarness(known_heads)
        asked = harness.ask()
        harness.feed(*pieces)
        kept = harness.idle_for is not None and not harness.transport.aborted
        if not kept:
            harness.end()
        try:
            await asked.headed()
            return Outcome(asked.status, dict(asked.headers), await read(asked), False, kept)
        except HttpFailure:
            return Outcome(0, {}, b"", True, kept)

    return asyncio.run(run())


def cut(data: bytes, places: Sequence[int]) -> list[bytes]:
    ends = sorted({place % (len(data) + 1) for place in places} | {0, len(data)})
    return [data[start:end] for start, end in pairwise(ends)]


GZIPPED = gzip.compress(BODY, mtime=0)
RESPONSES = {
    "sized": (sized(), True),
    "empty": (sized(b""), True),
    "chunked": (chunked(BODY[:5], BODY[5:]), True),
    "chunked, with all that it may have": (chunked(BODY, extension=b";a=b", trailer=b"x-late: 1\r\n"), True),
    "to the end": (response(b"content-type: application/json"), False),
    "1.0": (sized(version=b"1.0"), False),
    "1.0, kept": (sized(BODY, b"connection: keep-alive", version=b"1.0"), True),
    "closed": (sized(BODY, b"connection: close"), False),
    "100 before": (b"HTTP/1.1 100 Continue\r\n\r\n" + sized(), True),
    "103 before": (b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n" * 3 + sized(), True),
    "bare line feeds": (sized().replace(b"\r\n", b"\n"), True),
    "202": (b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n", True),
    "204": (b"HTTP/1.1 204 No Content\r\n\r\n", True),
    "a line in two": (sized(BODY, b"x-long: a\r\n  b"), True),
    "no value": (sized(BODY, b"x-none:", b"x-one: 1"), True),
    "gzip": (sized(GZIPPED, b"content-encoding: gzip"), True),
    "deflate": (sized(zlib.compress(BODY), b"content-encoding: deflate"), True),
}


@pytest.mark.parametrize("name", RESPONSES)
@given(places=st.lists(st.integers(0, 2**16), max_size=6), heads_known=st.booleans())
def test_a_response_is_the_same_however_it_is_cut(name: str, places: list[int], heads_known: bool) -> None:
    """C3, C8: status, headers and body do not depend on packets, nor on what came before."""
    data, kept = RESPONSES[name]
    known = KnownHeads()
    whole = outcome([data], known)
    assert not whole.failed
    assert whole.kept == kept
    assert outcome(cut(data, places), known if heads_known else None) == whole
    if name not in ("empty", "202", "204"):
        assert whole.body == BODY


def test_each_byte_by_itself() -> None:
    """C8: the finest cut there is."""
    for name, (data, _) in RESPONSES.items():
        assert outcome([data[at : at + 1] for at in range(len(data))]) == outcome([data]), name


BROKEN = {
    "not http": b"SSH-2.0-OpenSSH_9.0\r\n",
    "two lengths": response(b"content-length: 5", b"content-length: 36"),
    "length and chunks": response(b"content-length: 36", b"transfer-encoding: chunked", body=chunks(BODY)),
    "chunks and length": response(b"transfer-encoding: chunked", b"content-length: 36", body=chunks(BODY)),
    "negative length": response(b"content-length: -1"),
    "a length beyond all numbers": response(b"content-length: " + b"9" * 40),
    "a length in words": response(b"content-length: many"),
    "short of its length": sized()[:-1],
    "no last chunk": chunked(BODY)[:-5],
    "no end of a chunk": chunked(BODY)[:-9],
    "a size that is none": response(b"transfer-encoding: chunked", body=b"zz\r\nabc\r\n0\r\n\r\n"),
    "a size beyond all numbers": response(b"transfer-encoding: chunked", body=b"f" * 40 + b"\r\nabc\r\n0\r\n\r\n"),
    "only a part of a head": sized()[:30],
    "nothing": b"",
    "NUL in a header": sized(BODY, b"x-a: b\0c"),
    "a head without an end": b"HTTP/1.1 200 OK\r\nx: " + b"y" * (plain_connection.HEAD_LIMIT + 1),
    "a head that is too large": sized(BODY, b"x: " + b"y" * plain_connection.HEAD_LIMIT),
    "too many fields": sized(BODY, *(b"x-%d: 1" % number for number in range(plain_connection.FIELDS_AT_MOST))),
    "100 without an end": b"HTTP/1.1 100 Continue\r\n\r\n" * 4000,
    "an extension without an end": response(b"transfer-encoding: chunked", body=b"1;" + b"x" * 70_000),
    "a trailer without an end": response(b"transfer-encoding: chunked", body=b"0\r\nx: " + b"y" * 70_000),
    "a status without a meaning": sized(status=b"000 None"),
    "not gzip": sized(BODY, b"content-encoding: gzip"),
    "half of gzip": sized(GZIPPED[:-9], b"content-encoding: gzip"),
    "more behind gzip": sized(GZIPPED + b"more", b"content-encoding: gzip"),
    "gzip in pieces": sized(gzip.compress(b"", mtime=0) * 20 + GZIPPED, b"content-encoding: gzip"),
    "deflate and more": sized(zlib.compress(BODY) + b"x", b"content-encoding: deflate"),
    "brotli": sized(BODY, b"content-encoding: br"),
    "two encodings": sized(GZIPPED, b"content-encoding: gzip, gzip"),
}


@pytest.mark.parametrize("name", BROKEN)
@given(places=st.lists(st.integers(0, 2**16), max_size=4))
def test_what_is_no_response_fails_however_it_is_cut(name: str, places: list[int]) -> None:
    """C3, C8: within bounds, and the connection is not used again."""
    result = outcome(cut(BROKEN[name], places))
    assert result.failed
    encoded = b"content-encoding" in BROKEN[name]
    assert not result.kept or encoded


async def test_a_body_that_cannot_be_decoded_ends_its_connection() -> None:
    """C8: as anything else that cannot be read."""
    harness = ConnectionHarness()
    asked = harness.ask()
    harness.feed(sized(BODY, b"content-encoding: gzip"))
    assert harness.idle_for is not None
    with pytest.raises(HttpFailure, match="content encoding"):
        await read(asked)
    assert harness.transport.aborted


@pytest.mark.parametrize("more", [b"x", b"H", b"\0", b"HTTP/1.1 200 OK\r\n", sized(b"[]")])
@pytest.mark.parametrize("first", [sized(), chunked(BODY), chunked(BODY[:3], BODY[3:])])
@pytest.mark.parametrize("heads_known", [False, True])
async def test_what_follows_a_response_belongs_to_no_request(first: bytes, more: bytes, heads_known: bool) -> None:
    """C8, D1: it would be the answer to somebody else's request. The answer counts, the connection is closed."""
    known = KnownHeads()
    if heads_known:
        before = ConnectionHarness(known)
        before.ask()
        before.feed(first)
    harness = ConnectionHarness(known)
    asked = harness.ask()
    harness.feed(first + more)
    assert await read(asked) == BODY
    assert harness.transport.aborted
    assert harness.idle_for is None
    # The same in two pieces, the second of which comes while nothing is asked.
    harness = ConnectionHarness(known)
    asked = harness.ask()
    harness.feed(first)
    assert harness.connection.usable
    harness.feed(more)
    assert harness.transport.aborted
    assert not harness.connection.usable
    assert await read(asked) == BODY


async def test_bytes_before_the_first_request_end_the_connection() -> None:
    """C8, D1: an answer that was there before its question."""
    harness = ConnectionHarness()
    harness.feed(sized())
    assert harness.transport.aborted
    assert not harness.connection.usable


async def test_a_response_before_the_request_has_left_is_the_last() -> None:
    """C8: the rest of the request would be taken for another one."""
    harness = ConnectionHarness()
    asked = harness.ask()
    harness.transport.unsent = 10
    harness.feed(sized())
    assert await read(asked) == BODY
    assert harness.transport.aborted


async def test_one_connection_many_responses() -> None:
    """A connection serves as long as both ends keep to the letter; known heads and others take turns."""
    harness = ConnectionHarness()
    for body in (BODY, BODY, b"[1]", BODY, b"", b"[1]"):
        for data in (sized(body), chunked(body) if body else sized(body)):
            asked = harness.ask()
            harness.feed(data)
            assert await read(asked) == body
            assert harness.connection.usable
    assert harness.transport.written == ASKED * 12


@pytest.mark.parametrize(
    ("line", "seconds"),
    [
        (b"keep-alive: timeout=5", 4.0),
        (b"Keep-Alive: timeout = 2, max=100", 1.6),
        (b"keep-alive: max=100", 4.0),
        (b"keep-alive: timeout=0", None),
        (b"keep-alive: timeout=86400", 4.0),
        (b"connection: close", None),
        (b"Connection: Close, x", None),
    ],
)
async def test_how_long_a_connection_is_kept(line: bytes, seconds: float | None) -> None:
    """C8: shorter than the server does."""
    harness = ConnectionHarness()
    harness.ask()
    harness.feed(sized(BODY, line))
    assert harness.idle_for == seconds
    assert harness.transport.aborted == (seconds is None)


async def test_reading_pauses_while_nothing_is_taken() -> None:
    """C3, D11: what is not read stays with the server, and in the buffers of the sockets."""
    harness = ConnectionHarness()
    asked = harness.ask()
    part = b"x" * 50_000
    harness.feed(response(b"content-type: text/event-stream", b"transfer-encoding: chunked", body=b""))
    held = 0
    while harness.transport.reading:
        harness.feed(chunks(part)[:-5])
        held += len(part)
        assert held < 500_000
    parts = asked.parts()
    async for got in parts:
        held -= len(got)
        if harness.transport.reading:
            break
    assert held < 50_000
    harness.feed(b"0\r\n\r\n")
    assert len(b"".join([got async for got in parts])) == held
    assert harness.idle_for is not None


async def test_a_paused_connection_reads_on_for_the_next_request() -> None:
    """C8: the response was whole, and nothing of it had been taken yet."""
    harness = ConnectionHarness()
    asked = harness.ask()
    body = b"x" * 400_000
    data = sized(body)
    harness.feed(data[:300_000])
    assert not harness.transport.reading
    harness.feed(data[300_000:])
    assert harness.transport.reading
    assert harness.connection.usable
    assert await read(asked) == body


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_few_bytes_that_stand_for_many(encoding: str) -> None:
    """C3, D11: decoded a bounded piece at a time, as far as they are taken."""
    bomb = b"\0" * 50_000_000
    data = gzip.compress(bomb, mtime=0) if encoding == "gzip" else zlib.compress(bomb)
    harness = ConnectionHarness()
    asked = harness.ask()
    harness.feed(sized(data, b"content-encoding: " + encoding.encode()))
    largest = taken = 0
    async for part in asked.parts():
        largest, taken = max(largest, len(part)), taken + len(part)
        if taken > 1_000_000:
            break
    assert largest <= 64 * 1024


async def test_a_raw_deflate_is_decoded() -> None:
    """C8: some servers leave out its header."""
    raw = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    data = raw.compress(BODY) + raw.flush()
    harness = ConnectionHarness()
    asked = harness.ask()
    harness.feed(sized(data, b"content-encoding: deflate"))
    assert await read(asked) == BODY


async def test_leaving_a_response_closes_its_connection() -> None:
    """A8: what is not waited for any more takes no place, here or there."""
    for pieces in ([], [sized()[:20]], [sized()[:-1]]):
        harness = ConnectionHarness()
        asked = harness.ask()
        harness.feed(*pieces)
        asked.release()
        assert harness.transport.aborted
        harness.end()
    harness = ConnectionHarness()
    asked = harness.ask()
    harness.feed(sized())
    asked.release()
    assert not harness.transport.aborted


async def test_what_came_before_the_end_is_read() -> None:
    """C8: an event that arrived whole counts, though its stream broke off."""
    harness = ConnectionHarness()
    asked = harness.ask()
    harness.feed(response(b"transfer-encoding: chunked", body=chunks(b"data: 1\n\n")[:-5]))
    harness.end(ConnectionResetError())
    parts = asked.parts()
    assert await anext(parts) == b"data: 1\n\n"
    with pytest.raises(HttpFailure, match="in the middle"):
        await anext(parts)


async def test_a_body_to_the_end_is_whole_only_with_an_orderly_end() -> None:
    """C8: a reset in the middle is no end."""
    for error in (None, ConnectionResetError()):
        harness = ConnectionHarness()
        asked = harness.ask()
        harness.feed(response(body=b"abc"))
        harness.end(error)
        if error is None:
            assert await read(asked) == b"abc"
        else:
            with pytest.raises(HttpFailure):
                await read(asked)


async def test_known_heads_are_bounded() -> None:
    """D11: they differ by length and date."""
    known = KnownHeads()
    harness = ConnectionHarness(known)
    for number in range(500):
        harness.ask()
        harness.feed(sized(b" " * number, b"x: " + b"y" * 10 * number))
    assert 0 < len(known._heads) <= plain_response._HEADS
    assert all(len(head) <= plain_response.LARGEST_HEAD for head in known._heads)
