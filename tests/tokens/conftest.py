"""A running aggregator that accepts the tokens of a running issuer."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from tests.access.secured_harness import SecuredHarness
from tests.authorization.authorization_server import AuthorizationServer, authorization_server
from tests.end_to_end.scripted_host import ACCEPT, ENVELOPE, MODERN, http_client
from tests.end_to_end.server_harness import local_entry
from tests.peers.serving import BackgroundLoop
from tests.peers.toolbox import Json

AUDIENCE: Final = "https://gateway.example.com/mcp"
POLICIES: Final[Json] = {
    "agents": {
        "one": {"allow": ["*"], "scopes": {"shop.echo": ["mcp", "write"]}},
        "two": {"allow": ["*"], "roles": ["metrics"]},
    },
    "roles": {"metrics": {}},
    "who": [*({"subject": name, "agent": "one"} for name in ("alice", "carol")), {"subject": "bob", "agent": "two"}],
}


class TokenHarness(SecuredHarness):
    """A `SecuredHarness` that accepts the tokens of `idp`."""

    def __init__(
        self,
        background: BackgroundLoop,
        folder: Path,
        idp: AuthorizationServer,
        issuer: Json | None = None,
        rules: Json | None = None,
        **settings: Any,
    ) -> None:
        """Open it. issuer: further fields of the issuer's settings. rules: the policies, if others than the usual."""
        self.idp = idp
        auth = {"issuers": [{"issuer": idp.issuer, "audience": [AUDIENCE], **(issuer or {})}], "scopes": ["mcp"]}
        servers, policies = {"shop": local_entry()}, rules or POLICIES
        super().__init__(background, folder, servers, policies, ("one", "two"), auth=auth, **settings)

    def token(self, subject: str = "alice", **claims: Any) -> str:
        """Return a token of a person for this aggregator."""
        return self.idp.token(subject, **{"audience": AUDIENCE, **claims})

    def with_token(self, text: str | None) -> httpx2.AsyncClient:
        """Return a plain HTTP client that sends a token."""
        return http_client(self.url, text)


def modern(method: str, **params: Any) -> dict[str, Any]:
    """Return the arguments of `post` for a request of 2026-07-28."""
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": ENVELOPE}}
    named = {"mcp-name": params["name"]} if "name" in params else {}
    headers = {**ACCEPT, "mcp-protocol-version": MODERN, "mcp-method": method, **named}
    return {"content": json.dumps(body), "headers": headers}


def challenge_of(headers: Mapping[str, str]) -> str:
    """Return the one challenge of a response."""
    return headers["www-authenticate"]


@pytest.fixture(scope="session")
def loop() -> Iterator[BackgroundLoop]:
    with BackgroundLoop() as running:
        yield running


@pytest.fixture(scope="session")
def harness(loop: BackgroundLoop, tmp_path_factory: pytest.TempPathFactory) -> TokenHarness:
    """An aggregator that verifies JWTs."""
    return TokenHarness(loop, tmp_path_factory.mktemp("tokens"), loop.open(authorization_server()))
