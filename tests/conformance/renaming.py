"""A proxy between the suite, which knows the fixture's own names, and the aggregator, which puts `PREFIX.` before them.

Rule: it changes names of tools and prompts, and nothing else; what is not one upstream's is left out of its lists.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from aiohttp import ClientConnectionResetError, ClientSession, ClientTimeout, DummyCookieJar, TCPConnector, web

from tests.peers.toolbox import Json

_NAMED: Final = ("tools/call", "prompts/get")
_LISTS: Final = ("tools", "prompts")
# What belongs to one hop (RFC 9110, 7.6.1), and what the client makes anew.
_OF_THE_HOP: Final = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length", "te", "upgrade"})


class Renaming:
    """Between `name` outside and `PREFIX.name` inside."""

    def __init__(self, prefix: str) -> None:
        self._before = f"{prefix}."

    def request(self, body: bytes) -> bytes:
        """A request as the aggregator is to get it; what is no request is left as it is."""
        message = _parsed(body)
        if message is None or not isinstance(params := message.get("params"), dict):
            return body
        method = message.get("method")
        if method in _NAMED and isinstance(params.get("name"), str):
            params["name"] = self._before + params["name"]
        elif method == "completion/complete" and isinstance(ref := params.get("ref"), dict) and "name" in ref:
            ref["name"] = f"{self._before}{ref['name']}"
        return json.dumps(message).encode()

    def header(self, method: str | None, name: str) -> str:
        """`Mcp-Name` of a request."""
        return self._before + name if method in _NAMED else name

    def answer(self, body: bytes) -> bytes:
        """A message of the aggregator as the suite is to get it."""
        message = _parsed(body)
        if message is None or not isinstance(result := message.get("result"), dict):
            return body
        for kind in _LISTS:
            if isinstance(listed := result.get(kind), list):
                result[kind] = [self._outside(entry) for entry in listed if entry["name"].startswith(self._before)]
        return json.dumps(message).encode()

    def line(self, line: bytes) -> bytes:
        """A line of an event stream; the aggregator writes each message on one."""
        if not line.startswith(b"data:"):
            return line
        data = line.removeprefix(b"data:").strip()
        return b"data: " + self.answer(data) + b"\r\n" if data else line

    def _outside(self, entry: Json) -> Json:
        return {**entry, "name": entry["name"].removeprefix(self._before)}


def _parsed(body: bytes) -> Json | None:
    try:
        message: Any = json.loads(body)
    except ValueError:
        return None
    return message if isinstance(message, dict) else None


class Proxy:
    """One upstream's view of the aggregator at `base`."""

    def __init__(self, base: str, prefix: str, session: ClientSession) -> None:
        self._base = base
        self._renaming = Renaming(prefix)
        self._session = session
        self.own_host = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Pass one request on, and what is answered back as it comes."""
        body = await request.read()
        async with self._session.request(
            request.method,
            self._base + request.raw_path,
            data=self._renaming.request(body) if body else None,
            headers=self._headers(request),
            allow_redirects=False,
        ) as answer:
            kept = [(name, value) for name, value in answer.headers.items() if name.lower() not in _OF_THE_HOP]
            if answer.content_type != "text/event-stream":
                whole = self._renaming.answer(await answer.read())
                return web.Response(status=answer.status, body=whole, headers=dict(kept))
            response = web.StreamResponse(status=answer.status, headers=dict(kept))
            # The suite leaves a stream as soon as it has what it waits for.
            with suppress(ClientConnectionResetError):
                await response.prepare(request)
                async for line in answer.content:
                    await response.write(self._renaming.line(line))
                await response.write_eof()
            return response

    def _headers(self, request: web.Request) -> list[tuple[str, str]]:
        """Our own address becomes the aggregator's; somebody else's is left for the aggregator to refuse."""
        method = request.headers.get("mcp-method")
        their_host = self._base.removeprefix("http://")
        headers = []
        for name, value in request.headers.items():
            match name.lower():
                case "mcp-name":
                    headers.append((name, self._renaming.header(method, value)))
                case "host" | "origin":
                    headers.append((name, value.replace(self.own_host, their_host)))
                case hop if hop not in _OF_THE_HOP:
                    headers.append((name, value))
        return headers


@asynccontextmanager
async def renamed(base: str, prefix: str) -> AsyncIterator[str]:
    """The address where the aggregator at `base` (`http://host:port`) has no `prefix` before its names."""
    # A connection of its own for each request: one that the other side drops is then never tried a second time.
    connector = TCPConnector(limit=0, force_close=True)
    timeout = ClientTimeout(total=None)
    async with ClientSession(
        connector=connector, timeout=timeout, cookie_jar=DummyCookieJar(), skip_auto_headers=["Accept", "User-Agent"]
    ) as session:
        proxy = Proxy(base, prefix, session)
        application = web.Application(client_max_size=2**24)
        application.router.add_route("*", "/{path:.*}", proxy.handle)
        # A host that goes away is to be seen to go away behind us too.
        runner = web.AppRunner(application, handler_cancellation=True, access_log=None, shutdown_timeout=1)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            host, port = runner.addresses[0][:2]
            proxy.own_host = f"{host}:{port}"
            yield f"http://{proxy.own_host}"
        finally:
            async with asyncio.timeout(10):
                await runner.cleanup()
