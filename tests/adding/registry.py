"""An MCP Registry on this machine, with the API of the official one, and with faults that are asked for."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import unquote

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.adding.descriptions import Json, answer
from tests.peers.serving import serving


@dataclass
class FakeRegistry:
    """The servers by name, files by path, the faults by name of a server, and what was asked."""

    servers: dict[str, Json] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    faults: Mapping[str, Response] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    only_v0: bool = False
    address: str = ""

    def add(self, detail: Json) -> None:
        self.servers[detail["name"]] = detail

    async def handle(self, request: Request) -> Response:
        path = request.scope["raw_path"].decode()
        self.asked.append(path)
        if path in self.files:
            return Response(self.files[path])
        parts = [unquote(part) for part in path.strip("/").split("/")]
        if self.only_v0 and parts[0] != "v0":
            return JSONResponse({"title": "Not Found", "status": 404}, 404)
        if parts[1:] == ["servers"]:
            words = request.query_params.get("search", "")
            found = [answer(one) for name, one in self.servers.items() if words in name]
            return JSONResponse({"servers": found, "metadata": {"count": len(found)}})
        name = parts[2] if len(parts) > 2 else ""
        if name in self.faults:
            return self.faults[name]
        detail = self.servers.get(name)
        if detail is None or parts[4] not in ("latest", detail["version"]):
            return JSONResponse({"title": "Not Found", "status": 404, "detail": "Server not found"}, 404)
        return JSONResponse(answer(detail))


@asynccontextmanager
async def fake_registry() -> AsyncIterator[FakeRegistry]:
    """Serve a registry while the context is open."""
    made = FakeRegistry()
    app = Starlette(routes=[Route("/{rest:path}", made.handle)])
    async with serving(app) as address:
        made.address = address.rstrip("/")
        yield made


def endless() -> Response:
    """An answer without an end."""

    async def pieces() -> AsyncIterator[bytes]:
        while True:
            yield b" " * 65_536
            await asyncio.sleep(0)

    return StreamingResponse(pieces(), media_type="application/json")


def silent() -> Response:
    """An answer that never goes on."""

    async def pieces() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.Event().wait()

    return StreamingResponse(pieces(), media_type="application/json")


def redirect(address: str) -> Response:
    """A redirection."""
    return RedirectResponse(address)
