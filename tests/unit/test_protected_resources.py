"""The documents and challenges of the gateway as a protected resource, by paths alone."""

from types import SimpleNamespace
from typing import Any, Final

import pytest

from aggregator.config.settings import HttpConfig
from aggregator.frontends import protected_resources
from aggregator.frontends.protected_resources import ProtectedResources
from aggregator.frontends.web.host_guard import RESOURCE_METADATA, Message
from aggregator.frontends.web.own_address import OwnAddress
from aggregator.identity.identify import Refused
from aggregator.wire.codec import decode

OTHERS: Final = {"/sse": "/sse", "/messages": "/sse", "/v1": "/v1"}
BASE: Final = "https://tools.example.com"


@pytest.fixture(autouse=True)
def origin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protected_resources, "origin_of", lambda scope, own: BASE)


def resources(prefix: str = "", scopes: tuple[str, ...] = ("read",), *, tokens: bool = True) -> ProtectedResources:
    config = SimpleNamespace(issuers=[SimpleNamespace(issuer="https://idp.example.com")], scopes=scopes)
    access: Any = SimpleNamespace(tokens=SimpleNamespace(config=config) if tokens else None)
    return ProtectedResources(access, OwnAddress(HttpConfig()), lambda scope: prefix, "/mcp", OTHERS)


async def asked(it: ProtectedResources, path: str, method: str = "GET") -> tuple[int, Any]:
    """Return the status and the document at a path."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        raise AssertionError("nothing is read")

    await it.serve({"method": method, "path": path}, receive, send)
    return sent[0]["status"], decode(sent[1]["body"])


@pytest.mark.parametrize(
    ("prefix", "path", "resource"),
    [
        ("", "", ""),
        ("", "/", ""),
        ("", "/mcp", "/mcp"),
        ("", "/mcp/", "/mcp"),
        ("", "/mcp/clerk", "/mcp/clerk"),
        ("", "/mcp/clerk/more", None),
        ("", "/mcp/.clerk", None),
        ("", "/sse", "/sse"),
        ("", "/messages", None),
        ("", "/v10", None),
        ("/ai", "/ai/mcp", "/mcp"),
        ("/ai", "/mcp", "/mcp"),
        ("/ai", "/ai", ""),
        ("/ai", "/aircraft", None),
        # The beginning of a name is no prefix.
        ("/m", "/mcp", "/mcp"),
        ("/m", "/m/mcp", "/mcp"),
        ("/s", "/sse", "/sse"),
    ],
)
async def test_where_the_document_of_a_resource_is(prefix: str, path: str, resource: str | None) -> None:
    """RFC 9728, 3.1"""
    it = resources(prefix)
    for method in ("GET", "HEAD"):
        status, document = await asked(it, RESOURCE_METADATA + path, method)
        assert status == (200 if resource is not None else 404)
        assert document.get("resource") == (f"{BASE}{prefix}{resource}" if resource is not None else None)
    assert (await asked(it, RESOURCE_METADATA + path, "POST"))[0] == 405


async def test_a_document_lists_scopes_if_there_are_some() -> None:
    assert (await asked(resources(), RESOURCE_METADATA))[1]["scopes_supported"] == ["read"]
    assert "scopes_supported" not in (await asked(resources(scopes=()), RESOURCE_METADATA))[1]


@pytest.mark.parametrize(("path", "served"), [("", True), ("/", True), ("/mcp", True), ("x", False), ("-mcp", False)])
@pytest.mark.parametrize("tokens", [True, False])
def test_which_paths_are_those_of_documents(path: str, served: bool, tokens: bool) -> None:
    assert resources(tokens=tokens).serves(RESOURCE_METADATA + path) is (served and tokens)


NEEDED: Final = Refused(401, "A key is needed.")
WRONG: Final = Refused(401, "It is wrong.", error="invalid_token")
OTHER: Final = Refused(403, "It is for another.")


@pytest.mark.parametrize(
    ("refused", "scopes", "wanted", "described"),
    [
        (NEEDED, None, 'scope="read"', False),
        (WRONG, None, 'scope="read"', True),
        (OTHER, ["write"], 'scope="write"', False),
        (NEEDED, [], None, False),
        (OTHER, None, ..., False),
    ],
)
def test_what_a_challenge_asks_for(refused: Refused, scopes: Any, wanted: Any, described: bool) -> None:
    """RFC 6750, 3: the reason is told to those alone who sent something."""
    made = resources("/ai").challenge({"path": "/mcp/clerk"}, refused, scopes)
    if wanted is ...:
        assert made is None
        return
    assert made is not None
    assert f'resource_metadata="{BASE}/ai{RESOURCE_METADATA}/mcp/clerk"'.encode() in made
    assert (b"error_description" in made) is described
    assert (b"scope=" in made) is (wanted is not None)
    assert wanted is None or wanted.encode() in made


@pytest.mark.parametrize(
    ("path", "resource"),
    [
        ("/v1/tools", "/v1"),
        ("/v10/tools", ""),
        ("/messages", "/sse"),
        ("/mcp/a/b", ""),
        ("/mcpx", ""),
        ("/metrics", ""),
    ],
)
def test_which_resource_a_path_belongs_to(path: str, resource: str) -> None:
    made = resources().challenge({"path": path}, NEEDED)
    assert made is not None
    assert f'resource_metadata="{BASE}{RESOURCE_METADATA}{resource}"'.encode() in made
