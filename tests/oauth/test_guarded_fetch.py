"""A guarded fetch goes where the operator allowed, and nowhere else; what comes back has bounds."""

import asyncio
import gzip
import socket
import ssl
from collections.abc import Sequence
from ipaddress import ip_address
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.accounts.oauth import fetch as fetching
from aggregator.accounts.oauth.fetch import BODY_AT_MOST, FetchFailed, GuardedFetch
from aggregator.accounts.oauth.targets import BadTarget, kind_of, read_target
from aggregator.config.client_tls import ServerTlsConfig
from tests.deploy.authority import Authority
from tests.oauth.corpus import ADDRESSES, NAMES
from tests.oauth.site import Site


async def _name_service(host: str, port: int) -> Sequence[str]:
    if host not in NAMES:
        raise OSError("no such name")
    return NAMES[host]


@pytest.mark.parametrize("url", ADDRESSES)
async def test_no_request_reaches_a_private_network(url: str, connections: list[tuple[str, int]]) -> None:
    for fetch in (
        GuardedFetch(resolve=_name_service),
        # A server elsewhere allows no more; nor does one on another port of this machine, for what is not this machine.
        GuardedFetch(resolve=_name_service).within("https://mcp.example.com/mcp"),
    ):
        with pytest.raises(FetchFailed):
            await fetch.get(url)
    assert connections == []


def test_the_corpus_is_large() -> None:
    assert len(ADDRESSES) >= 100


@pytest.mark.parametrize("url", ["https://private.example.com/", "https://10.0.0.1/", "https://169.254.169.254/"])
async def test_a_server_on_this_machine_opens_no_other_network(url: str, connections: list[tuple[str, int]]) -> None:
    with pytest.raises(FetchFailed):
        await GuardedFetch(resolve=_name_service).within("http://127.0.0.1:8000/mcp").get(url)
    assert connections == []


async def test_a_server_on_this_machine_may_name_this_machine(site: Site, connections: list[tuple[str, int]]) -> None:
    site.say("/x", {"a": 1})
    fetch = GuardedFetch().within("http://localhost:1/mcp")
    answer = await fetch.get(f"{site.url}/x?y=%2F")
    assert answer.json() == {"a": 1}
    assert [address for address, _ in connections] == ["127.0.0.1"]
    with pytest.raises(FetchFailed, match="not https"):
        await GuardedFetch().get(f"{site.url}/x")


async def test_the_operator_may_forbid_plain_http_here(site: Site) -> None:
    with pytest.raises(FetchFailed, match="not https"):
        await GuardedFetch(http_allowed_here=False).within(site.url).get(f"{site.url}/x")


async def test_a_name_is_resolved_once_and_the_connection_goes_to_what_was_checked(
    site: Site, connections: list[tuple[str, int]]
) -> None:
    """A name service that answers differently the second time (rebinding) is not asked a second time."""
    answers = [["127.0.0.1"], ["10.0.0.1"]]
    asked: list[str] = []

    async def rebinding(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return answers.pop(0)

    site.say("/x", {"a": 1})
    port = site.url.rpartition(":")[2]
    fetch = GuardedFetch(["as.example.com"], resolve=rebinding)
    assert (await fetch.get(f"http://as.example.com:{port}/x")).status == 200
    assert asked == ["as.example.com"]
    assert [address for address, _ in connections] == ["127.0.0.1"]
    assert site.asked[0].headers["host"] == f"as.example.com:{port}"


async def test_the_hosts_of_the_operator_are_allowed() -> None:
    refused = GuardedFetch(resolve=_name_service)
    for listed in (["private.example.com"], ["10.0.0.0/8"], ["10.1.2.3"]):
        fetch = GuardedFetch(listed, resolve=_name_service)
        assert await fetch.addresses("https://private.example.com/") == ("10.1.2.3",)
    with pytest.raises(FetchFailed, match=r"a private network \(10\.1\.2\.3\); list it in `auth.private_hosts`"):
        await refused.get("https://private.example.com/?secret=1")


async def test_the_configured_address_itself_may_be_private_and_nothing_beside_it() -> None:
    fetch = GuardedFetch(resolve=_name_service).within("https://private.example.com/mcp")
    assert await fetch.addresses("https://private.example.com/.well-known/x") == ("10.1.2.3",)
    with pytest.raises(FetchFailed):
        await fetch.addresses("https://private.example.com:6379/")
    loopback = GuardedFetch(resolve=_name_service).within("https://loopback.example.com/mcp")
    with pytest.raises(FetchFailed):
        await loopback.get("https://loopback.example.com/")


@pytest.mark.parametrize("location", ["http://127.0.0.1:9/x?token=abc", "https://example.com/", "//evil/", "", "\\\\x"])
async def test_no_redirect_is_followed(site: Site, location: str, connections: list[tuple[str, int]]) -> None:
    site.say("/x", {}, 302, {"location": location})
    with pytest.raises(FetchFailed, match="which is not followed") as failed:
        await GuardedFetch().within(site.url).get(f"{site.url}/x")
    assert failed.value.redirect is not None
    assert "abc" not in failed.value.reason
    assert len(connections) == 1


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b"x" * (BODY_AT_MOST + 1), {}),
        (gzip.compress(b"x" * (BODY_AT_MOST + 1), mtime=0), {"content-encoding": "gzip"}),
        (b"no gzip at all", {"content-encoding": "gzip"}),
        (gzip.compress(b"{}", mtime=0), {"content-encoding": "br"}),
    ],
)
async def test_a_body_has_bounds(site: Site, body: bytes, headers: dict[str, str]) -> None:
    site.say("/x", body, 200, headers)
    with pytest.raises(FetchFailed):
        await GuardedFetch().within(site.url).get(f"{site.url}/x")


async def test_a_compressed_body_is_read(site: Site) -> None:
    site.say("/x", gzip.compress(b'{"a": 1}'), 200, {"content-encoding": "gzip"})
    assert (await GuardedFetch().within(site.url).get(f"{site.url}/x")).json() == {"a": 1}


@pytest.mark.parametrize("body", [b"", b"[]", b"nul", b"[" * 100_000, b"\xff", b'"x"', b"1" * 100_000])
async def test_what_is_no_object_is_told_so(site: Site, body: bytes) -> None:
    site.say("/x", body)
    answer = await GuardedFetch().within(site.url).get(f"{site.url}/x")
    with pytest.raises(FetchFailed, match="not"):
        answer.json()


async def test_nothing_of_a_request_is_kept_for_the_next(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """No cookies, and no proxy of the environment."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    site.say("/x", {}, 200, {"set-cookie": "a=b; Path=/"})
    fetch = GuardedFetch().within(site.url)
    await fetch.get(f"{site.url}/x")
    await fetch.get(f"{site.url}/x")
    assert all("cookie" not in asked.headers for asked in site.asked)


async def test_a_proxy_of_the_operator_is_used(site: Site) -> None:
    site.say("/x", {"by": "proxy"})
    fetch = GuardedFetch(["as.internal"], resolve=_name_service).within("https://mcp.example.com/", proxy=site.url)
    # Through a proxy, names are the proxy's to know.
    answer = await fetch.get("http://as.internal/x")
    assert answer.json() == {"by": "proxy"}


async def test_silence_and_noise_are_failures_that_may_pass(connections: list[tuple[str, int]]) -> None:
    async def noise(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"SSH-2.0-nothing\r\n")
        writer.close()

    server = await asyncio.start_server(noise, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        with pytest.raises(FetchFailed):
            await GuardedFetch().within(url).get(url)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/?code=hidden"
        with pytest.raises(FetchFailed, match="nothing listens there") as failed:
            await GuardedFetch().within(url).get(url)
    assert failed.value.transient
    assert "hidden" not in failed.value.reason


async def test_tls_is_of_the_name_that_was_asked_for(tmp_path: Path) -> None:
    """The connection goes to the checked address, and the certificate has to be the name's."""
    names: list[str | None] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
        writer.close()

    async def resolve(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.1"]

    authority = Authority(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.give(tmp_path, "as.example.com"))
    context.sni_callback = lambda _, name, __: names.append(name)
    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    async with server:
        port = server.sockets[0].getsockname()[1]
        fetch = GuardedFetch(["as.example.com", "other.example.com"], resolve=resolve, tls=authority.trust())
        assert (await fetch.get(f"https://as.example.com:{port}/")).status == 200
        with pytest.raises(FetchFailed, match="certificate"):
            await fetch.get(f"https://other.example.com:{port}/")
        with pytest.raises(FetchFailed, match="certificate"):
            await GuardedFetch(["as.example.com"], resolve=resolve).get(f"https://as.example.com:{port}/")
    assert names == ["as.example.com", "other.example.com", "as.example.com"]


@given(st.ip_addresses(v=4))
def test_only_what_the_registry_calls_global_is_public(address: object) -> None:
    found = ip_address(str(address))
    if kind_of(found) == "public":
        assert found.is_global
        assert not found.is_multicast


@given(st.ip_addresses(v=4), st.sampled_from(["::ffff:{}", "::{}", "64:ff9b::{}"]))
def test_an_address_inside_another_is_of_no_better_kind(inner: object, form: str) -> None:
    outer = ip_address(form.format(inner))
    if kind_of(ip_address(str(inner))) != "public":
        assert kind_of(outer) != "public"


@given(st.text(max_size=40))
def test_whatever_is_read_as_a_host_is_plain(text: str) -> None:
    try:
        target = read_target(f"https://{text}")
    except BadTarget:
        return
    assert target.host.isascii()
    assert not set(target.host) & set("@/\\?#% \t\r\n")


@pytest.mark.parametrize("own", [False, True])
def test_our_certificate_is_for_the_server_it_is_configured_for(own: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for its issuer, which is asked from the server's entry, unless that names one for it too."""
    shown: list[bool] = []
    monkeypatch.setattr(fetching, "client_context", lambda tls, with_certificate: shown.append(with_certificate))
    tls = ServerTlsConfig(client_cert="c.pem", client_key="k.pem")
    fetch = GuardedFetch().within("https://mcp.example.com/mcp", tls=tls)
    fetch = fetch.within("https://as.example.com", tls=tls if own else None)
    for url in ("https://mcp.example.com/mcp", "https://as.example.com/token", "https://mcp.example.com:444/mcp"):
        fetch._trust.context(read_target(url))
    assert shown == [not own, own, False]
    assert fetch._trust.context(read_target("http://mcp.example.com/mcp")) is None
    assert len(shown) == 3
