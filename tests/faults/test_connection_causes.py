"""Connections to HTTP servers that do not come about: real servers, with and without TLS, and one sentence for each."""

import asyncio
import errno
import socket
import ssl
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from aggregator.accounts.oauth.fetch import FetchFailed, GuardedFetch
from aggregator.config.client_tls import ServerTlsConfig
from aggregator.doctor.checks.servers import ServerFacts, of_servers
from aggregator.doctor.codes import CODES
from aggregator.domain.connection_causes import CAUSES, cause_in, cause_of, cause_of_status
from tests.deploy.authority import Authority, self_signed
from tests.peers.sdk import http_app, sse_app
from tests.peers.serving import serving

from .app_harness import running_app, server_config

PAGE: Final = b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 15\r\n\r\n<!doctype html>"
NGINX: Final = b"<html><center>The plain HTTP request was sent to HTTPS port</center></html>"


@dataclass(frozen=True)
class Site:
    """The certificates of a test, and servers with them."""

    authority: Authority
    folder: Path

    def context(self, name: str = "localhost", **more: Any) -> ssl.SSLContext:
        """Return the TLS settings of a server with a certificate of the authority."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.authority.give(self.folder / name, name, **more))
        return context

    def self_signed(self) -> tuple[ssl.SSLContext, Path]:
        """Return the TLS settings of a server whose certificate signs itself, and the file of that."""
        files = self_signed(self.folder / "own")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*files)
        return context, files[0]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(Authority(tmp_path / "authority"), tmp_path)


@asynccontextmanager
async def answering(answer: bytes, context: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """Serve these bytes to each request, and yield the port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if await reader.read(65_536):
                writer.write(answer)
                await writer.drain()
        except (ConnectionError, ssl.SSLError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1]


@asynccontextmanager
async def behind_tls(url: str, context: ssl.SSLContext) -> AsyncIterator[int]:
    """Pass a port with TLS on to a server without, and yield the port."""
    host, _, port = url.removeprefix("http://").partition("/")[0].partition(":")

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
        except (ConnectionError, ssl.SSLError):
            pass
        finally:
            writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind_reader, behind_writer = await asyncio.open_connection(host, int(port))
        await asyncio.gather(pipe(reader, behind_writer), pipe(behind_reader, writer))

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1]


@contextmanager
def refusing(context: ssl.SSLContext) -> Iterator[int]:
    """Make handshakes in a thread, as servers other than asyncio's do: a refusal reaches the client. Yield the port."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with suppress(OSError):
            while True:
                accepted, _ = listener.accept()
                with suppress(OSError), accepted, context.wrap_socket(accepted, server_side=True) as secure:
                    secure.recv(65_536)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(10)


async def reason_of(url: str, **fields: Any) -> str:
    """Return why a server at this address cannot be used."""
    async with running_app(server_config("box", url=url, **{"type": "http"} | fields)) as harness:
        return harness.upstream("box").reason or ""


async def fetch_reason(url: str) -> str:
    """Return why a request about OAuth to this address fails."""
    with pytest.raises(FetchFailed) as failed:
        await GuardedFetch().within(url).get(url)
    return failed.value.reason


TLS: Final[dict[str, Callable[[Site], ssl.SSLContext]]] = {
    "self_signed": lambda site: site.self_signed()[0],
    "unknown_ca": lambda site: site.context(),
    "expired": lambda site: site.context(days=-1),
    "wrong_name": lambda site: site.context("other.example", address=None),
}


@pytest.mark.parametrize("name", TLS)
@pytest.mark.parametrize("kind", ["http", "sse", "auto"])
async def test_a_certificate_that_is_refused(site: Site, name: str, kind: str) -> None:
    """F8: the server's state and OAuth requests to it say the same, with what to do."""
    fields = {"tls": ServerTlsConfig(ca=str(site.authority.file))} if name not in ("self_signed", "unknown_ca") else {}
    async with answering(PAGE, TLS[name](site)) as port:
        url = f"https://localhost:{port}/mcp"
        assert CAUSES[name].words in await reason_of(url, type=kind, **fields)
        if not fields:
            assert CAUSES[name].words in await fetch_reason(url)


async def test_https_at_a_port_without_tls() -> None:
    async with answering(PAGE) as port:
        assert CAUSES["tls_on_plain"].words in await reason_of(f"https://127.0.0.1:{port}/mcp")
        assert CAUSES["tls_on_plain"].words in await fetch_reason(f"https://127.0.0.1:{port}/mcp")


@pytest.mark.parametrize("kind", ["http", "sse", "auto"])
async def test_http_at_a_port_with_tls(site: Site, kind: str) -> None:
    async with answering(PAGE, site.context()) as port:
        assert CAUSES["plain_on_tls"].words in await reason_of(f"http://127.0.0.1:{port}/mcp", type=kind)


@pytest.mark.parametrize("kind", ["http", "auto"])
async def test_a_web_server_that_says_that_it_wants_tls(kind: str) -> None:
    """F8: as nginx answers a request without TLS; the older transport is not tried."""
    answer = b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/html\r\ncontent-length: %d\r\n\r\n" % len(NGINX) + NGINX
    async with answering(answer) as port:
        assert CAUSES["plain_on_tls"].words in await reason_of(f"http://127.0.0.1:{port}/mcp", type=kind)


@pytest.mark.parametrize(
    ("answer", "kind", "name"),
    [
        (PAGE, "http", "web_page"),
        (PAGE, "sse", "web_page"),
        (PAGE, "auto", "web_page"),
        (PAGE.replace(b"html", b"plain", 1), "http", "not_mcp"),
        (b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n", "http", "no_path"),
        (b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n", "auto", "no_path"),
        (b"HTTP/1.1 405 No\r\ncontent-length: 0\r\n\r\n", "http", "no_post"),
        (b"HTTP/1.1 405 No\r\ncontent-length: 0\r\n\r\n", "sse", "no_events"),
        (b"HTTP/1.1 501 No\r\ncontent-length: 0\r\n\r\n", "http", "no_post"),
        (b"HTTP/1.1 502 No\r\ncontent-length: 0\r\n\r\n", "http", "bad_gateway"),
        (
            b"HTTP/1.1 400 No\r\ncontent-length: 37\r\n\r\nNo required SSL certificate was sent\n",
            "http",
            "client_certificate",
        ),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "http", "not_http"),
        (b"", "http", "ended"),
    ],
)
async def test_an_answer_that_is_no_mcp(answer: bytes, kind: str, name: str) -> None:
    async with answering(answer) as port:
        assert CAUSES[name].words in await reason_of(f"http://127.0.0.1:{port}/mcp", type=kind)


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_name_and_a_port_that_are_not_there(scheme: str) -> None:
    assert CAUSES["name_unknown"].words in await reason_of(f"{scheme}://no-such-host.invalid/mcp")
    # A reference may make a name that cannot be looked up at all.
    for name in ("a..b", ".b", f"{'a' * 64}.b"):
        assert CAUSES["name_unknown"].words in await reason_of(f"{scheme}://{name}/mcp")
    assert CAUSES["refused"].words in await reason_of(f"{scheme}://127.0.0.1:1/mcp")


@pytest.mark.parametrize("kind", ["http", "sse", "auto"])
async def test_a_server_with_an_authority_of_its_own(site: Site, kind: str) -> None:
    """C3: `tls.ca` makes a private authority count for that server, over both transports, and a call goes through."""
    app, path = (sse_app(), "/sse") if kind == "sse" else (http_app(), "/mcp")
    async with serving(app) as inner, behind_tls(inner, site.context()) as port:
        url = f"https://localhost:{port}{path}"
        server = server_config("box", url=url, type=kind, tls=ServerTlsConfig(ca=str(site.authority.file)))
        async with running_app(server) as harness:
            assert harness.upstream("box").state == "ready", harness.upstream("box").reason
            assert "box.echo" in harness.tools()


async def test_a_certificate_that_signs_itself_can_be_trusted(site: Site) -> None:
    context, file = site.self_signed()
    async with answering(PAGE, context) as port:
        said = await reason_of(f"https://localhost:{port}/mcp", tls=ServerTlsConfig(ca=str(file)))
        assert CAUSES["web_page"].sentence in said, said


async def test_a_server_that_wants_a_certificate_of_ours(site: Site) -> None:
    """C3: without one the sentence says so; with `tls.client_cert` the call goes through; a wrong file is named."""
    context = site.context()
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(site.authority.file)
    certificate, key = site.authority.give(site.folder / "client", "client", password="open sesame")
    ours = {"client_cert": str(certificate), "client_key": str(key)}
    ca = str(site.authority.file)
    async with serving(http_app()) as inner, behind_tls(inner, context) as port:
        url = f"https://localhost:{port}/mcp"
        with refusing(context) as refusing_port:
            bare = f"https://localhost:{refusing_port}/mcp"
            said = await reason_of(bare, tls=ServerTlsConfig(ca=ca))
        # From CPython 3.12 on the alert after the handshake of TLS 1.3 may be lost with the connection.
        told = ["client_certificate"] if sys.version_info < (3, 12) else ["client_certificate", "ended"]
        assert any(CAUSES[cause].words in said for cause in told), said
        wrong = ServerTlsConfig(ca=ca, **ours)
        assert "the password of the key is wrong or missing" in await reason_of(url, tls=wrong)
        tls = ServerTlsConfig(ca=ca, client_key_password="open sesame", **ours)
        async with running_app(server_config("box", url=url, type="http", tls=tls)) as harness:
            assert harness.upstream("box").state == "ready", harness.upstream("box").reason


@pytest.mark.parametrize("setting", ["ca", "client_cert"])
async def test_a_file_of_tls_that_cannot_be_used(tmp_path: Path, setting: str) -> None:
    """B4: the setting and the file are named; one that is no certificate too."""
    file = tmp_path / "here.pem"
    said = await reason_of("https://localhost:1/mcp", tls=ServerTlsConfig(**{setting: str(file)}))
    assert f"`tls.{setting}`" in said
    assert str(file) in said
    assert "No such file" in said
    file.write_text("no certificate")
    said = await reason_of("https://localhost:1/mcp", tls=ServerTlsConfig(**{setting: str(file)}))
    assert f"`tls.{setting}`: {file}" in said


async def test_oauth_requests_trust_the_authority_of_the_server_and_show_our_certificate_to_it_alone(
    site: Site,
) -> None:
    """C3: the authority counts at the issuer of the server too; our certificate stays with the server."""
    seen: dict[str, object] = {}

    @asynccontextmanager
    async def asking(name: str) -> AsyncIterator[int]:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            seen[name] = writer.get_extra_info("ssl_object").getpeercert()
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
            await writer.drain()
            writer.close()

        context = site.context()
        context.verify_mode = ssl.CERT_OPTIONAL
        context.load_verify_locations(site.authority.file)
        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
        async with server:
            yield server.sockets[0].getsockname()[1]

    certificate, key = site.authority.give(site.folder / "client", "client")
    tls = ServerTlsConfig(ca=str(site.authority.file), client_cert=str(certificate), client_key=str(key))
    async with asking("server") as port, asking("issuer") as other:
        server, issuer = f"https://localhost:{port}/mcp", f"https://localhost:{other}/"
        fetch = GuardedFetch().within(server, None, tls).within(issuer)
        assert (await fetch.get(server)).status == 200
        assert (await fetch.get(issuer)).status == 200
        with pytest.raises(FetchFailed):
            await GuardedFetch().within(server).get(server)
    assert seen["server"]
    assert not seen["issuer"]


# -- the table itself, and the doctor


@pytest.mark.parametrize("name", CAUSES)
def test_the_doctor_has_a_code_and_the_mend_for_each_cause(name: str) -> None:
    """E9: the sentence stands in the message, the mend in the fix."""
    cause = CAUSES[name]
    facts = ServerFacts(
        "box", "http", "a.json: mcpServers.box", "unavailable", reason=f"cannot be reached: {cause.words}"
    )
    (finding,) = of_servers([facts])
    assert finding.code in CODES
    assert finding.code != "server_down"
    assert cause.sentence in finding.message
    assert cause.mend not in finding.message
    assert (finding.fix or "").lower().startswith(cause.mend.lower())


def test_no_sentence_holds_another() -> None:
    assert all(cause_in(cause.sentence) is cause for cause in CAUSES.values())
    assert cause_in("its process ended") is None


def _verification(code: int) -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_code = code
    return error


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (_verification(9), "not_yet_valid"),
        (_verification(19), "unknown_ca"),
        (_verification(21), "unknown_ca"),
        (_verification(64), "wrong_name"),
        (_verification(26), "bad_certificate"),
        (OSError(errno.EHOSTUNREACH, "x"), "no_route"),
        (OSError(errno.ENETUNREACH, "x"), "no_route"),
        (OSError(errno.ETIMEDOUT, "x"), "silent"),
        (ConnectionResetError(), "ended"),
        (ssl.SSLError(1, "[SSL: TLSV1_ALERT_PROTOCOL_VERSION] tlsv1 alert protocol version"), "tls_version"),
        (ssl.SSLError(1, "[SSL: SSLV3_ALERT_HANDSHAKE_FAILURE] x"), "handshake"),
        (ssl.SSLError(1, "[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] x"), "client_certificate"),
        (ssl.SSLError(1, "[SSL: SOMETHING_NEW] x"), "tls_other"),
    ],
)
def test_errors_of_the_system_and_of_openssl(error: Exception, name: str) -> None:
    assert cause_of(error) is CAUSES[name]
    outer = OSError("wrapped")
    outer.__cause__ = error
    assert cause_of(outer) is CAUSES[name]


def test_other_errors_and_statuses_have_no_cause() -> None:
    assert cause_of(ValueError()) is None
    assert cause_of(OSError(errno.EACCES, "x")) is None
    assert cause_of_status(500) is None
    assert cause_of_status(400) is None
    assert cause_of_status(504) is CAUSES["bad_gateway"]
    assert cause_of_status(407) is CAUSES["proxy_login"]
