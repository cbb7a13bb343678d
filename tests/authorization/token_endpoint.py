"""The token endpoint: authentication of clients, and every grant that MCP knows."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import jwt
from joserfc.jwk import Key
from starlette.requests import Request

from tests.authorization.issued import Client, Grant, Refused, find_client
from tests.peers.toolbox import Json

if TYPE_CHECKING:
    from tests.authorization.authorization_server import AuthorizationServer

METHODS: Final = ("client_secret_basic", "client_secret_post", "private_key_jwt", "none")
_TYPES: Final = "urn:ietf:params:oauth:token-type:"
_ASSERTION: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

Form = Mapping[str, Any]


async def authenticated(
    server: AuthorizationServer, request: Request, form: Form, *, confidential: bool = False
) -> Client:
    """Return the client that sent a request.

    Raises:
        Refused: it did not prove who it is.
    """
    header = request.headers.get("authorization", "")
    client_id, secret = str(form.get("client_id", "")), form.get("client_secret")
    if header.startswith("Basic "):
        name, _, password = base64.b64decode(header[6:]).decode().partition(":")
        client_id, secret = unquote(name), unquote(password)
    if form.get("client_assertion_type") == _ASSERTION:
        return _by_assertion(server, str(form.get("client_assertion", "")))
    client = await find_client(server, client_id)
    if client.public_key is not None or (confidential and client.secret is None):
        raise Refused("invalid_client", "this client has to prove itself", 401)
    if client.secret is not None and not hmac.compare_digest(str(secret or "").encode(), client.secret.encode()):
        raise Refused("invalid_client", "wrong secret", 401)
    return client


def _by_assertion(server: AuthorizationServer, assertion: str) -> Client:
    try:
        named = jwt.decode(assertion, options={"verify_signature": False})
        client = server.clients[named["sub"]]
        facts = jwt.decode(
            assertion,
            client.public_key or "",
            algorithms=["ES256", "RS256", "PS256", "EdDSA"],
            audience=[server.issuer, f"{server.issuer}/token"],
            issuer=client.client_id,
            options={"require": ["exp", "jti", "aud", "iss", "sub"]},
        )
    except (jwt.PyJWTError, KeyError) as error:
        raise Refused("invalid_client", f"assertion: {type(error).__name__}", 401) from error
    _only_once(server, facts["jti"])
    return client


def _only_once(server: AuthorizationServer, jti: str) -> None:
    if jti in server.seen_ids:
        raise Refused("invalid_grant", "assertion used twice")
    server.seen_ids.add(jti)


async def answer(server: AuthorizationServer, request: Request) -> Json:
    """Answer a token request.

    Raises:
        Refused: with the OAuth error.
    """
    form = {name: str(value) for name, value in (await request.form()).items()}
    grant = GRANTS.get(form.get("grant_type", ""))
    if grant is None:
        raise Refused("unsupported_grant_type")
    client = await authenticated(server, request, form)
    return await grant(server, client, form)


async def _code(server: AuthorizationServer, client: Client, form: Form) -> Json:
    code = server.codes.pop(form.get("code", ""), None)
    if code is None or code.expires < server.clock() or code.client.client_id != client.client_id:
        raise Refused("invalid_grant", "unknown code")
    digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
    if base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != code.challenge:
        raise Refused("invalid_grant", "wrong verifier")
    if form.get("redirect_uri") != code.redirect_uri:
        raise Refused("invalid_grant", "another redirect_uri")
    if form.get("resource", code.resource) != code.resource:
        raise Refused("invalid_target", "another resource")
    grant = Grant(client, code.subject, code.scope, code.resource)
    server.grants.append(grant)
    tokens = _tokens(server, grant)
    if "openid" in code.scope.split():
        tokens["id_token"] = _id_token(server, client, code.subject, code.nonce)
    return tokens


def _id_token(server: AuthorizationServer, client: Client, subject: str, nonce: str | None) -> str:
    now = int(server.clock())
    facts: Json = {"iss": server.issuer, "sub": subject, "aud": client.client_id, "iat": now, "exp": now + 3600}
    return server.keys.sign({**facts, **({} if nonce is None else {"nonce": nonce})}, typ="JWT")


def _tokens(server: AuthorizationServer, grant: Grant, *, refresh: bool = True) -> Json:
    scopes = grant.scope.split()
    access = server.token(grant.subject, audience=grant.resource, scopes=scopes, client=grant.client.client_id)
    grant.access.append(access)
    body: Json = {"access_token": access, "token_type": "Bearer", "expires_in": int(server.lifetime)}
    if grant.scope:
        body["scope"] = grant.scope
    if refresh and server.gives_refresh:
        if server.rotates or not grant.refresh:
            grant.refresh.append(secrets.token_urlsafe(24))
        body["refresh_token"] = grant.refresh[-1]
    return body


def used(server: AuthorizationServer, access: str) -> None:
    """Note the use of an access token: refresh tokens from before it are dead (a protected server calls this)."""
    for grant in server.grants:
        if grant.access and grant.access[-1] == access and server.rotates:
            del grant.refresh[:-1]


async def _refresh(server: AuthorizationServer, client: Client, form: Form) -> Json:
    sent = form.get("refresh_token", "")
    for grant in server.grants:
        if sent in grant.refresh and grant.client.client_id == client.client_id and not grant.revoked:
            if server.rotates:
                # Older ones die with its use, as do newer ones that evidently never arrived.
                grant.refresh[:] = [sent]
            if form.get("resource", grant.resource) != grant.resource:
                raise Refused("invalid_target", "another resource")
            return _tokens(server, grant)
    raise Refused("invalid_grant", "unknown refresh token")


async def _client_credentials(server: AuthorizationServer, client: Client, form: Form) -> Json:
    if client.secret is None and client.public_key is None:
        raise Refused("unauthorized_client")
    grant = Grant(client, client.client_id, form.get("scope", ""), form.get("resource"))
    server.grants.append(grant)
    return _tokens(server, grant, refresh=False)


async def _exchange(server: AuthorizationServer, client: Client, form: Form) -> Json:
    """Exchange a token (RFC 8693) for an access token, or an ID token for an ID-JAG."""
    kind = form.get("subject_token_type")
    wanted = form.get("requested_token_type", f"{_TYPES}access_token")
    facts = _verified(server, form.get("subject_token", ""), client.client_id if kind == f"{_TYPES}id_token" else None)
    if wanted == f"{_TYPES}id-jag":
        now = int(server.clock())
        claims = {"iss": server.issuer, "sub": facts["sub"], "aud": form["audience"], "iat": now, "exp": now + 300}
        claims |= {"client_id": form.get("client_id", client.client_id), "jti": secrets.token_urlsafe(12)}
        claims |= {name: form[name] for name in ("resource", "scope") if name in form}
        jag = server.keys.sign(claims, typ="oauth-id-jag+jwt")
        return {"access_token": jag, "issued_token_type": wanted, "token_type": "N_A", "expires_in": 300}
    grant = Grant(client, facts["sub"], form.get("scope", ""), form.get("resource") or form.get("audience"))
    server.grants.append(grant)
    return {**_tokens(server, grant, refresh=False), "issued_token_type": wanted}


async def _jwt_bearer(server: AuthorizationServer, client: Client, form: Form) -> Json:
    """Accept an ID-JAG of a trusted issuer (RFC 7523)."""
    assertion = form.get("assertion", "")
    if jwt.get_unverified_header(assertion).get("typ") != "oauth-id-jag+jwt":
        raise Refused("invalid_grant", "no ID-JAG")
    facts = _verified(server, assertion, server.issuer)
    if facts.get("client_id") != client.client_id:
        raise Refused("invalid_grant", "made for another client")
    _only_once(server, facts["jti"])
    grant = Grant(client, facts["sub"], facts.get("scope", ""), facts.get("resource"))
    server.grants.append(grant)
    return _tokens(server, grant, refresh=False)


def _verified(server: AuthorizationServer, text: str, audience: str | None) -> Json:
    """The claims of a token of this server or of a trusted one."""
    try:
        kid = jwt.get_unverified_header(text).get("kid")
        claimed = jwt.decode(text, options={"verify_signature": False}).get("iss")
        issuer = next(one for one in (server, *server.trusted) if one.issuer == claimed)
        algorithm, key = issuer.keys.keys[str(kid)]
        options: Any = {"require": ["exp", "sub"], "verify_aud": audience is not None}
        facts: Json = jwt.decode(text, _public(key), algorithms=[algorithm], audience=audience, options=options)
    except (jwt.PyJWTError, KeyError, StopIteration) as error:
        raise Refused("invalid_grant", f"token: {type(error).__name__}") from error
    return facts


def _public(key: Key) -> Any:
    return jwt.PyJWK(key.as_dict(private=False)).key


async def _device(server: AuthorizationServer, client: Client, form: Form) -> Json:
    device = server.devices.get(form.get("device_code", ""))
    if device is None or device.client.client_id != client.client_id:
        raise Refused("expired_token")
    if device.user is None:
        raise Refused("authorization_pending")
    del server.devices[form["device_code"]]
    if not device.user:
        raise Refused("access_denied")
    grant = Grant(client, device.user, device.scope, device.resource)
    server.grants.append(grant)
    return _tokens(server, grant)


GRANTS: Final[dict[str, Callable[[AuthorizationServer, Client, Form], Awaitable[Json]]]] = {
    "authorization_code": _code,
    "refresh_token": _refresh,
    "client_credentials": _client_credentials,
    "urn:ietf:params:oauth:grant-type:token-exchange": _exchange,
    "urn:ietf:params:oauth:grant-type:jwt-bearer": _jwt_bearer,
    "urn:ietf:params:oauth:grant-type:device_code": _device,
}
