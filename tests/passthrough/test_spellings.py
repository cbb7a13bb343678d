"""A policy speaks of resources, however their URIs are spelled: no other spelling of what is denied is forwarded."""

import asyncio
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from aggregator.domain.uris.exposed import aliased, wrapped
from aggregator.domain.uris.spellings import canonical, fault, is_plain, resolved, spellings
from tests.access.gateway_harness import LEGACY, MODERN
from tests.laws import examples
from tests.passthrough.test_policies import ResourceHarness
from tests.passthrough.uri_parsers import rfc3986, whatwg
from tests.peers.toolbox import Json

# What a server lists and one agent may not read, some of it spelled oddly.
DENIED: Final = (
    "demo://resource/static/a",
    "demo://Resource/Static/b",
    "https://example.com/private/c",
    "file:///etc/d",
    "urn:x:e",
    "DEMO://odd/./f",
    "notes:///é f",
    "https://münchen.example/g",
    "demo://escaped/%c3%a9%2Fh",
)
ALLOWED: Final = "demo://open/docs/"
SERVERS: Final = ("a", "b", "a_b", "A")
# What RFC 3986 has no place for.
_INVALID: Final = re.compile(r"[\x00-\x20\x7f\ud800-\udfff\\]|%(?![0-9A-Fa-f]{2})")
pieces = st.sampled_from(
    ["/", "//", "/./", "/x/../", "/%2e%2E/", "/%2e/", "\\", "%2F", "%5c", "\t", "\n", " ", "\x00", "%20", "..", ".",
     "?", "#", "#x", "@", "u@", ":443", ":", "%41", "%zz", "é", "%C3%A9", "。", "ａ", "\u00ad", "*", "|", "\ud800", ";"]
)  # fmt: skip
edits = st.lists(
    st.tuples(st.integers(0, 60), st.sampled_from(["in", "escape", "upper", "lower", "out"]), pieces), max_size=5
)
quick = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
many, few = settings(quick, max_examples=examples(300)), settings(quick, max_examples=60)


def edited(uri: str, changes: list[tuple[int, str, str]]) -> str:
    """Another text, which often is another spelling."""
    for where, how, piece in changes:
        at = where % (len(uri) + 1)
        here = uri[at : at + 1]
        made = {
            "in": piece + here,
            "escape": "".join(f"%{byte:02x}" for byte in here.encode(errors="replace")),
            "upper": here.upper(),
            "lower": here.lower(),
            "out": "",
        }
        uri = uri[:at] + made[how] + uri[at + 1 :]
    return uri


spelled_anew = st.builds(edited, st.sampled_from(DENIED), edits)


def same(one: str, other: str) -> bool:
    """Return whether some servers read the same URI in both."""
    read = whatwg(one), whatwg(other)
    return one == other or (read[0] is not None and read[0] == read[1]) or rfc3986(one) == rfc3986(other)


def read_differently(uri: str) -> bool:
    """Return whether RFC 3986 and WHATWG differ on path or host: drive letters, `https:` without a host."""
    scheme, _, rest = uri.partition(":")
    if scheme.lower() == "file":
        return re.search("[:|]", rest) is not None
    return scheme.lower() == "https" and re.match("//[^/?#]", rest) is None


@many
@given(spelled_anew)
@example("https://127.1/x")
@example("file://localhost/etc/d")
@example("demo:/.//p")
def test_what_servers_read_is_resolved_alike(uri: str) -> None:
    """A URI and what either kind of server makes of it have one resolved form."""
    read = whatwg(uri)
    if read is not None:
        assert resolved(read) == resolved(uri)
        if _INVALID.search(uri) is None and not read_differently(uri):
            assert resolved(rfc3986(uri)) == resolved(uri)


@many
@given(st.one_of(spelled_anew, st.text(max_size=30)))
def test_the_sent_form_means_the_same(uri: str) -> None:
    """It is read as the URI itself, and is its own canonical form; what is plain has no other."""
    sent = canonical(uri)
    if _INVALID.search(uri) is None:
        assert canonical(sent) == sent
        assert rfc3986(sent) == rfc3986(uri)
        assert unquote(sent) == unquote(uri)
    if is_plain(uri):
        assert spellings(uri).every == (uri,)
        assert resolved(uri) == uri == sent
        assert fault(uri) is None
        assert whatwg(uri) == uri


def denying() -> Json:
    deny = [f"resource:a.{uri}" for uri in DENIED]
    return {"agents": {"all_but": {"allow": ["server:a"], "deny": deny}, "only": {"allow": [f"resource:a.{ALLOWED}*"]}}}


def exposed_uris(uri: str) -> list[str]:
    """The URIs by which a host may ask for a server's own."""
    return [wrapped("a", uri), aliased("a", uri), uri]


@pytest.fixture(scope="module")
def harness(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[[str, str, list[str]], list[tuple[str, Any]]]]:
    """A function that asks for a URI in every way, as one of two agents, and returns what reached the server."""
    loop = asyncio.new_event_loop()

    async def made() -> ResourceHarness:
        return ResourceHarness(tmp_path_factory.mktemp("desk"), {"a": ([*DENIED, f"{ALLOWED}one"], [])}, denying())

    harness = loop.run_until_complete(made())

    async def reached(agent: str, version: str, uris: list[str]) -> list[tuple[str, Any]]:
        host = harness.host(agent, version)
        asked = [spelled for uri in uris for spelled in exposed_uris(uri)]
        return [(uri, await harness.reached(host, "resources/read", {"uri": uri})) for uri in asked]

    yield lambda agent, version, uris: loop.run_until_complete(reached(agent, version, uris))
    loop.close()


@few
@given(st.lists(spelled_anew, min_size=1, max_size=12), st.sampled_from([LEGACY, MODERN]))
@example(["DEMO://resource/static/a", "demo://resource/x/../static/a", "demo://resource/./static/a"], LEGACY)
@example(["demo://resource/%2e/static/a", "demo://resource/sta\ttic/a", " demo://resource/static/a"], LEGACY)
@example(
    ["demo://resource/%73tatic/a", "demo:\\\\resource/static/a", "demo://odd/f", "demo://RESOURCE/static/a"], MODERN
)
@example(
    ["HTTPS://EXAMPLE.com:443/private/c", "https://ｅxample。com/private/c", "https:example.com/private/c"], MODERN
)
@example(["notes:///%C3%A9%20f", "demo://escaped/é%2fh", "demo://escaped/é/h", "file:etc/d", "file:////etc//d"], LEGACY)
@example(["https://xn--mnchen-3ya.example/g", "demo://resource/static/a#x", "https://u@example.com/private/c"], LEGACY)
def test_no_spelling_of_what_is_denied_is_forwarded(harness: Any, uris: list[str], version: str) -> None:
    """Proves: D4. What is sent is no spelling of what is denied, has no odd spelling and is the canonical one."""
    assert harness("all_but", version, ["demo://resource/other"])[0][1] == ("a", "demo://resource/other")
    for asked, reached in harness("all_but", version, uris):
        if reached is not None:
            sent = reached[1]
            assert not any(same(sent, one) for one in DENIED), (asked, sent)
            assert fault(sent) is None
            assert canonical(sent) == sent


@few
@given(st.lists(st.builds(edited, st.sampled_from([f"{ALLOWED}x/y", f"{ALLOWED}{{x}}", *DENIED]), edits), max_size=12))
@example([f"{ALLOWED}../../static/a", f"{ALLOWED}%2e%2e/x", f"{ALLOWED}..%2fx", f"{ALLOWED}..\\x", f"{ALLOWED}.%2E"])
@example([f"{ALLOWED}#/../x", f"{ALLOWED}?/../x", "demo://open/docs%2fx", "demo://open/%64ocs/x"])
def test_an_allowed_prefix_is_a_fence(harness: Any, uris: list[str]) -> None:
    """Whatever is forwarded lies behind the prefix, in every reading."""
    assert harness("only", LEGACY, [f"{ALLOWED}x"])[0][1] == ("a", f"{ALLOWED}x")
    for asked, reached in harness("only", LEGACY, uris):
        if reached is not None:
            sent = reached[1]
            readings = [whatwg(sent), rfc3986(sent), unquote(sent), sent]
            assert all(one is None or one.startswith(ALLOWED) for one in readings), (asked, sent)


@pytest.mark.parametrize("times", [1, 2, 5])
@pytest.mark.parametrize(
    ("agent", "uri"),
    [
        ("all_but", "demo://resource/%73tatic/a"),
        ("all_but", "demo://resource/x%2f%2e%2E%2Fstatic/a"),
        ("all_but", "file:///etc%2fd"),
        ("all_but", "notes:///%C3%A9%20f"),
        ("only", f"{ALLOWED}%2e%2e/x"),
        ("only", f"{ALLOWED}x/..%5c..%5Cy"),
    ],
)
def test_escapes_of_escapes_are_seen_through(harness: Any, agent: str, uri: str, times: int) -> None:
    """Servers that decode what was decoded before get past neither a denial nor an allowed prefix.

    Proves: D4
    """
    for _ in range(times):
        uri = uri.replace("%", "%25")
    assert [one for one in harness(agent, MODERN, [uri]) if one[1] is not None] == []
    assert harness(agent, MODERN, [f"{ALLOWED}100%25"])[0][1] == ("a", f"{ALLOWED}100%25")


ODD: Final = (
    "DEMO://Odd/../x y",
    "demo://h/b%2fc",
    "https://Example.com:443/%7Ex",
    "file:///My Documents/é.txt",
    "a b",
)


@pytest.mark.parametrize("uri", ODD)
async def test_what_is_listed_is_readable_as_it_is_listed(tmp_path: Path, uri: str) -> None:
    """However odd: it is sent as the server spells it, by either way that leads to it."""
    harness = ResourceHarness(tmp_path, {"a": ([uri], [])}, {"agents": {"one": {"allow": [f"resource:a.{uri}"]}}})
    host = harness.host("one")
    assert await harness.found(host, "resources/list", "uri") == [wrapped("a", uri)]
    for spelled in exposed_uris(uri):
        assert await harness.reached(host, "resources/read", {"uri": spelled}) == ("a", uri)


@pytest.mark.parametrize(
    ("asked", "sent"),
    [
        ("demo://a/%7e%41b%2fc", "demo://a/~Ab%2Fc"),
        ("demo://Host/Path%c3%a9?q=%5b#F", "demo://Host/Path%C3%A9?q=%5B#F"),
        ("notes:///é", "notes:///é"),
        ("demo://a//b", "demo://a//b"),
        ("urn:isbn:1", "urn:isbn:1"),
        ("demo://a/...", "demo://a/..."),
        ("demo://a?x=../y", "demo://a?x=../y"),
    ],
)
async def test_the_canonical_form_is_sent(tmp_path: Path, asked: str, sent: str) -> None:
    """What a template may come to is asked for in one spelling; nothing else of it is changed."""
    harness = ResourceHarness(tmp_path, {"a": ([], [])}, {"agents": {"one": {"allow": ["server:a"]}}})
    for spelled in (wrapped("a", asked), aliased("a", asked)):
        assert await harness.reached(harness.host("one"), "resources/read", {"uri": spelled}) == ("a", sent)


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("DEMO://a/b", "upper case"),
        ("demo://a/\tb", "'\\t'"),
        ("demo://a/b c", "' '"),
        ("demo://a\\b", "backslash"),
        ("demo://a/../b", "`..`"),
        ("demo://a/%2E%2e/b", "`..`"),
        ("demo://a/..%2Fb", "`..`"),
        ("demo://a/..%5Cb", "`..`"),
        ("demo://a/\ud800", "\\ud800"),
        ("demo://a/" + "b" * 10_000, "characters"),
    ],
)
async def test_a_refusal_says_what_to_write(tmp_path: Path, uri: str, said: str) -> None:
    """The same whether or not there is such a server; without policies nothing is refused."""
    harness = ResourceHarness(tmp_path, {"a": ([], [])}, {"agents": {"one": {"allow": ["server:a"]}}})
    host = harness.host("one")
    answers: list[str] = []
    for server in ("a", "nobody"):
        answer = (await harness.ask(host, "resources/read", {"uri": aliased(server, uri)}))["error"]
        assert (answer["code"], answer["data"]["code"]) == (-32602, "odd_spelling")
        answers.append(answer["message"].replace(f"mcp://{server}/", ""))
    assert said in answers[0]
    assert answers[0].partition("' is")[2] == answers[1].partition("' is")[2]
    assert "error" in await harness.ask(host, "resources/subscribe", {"uri": aliased("a", uri)})
    ref = {"ref": {"type": "ref/resource", "uri": aliased("a", uri)}, "argument": {"name": "x", "value": ""}}
    assert (await harness.ask(host, "completion/complete", ref))["error"]["data"]["code"] == "odd_spelling"
    free = ResourceHarness(tmp_path, {"a": ([], [])}, None)
    assert await free.reached(free.host("one"), "resources/read", {"uri": aliased("a", uri)}) == ("a", uri)


@pytest.mark.parametrize(
    "uri",
    [
        "file://127.0.0.1/etc/passwd",
        "file://127.9.9.9/etc/passwd",
        "file://[::1]/etc/passwd",
        "file://localhost/etc/passwd",
        "file:///etc/passwd%00.txt",
        "file:///etc%00/passwd",
        "file:///etc/passwd%2500",
        "file:///etc/pa%00sswd",
        "file:///etc/passwd%00?x=1#y",
    ],
)
def test_a_file_of_this_machine_is_one_file(uri: str) -> None:
    """D5: by an address of its own; and before a NUL, where programs in C end a name, or without it."""
    assert "file:///etc/passwd" in spellings(uri).every


@pytest.mark.parametrize("uri", ["file://10.0.0.1/etc/passwd", "file://127.0.0.1.example.com/etc/passwd"])
def test_a_file_of_another_machine_is_another(uri: str) -> None:
    assert "file:///etc/passwd" not in spellings(uri).every


@pytest.mark.parametrize("place", ["file://", "demo://", "https://h.example"])
def test_a_drive_is_one_of_a_file_alone(place: str) -> None:
    """As in the WHATWG URL standard: `C|` is `C:`, and `..` does not lead above it."""
    of_file = place == "file://"
    for one, other in ((f"{place}/C|/a", f"{place}/C:/a"), (f"{place}/C:/../a", f"{place}/C:/a")):
        assert (resolved(one) == resolved(other)) == of_file
