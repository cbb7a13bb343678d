"""Clients, codes and grants of an authorization server, and the claims of its tokens."""

from __future__ import annotations

import asyncio
import json
import secrets
import urllib.request
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tests.peers.toolbox import Json

if TYPE_CHECKING:
    from tests.authorization.authorization_server import AuthorizationServer


class Refused(Exception):
    """An OAuth error."""

    def __init__(self, error: str, description: str = "", status: int = 400) -> None:
        super().__init__(error)
        self.error, self.description, self.status = error, description, status


@dataclass
class Client:
    """A registered client; without a secret and a key it is public."""

    client_id: str
    secret: str | None = None
    redirect_uris: tuple[str, ...] = ()
    public_key: str | None = None


@dataclass
class Code:
    """An authorization code and what it is bound to."""

    client: Client
    redirect_uri: str
    challenge: str
    subject: str
    scope: str
    resource: str | None
    nonce: str | None
    expires: float


@dataclass
class Device:
    """A waiting device; `user` is the person who agreed, `""` one who refused."""

    client: Client
    user_code: str
    scope: str
    resource: str | None
    user: str | None = None


@dataclass
class Grant:
    """The consent of a person to a client. `refresh` are its valid refresh tokens: after a rotation the old one stays
    until the new one, or an access token given with it, is used.
    """

    client: Client
    subject: str
    scope: str
    resource: str | None
    refresh: list[str] = field(default_factory=list)
    access: list[str] = field(default_factory=list)
    revoked: bool = False


def access_claims(
    server: AuthorizationServer,
    subject: str,
    audience: object,
    scopes: Iterable[str],
    client: str | None,
    lifetime: float | None,
) -> Json:
    """The claims of an access token (RFC 9068)."""
    now = server.clock()
    return {
        "iss": server.issuer,
        "sub": subject,
        "aud": audience,
        "client_id": client,
        "scope": " ".join(scopes),
        "iat": int(now),
        "exp": int(now + (server.lifetime if lifetime is None else lifetime)),
        "jti": secrets.token_urlsafe(12),
        **server.claims,
    }


def new_code(server: AuthorizationServer, client: Client, asked: dict[str, str], user: str) -> str:
    """Give out a code for an authorization request.

    Raises:
        Refused: the request lacks what OAuth 2.1 asks for.
    """
    if asked.get("response_type") != "code":
        raise Refused("unsupported_response_type")
    if asked.get("code_challenge_method") != "S256" or not asked.get("code_challenge"):
        raise Refused("invalid_request", "PKCE with S256 is needed")
    text = secrets.token_urlsafe(24)
    server.codes[text] = Code(
        client=client,
        redirect_uri=asked["redirect_uri"],
        challenge=asked["code_challenge"],
        subject=user,
        scope=asked.get("scope", ""),
        resource=asked.get("resource"),
        nonce=asked.get("nonce"),
        expires=server.clock() + 60,
    )
    return text


async def find_client(server: AuthorizationServer, client_id: str) -> Client:
    """Return a registered client, or one that a client id metadata document describes.

    Raises:
        Refused: there is none.
    """
    if client_id in server.clients:
        return server.clients[client_id]
    if "://" not in client_id:
        raise Refused("invalid_client", "unknown client", 401)
    document = server.documents.get(client_id)
    if document is None:
        document = await asyncio.to_thread(_fetched, client_id)
    if document.get("client_id") != client_id:
        raise Refused("invalid_client", "the document is not that of this client", 401)
    return server.add_client(client_id, redirect_uris=document["redirect_uris"])


def _fetched(url: str) -> Json:
    with urllib.request.urlopen(url, timeout=10) as answer:  # noqa: S310 - the address is a test's own
        document: Json = json.load(answer)
    return document


def may_redirect(client: Client, back: str) -> bool:
    """Return whether an address is registered; on loopback the port may differ (RFC 8252, 7.3)."""
    asked = urlsplit(back)
    for registered in client.redirect_uris:
        known = urlsplit(registered)
        here = known.hostname in ("127.0.0.1", "::1", "localhost") and known.hostname == asked.hostname
        if back == registered or (here and (known.scheme, known.path) == (asked.scheme, asked.path)):
            return True
    return False
