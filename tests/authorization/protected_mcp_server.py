"""An MCP server that accepts the tokens of an authorization server, and says whose token a call came with.

    async with authorization_server() as idp, protected_mcp_server(idp) as server:
        server.url                 # Streamable HTTP, both eras; `server.sse_url` is HTTP+SSE
        server.needs["write"] = "files:write"      # a scope that a tool needs: 403 without it
        server.refuses.add(token)                  # 401 for this token, though it has not expired

The tools of `Toolbox` are there, and `whoami`, whose structured result has the subject, client and scopes.
`server.callers` are the subjects of all calls in order; `server.seen` the headers `authorization` of all requests.
"""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tests.authorization import token_endpoint
from tests.authorization.authorization_server import AuthorizationServer
from tests.peers import sdk
from tests.peers.serving import serving
from tests.peers.toolbox import Json, Toolbox, text_result, tool

PRM: Final = "/.well-known/oauth-protected-resource"


class ProtectedServer:
    """ASGI middleware around the server: metadata for all, the rest for those with a token."""

    def __init__(self, idp: AuthorizationServer, mcp: ASGIApp, sse: ASGIApp) -> None:
        self.idp = idp
        self.address = ""
        self.needs: dict[str, str] = {}
        self.refuses: set[str] = set()
        self.seen: list[str | None] = []
        self.callers: list[str] = []
        self.metadata: Json = {}
        self.scope = "mcp"
        self.tells = True
        self.asks_for_token = True
        self._mcp, self._sse = mcp, sse

    @property
    def url(self) -> str:
        return f"{self.address}/mcp"

    @property
    def sse_url(self) -> str:
        return f"{self.address}/sse"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._mcp(scope, receive, send)
            return
        path: str = scope["path"]
        if path.startswith(PRM):
            await self._described(path)(scope, receive, send)
            return
        header = dict(scope["headers"]).get(b"authorization")
        self.seen.append(None if header is None else header.decode())
        facts = self._verified("" if header is None else header.decode())
        if facts is None and self.asks_for_token:
            await self._challenge(401, path, "invalid_token" if header else None)(scope, receive, send)
            return
        body, receive = await _read(scope, receive)
        name = (body.get("params") or {}).get("name") if body.get("method") == "tools/call" else None
        if name in self.needs and self.needs[name] not in str((facts or {}).get("scope", "")).split():
            await self._challenge(403, path, "insufficient_scope", self.needs[name])(scope, receive, send)
            return
        if name is not None:
            self.callers.append(str((facts or {}).get("sub")))
        scope["state"] = {**scope.get("state", {}), "facts": facts}
        await (self._mcp if path == "/mcp" else self._sse)(scope, receive, send)

    def _described(self, path: str) -> Response:
        of = path.removeprefix(PRM)
        if of not in ("/mcp", "/sse"):
            return Response(status_code=404)
        document = {
            "resource": f"{self.address}{of}",
            "authorization_servers": [self.idp.issuer],
            "scopes_supported": [self.scope],
            "bearer_methods_supported": ["header"],
            **self.metadata,
        }
        return JSONResponse({name: value for name, value in document.items() if value is not None})

    def _challenge(self, status: int, path: str, error: str | None, scope: str | None = None) -> Response:
        parameters: Mapping[str, str | None] = {
            "resource_metadata": f"{self.address}{PRM}{path}" if self.tells else None,
            "scope": scope or self.scope or None,
            "error": error,
        }
        written = ", ".join(f'{name}="{value}"' for name, value in parameters.items() if value)
        return Response(status_code=status, headers={"www-authenticate": f"Bearer {written}".strip()})

    def _verified(self, header: str) -> Json | None:
        scheme, _, text = header.partition(" ")
        if scheme.lower() != "bearer" or text in self.refuses:
            return None
        facts = self.idp.access.get(text)
        audience = None if facts is None else facts.get("aud")
        accepted = (self.url, self.sse_url)
        if facts is None or not facts["active"] or facts["exp"] <= self.idp.clock() or audience not in accepted:
            return None
        token_endpoint.used(self.idp, text)
        return facts


async def _read(scope: Scope, receive: Receive) -> tuple[Json, Receive]:
    """Return a request's JSON, and a `receive` that gives the body again."""
    if scope["method"] != "POST":
        return {}, receive
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    try:
        parsed = json.loads(body)
    except ValueError:
        parsed = {}
    return (parsed if isinstance(parsed, dict) else {}), again


async def _whoami(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Answer the two tools that are about the token; the rest is the toolbox's."""
    name = (ctx.params or {}).get("name")
    if ctx.method != "tools/call" or name not in ("whoami", "write") or ctx.request is None:
        return await call_next(ctx)
    facts = ctx.request.scope["state"]["facts"] or {}
    told = {name: facts.get(name) for name in ("sub", "client_id", "scope", "iss", "aud")}
    result = {**text_result(json.dumps(told)), "structuredContent": told}
    return {**result, "resultType": "complete"} if ctx.protocol_version == sdk.MODERN else result


@asynccontextmanager
async def protected_mcp_server(idp: AuthorizationServer) -> AsyncIterator[ProtectedServer]:
    """Serve one on a free port."""
    box = Toolbox()
    box.definitions.append(tool("whoami", "Says whose token the call came with."))
    box.definitions.append(tool("write", "Needs a scope, if the test says so."))
    built = [sdk.build(box), sdk.build(box)]
    for one in built:
        one.middleware.insert(0, _whoami)
    mcp = built[0].streamable_http_app()
    server = ProtectedServer(idp, mcp, sdk.sse_app(server=built[1]))
    async with serving(server) as address:
        server.address = address
        yield server
