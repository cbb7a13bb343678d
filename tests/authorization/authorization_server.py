"""An authorization server on loopback, which does what MCP's authorization pages ask for, or what a test tells it to.

    async with authorization_server() as idp:
        idp.token("alice", audience=url)            # an access token, without a flow
        idp.add_client("robot", secret="...")       # a client known in advance
        idp.user = "alice"                          # who agrees at once at `/authorize` (or `?user=`, or a cookie)
        idp.counts["token"]                         # requests to each endpoint
        idp.metadata["jwks_uri"] = None             # taken out of the metadata; another value replaces it
        idp.instead["jwks"] = answer_with(500)      # another answer of an endpoint
        idp.before["token"] = event.wait            # what an endpoint waits for first

Endpoints by name: metadata, jwks, register, authorize, token, introspect, revoke, device_authorization.
Where the loop is another one: `BackgroundLoop().open(authorization_server())`.
"""

import base64
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from tests.authorization import issued, token_endpoint
from tests.authorization.issued import Client, Code, Device, Grant, Refused
from tests.authorization.signing_keys import SigningKeys
from tests.peers.serving import serving
from tests.peers.toolbox import Json

Answer = Callable[[Request], Awaitable[Response]]

_ENDPOINTS: Final = ("jwks", "register", "authorize", "token", "introspect", "revoke", "device_authorization")


class AuthorizationServer:
    """The state of one server; `issuer` is its identifier, with the path if it has one."""

    def __init__(self, path: str = "") -> None:
        self.path = path
        self.address = ""
        self.keys = SigningKeys()
        self.counts: Counter[str] = Counter()
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.metadata: Json = {}
        self.metadata_paths: set[str] | None = None
        self.instead: dict[str, Answer] = {}
        self.before: dict[str, Callable[[], Awaitable[object]]] = {}
        self.clock: Callable[[], float] = time.time
        self.user = "alice"
        self.refuses: str | None = None
        self.answer_issuer: str | None = "right"
        self.claims: Json = {}
        self.lifetime = 3600.0
        self.opaque = False
        self.gives_refresh = True
        self.rotates = True
        self.open_registration = True
        self.documents: dict[str, Json] = {}
        self.trusted: list[AuthorizationServer] = []
        self.clients: dict[str, Client] = {}
        self.codes: dict[str, Code] = {}
        self.devices: dict[str, Device] = {}
        self.grants: list[Grant] = []
        self.access: dict[str, Json] = {}
        self.seen_ids: set[str] = set()

    @property
    def issuer(self) -> str:
        return f"{self.address}{self.path}"

    def add_client(
        self,
        client_id: str,
        secret: str | None = None,
        *,
        redirect_uris: Iterable[str] = (),
        public_key: str | None = None,
    ) -> Client:
        """Register a client by hand; `public_key` is a PEM, for `private_key_jwt`."""
        made = Client(client_id, secret, tuple(redirect_uris), public_key)
        self.clients[client_id] = made
        return made

    def token(
        self,
        subject: str = "alice",
        *,
        audience: object = None,
        scopes: Iterable[str] = (),
        client: str | None = "host",
        lifetime: float | None = None,
        typ: str | None = "at+jwt",
        **claims: Any,
    ) -> str:
        """An access token, without a flow. A claim of None is left out."""
        facts = issued.access_claims(self, subject, audience, scopes, client, lifetime)
        facts = {name: value for name, value in {**facts, **claims}.items() if value is not None}
        if self.opaque:
            text = secrets.token_urlsafe(32)
            self.access[text] = {**facts, "active": True}
            return text
        text = self.keys.sign(facts, typ=typ)
        self.access[text] = {**facts, "active": True}
        return text

    def revoke(self, text: str) -> None:
        """Let introspection call a token inactive, and refuse the refresh tokens of the same grant."""
        if text in self.access:
            self.access[text]["active"] = False
        for grant in self.grants:
            if text in grant.access or text in grant.refresh:
                grant.revoked = True
                for other in grant.access:
                    self.access[other]["active"] = False

    def revoke_all(self, subject: str | None = None) -> None:
        """Refuse the refresh tokens of a person, or of all, from now on."""
        for grant in self.grants:
            if subject in (None, grant.subject):
                grant.revoked = True

    def app(self) -> Starlette:
        """The web application."""
        routes = [Route(f"{self.path}/{name}", self._endpoint(name), methods=["GET", "POST"]) for name in _ENDPOINTS]
        routes += [Route(path, self._endpoint("metadata"), methods=["GET"]) for path in self._well_known()]
        return Starlette(routes=routes)

    def _well_known(self) -> list[str]:
        inserted = [
            f"/.well-known/{kind}{self.path}" for kind in ("oauth-authorization-server", "openid-configuration")
        ]
        return [*inserted, f"{self.path}/.well-known/openid-configuration"] if self.path else inserted

    def _endpoint(self, name: str) -> Answer:
        own: Answer = getattr(self, f"_{name}")

        async def answer(request: Request) -> Response:
            self.counts[name] += 1
            form = dict(await request.form()) if request.method == "POST" and name != "register" else {}
            sent = {**request.query_params, **{key: str(value) for key, value in form.items()}}
            self.requests.append((name, sent))
            if name in self.before:
                await self.before[name]()
            try:
                return await self.instead.get(name, own)(request)
            except Refused as refused:
                body = {"error": refused.error, "error_description": refused.description}
                return JSONResponse(body, refused.status, headers={"cache-control": "no-store"})

        return answer

    async def _metadata(self, request: Request) -> Response:
        if self.metadata_paths is not None and request.url.path not in self.metadata_paths:
            return Response(status_code=404)
        at = self.issuer
        whole = {
            "issuer": at,
            **{f"{name}_endpoint": f"{at}/{name}" for name in ("authorize", "token", "introspect", "revoke")},
            "authorization_endpoint": f"{at}/authorize",
            "introspection_endpoint": f"{at}/introspect",
            "revocation_endpoint": f"{at}/revoke",
            "device_authorization_endpoint": f"{at}/device_authorization",
            "registration_endpoint": f"{at}/register" if self.open_registration else None,
            "jwks_uri": f"{at}/jwks",
            "response_types_supported": ["code"],
            "grant_types_supported": sorted(token_endpoint.GRANTS),
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": [*token_endpoint.METHODS],
            "token_endpoint_auth_signing_alg_values_supported": ["ES256", "RS256", "EdDSA"],
            "authorization_response_iss_parameter_supported": True,
            "client_id_metadata_document_supported": True,
            "scopes_supported": ["openid", "offline_access", "mcp"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256", "RS256"],
            **self.metadata,
        }
        for name in ("authorize", "introspect", "revoke"):
            whole.pop(f"{name}_endpoint")
        return JSONResponse({name: value for name, value in whole.items() if value is not None})

    async def _jwks(self, request: Request) -> Response:
        return JSONResponse(self.keys.published())

    async def _register(self, request: Request) -> Response:
        if not self.open_registration:
            raise Refused("access_denied", "no dynamic registration here", 403)
        asked: Json = await request.json()
        method = asked.get("token_endpoint_auth_method", "client_secret_basic")
        secret = None if method == "none" else secrets.token_urlsafe(24)
        made = self.add_client(f"dynamic-{len(self.clients) + 1}", secret, redirect_uris=asked["redirect_uris"])
        answer = {**asked, "token_endpoint_auth_method": method, "client_id": made.client_id}
        if secret is not None:
            answer |= {"client_secret": secret, "client_secret_expires_at": 0}
        return JSONResponse(answer, 201)

    async def _authorize(self, request: Request) -> Response:
        asked = dict(request.query_params)
        client = await issued.find_client(self, asked.get("client_id", ""))
        back = asked.get("redirect_uri", "")
        if not issued.may_redirect(client, back):
            raise Refused("invalid_request", "redirect_uri is not registered")
        answer = {"state": asked["state"]} if "state" in asked else {}
        if self.answer_issuer is not None:
            answer["iss"] = self.issuer if self.answer_issuer == "right" else self.answer_issuer
        try:
            if self.refuses is not None:
                raise Refused(self.refuses, "the person said no")
            user = asked.get("user") or request.cookies.get("user") or self.user
            answer["code"] = issued.new_code(self, client, asked, user)
        except Refused as refused:
            answer |= {"error": refused.error, "error_description": refused.description}
        separator = "&" if urlsplit(back).query else "?"
        return RedirectResponse(f"{back}{separator}{urlencode(answer)}", 302)

    async def _token(self, request: Request) -> Response:
        return JSONResponse(await token_endpoint.answer(self, request), headers={"cache-control": "no-store"})

    async def _introspect(self, request: Request) -> Response:
        form = await request.form()
        await token_endpoint.authenticated(self, request, dict(form), confidential=True)
        facts = self.access.get(str(form.get("token", "")))
        active = facts is not None and facts["active"]
        return JSONResponse(facts if active else {"active": False})

    async def _revoke(self, request: Request) -> Response:
        form = await request.form()
        await token_endpoint.authenticated(self, request, dict(form))
        self.revoke(str(form.get("token", "")))
        return Response()

    async def _device_authorization(self, request: Request) -> Response:
        form = {name: str(value) for name, value in (await request.form()).items()}
        client = await token_endpoint.authenticated(self, request, form)
        code = secrets.token_urlsafe(24)
        shown = f"{secrets.token_hex(2)}-{secrets.token_hex(2)}".upper()
        self.devices[code] = Device(client, shown, form.get("scope", ""), form.get("resource"))
        page = f"{self.issuer}/device"
        whole = f"{page}?user_code={shown}"
        answer = {"device_code": code, "user_code": shown, "verification_uri": page, "verification_uri_complete": whole}
        return JSONResponse({**answer, "expires_in": 600, "interval": 1})

    def agree(self, user_code: str | None = None, user: str | None = None) -> None:
        """Let a person agree to a device (to every waiting one without a code), or refuse it with the user `""`."""
        for device in self.devices.values():
            if user_code in (None, device.user_code):
                device.user = self.user if user is None else user


def answer_with(status: int = 200, body: bytes = b"", **headers: str) -> Answer:
    """An answer for `instead`; `location="..."` with 302 redirects."""

    async def answer(request: Request) -> Response:
        return Response(body, status, {name.replace("_", "-"): value for name, value in headers.items()})

    return answer


def basic(client_id: str, secret: str) -> str:
    """The header of a client that signs in by HTTP Basic."""
    return f"Basic {base64.b64encode(f'{client_id}:{secret}'.encode()).decode()}"


@asynccontextmanager
async def authorization_server(path: str = "") -> AsyncIterator[AuthorizationServer]:
    """Serve one on a free port; with a path, its issuer has one."""
    server = AuthorizationServer(path)
    async with serving(server.app()) as address:
        server.address = address
        yield server
