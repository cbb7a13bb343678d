"""Where a request comes from: what proxies write, and what anybody writes who wants to be taken for somebody else."""

from ipaddress import ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.domain.uris.addresses import parse_network
from aggregator.identity.source import ClientSource, source_of

Lines = list[tuple[bytes, bytes]]
HERE = "127.0.0.1"
TRUSTED = tuple(map(parse_network, ("127.0.0.1", "10.0.0.0/8", "2001:db8:ffff::/48")))


def asked(
    *lines: tuple[str, str], peer: str | None = HERE, host: str = "127.0.0.1:8642", http: str = "1.1"
) -> ClientSource:
    sent = [(name.lower().encode(), value.encode("latin-1")) for name, value in lines]
    return source_of(peer, host, http, [(b"host", host.encode()), (b"accept", b"*/*"), *sent], TRUSTED)


@pytest.mark.parametrize("peer", ["127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1"])
@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:8642", "[::1]:8642", "127.9.9.9"])
def test_this_machine_is_local(peer: str, host: str) -> None:
    assert asked(peer=peer, host=host).local


@pytest.mark.parametrize("peer", ["10.0.0.1", "192.0.2.1", "2001:db8::1", "::ffff:10.0.0.1", "", None, "localhost.x"])
def test_another_machine_is_not(peer: str | None) -> None:
    assert not asked(peer=peer).local


@pytest.mark.parametrize(
    "host",
    ["tools.example.com", "0.0.0.0", "10.0.0.1", "localhost.example.com", "", "[::2]", "1"],  # noqa: S104
)
def test_what_names_another_host_came_by_way_of_somebody(host: str) -> None:
    """Proves: D4. A proxy that adds no header but passes on the name it was asked for."""
    assert not asked(host=host).local


MARKS = [
    "X-Forwarded-For",
    "X-Forwarded-Host",
    "X-Forwarded-Proto",
    "X-Forwarded-Port",
    "X-Forwarded-Prefix",
    "X-Forwarded-Server",
    "X-Forwarded",
    "X-Forwarded-Client-Cert",
    "X_Forwarded_For",
    "Forwarded",
    "Via",
    "X-Real-IP",
    "X_Real_IP",
    "CF-Connecting-IP",
    "CF-Ray",
    "True-Client-IP",
    "X-Client-IP",
    "X-Cluster-Client-IP",
    "Fastly-Client-IP",
    "Fly-Client-IP",
    "X-Original-Forwarded-For",
    "X-Envoy-External-Address",
    "CDN-Loop",
    "Tailscale-User-Login",
    "X-Forwarded-Something-New",
]


@pytest.mark.parametrize("name", MARKS)
@pytest.mark.parametrize("value", ["8.8.8.8", "127.0.0.1", "for=127.0.0.1", ""])
def test_what_was_passed_on_is_not_local(name: str, value: str) -> None:
    """Proves: D4. Whatever the header says, and though the proxy on this machine is trusted."""
    assert not asked((name, value)).local


def test_a_proxy_without_any_setting_speaks_an_old_http() -> None:
    """Proves: D4. nginx with nothing but `proxy_pass`: no header, our own address as `Host`, HTTP/1.0."""
    assert not asked(http="1.0").local


# What a trusted proxy at 127.0.0.1 sends, and the client's address as far as it is known.
CHAINS: list[tuple[list[tuple[str, str]], str]] = [
    ([("X-Forwarded-For", "192.0.2.1")], "192.0.2.1"),
    ([("X-Forwarded-For", "127.0.0.1")], "127.0.0.1"),
    ([("X-Forwarded-For", "6.6.6.6, 192.0.2.1")], "192.0.2.1"),
    ([("X-Forwarded-For", "6.6.6.6,192.0.2.1, 10.1.1.1,10.2.2.2")], "192.0.2.1"),
    ([("X-Forwarded-For", "6.6.6.6"), ("X-Forwarded-For", "192.0.2.1"), ("X-Forwarded-For", "10.1.1.1")], "192.0.2.1"),
    ([("X-Forwarded-For", "10.3.3.3, 10.1.1.1")], "10.3.3.3"),
    ([("X-Forwarded-For", " 192.0.2.1:4711 ")], "192.0.2.1"),
    ([("X-Forwarded-For", "2001:db8::1")], "2001:db8::1"),
    ([("X-Forwarded-For", "[2001:DB8::1]:4711")], "2001:db8::1"),
    ([("X-Forwarded-For", '"[2001:db8::1]"')], "2001:db8::1"),
    ([("X-Forwarded-For", "::ffff:192.0.2.1")], "192.0.2.1"),
    ([("X-Forwarded-For", "192.0.2.1, , 10.1.1.1,")], "192.0.2.1"),
    ([("X-Forwarded-For", "192.0.2.1, unknown")], "127.0.0.1"),
    ([("X-Forwarded-For", "192.0.2.1, unknown, 10.1.1.1")], "10.1.1.1"),
    ([("X-Forwarded-For", "192.0.2.1, evil.example.com")], "127.0.0.1"),
    ([("X-Forwarded-For", "127.1")], "127.0.0.1"),
    ([("X-Forwarded-For", "0x7f000001")], "127.0.0.1"),
    ([("X-Forwarded-For", "192.0.02.1")], "127.0.0.1"),
    ([("X-Forwarded-For", "[2001:db8::1]x")], "127.0.0.1"),
    ([("X-Forwarded-For", "")], "127.0.0.1"),
    ([("X-Forwarded-For", "192.0.2.1," * 40 + "10.1.1.1," * 100)], "10.1.1.1"),
    ([("X-Forwarded-For", "192.0.2.1," * 1_000)], "127.0.0.1"),
    ([("Forwarded", "for=192.0.2.1")], "192.0.2.1"),
    ([("Forwarded", "for=6.6.6.6, For=192.0.2.1;proto=https;by=10.0.0.1")], "192.0.2.1"),
    ([("Forwarded", "for=6.6.6.6"), ("Forwarded", "proto=http;for=192.0.2.1 , for=10.1.1.1")], "192.0.2.1"),
    ([("Forwarded", 'for="192.0.2.1:4711"')], "192.0.2.1"),
    ([("Forwarded", 'for="[2001:db8::1]:4711";host="a,b;c=\\"d"')], "2001:db8::1"),
    ([("Forwarded", r'for="192.0.2\.1"')], "192.0.2.1"),
    ([("Forwarded", "for=192.0.2.1, for=unknown")], "127.0.0.1"),
    ([("Forwarded", 'for=192.0.2.1, for="_hidden"')], "127.0.0.1"),
    ([("Forwarded", "for=192.0.2.1, for=_SEVKISEK, for=10.1.1.1")], "10.1.1.1"),
    ([("Forwarded", "for=192.0.2.1, proto=https")], "127.0.0.1"),
    ([("Forwarded", 'for="192.0.2.1')], "127.0.0.1"),
    ([("Forwarded", 'for=192.0.2.1, for="x", "for=6.6.6.6"')], "127.0.0.1"),
    ([("Forwarded", "192.0.2.1")], "127.0.0.1"),
    ([("Forwarded", "for=192.0.2.1;x=" + "y" * 9_000)], "127.0.0.1"),
    ([("X-Forwarded-For", "192.0.2.1"), ("Forwarded", "for=192.0.2.1")], "192.0.2.1"),
    ([("X-Forwarded-For", "6.6.6.6"), ("Forwarded", "for=192.0.2.1")], "127.0.0.1"),
    ([("X-Real-IP", "6.6.6.6")], "127.0.0.1"),
]


@pytest.mark.parametrize(("lines", "address"), CHAINS)
def test_the_client_is_the_rightmost_hop_that_is_not_trusted(lines: list[tuple[str, str]], address: str) -> None:
    """Proves: D4. As far as proxies say that are believed, and no further; local it never is."""
    found = asked(*lines)
    assert found.address == address
    assert found.by_trusted
    assert not found.local


@pytest.mark.parametrize(("lines", "_address"), CHAINS)
def test_nobody_else_is_believed(lines: list[tuple[str, str]], _address: str) -> None:
    for peer in ("192.0.2.77", "127.0.0.2", "::1", None):
        found = asked(*lines, peer=peer)
        assert (found.address, found.by_trusted, found.forwarded) == (peer, False, True)


@given(st.lists(st.tuples(st.sampled_from(["X-Forwarded-For", "Forwarded"]), st.text(max_size=60).map(ascii))))
def test_whatever_stands_there_is_read(lines: list[tuple[str, str]]) -> None:
    """Proves: D4. What an attacker writes to the left of what the trusted proxy adds does not count."""
    assert not asked(*lines).local if lines else asked().local
    listed = [(name, value) for name, value in lines if name == "X-Forwarded-For"]
    assert asked(*listed, ("X-Forwarded-For", "192.0.2.1")).address == "192.0.2.1"


@pytest.mark.parametrize(
    ("text", "network"), [("127.0.0.1", "127.0.0.1/32"), (" 10.0.0.0/8 ", "10.0.0.0/8"), ("::1", "::1/128")]
)
def test_networks(text: str, network: str) -> None:
    assert parse_network(text) == ip_network(network)


@pytest.mark.parametrize(
    ("text", "said"), [("10.1.2.3/8", "such as 10.0.0.0/8, or"), ("localhost", "an IP address"), ("", "an IP address")]
)
def test_what_is_no_network(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_network(text)
