"""A host that calls the web frontends by ASGI messages, and may fall silent, stall or disconnect."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, MutableMapping
from contextlib import asynccontextmanager
from typing import Any, Final

from aggregator.app.build import build_app
from aggregator.config.model import Config
from aggregator.config.server_config import ServerConfig
from aggregator.config.settings import HttpConfig
from aggregator.frontends.server import WebServer

from .app_harness import BOUND, AppHarness, Json

HEADERS: Final = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
MODERN_HEADERS: Final = {"mcp-protocol-version": "2026-07-28"}


class AsgiRequest:
    """One HTTP request, sent message by message."""

    def __init__(self, web: WebServer, verb: str, target: str, body: bytes, headers: Mapping[str, str]) -> None:
        path, _, query = target.partition("?")
        raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()]
        self._scope: MutableMapping[str, Any] = {
            "type": "http",
            "client": ("127.0.0.1", 50000),
            "method": verb,
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": query.encode(),
            "headers": [(b"host", b"127.0.0.1"), *raw],
        }
        self._inbox: asyncio.Queue[MutableMapping[str, Any]] = asyncio.Queue()
        self.give(body)
        self._web = web
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = bytearray()
        self.parts: list[bytes] = []
        self.reading = asyncio.Event()
        self.reading.set()
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        await self._web.app(self._scope, self._inbox.get, self._send)

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        await self.reading.wait()
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {name.decode(): value.decode("latin-1") for name, value in message["headers"]}
        else:
            self.body += message.get("body", b"")
            self.parts.append(bytes(message.get("body", b"")))

    def give(self, body: bytes, *, more: bool = False) -> None:
        """Send the body, or another part of it."""
        self._inbox.put_nowait({"type": "http.request", "body": body, "more_body": more})

    def leave(self) -> None:
        """Close the connection as the host."""
        self._inbox.put_nowait({"type": "http.disconnect"})

    async def done(self) -> "AsgiRequest":
        """Wait until the response is complete."""
        async with asyncio.timeout(BOUND):
            await asyncio.shield(self.task)
        return self

    def events(self) -> list[Json]:
        """Every whole JSON message on the event stream so far."""
        lines = bytes(self.body).replace(b"\r\n", b"\n").split(b"\n")
        return [json.loads(line[6:]) for line in lines if line.startswith(b"data: {")]

    def json(self) -> Any:
        return json.loads(self.body)

    def answer(self) -> Json:
        """The answer, plain or as the last event."""
        streamed = self.headers.get("content-type", "").startswith("text/event-stream")
        found: Json = self.events()[-1] if streamed else self.json()
        return found


class AsgiClient:
    """A host that posts to the web frontends of one running application."""

    def __init__(self, harness: AppHarness, web: WebServer) -> None:
        self.harness = harness
        self.web = web
        self.requests: list[AsgiRequest] = []

    def request(self, verb: str, target: str = "/mcp", body: bytes = b"", **headers: str) -> AsgiRequest:
        """Start one request; header names with `_` for `-`."""
        named = HEADERS | {name.replace("_", "-"): value for name, value in headers.items()}
        request = AsgiRequest(self.web, verb, target, body, named)
        self.requests.append(request)
        return request

    def post(self, message: Any, session: str | None = None, **headers: str) -> AsgiRequest:
        """A message of a handshake era, or bytes as they are."""
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        return self.request("POST", "/mcp", body, **headers, **({"mcp_session_id": session} if session else {}))

    def post_modern(self, message: Json) -> AsgiRequest:
        """A message of 2026-07-28, with the headers that go with it."""
        params = message.get("params")
        name = params.get("name") if isinstance(params, dict) else None
        headers = {"mcp_protocol_version": "2026-07-28", "mcp_method": str(message.get("method"))}
        return self.post(message, **headers, **({"mcp_name": name} if isinstance(name, str) else {}))

    async def session(self) -> str:
        """A handshake."""
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}
        request = await self.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}).done()
        assert request.status == 200, request.body
        session = request.headers["mcp-session-id"]
        await self.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, session).done()
        return session


@asynccontextmanager
async def asgi_client(*servers: ServerConfig, **http: Any) -> AsyncIterator[AsgiClient]:
    """Run the application with these upstreams and its web frontends."""
    config = Config(servers=servers, startup_wait=0.1, http=HttpConfig(**http))
    app = build_app(config)
    web = WebServer(app.gateway, config, app.access, app.report)
    async with app.running():
        async with asyncio.timeout(BOUND):
            await app.supervisor.wait_all_tried()
        hosts = AsgiClient(AppHarness(app), web)
        async with web.running():
            yield hosts
            web.close_streams()
            for request in hosts.requests:
                request.reading.set()
                request.leave()
        async with asyncio.timeout(BOUND):
            await asyncio.gather(*(request.task for request in hosts.requests), return_exceptions=True)


def call(name: Any, request_id: Any = 1, **arguments: Any) -> Json:
    """A `tools/call` message."""
    params = {"name": name, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}
