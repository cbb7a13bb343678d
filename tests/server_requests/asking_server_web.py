"""The asking server over Streamable HTTP, in either era, and over HTTP+SSE: plain ASGI, one object per server."""

import asyncio
import itertools
import json
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from tests.peers.toolbox import Json
from tests.server_requests.asking_server import AskingServer, ClientConnection

_SESSION: Final = "mcp-session-id"


class EventStream:
    """One event stream: what is said on it, in order."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue()

    def say(self, message: Json) -> None:
        self.put(json.dumps({"jsonrpc": "2.0", **message}))

    def put(self, data: str, event: str = "message") -> None:
        self._queue.put_nowait(f"event: {event}\r\ndata: {data}\r\n\r\n".encode())

    def end(self) -> None:
        self._queue.put_nowait(None)

    async def events(self) -> Any:
        while (part := await self._queue.get()) is not None:
            yield part


class AskingWebServer:
    """`/mcp` is Streamable HTTP, `/sse` with `/messages` is HTTP+SSE. `requests` are the headers of every POST."""

    def __init__(self, era: str, *, one_session: bool = False) -> None:
        self.server = AskingServer(era)
        self.sessions: dict[str, ClientConnection] = {}
        self.requests: list[dict[str, str]] = []
        self.refuse_headers = 0
        self._one_session = one_session
        self._numbers = itertools.count(1)
        self._tasks: set[asyncio.Task[Any]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        place = (request.method, request.url.path)
        if place == ("POST", "/mcp"):
            response = await self._post(request)
        elif place == ("GET", "/mcp"):
            response = self._stand(request)
        elif place == ("GET", "/sse"):
            response = self._open_sse()
        elif place == ("POST", "/messages"):
            response = await self._message(request)
        else:
            response = Response(status_code=405 if request.method == "GET" else 204)
        await response(scope, receive, send)

    # -- Streamable HTTP

    async def _post(self, request: Request) -> Response:
        message = await request.json()
        self.requests.append(dict(request.headers))
        session = request.headers.get(_SESSION)
        if self.server.modern:
            if message.get("method") == "initialize":
                return JSONResponse({"error": "no"}, 400)
            if self.refuse_headers and message["method"] == "tools/call":
                self.refuse_headers -= 1
                error = {"code": -32020, "message": "header mcp-param-first does not match"}
                return JSONResponse({"jsonrpc": "2.0", "id": message["id"], "error": error}, 400)
            connection = ClientConnection()
        elif message.get("method") == "initialize":
            if self._one_session and self.sessions:
                error = {"code": -32600, "message": "Server already initialized"}
                return JSONResponse({"jsonrpc": "2.0", "id": message["id"], "error": error}, 400)
            session = f"session-{next(self._numbers)}"
            connection = self.sessions[session] = ClientConnection()
        elif session not in self.sessions:
            error = {"code": -32600, "message": "Bad Request: no session"}
            return JSONResponse({"jsonrpc": "2.0", "id": message.get("id"), "error": error}, 400)
        else:
            connection = self.sessions[session]
        if "id" not in message or "method" not in message:
            connection.hear(message)
            return Response(status_code=202)
        headers = {_SESSION: session} if session is not None else {}
        if message["method"] not in ("tools/call", "prompts/get", "resources/read"):
            return JSONResponse(await self.server.respond(connection, message, lambda said: None), headers=headers)
        return self._streamed(connection, message, headers)

    def _streamed(self, connection: ClientConnection, message: Json, headers: dict[str, str]) -> Response:
        stream = EventStream()

        async def run() -> None:
            try:
                stream.say(await self.server.respond(connection, message, stream.say))
            finally:
                connection.running.pop(message["id"], None)
                stream.end()

        task = asyncio.create_task(run())
        connection.running[message["id"]] = task
        self._keep(task)

        async def events() -> Any:
            try:
                async for part in stream.events():
                    yield part
            finally:
                if self.server.modern:
                    # A closed stream is how a request is cancelled.
                    task.cancel()

        return StreamingResponse(events(), media_type="text/event-stream", headers=headers)

    def _stand(self, request: Request) -> Response:
        connection = self.sessions.get(request.headers.get(_SESSION, ""))
        if connection is None:
            return Response(status_code=405)
        stream = EventStream()
        connection.standing = stream.say
        return StreamingResponse(stream.events(), media_type="text/event-stream")

    # -- HTTP+SSE

    def _open_sse(self) -> Response:
        session, stream = f"session-{next(self._numbers)}", EventStream()
        connection = self.sessions[session] = ClientConnection()
        connection.standing = stream.say
        stream.put(f"/messages?session={session}", "endpoint")
        return StreamingResponse(stream.events(), media_type="text/event-stream")

    async def _message(self, request: Request) -> Response:
        connection, message = self.sessions[request.query_params["session"]], await request.json()
        if "id" not in message or "method" not in message:
            connection.hear(message)
            return Response(status_code=202)
        assert connection.standing is not None
        say = connection.standing

        async def run() -> None:
            try:
                say(await self.server.respond(connection, message, say))
            finally:
                connection.running.pop(message["id"], None)

        connection.running[message["id"]] = task = asyncio.create_task(run())
        self._keep(task)
        return Response(status_code=202)

    def _keep(self, task: asyncio.Task[Any]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
