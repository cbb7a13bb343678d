"""The gateway as a protected resource: its web server, authorization servers, and requests with their tokens."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import httpx2

from tests.access.gateway_harness import tool
from tests.access.recording_toolbox import RecordingToolbox
from tests.authorization.authorization_server import AuthorizationServer, authorization_server
from tests.console.console_harness import ConsoleHarness
from tests.end_to_end.scripted_host import ACCEPT, ENVELOPE, MODERN, http_client
from tests.peers.serving import BackgroundLoop
from tests.peers.toolbox import Json

OURS: Final = "https://gateway.example.com/mcp"
OTHERS: Final = "https://elsewhere.example.com/mcp"
# No time between two looks at an issuer's keys is waited for in these tests.
KEY_FETCHES: Final = "aggregator.identity.tokens.jwks"
SHOP: Final = [
    tool("get", {"id": {"type": "string"}}, description="Reads the shop's goods."),
    tool("put", {"amount": {"type": "integer"}}, description="Orders goods."),
    tool("hold", {"key": {"type": "string"}}, description="Waits for release."),
    tool("release", {"key": {"type": "string"}}, description="Ends a wait."),
]
LIST: Final[Json] = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": ENVELOPE}}
MODERN_HEADERS: Final = {**ACCEPT, "mcp-protocol-version": MODERN, "mcp-method": "tools/list"}


class Issuers:
    """Authorization servers by name, each on a port of its own."""

    def __init__(self, background: BackgroundLoop, *names: str) -> None:
        self._servers = {name: background.open(authorization_server()) for name in names}

    def __getitem__(self, name: str) -> AuthorizationServer:
        return self._servers[name]

    def settings(self, **more: Json) -> list[Json]:
        """The field `auth.issuers`: each issuer, with its own fields if there are any."""
        usual = {"audience": [OURS, "aggregator"]}
        return [{"issuer": server.issuer, **usual, **more.get(name, {})} for name, server in self._servers.items()]

    def who(self) -> list[Json]:
        """Rules `who`: alice and bob of any issuer are one agent, people of a group agents of their own."""
        return [
            rule
            for name, server in self._servers.items()
            for rule in (
                {"issuer": server.issuer, "subject": "alice", "agent": "clerk"},
                {"issuer": server.issuer, "subject": "bob", "agent": "clerk"},
                {"issuer": server.issuer, "subject": "rita", "agent": "reader"},
                {"issuer": server.issuer, "subject": "robot", "client": "robot", "agent": "reader"},
                {"issuer": server.issuer, "subject": "meter", "agent": "meter"},
                {
                    "issuer": server.issuer,
                    "groups": ["staff"],
                    "agent": f"{name}-staff-{{subject}}",
                    "roles": ["staff"],
                },
            )
        ]


def policies(issuers: Issuers, **more: object) -> Json:
    """A policy file for the people of these issuers."""
    return {
        "who": issuers.who(),
        "roles": {"staff": {"allow": ["shop.get"]}, "metrics": {}},
        "agents": {
            "clerk": {"allow": ["shop.*"]},
            "reader": {"allow": ["shop.get"]},
            "meter": {"roles": ["metrics"]},
        },
        **more,
    }


class ResourceHarness(ConsoleHarness):
    """A gateway on a free port that accepts the tokens of these issuers; `keys` has an API key of `clerk`."""

    def __init__(
        self,
        background: BackgroundLoop,
        folder: Path,
        issuers: Issuers,
        fields: Mapping[str, Json] | None = None,
        rules: Mapping[str, object] | None = None,
        auth: Mapping[str, Any] | None = None,
        others: Mapping[str, Json] | None = None,
        **settings: Any,
    ) -> None:
        """Make it. fields: those of single issuers; rules: further parts of the policy file; others: servers besides
        the shop.
        """
        self.issuers = issuers
        self.shop = RecordingToolbox(SHOP, {})
        super().__init__(
            background,
            folder,
            {"shop": self.shop.config_entry(), **(others or {})},
            policies(issuers, **(rules or {})),
            ("clerk",),
            auth={"issuers": issuers.settings(**(fields or {})), "scopes": ["mcp"], **(auth or {})},
            **settings,
        )

    def http(self) -> httpx2.Client:
        """A client without credentials, whose requests go over one connection where they can."""
        return httpx2.Client(base_url=self.url, timeout=20, trust_env=False)

    def bearer(self, token: str) -> httpx2.AsyncClient:
        """A client whose every request carries this token."""
        return http_client(self.url, token)


def ask(client: httpx2.Client, token: str | None, path: str = "/mcp", **headers: str) -> httpx2.Response:
    """Send the modern request `tools/list` with a token."""
    credentials = {} if token is None else {"authorization": f"Bearer {token}"}
    return client.post(path, json=LIST, headers={**MODERN_HEADERS, **credentials, **headers})


def good(server: AuthorizationServer, subject: str = "alice", audience: object = OURS, **more: Any) -> str:
    """A token that lets that person in, unless said otherwise."""
    return server.token(subject, audience=audience, **more)
