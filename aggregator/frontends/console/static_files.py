"""The files that pages load: few, small, in memory, under a path that changes with their content."""

import gzip
from hashlib import sha256
from importlib.resources import files
from typing import Final

from aggregator.frontends.console.responses import PageResponse
from aggregator.frontends.web.host_guard import Scope, header

_KINDS: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".wav": "audio/wav",
}
_FOREVER: Final = (b"cache-control", b"public, max-age=31536000, immutable")
_PACKED: Final = ((b"content-encoding", b"gzip"), (b"vary", b"accept-encoding"))


class StaticFiles:
    """The files, whole and packed. `version` stands for all of their content."""

    def __init__(self) -> None:
        folder = files("aggregator.frontends.console").joinpath("static")
        self._files: dict[str, tuple[str, bytes, bytes]] = {}
        digest = sha256()
        for file in sorted(folder.iterdir(), key=lambda one: one.name):
            kind = _KINDS.get(file.name[file.name.rfind(".") :])
            if kind is not None:
                content = file.read_bytes()
                digest.update(file.name.encode() + b"\0" + content)
                self._files[file.name] = kind, content, gzip.compress(content, 9, mtime=0)
        self.version = digest.hexdigest()[:12]

    def response(self, scope: Scope, path: str) -> PageResponse:
        """Return the file at `/static/VERSION/NAME`; one of another version is not there."""
        version, _, name = path.removeprefix("/static/").partition("/")
        if scope["method"] not in ("GET", "HEAD") or version != self.version or name not in self._files:
            return PageResponse(404, b"Not Found", "text/plain; charset=utf-8")
        kind, content, packed = self._files[name]
        if "gzip" in (header(scope, b"accept-encoding") or ""):
            return PageResponse(200, packed, kind, (_FOREVER, *_PACKED), kept=True)
        return PageResponse(200, content, kind, (_FOREVER,), kept=True)
