"""A host on the SDK whose person agrees in a browser: the SDK's own OAuth client."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl

# Nothing listens there: the redirect is read, not followed.
BACK: Final = "http://127.0.0.1:9/callback"


class Memory:
    """The storage of the SDK's client."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


async def browse(url: str, user: str) -> AuthorizationCodeResult:
    """Open an authorization URL as a person who agrees, and return what the redirect carries."""
    async with httpx2.AsyncClient(cookies={"user": user}) as browser:
        answer = await browser.get(url)
    assert answer.status_code == 302, answer.text
    carried = {name: values[0] for name, values in parse_qs(urlsplit(answer.headers["location"]).query).items()}
    return AuthorizationCodeResult(code=carried["code"], state=carried.get("state"), iss=carried.get("iss"))


@asynccontextmanager
async def signed_in(url: str, user: str = "alice", memory: Memory | None = None) -> AsyncIterator[Client]:
    """A client of an MCP server that signs in as that person when it is asked to."""
    opened: list[str] = []

    async def redirect(to: str) -> None:
        opened.append(to)

    async def callback() -> AuthorizationCodeResult:
        return await browse(opened[-1], user)

    about = OAuthClientMetadata(client_name="A host", redirect_uris=[AnyUrl(BACK)])
    auth = OAuthClientProvider(url, about, memory or Memory(), redirect, callback)
    async with (
        httpx2.AsyncClient(auth=auth, follow_redirects=True, timeout=20) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        yield client
