"""Parts of the pages for browsers: their headers and their static files, on Starlette.

Rule: imported by modules that are loaded at their first request only, since Starlette takes 30 ms.
"""

import gzip
from collections.abc import Mapping
from hashlib import sha256
from importlib.resources import files
from typing import Any, Final

from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aggregator.wire.codec import encode

_GUARDS: Final[Mapping[str, str]] = {
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    # Other sites learn nothing of our address. Without any referrer a browser would hide from us the origin of a form.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_KINDS: Final = {
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
    ".wav": "audio/wav",
}
_FOREVER: Final = "public, max-age=31536000, immutable"
PACKED: Final[Mapping[str, str]] = {"content-encoding": "gzip", "vary": "accept-encoding"}


class GuardedPages:
    """An ASGI middleware: every response has headers that keep other pages and foreign text out.

    `policy` is the Content-Security-Policy. A response that sets one of the headers keeps its own.
    """

    def __init__(self, app: ASGIApp, policy: str, further: Mapping[str, str] | None = None) -> None:
        self._app = app
        self._headers = {"content-security-policy": policy, **_GUARDS, **(further or {})}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers.setdefault(name, value)
            await send(message)

        await self._app(scope, receive, guarded)


class JsonResponse(Response):
    """A JSON response as every other frontend writes it."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return encode(content)


class StaticFiles:
    """The files that pages load: few, small, in memory, whole and packed.

    Their path changes with their content: `version` stands for all of it. So a browser asks once, and no thread reads
    a file for a request.
    """

    def __init__(self, package: str) -> None:
        self._files: dict[str, tuple[str, bytes, bytes]] = {}
        digest = sha256()
        for file in sorted(files(package).joinpath("static").iterdir(), key=lambda one: one.name):
            kind = _KINDS.get(file.name[file.name.rfind(".") :])
            if kind is not None:
                content = file.read_bytes()
                digest.update(file.name.encode() + b"\0" + content)
                self._files[file.name] = kind, content, gzip.compress(content, 9, mtime=0)
        self.version = digest.hexdigest()[:12]

    def mount(self, path: str) -> Mount:
        """Return the routes of the files, below a path; those of another version are not there."""
        files_of_version = Router([Route(f"/{self.version}/{{name}}", self._file)], redirect_slashes=False)
        return Mount(path, files_of_version)

    async def _file(self, request: Request) -> Response:
        found = self._files.get(request.path_params["name"])
        if found is None:
            raise HTTPException(404)
        kind, content, packed = found
        if accepts_gzip(request):
            return Response(packed, headers={"cache-control": _FOREVER, **PACKED}, media_type=kind)
        return Response(content, headers={"cache-control": _FOREVER}, media_type=kind)


def accepts_gzip(request: Request) -> bool:
    """Return whether the browser takes a packed response."""
    return "gzip" in request.headers.get("accept-encoding", "")
