"""Whose page a request comes from, which cookie counts, and where a person is sent, each condition by itself."""

from typing import Any, Final

import pytest

from aggregator.frontends.console.guard import COOKIE, cookie_of, csrf_token, is_csrf_token, origins_of
from aggregator.frontends.console.sign_in import _own_path
from aggregator.frontends.web.host_guard import SOURCE
from aggregator.frontends.web.request_origin import is_own_page
from aggregator.identity.source import ClientSource

OWN: Final = "http://127.0.0.1:8765"


def scope(host: str = "127.0.0.1:8765", *, forwarded: bool = False) -> dict[str, Any]:
    source = ClientSource("127.0.0.1", forwarded=forwarded)
    return {"scheme": "http", "headers": [(b"host", host.encode())], SOURCE: source}


@pytest.mark.parametrize(
    ("headers", "is_own"),
    [
        ({"origin": OWN}, True),
        ({"origin": OWN.upper()}, True),
        ({"sec_fetch_site": "same-origin"}, True),
        ({"sec_fetch_site": "same-origin", "origin": OWN}, True),
        # A program at another port of this machine, and another name of it.
        ({"origin": "http://127.0.0.1:9999"}, False),
        ({"origin": "http://localhost:8765"}, False),
        ({"sec_fetch_site": "same-origin", "origin": "http://127.0.0.1:9999"}, False),
        ({"sec_fetch_site": "same-site", "origin": OWN}, False),
        ({"sec_fetch_site": "cross-site", "origin": OWN}, False),
        ({"sec_fetch_site": "none", "origin": OWN}, False),
        ({"sec_fetch_site": "none"}, False),
        ({"origin": "null"}, False),
        ({"origin": ""}, False),
        ({"origin": "https://127.0.0.1:8765"}, False),
        ({}, False),
    ],
)
def test_whose_page_a_form_is_of(headers: dict[str, str], is_own: bool) -> None:
    asked = scope()
    asked["headers"] += [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    assert is_own_page(asked, origins_of(asked, None)) is is_own


@pytest.mark.parametrize(
    ("host", "forwarded", "public", "expected"),
    [
        ("127.0.0.1:8765", False, None, ("http://127.0.0.1:8765",)),
        ("LocalHost:8765", False, None, ("http://localhost:8765",)),
        # Behind a proxy that the configuration does not name, which may speak TLS.
        ("gw.example.com", True, None, ("https://gw.example.com", "http://gw.example.com")),
        ("gw.example.com", True, "https://gw.example.com/mcp", ("https://gw.example.com",)),
        ("10.0.0.7:8765", True, "https://GW.example.com/", ("https://gw.example.com",)),
        ("gw.example.com", True, "https://gw.example.com:443", ("https://gw.example.com",)),
        ("gw.example.com", True, "http://gw.example.com:80", ("http://gw.example.com",)),
        ("gw.example.com:8443", True, "https://gw.example.com:8443", ("https://gw.example.com:8443",)),
        # Past the proxy, on the machine itself.
        ("127.0.0.1:8765", False, "https://gw.example.com", ("http://127.0.0.1:8765",)),
        ("gw.example.com", False, "https://gw.example.com", ("https://gw.example.com", "http://gw.example.com")),
    ],
)
def test_the_origins_of_our_pages(host: str, forwarded: bool, public: str | None, expected: tuple[str, ...]) -> None:
    assert origins_of(scope(host, forwarded=forwarded), public) == expected


@pytest.mark.parametrize(
    ("sent", "found"),
    [
        ([f"{COOKIE}=secret"], "secret"),
        ([f"a=b; {COOKIE}=secret; c"], "secret"),
        (["a=b", f"\t{COOKIE} = secret "], "secret"),
        ([f"x{COOKIE}=secret"], None),
        ([f"{COOKIE}="], None),
        ([f"{COOKIE}={'s' * 128}"], "s" * 128),
        ([f"{COOKIE}={'s' * 129}"], None),
        # Of two, one may be somebody else's.
        ([f"{COOKIE}=one; {COOKIE}=two"], None),
        ([f"{COOKIE}=one", f"{COOKIE}=one"], None),
        ([], None),
    ],
)
def test_which_cookie_counts(sent: list[str], found: str | None) -> None:
    asked = scope()
    asked["headers"] += [(b"cookie", one.encode()) for one in sent]
    assert cookie_of(asked) == found


def test_a_token_of_a_form_is_of_its_session_alone() -> None:
    made = csrf_token("one")
    assert is_csrf_token(made, "one")
    wrong = ["", made[:-1], made + "0", made[1:], made[:32], f"0{made[1:]}" if made[0] != "0" else f"1{made[1:]}"]
    assert not any(is_csrf_token(token, "one") for token in wrong)
    assert not is_csrf_token(made, "two")
    assert csrf_token("one") != made


@pytest.mark.parametrize(
    ("then", "to"),
    [
        ("/approvals/a?all=1", "/approvals/a?all=1"),
        ("/", "/"),
        ("", ""),
        ("approvals", ""),
        ("//evil.example.com", ""),
        ("/\\evil.example.com", ""),
        ("/a\\b", ""),
        ("https://evil.example.com", ""),
        ("javascript:alert(1)", ""),
        ("/a\r\nset-cookie: x=y", ""),
        ("/a\tb", ""),
        ("/ä", ""),
        ("/" + "a" * 1_999, "/" + "a" * 1_999),
        ("/" + "a" * 2_000, ""),
    ],
)
def test_where_a_person_is_sent_after_signing_in(then: str, to: str) -> None:
    """Never to another site, whatever a link says."""
    assert _own_path(then) == to
