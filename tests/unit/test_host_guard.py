"""The host guard: `Host` and `Origin` against DNS rebinding, preflights, and the size of a request."""

import asyncio
import json
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.config.settings import HttpConfig
from aggregator.domain.errors import OperatorError
from aggregator.domain.uris.addresses import is_loopback
from aggregator.frontends.web.host_guard import (
    UNCERTIFIED,
    BodyCut,
    BodyTooLarge,
    HostGuard,
    Message,
    Receive,
    Scope,
    Send,
    header,
    read_body,
    refuse_public,
    respond,
)
from aggregator.frontends.web.own_address import OwnAddress
from aggregator.frontends.web.repeated_fields import MEMORY, FieldMemory
from aggregator.frontends.web.request_origin import only_cookie

Lines = list[tuple[bytes, bytes]]
PAGE = "https://chat.example.com"


async def _app(scope: Scope, receive: Receive, send: Send) -> None:
    await respond(send, 200, {"reached": True}, {b"x-own": b"1"})


async def _request(
    headers: dict[str, str] | list[tuple[str, str]],
    method: str = "POST",
    host: str = "127.0.0.1",
    hosts: Iterable[str] = (),
    origins: Iterable[str] = (),
    path: str = "/mcp",
    arrived_at: str = "127.0.0.1",
    public_url: str | None = None,
    unshared: Sequence[str] = (),
    **more: Any,
) -> tuple[int, dict[str, str], Any]:
    """Status, headers and body of what comes back."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        raise AssertionError("the guard reads no body")

    given = headers.items() if isinstance(headers, dict) else headers
    lines = [(name.encode(), value.encode("latin-1")) for name, value in given]
    http = HttpConfig(host=host, allowed_hosts=tuple(hosts), allowed_origins=tuple(origins), public_url=public_url)
    guard = HostGuard(_app, OwnAddress(http), {"/healthz"}, unshared)
    scope = {"type": "http", "method": method, "path": path, "headers": lines, "server": (arrived_at, 8642), **more}
    await guard(scope, receive, send)
    start, body = sent
    answered = {name.decode(): value.decode("latin-1") for name, value in start["headers"]}
    return start["status"], answered, json.loads(body["body"]) if body["body"] else None


HOSTS: list[tuple[str, str, tuple[str, ...], bool]] = [
    ("127.0.0.1", "127.0.0.1", (), True),
    ("127.0.0.1", "127.0.0.1:8642", (), True),
    ("127.0.0.1", "localhost", (), True),
    ("127.0.0.1", "LocalHost:1", (), True),
    ("127.0.0.1", "[::1]:8642", (), True),
    ("::1", "[::1]", (), True),
    ("::1", "[::1]:8642", (), True),
    ("::1", "localhost:8642", (), True),
    ("[::1]", "[::1]:8642", (), True),
    ("localhost", "localhost:8642", (), True),
    ("127.0.0.2", "127.0.0.2:8642", (), True),
    ("127.0.0.1", "127.0.0.2:8642", (), False),
    ("127.0.0.1", "evil.example.com", (), False),
    ("127.0.0.1", "evil.example.com:8642", (), False),
    ("127.0.0.1", "127.0.0.1.evil.example.com", (), False),
    ("127.0.0.1", "localhost.evil.example.com:8642", (), False),
    ("127.0.0.1", "evil.example.com:localhost", (), False),
    ("127.0.0.1", "localhost:8642:8642", (), False),
    ("127.0.0.1", "localhost:8642@evil.example.com", (), False),
    ("127.0.0.1", "localhost, evil.example.com", (), False),
    ("127.0.0.1", "", (), False),
    ("127.0.0.1", ":8642", (), False),
    ("127.0.0.1", "[::2]:8642", (), False),
    ("::1", "::1", (), False),
    ("127.0.0.1", "tools.example.com", ("tools.example.com",), True),
    ("127.0.0.1", "TOOLS.example.com:443", ("Tools.Example.com",), True),
    ("127.0.0.1", "tools.example.com:443", ("tools.example.com:443",), True),
    ("127.0.0.1", "tools.example.com:444", ("tools.example.com:443",), False),
    ("127.0.0.1", "tools.example.com", ("tools.example.com:443",), False),
    ("10.0.0.5", "10.0.0.5:80", (), True),
    ("10.0.0.5", "localhost", (), True),
]


@pytest.mark.parametrize(("listening", "sent", "allowed", "served"), HOSTS)
async def test_the_host_has_to_be_a_name_of_ours(
    listening: str, sent: str, allowed: tuple[str, ...], served: bool
) -> None:
    """Proves: F1"""
    status, _, body = await _request({"host": sent}, host=listening, hosts=allowed)
    if served:
        assert (status, body) == (200, {"reached": True})
    else:
        assert status == 421
        assert "allowed_hosts" in body["error"]


async def test_a_request_without_a_host_is_refused() -> None:
    assert (await _request({}))[0] == 421


# What a host names, the address of this machine that its request arrived at, and whether it is served.
ARRIVING: list[tuple[str, str, bool]] = [
    ("192.168.0.7:8642", "192.168.0.7", True),
    ("192.168.0.7", "::ffff:192.168.0.7", True),
    ("[2001:db8::7]:8642", "2001:db8::7", True),
    ("[2001:DB8:0:0::7]", "2001:db8::7", True),
    ("[fe80::1]:8642", "fe80::1%eth0", True),
    ("localhost:8642", "192.168.0.7", True),
    ("127.0.0.1", "127.0.0.1", True),
    ("192.168.0.8", "192.168.0.7", False),
    ("2001:db8::7", "2001:db8::7", False),
    ("evil.example.com", "192.168.0.7", False),
    ("192.168.0.7.evil.example.com", "192.168.0.7", False),
    ("3232235527", "192.168.0.7", False),
    ("0xc0a80007", "192.168.0.7", False),
]


@pytest.mark.parametrize("listening", ["0.0.0.0", "::"])  # noqa: S104
@pytest.mark.parametrize(("sent", "arrived_at", "served"), ARRIVING)
async def test_the_addresses_of_this_machine_are_known(
    listening: str, sent: str, arrived_at: str, served: bool
) -> None:
    """Proves: F1. On all addresses: loopback names, and the very address that a request came to; no name besides."""
    status, _, _ = await _request({"host": sent}, host=listening, arrived_at=arrived_at)
    assert status == (200 if served else 421)


async def test_health_is_told_under_any_name() -> None:
    assert (await _request({"host": "10.9.8.7"}, path="/healthz"))[0] == 200
    assert (await _request({}, path="/healthz"))[0] == 200
    assert (await _request({"host": "10.9.8.7"}, path="/healthz/x"))[0] == 421


@pytest.mark.parametrize("path", ["/mcp", "/healthz"])
@pytest.mark.parametrize("second", ["localhost", "evil.example.com", ""])
async def test_two_hosts_are_refused(path: str, second: str) -> None:
    """Proves: F1. Who is on the way may have read the other one (RFC 9112, section 3.2)."""
    for lines in ([("host", "localhost"), ("host", second)], [("host", second), ("host", "localhost")]):
        assert (await _request(lines, path=path))[0] == 400


async def test_two_origins_are_refused() -> None:
    assert (await _request([("host", "localhost"), ("origin", "http://localhost"), ("origin", PAGE)]))[0] == 400


async def test_the_public_url_is_ours() -> None:
    """Proves: F1. Its host and its pages; not another scheme, not another port."""
    public = "https://Tools.example.com/ai"
    for host in ("tools.example.com", "tools.example.com:443", "127.0.0.1:8642"):
        for origin, served in (
            ("https://tools.example.com", True),
            ("http://tools.example.com", host == "tools.example.com"),
            ("https://tools.example.com:8443", False),
            ("https://tools.example.com.evil.example.com", False),
        ):
            status, _, _ = await _request({"host": host, "origin": origin}, public_url=public)
            assert (host, origin, status) == (host, origin, 200 if served else 403)


ORIGINS: list[tuple[str, tuple[str, ...], bool]] = [
    ("http://localhost:8642", (), True),
    ("https://localhost:8642", (), True),
    ("HTTP://LOCALHOST:8642", (), True),
    ("http://localhost:6274", (), False),
    ("http://localhost:6274", ("http://localhost:6274",), True),
    ("http://localhost", (), False),
    ("http://127.0.0.1:8642", (), False),
    ("https://[::1]:8642", (), False),
    ("ftp://localhost:8642", (), False),
    ("http://localhost:8642@localhost:8642", (), False),
    (PAGE, (PAGE,), True),
    (PAGE.upper(), (PAGE + "/",), True),
    (PAGE, (), False),
    ("http://chat.example.com", (PAGE,), False),
    (PAGE + ":8443", (PAGE,), False),
    (PAGE + ".evil.example.com", (PAGE,), False),
    ("http://localhost.evil.example.com", (), False),
    ("null", (), False),
    ("", (), False),
    ("localhost", (), False),
    ("file://localhost", (), False),
    ("://localhost", (), False),
    ("chrome-extension://localhost", (), False),
]


@pytest.mark.parametrize(("origin", "allowed", "served"), ORIGINS)
async def test_a_page_has_to_be_one_we_know(origin: str, allowed: tuple[str, ...], served: bool) -> None:
    """Proves: F1"""
    status, answered, body = await _request({"host": "localhost:8642", "origin": origin}, origins=allowed)
    if served:
        assert status == 200
        assert answered["access-control-allow-origin"] == origin
        assert answered["vary"] == "origin"
        assert "mcp-session-id" in answered["access-control-expose-headers"]
        assert answered["x-own"] == "1"
    else:
        assert status == 403
        assert "allowed_origins" in body["error"]
        assert "access-control-allow-origin" not in answered


async def test_a_good_origin_does_not_excuse_a_wrong_host() -> None:
    assert (await _request({"host": "evil.example.com", "origin": "http://localhost"}))[0] == 421


@pytest.mark.parametrize(
    ("path", "shared"),
    [("/console", False), ("/console/", False), ("/console/api/x", False), ("/consoles", True), ("/mcp", True)],
)
@pytest.mark.parametrize("method", ["POST", "OPTIONS"])
async def test_no_other_page_reads_what_is_not_shared(path: str, shared: bool, method: str) -> None:
    """F1: not even one that is allowed to come in, and nothing below it."""
    asked = {"host": "localhost", "origin": PAGE}
    status, answered, _ = await _request(asked, method, origins=[PAGE], path=path, unshared=["/console"])
    assert ("access-control-allow-origin" in answered) is shared
    assert status == (204 if shared and method == "OPTIONS" else 200)


@pytest.mark.parametrize(("path", "status"), [("/mcp", 403), ("/healthz", 200)])
@pytest.mark.parametrize("memory", [{}, {MEMORY: FieldMemory()}])
async def test_a_connection_without_the_certificate_gets_nothing_but_what_is_open(
    path: str, status: int, memory: dict[str, Any]
) -> None:
    """F1: on each of its requests."""
    more: dict[str, Any] = {UNCERTIFIED: True, **memory}
    for _ in range(2):
        assert (await _request({"host": "localhost"}, path=path, **more))[0] == status


async def test_what_comes_from_no_page_needs_no_origin() -> None:
    status, answered, _ = await _request({"host": "localhost"})
    assert status == 200
    assert "access-control-allow-origin" not in answered


async def test_a_preflight_is_answered_for_pages_we_know() -> None:
    asked = {"host": "localhost", "origin": PAGE, "access-control-request-headers": "mcp-method, authorization"}
    status, answered, body = await _request(asked, "OPTIONS", origins=[PAGE])
    assert (status, body) == (204, None)
    assert answered["access-control-allow-origin"] == PAGE
    assert {"GET", "POST", "DELETE"} <= set(answered["access-control-allow-methods"].split(", "))
    # The star does not cover it (Fetch standard).
    assert "authorization" in answered["access-control-allow-headers"]
    assert (await _request(asked, "OPTIONS"))[0] == 403


@given(st.text(st.characters(max_codepoint=255), max_size=40))
def test_any_host_and_origin_is_decided(text: str) -> None:
    for asked in ({"host": text}, {"host": "localhost", "origin": text}):
        status, _, _ = asyncio.run(_request(asked))
        assert status in (200, 403, 421)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "[::1]", "localhost"])
def test_this_machine_only(host: str) -> None:
    assert is_loopback(host)
    refuse_public(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "[::]", "192.168.0.7", "example.com", "localhost.evil.com", "", "0"])  # noqa: S104
def test_a_public_address_is_refused_while_nobody_has_to_say_who_they_are(host: str) -> None:
    """Proves: F1"""
    with pytest.raises(OperatorError, match="aggregator keys new"):
        refuse_public(host)


def test_the_first_value_of_a_header_counts() -> None:
    scope: Scope = {"headers": [(b"a", b"1"), (b"a", b"2"), (b"b", b"\xe9")]}
    assert (header(scope, b"a"), header(scope, b"b"), header(scope, b"c")) == ("1", "é", None)


async def _read(parts: list[bytes], limit: int, declared: str | None = None) -> bytes:
    """Read a body that comes in `parts`."""
    messages: list[Message] = [
        {"type": "http.request", "body": part, "more_body": at < len(parts)} for at, part in enumerate(parts, start=1)
    ]
    headers = [(b"content-length", declared.encode("latin-1"))] if declared is not None else []

    async def receive() -> Message:
        return messages.pop(0)

    return await read_body({"headers": headers}, receive, limit)


@given(st.lists(st.binary(max_size=8), min_size=1, max_size=6), st.integers(0, 40))
def test_a_body_is_read_up_to_the_limit(parts: list[bytes], limit: int) -> None:
    if sum(map(len, parts)) > limit:
        with pytest.raises(BodyTooLarge):
            asyncio.run(_read(parts, limit))
    else:
        assert asyncio.run(_read(parts, limit)) == b"".join(parts)


@pytest.mark.parametrize(
    ("declared", "refused"), [("11", True), ("10", False), ("9" * 30, True), ("x", False), ("-1", False)]
)
async def test_a_body_that_says_it_is_too_large_is_not_even_read(declared: str, refused: bool) -> None:
    if refused:
        with pytest.raises(BodyTooLarge):
            await _read([], 10, declared)
    else:
        assert await _read([b"12345"], 10, declared) == b"12345"


@pytest.mark.parametrize("parts", [[], [b"12"], [b"12", b"345"]])
async def test_a_body_that_the_host_does_not_end_is_none(parts: list[bytes]) -> None:
    """C2: half of a request is no request, though it may be one as it stands."""
    messages: list[Message] = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
    messages.append({"type": "http.disconnect"})

    async def receive() -> Message:
        return messages.pop(0)

    with pytest.raises(BodyCut):
        await read_body({"headers": []}, receive, 10)


@pytest.mark.parametrize(
    ("sent", "value"),
    [
        (["a=1; b=2"], "1"),
        (["b=2", " a = 1 "], "1"),
        (["a="], ""),
        (["a=1=2"], "1=2"),
        (["aa=1; b=a"], None),
        (["a=1; a=1"], None),
        (["a=1", "a=2"], None),
        ([], None),
    ],
)
def test_a_cookie_counts_if_it_is_there_once(sent: list[str], value: str | None) -> None:
    """D9: a server at another port of this machine can add a second one, and not take ours away."""
    assert only_cookie({"headers": [(b"cookie", line.encode()) for line in sent]}, "a") == value


async def test_reading_stops_once_it_is_too_much() -> None:
    taken = 0

    async def receive() -> Message:
        nonlocal taken
        taken += 1
        assert taken <= 4, "the whole body was taken in"
        return {"type": "http.request", "body": b"12345", "more_body": True}

    with pytest.raises(BodyTooLarge):
        await read_body({"headers": []}, receive, 10)


@pytest.mark.parametrize(
    ("value", "body", "kind"), [(None, b"", None), ({"a": "地"}, '{"a":"地"}'.encode(), b"application/json")]
)
async def test_a_response(value: Any, body: bytes, kind: bytes | None) -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    await respond(send, 418, value, {b"x": b"y"})
    lines: Lines = sent[0]["headers"]
    assert sent[0]["status"] == 418
    assert dict(lines).get(b"content-length") == b"%d" % len(body)
    assert dict(lines).get(b"content-type") == kind
    assert (b"x", b"y") in lines
    assert sent[1]["body"] == body
