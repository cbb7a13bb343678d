"""A web site on loopback that answers as a test says, and remembers what it was asked."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tests.peers.serving import serving


@dataclass
class SeenRequest:
    """One request."""

    verb: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def form(self) -> dict[str, str]:
        return dict(parse_qsl(self.body.decode(), keep_blank_values=True))


@dataclass
class Site:
    """The site: `answers` by path; anything else is 404."""

    url: str = ""
    asked: list[SeenRequest] = field(default_factory=list)
    answers: dict[str, tuple[int, bytes, Mapping[str, str]]] = field(default_factory=dict)

    def say(self, path: str, document: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        self.answers[path] = (status, body, headers or {})

    @property
    def paths(self) -> list[str]:
        return [asked.path for asked in self.asked]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        self.asked.append(SeenRequest(request.method, request.url.path, request.headers, await request.body()))
        status, body, headers = self.answers.get(request.url.path, (404, b"{}", {}))
        await Response(body, status, dict(headers))(scope, receive, send)


@asynccontextmanager
async def serving_site() -> AsyncIterator[Site]:
    site = Site()
    async with serving(site) as url:
        site.url = url
        yield site
