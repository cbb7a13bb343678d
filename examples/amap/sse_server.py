"""The HTTP+SSE server (MCP 2024-11-05): `GET /sse?key=...` opens a session, `POST /messages/` sends in it.

Law: the key is compared in constant time and never written anywhere; the session id guards the POSTs.
"""

import hmac
import signal
import socket
import sys
from types import FrameType
from typing import Any

import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.sse import SseServerTransport
from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route
from starlette.types import Message, Receive, Scope, Send

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_DRAIN_SECONDS = 2


class SseEndpoint:
    """An ASGI application for `GET /sse`: checks the key, then serves one session until its stream closes."""

    def __init__(
        self, server: Server[Any], transport: SseServerTransport, security: TransportSecuritySettings, key: str
    ) -> None:
        self._server = server
        self._transport = transport
        self._security = TransportSecurityMiddleware(security)
        self._key = key.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        refusal = await self._security.validate_request(request)
        if refusal is None and not hmac.compare_digest(request.query_params.get("key", "").encode(), self._key):
            refusal = _unauthorized()
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        response = _Response(send)
        async with self._transport.connect_sse(scope, receive, response.send) as (incoming, outgoing):
            await self._server.run(incoming, outgoing, self._server.create_initialization_options())
        await response.finish()


class _Response:
    """A response that knows whether it was ended: uvicorn reports a stream that is cut at shutdown as an error."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._open = False

    async def send(self, message: Message) -> None:
        """Pass the message on."""
        self._open = message["type"] == "http.response.start" or bool(message.get("more_body"))
        await self._send(message)

    async def finish(self) -> None:
        """End the response if nothing has."""
        if self._open:
            await self.send({"type": "http.response.body", "body": b"", "more_body": False})


class AnnouncingServer(uvicorn.Server):
    """Uvicorn that says on standard error, in one line, where it listens once it does."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start accepting, then say so."""
        await super().startup(sockets)
        for listener in sockets or ():
            host, port = listener.getsockname()[:2]
            name = f"[{host}]" if ":" in host else host
            print(f"amap example listening on http://{name}:{port}/sse", file=sys.stderr, flush=True)


def build_app(server: Server[Any], *, host: str, key: str) -> Starlette:
    """The two routes. On a loopback host only loopback names are served (DNS rebinding)."""
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=host in _LOOPBACK,
        allowed_hosts=["127.0.0.1:*", "localhost:*", "[::1]:*"],
        allowed_origins=["http://127.0.0.1:*", "http://localhost:*", "http://[::1]:*"],
    )
    transport = SseServerTransport("/messages/", security_settings=security)
    return Starlette(
        routes=[
            Route("/sse", endpoint=SseEndpoint(server, transport, security, key), methods=["GET"]),
            Mount("/messages/", app=transport.handle_post_message),
        ]
    )


def serve(server: Server[Any], *, host: str, port: int, key: str) -> None:
    """Serve until SIGTERM or SIGINT, then leave with status 0 within two seconds, open streams or not."""
    config = uvicorn.Config(
        build_app(server, host=host, key=key),
        host=host,
        port=port,
        access_log=False,
        log_level="warning",
        timeout_graceful_shutdown=_DRAIN_SECONDS,
    )
    # Uvicorn hands a signal it shut down for back to the handler it found; without these the exit status is -15.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _leave)
    listener = config.bind_socket()
    AnnouncingServer(config).run(sockets=[listener])


def _leave(_: int, __: FrameType | None) -> None:
    raise SystemExit(0)


def _unauthorized() -> JSONResponse:
    body = {
        "status": "0",
        "info": "INVALID_USER_KEY",
        "infocode": "10001",
        "error": "缺少 key，或者 key 不对",
        "fix": "把 key 放在网址里：/sse?key=<你的 key>；本示例的 key 由环境变量 AMAP_EXAMPLE_KEY 设定",
    }
    return JSONResponse(body, status_code=401, headers={"WWW-Authenticate": 'Key realm="amap example", param="key"'})
