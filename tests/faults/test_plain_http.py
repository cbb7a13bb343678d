"""The HTTP client of our own, over real sockets: connections that are kept, lost and closed, beside aiohttp."""

import asyncio
import gzip
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import pytest
import yarl
from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator.config.server_config import ServerConfig
from aggregator.domain.errors import UpstreamBadAnswer
from aggregator.upstream.transports import web
from aggregator.upstream.transports.http_clients import plain_requests, plain_response
from aggregator.upstream.transports.http_clients.aiohttp_requests import AiohttpRequests, open_aiohttp
from aggregator.upstream.transports.http_clients.plain_requests import PlainRequests, open_plain, plain_url
from aggregator.upstream.transports.http_clients.port import HttpFailure, HttpRequests, Unreachable
from aggregator.upstream.transports.web import requests_to
from tests.laws import examples
from tests.polling import until

from .app_harness import server_config

OK: Final = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class SocketServer:
    """A server that does with each connection what `serve` says; `heads` are the heads of the requests that came."""

    def __init__(self, serve: Serve | None = None) -> None:
        self.serve = serve or self.answer
        self.response = OK
        self.heads: list[str] = []
        self.connections = 0
        self.writers: list[asyncio.StreamWriter] = []
        self.url = ""

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer every request with `response`."""
        while await self.request(reader):
            writer.write(self.response)

    async def request(self, reader: asyncio.StreamReader) -> str:
        """Read one request, and return its head; an empty one at the end."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = re.search(r"content-length: ([0-9]+)", head, re.IGNORECASE)
            await reader.readexactly(int(length[1]) if length else 0)
        except (asyncio.IncompleteReadError, ConnectionError):
            return ""
        self.heads.append(head)
        return head

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.writers.append(writer)
        try:
            await self.serve(reader, writer)
        finally:
            writer.close()


@asynccontextmanager
async def listening(server: SocketServer, host: str = "127.0.0.1") -> AsyncIterator[SocketServer]:
    """Run a server."""
    listener = await asyncio.start_server(server.connected, host, 0)
    port = listener.sockets[0].getsockname()[1]
    server.url = f"http://{'[::1]' if host == '::1' else host}:{port}/mcp?a=b%20c"
    try:
        yield server
    finally:
        listener.close()
        for writer in server.writers:
            writer.transport.abort()


def config(url: str, **fields: Any) -> ServerConfig:
    return server_config("web", type="http", url=url, **fields)


@asynccontextmanager
async def plain(server: SocketServer, **fields: Any) -> AsyncIterator[PlainRequests]:
    async with requests_to(config(server.url, **fields)) as requests:
        assert isinstance(requests, PlainRequests)
        yield requests


async def ask(requests: HttpRequests, url: str, verb: str = "POST", **headers: str) -> bytes:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with requests.send(verb, url, named, b"{}" if verb == "POST" else None) as response:
        return b"".join([part async for part in response.parts()])


# -- which client


@pytest.mark.parametrize(
    ("url", "fields"),
    [
        ("https://example.com/mcp", {}),
        ("http://example.com/mcp", {"proxy": "http://proxy.example.com:3128"}),
        ("http://user:word@example.com/mcp", {}),
        ("http://user@example.com/mcp", {}),
        ("http://[fe80::1%25eth0]/mcp", {}),
        ("http://example.com/mcp", {"headers": {"Transfer-Encoding": "chunked"}}),
        ("http://example.com/mcp", {"headers": {"content-length": "7"}}),
        ("http://:80/", {}),
    ],
)
def test_what_aiohttp_is_asked_for(url: str, fields: Any) -> None:
    """D1: TLS, proxies, passwords in addresses, and what is no ordinary address."""
    assert plain_url(config(url, **fields)) is None


@pytest.mark.parametrize(
    "url", ["http://example.com", "http://127.0.0.1:8080/a b?c=d#e", "http://[::1]:1/", "http://bücher.example/"]
)
def test_what_our_own_client_is_asked_for(url: str) -> None:
    """A7: everything over plain HTTP."""
    assert plain_url(config(url)) == yarl.URL(url)


async def test_the_environment_names_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """D1: as before, the configuration alone does."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    async with listening(SocketServer()) as server, plain(server) as requests:
        assert await ask(requests, server.url) == b"{}"


async def test_aiohttp_is_loaded_for_what_needs_it() -> None:
    """D1: behind the same port."""
    async with requests_to(config("https://127.0.0.1:9/mcp")) as requests:
        assert isinstance(requests, AiohttpRequests)
        with pytest.raises(Unreachable, match="nothing listens there"):
            await ask(requests, "https://127.0.0.1:9/mcp")
    assert requests.closed


async def test_a_proxy_is_asked_for_http_too() -> None:
    """D1: with the user and password of its own address; the server's address goes to it whole."""
    async with listening(SocketServer()) as server:
        proxy = server.url.replace("http://", "http://me:word@").partition("/mcp")[0]
        async with requests_to(config("http://name.invalid/mcp", proxy=proxy)) as requests:
            assert await ask(requests, "http://name.invalid/mcp") == b"{}"
        assert server.heads[0].startswith("POST http://name.invalid/mcp HTTP/1.1\r\n")
        assert "proxy-authorization: basic bwu6d29yza==" in server.heads[0].lower()


async def test_a_user_in_the_address_is_sent_as_credentials() -> None:
    """D1: as before."""
    async with listening(SocketServer()) as server:
        url = server.url.replace("http://", "http://me:word@")
        async with requests_to(config(url)) as requests:
            assert await ask(requests, url) == b"{}"
        assert "authorization: basic bwu6d29yza==" in server.heads[0].lower()


# -- what is sent


async def test_the_head_of_a_request() -> None:
    """F1, D1: configured headers, then those of the request; each name once, in any case; the address as it is."""
    headers = {"Authorization": "Bearer word", "ACCEPT": "text/html", "X-Team": "blue"}
    async with listening(SocketServer()) as server, plain(server, headers=headers) as requests:
        await ask(requests, server.url, accept="application/json", x_more="a: b")
        host = server.url.split("/")[2]
        first, *lines = server.heads[0].strip().split("\r\n")
        assert first == "POST /mcp?a=b%20c HTTP/1.1"
        assert dict(line.split(": ", 1) for line in lines) == {
            "host": host,
            "accept": "application/json",
            "accept-encoding": "identity",
            "user-agent": "aggregator/0.1.0",
            "Authorization": "Bearer word",
            "X-Team": "blue",
            "x-more": "a: b",
            "content-length": "2",
        }
        await ask(requests, server.url, "GET")
        assert "content-length" not in server.heads[1]
        assert server.connections == 1


@pytest.mark.parametrize("value", ["a\r\nb: c", "a\nb", "a\rb", "a\0b"])
@pytest.mark.parametrize("where", ["value", "name", "config"])
async def test_no_header_is_smuggled_in(value: str, where: str) -> None:
    """D1: refused before anything is sent."""
    headers = {"x": value} if where == "config" else {}
    async with listening(SocketServer()) as server, plain(server, headers=headers) as requests:
        named = {"name": {value: "x"}, "value": {"x": value}, "config": {}}[where]
        with pytest.raises(ValueError, match="header"):
            requests.send("POST", server.url, named, b"")
    assert not server.heads
    assert server.connections == 0


async def test_another_origin_is_asked_nothing() -> None:
    """D1: our headers are for one server."""
    async with listening(SocketServer()) as server, plain(server) as requests:
        for url in ("http://127.0.0.1:9/mcp", server.url.replace("http", "https"), "http://localhost/"):
            with pytest.raises(ValueError, match="origin"):
                requests.send("POST", url, {}, b"")


def _addresses() -> list[str]:
    """Return the ways to name this machine: with an IPv6 address where it has one."""
    with socket.socket(socket.AF_INET6) as tried:
        try:
            tried.bind(("::1", 0))
        except OSError:
            return ["127.0.0.1", "localhost"]
    return ["127.0.0.1", "localhost", "::1"]


@pytest.mark.parametrize("host", _addresses())
async def test_addresses_and_names(host: str) -> None:
    """C2: IPv4, IPv6 where this machine has it, and a name with several addresses, of which one answers."""
    async with listening(SocketServer(), "127.0.0.1" if host == "localhost" else host) as server:
        server.url = server.url.replace("127.0.0.1", host)
        async with plain(server) as requests:
            assert await ask(requests, server.url) == b"{}"
            assert f"host: {server.url.split('/')[2]}\r\n" in server.heads[0]


# -- connections that are kept


async def test_one_connection_after_another() -> None:
    """A7: requests one after another take one connection, those at one time one each."""
    async with listening(SocketServer()) as server, plain(server) as requests:
        for _ in range(5):
            assert await ask(requests, server.url) == b"{}"
        assert server.connections == 1
        results = await asyncio.gather(*(ask(requests, server.url) for _ in range(5)))
        assert results == [b"{}"] * 5
        assert server.connections == 5


async def test_what_is_idle_for_too_long_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """C8: before the server does it."""
    monkeypatch.setattr(plain_requests, "KEEP_ALIVE", 0.02)
    monkeypatch.setattr(plain_response, "KEEP_ALIVE", 0.02)
    async with listening(SocketServer()) as server, plain(server) as requests:
        await ask(requests, server.url)
        await until(lambda: not requests._connections, "it is closed")
        assert not requests._idle
        assert await ask(requests, server.url) == b"{}"
        assert server.connections == 2


async def test_what_was_idle_for_too_long_is_not_used() -> None:
    """C8: though it was not closed yet."""
    async with listening(SocketServer()) as server, plain(server) as requests:
        await ask(requests, server.url)
        for connection in requests._connections:
            connection.idle_until = 0.0
        assert requests.begin(requests.prepare("POST", server.url, {}), b"").started is None
        assert await ask(requests, server.url) == b"{}"
        assert server.connections == 2


async def test_a_connection_that_was_closed_meanwhile_is_not_used() -> None:
    """C8: the next request takes another one, and comes through."""
    async with listening(SocketServer()) as server, plain(server) as requests:
        for _ in range(3):
            await ask(requests, server.url)
            server.writers[-1].close()
            await until(lambda: not requests._idle, "its end was heard of")
        assert server.connections == 3


@pytest.mark.parametrize("verb", ["POST", "GET", "DELETE"])
async def test_a_kept_connection_that_ends_as_it_is_used(verb: str) -> None:
    """A7, C12: what may have an effect is sent once. What has none is sent again, once, on a new connection."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # The second request on a connection finds it closed.
        await server.request(reader)
        writer.write(OK)
        await server.request(reader)

    server = SocketServer(serve)
    async with listening(server), plain(server) as requests:
        await ask(requests, server.url)
        if verb == "POST":
            with pytest.raises(HttpFailure, match="before an answer"):
                await ask(requests, server.url, verb)
            assert (len(server.heads), server.connections) == (2, 1)
        else:
            assert await ask(requests, server.url, verb) == b"{}"
            assert (len(server.heads), server.connections) == (3, 2)


async def test_nothing_is_sent_again_on_a_new_connection() -> None:
    """C12: nor where something of an answer came."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.request(reader)

    server = SocketServer(serve)
    async with listening(server), plain(server) as requests:
        with pytest.raises(HttpFailure):
            await ask(requests, server.url, "GET")
        assert len(server.heads) == 1


# -- what goes wrong


async def test_nobody_listens() -> None:
    """C4: said in words that an operator can act on."""
    async with listening(SocketServer()) as server:
        pass
    async with plain(server) as requests:
        with pytest.raises(Unreachable, match="nothing listens there"):
            await ask(requests, server.url)


async def test_a_name_that_is_none() -> None:
    """C4: found out in a thread, and asked again at the next request."""
    async with requests_to(config("http://name.invalid/mcp")) as requests:
        for _ in range(2):
            with pytest.raises(Unreachable):
                await ask(requests, "http://name.invalid/mcp")


async def test_a_name_that_moves_to_another_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """C2: a name is looked up once for many connections, and anew after none of its addresses answered."""
    looks: list[int] = []

    async def look_up(host: str, port: int, **options: Any) -> list[Any]:
        looks.append(int(there.url.split(":")[2].partition("/")[0]))
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("127.0.0.1", looks[-1]))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", look_up)
    url = "http://moving.example/mcp"
    async with requests_to(config(url)) as requests:
        async with listening(SocketServer()) as there:
            assert await asyncio.gather(*(ask(requests, url) for _ in range(3))) == [b"{}"] * 3
        assert len(looks) == 1
        async with listening(SocketServer()) as there:
            with pytest.raises(Unreachable):
                await ask(requests, url)
            assert await ask(requests, url) == b"{}"
            assert await ask(requests, url) == b"{}"
        assert len(looks) == 2


async def test_a_connection_that_is_never_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    """C4: bounded by `limits.connect_timeout`."""

    async def hang(*args: Any, **options: Any) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr("aiohappyeyeballs.start_connection", hang)
    async with requests_to(config("http://127.0.0.1:9/mcp", limits={"connect_timeout": 0.02})) as requests:
        with pytest.raises(HttpFailure, match="timed out") as caught:
            await ask(requests, "http://127.0.0.1:9/mcp")
        assert not isinstance(caught.value, Unreachable)


async def test_a_server_that_speaks_first() -> None:
    """C8: its bytes are no answer."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(OK + OK)
        await reader.read()

    server = SocketServer(serve)
    async with listening(server), plain(server) as requests:
        for _ in range(3):
            try:
                async with requests.send("POST", server.url, {}, b"{}") as response:
                    assert response.status == 200
            except HttpFailure:
                continue
        assert not requests._idle


async def test_a_cancelled_request_closes_its_connection() -> None:
    """A8: while it connects, waits for a head, and reads a body."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.request(reader)
        writer.write(server.response)
        asked.set()
        await reader.read()
        ended.set()

    server, asked, ended = SocketServer(serve), asyncio.Event(), asyncio.Event()
    async with listening(server), plain(server) as requests:
        for server.response in (b"", OK[:30], OK[:-1]):
            asked.clear()
            ended.clear()
            asking = asyncio.ensure_future(ask(requests, server.url))
            await asked.wait()
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            async with asyncio.timeout(5):
                await ended.wait()
        asking = asyncio.ensure_future(ask(requests, server.url))
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await until(lambda: not requests._connections, "all are closed")


async def test_the_end_closes_everything() -> None:
    """A8: what waits is told, what is idle is closed, nothing is sent any more."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.request(reader)
        await reader.read()

    server = SocketServer(serve)
    async with listening(server):
        async with plain(server) as requests:
            asking = asyncio.ensure_future(ask(requests, server.url))
            await until(lambda: server.heads, "it was asked")
        with pytest.raises(HttpFailure, match="ended"):
            await asking
        assert requests.closed
        with pytest.raises(HttpFailure, match="closed"):
            await ask(requests, server.url)


async def test_a_request_that_is_not_read_and_answered_early() -> None:
    """C3, C8: the answer counts; the rest of the request is dropped with its connection."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK.replace(b"200 OK", b"413 Large"))
        await asyncio.Event().wait()

    server = SocketServer(serve)
    async with listening(server), plain(server) as requests:
        async with requests.send("POST", server.url, {}, b"x" * 30_000_000) as response:
            assert response.status == 413
        await until(lambda: not requests._connections, "it is closed")


async def test_fields_that_come_twice() -> None:
    """C8: the second field of a list goes on with the first (RFC 9110 5.2); of another name, the first counts."""
    twice: Final = {
        "connection: close\r\nconnection: x-a": (b"{}", 2),
        "connection: x-a\r\nconnection: close": (b"{}", 2),
        "content-encoding: gzip\r\ncontent-encoding: gzip": None,
        "content-encoding: gzip\r\ncontent-encoding: identity": None,
        "content-type: text/plain\r\ncontent-type: text/html": (b"{}", 1),
        "www-authenticate: Bearer\r\nwww-authenticate: Basic": (b"{}", 1),
    }
    for fields, wanted in twice.items():
        server = SocketServer()
        server.response = OK.replace(b"content-type: application/json", fields.encode())
        async with listening(server), plain(server) as requests:
            if wanted is None:
                with pytest.raises(HttpFailure, match="content encoding that was not asked for"):
                    await ask(requests, server.url)
                continue
            assert (await ask(requests, server.url), await ask(requests, server.url)) == (wanted[0], wanted[0]), fields
            assert server.connections == wanted[1], fields
            async with requests.send("POST", server.url, {}, b"") as response:
                if "www" in fields:
                    assert web.challenges_of(response) == ["Bearer, Basic"]
                if "content-type" in fields:
                    assert response.headers["content-type"] == "text/plain"


async def test_bodies_that_stand_for_very_many_bytes() -> None:
    """C3, D11: the bound is on what is decoded."""
    server = SocketServer()
    data = gzip.compress(b" " * 50_000_000)
    server.response = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n%b" % (len(data), data)
    fields = config("http://127.0.0.1/", limits={"max_message_bytes": 1_000_000})
    async with listening(server), plain(server) as requests:
        with pytest.raises(UpstreamBadAnswer, match=r"`limits\.max_message_bytes`"):
            async with requests.send("POST", server.url, {}, b"") as response:
                await web.read_bounded(response, fields)


# -- beside aiohttp

VALID: Final = [
    OK,
    OK.replace(b"\r\n", b"\n"),
    b"HTTP/1.1 100 Continue\r\n\r\n" + OK,
    b"HTTP/1.0 200 OK\r\ncontent-type: application/json\r\n\r\n{}",
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2;x=y\r\n{}\r\n0\r\nx-t: 1\r\n\r\n",
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: identity\r\n\r\n{}",
    b"HTTP/1.1 404 Not Found\r\nconnection: close\r\ncontent-length: 3\r\n\r\nno!",
    b"HTTP/1.1 204 No Content\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nx-a:\r\nx-b: 1\r\n 2\r\ncontent-length: 5\r\n\r\nhello",
    b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n" + gzip.compress(b"hello", mtime=0),
]
ODD: Final = b"\r\n \t:;,0159aAzfF\xff-+"


@st.composite
def nearly_valid(draw: st.DrawFn) -> bytes:
    """A response, with up to two bytes that are others, too many or too few."""
    data = bytearray(draw(st.sampled_from(VALID)))
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(data) - 1))
        how = draw(st.sampled_from(("replace", "insert", "delete")))
        data[at : at + (how != "insert")] = b"" if how == "delete" else bytes([draw(st.sampled_from(ODD))])
    return bytes(data)


@settings(max_examples=examples(150), deadline=None)
@given(data=nearly_valid())
def test_both_clients_read_the_same(data: bytes) -> None:
    """C8: the end of a body is where aiohttp finds it, or there is no response. aiohttp refuses bytes behind it."""

    async def read(requests: HttpRequests, url: str) -> tuple[int, bytes] | None:
        try:
            async with asyncio.timeout(10), requests.send("POST", url, {}, b"") as response:
                return response.status, b"".join([part async for part in response.parts()])
        except TimeoutError:
            raise AssertionError("it hangs") from None
        except OSError:
            return None

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.request(reader)
        writer.write(data)
        writer.write_eof()
        await reader.read()

    async def run() -> None:
        async with listening(server):
            where = config(server.url)
            url = plain_url(where)
            assert url is not None
            async with open_plain(where, url) as ours, open_aiohttp(where) as theirs:
                mine, other = await read(ours, server.url), await read(theirs, server.url)
        if mine is not None and other is not None:
            assert mine == other
        elif other is not None:
            # We are stricter with an encoding that cannot be decoded, and with a status below 100.
            assert b"ncoding" in data or other[0] < 100

    server = SocketServer(serve)
    asyncio.run(run())
