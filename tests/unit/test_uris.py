"""Exposed URIs: each leads back to one server and one URI, whatever that looks like."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.domain.uris.exposed import unwrapped, wrapped

PREFIXES = st.text("abcXYZ019_-", min_size=1, max_size=12)
URIS = st.one_of(
    st.text(max_size=40),
    st.builds(
        lambda scheme, rest: f"{scheme}://{rest}",
        st.sampled_from(["file", "ui", "mcp", "test+x", "HTTP", "postgres", "{scheme}", "1bad"]),
        st.text("ab/{}:?#%.é", min_size=1, max_size=20),
    ),
    st.builds(lambda rest: f"urn:{rest}", st.text(min_size=1, max_size=20)),
)


@pytest.mark.parametrize(
    ("uri", "exposed"),
    [
        ("file:///home/a.txt", "file://fs//home/a.txt"),
        ("file://host/share", "file://fs/host/share"),
        ("ui://weather/view.html", "ui://fs/weather/view.html"),
        ("demo://resource/{id}", "demo://fs/resource/{id}"),
        ("{scheme}://x", "mcp://fs/{scheme}://x"),
        ("urn:isbn:1", "mcp://fs/urn:isbn:1"),
        ("mcp://fs/x", "mcp://fs/mcp://fs/x"),
        ("http://localhost/a", "mcp://fs/http://localhost/a"),
        ("https://example.com/a", "https://example.com/a"),
        ("HTTPS://example.com/a", "HTTPS://example.com/a"),
        ("data:text/plain,a", "data:text/plain,a"),
        ("data:;base64,AA==", "data:;base64,AA=="),
        ("data://config", "data://fs/config"),
        ("data://a,b/{c}", "data://fs/a,b/{c}"),
        ("data:config", "mcp://fs/data:config"),
    ],
)
def test_what_hosts_see(uri: str, exposed: str) -> None:
    """The scheme stays, the prefix comes before the rest, and what hosts fetch themselves is left alone."""
    assert wrapped("fs", uri) == exposed
    assert wrapped("", uri) == uri
    if exposed != uri:
        assert unwrapped(exposed) == ("fs", uri)


@given(PREFIXES, URIS)
def test_it_leads_back(prefix: str, uri: str) -> None:
    """Whatever was wrapped is unwrapped to what it was."""
    exposed = wrapped(prefix, uri)
    if exposed != uri and uri:
        assert unwrapped(exposed) == (prefix, uri)


@given(PREFIXES, PREFIXES, URIS, URIS)
def test_no_two_meet(one: str, other: str, first: str, second: str) -> None:
    """Different URIs, or the same of different servers, are exposed differently, unless they were not touched."""
    exposed = wrapped(one, first), wrapped(other, second)
    if (one, first) != (other, second) and exposed != (first, second) and first and second:
        assert exposed[0] != exposed[1] or first in exposed or second in exposed


@pytest.mark.parametrize("uri", ["https://a/b", "data:,x", "plain", "file://", "file://fs", "file://fs/", "urn:a:b"])
def test_what_was_never_wrapped(uri: str) -> None:
    """It says so, and is not taken apart."""
    assert unwrapped(uri) is None
