"""The toolbox on the real SDK, over every transport and in both eras.

`python -m tests.peers.sdk stdio|http|sse`: the last two print their address to stderr. As a `local` upstream it is
`tests.peers.sdk:build`, one server each time, or `tests.peers.sdk:server`, one for all.
A middleware answers `tools/list` and `tools/call` with plain JSON, since the SDK's models would drop unknown fields.
"""

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, cast

import mcp_types as types
from mcp.server import NotificationOptions, Server
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.sse import SseServerTransport
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http import EventCallback, EventId, EventMessage, EventStore, StreamId
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPError
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.peers.serving import BOUND, serving
from tests.peers.toolbox import Json, Refusal, Toolbox, text_result, tool

MODERN: Final = "2026-07-28"
Context = ServerRequestContext[Any, Any]

# What only this transport can do: end the stream in the middle of a call, and answer on a resumed one.
BREAK_OFF: Final = tool("break_off", "Ends the event stream before it answers.")


def build(toolbox: Toolbox | None = None) -> Server[Any]:
    """A server around its own toolbox, or around this one."""
    tools = toolbox if toolbox is not None else Toolbox()
    bus = InMemorySubscriptionBus()

    async def nobody(ctx: Context, params: Any) -> Any:
        raise AssertionError("the middleware answers before this is asked")

    server: Server[Any] = Server(
        "peer",
        version="1.0",
        instructions="A peer for tests.",
        get_tool_input_schema=lambda name: None,
        on_list_tools=nobody,
        on_call_tool=nobody,
        on_subscriptions_listen=ListenHandler(bus),
    )

    async def publish() -> None:
        await bus.publish(ToolsListChanged())

    tools.changed.append(publish)

    async def answer(ctx: Context, call_next: CallNext) -> HandlerResult:
        if ctx.request_id is None or ctx.method not in ("tools/list", "tools/call"):
            return await call_next(ctx)
        if ctx.method == "tools/list":
            return _dressed(ctx, {"tools": tools.definitions}, cacheable=True)
        return _dressed(ctx, await _call(tools, ctx, ctx.params or {}))

    server.middleware.append(answer)
    return server


async def _call(tools: Toolbox, ctx: Context, params: Mapping[str, Any]) -> Json:
    async def progress(done: float, total: float, message: str) -> None:
        await ctx.session.report_progress(done, total, message)

    if params["name"] == "break_off":
        assert ctx.close_sse_stream is not None
        await ctx.close_sse_stream()
        return text_result("after all")
    try:
        result = await tools.call(params, progress)
    except Refusal as refusal:
        raise MCPError(refusal.code, refusal.message, refusal.data) from refusal
    if params["name"] == "grow" and ctx.protocol_version != MODERN:
        await ctx.session.send_tool_list_changed()
    return result


def _dressed(ctx: Context, result: Json, *, cacheable: bool = False) -> Json:
    """Complete a result for its era: in 2026-07-28 with `resultType`, server info and cache hints."""
    if ctx.protocol_version != MODERN:
        return result
    info = {"io.modelcontextprotocol/serverInfo": {"name": "peer", "version": "1.0"}}
    dressed = {**result, "resultType": "complete", "_meta": {**result.get("_meta", {}), **info}}
    return {**dressed, "ttlMs": 0, "cacheScope": "public"} if cacheable else dressed


server: Server[Any] = build()


class Events(EventStore):
    """A store of sent events by number, so that a broken stream can be resumed."""

    def __init__(self) -> None:
        self._sent: list[tuple[StreamId, types.JSONRPCMessage | None]] = []

    async def store_event(self, stream_id: StreamId, message: types.JSONRPCMessage | None) -> EventId:
        self._sent.append((stream_id, message))
        return str(len(self._sent) - 1)

    async def replay_events_after(self, last_event_id: EventId, send_callback: EventCallback) -> StreamId | None:
        last = int(last_event_id)
        stream = self._sent[last][0]
        for number, (of, message) in enumerate(self._sent):
            if number > last and of == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


class Recorder:
    """ASGI middleware that records the method and headers of every request."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._news = threading.Condition()
        self.requests: list[tuple[str, dict[str, str]]] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = {name.decode(): value.decode("latin-1") for name, value in scope["headers"]}
            with self._news:
                self.requests.append((scope["method"], headers))
                self._news.notify_all()
        await self._app(scope, receive, send)

    async def seen(self, wanted: Callable[[str, dict[str, str]], bool], since: int = 0) -> None:
        """Wait for a request like that; from any loop."""

        def wait() -> bool:
            with self._news:
                return self._news.wait_for(lambda: any(wanted(*r) for r in self.requests[since:]), BOUND)

        assert await asyncio.to_thread(wait), "no such request came"


class LegacyOnly:
    """ASGI middleware that refuses 2026-07-28, as servers on SDK 1.x do."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope.get("headers", ()))
        if headers.get(b"mcp-protocol-version") == MODERN.encode():
            refusal = b'{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Bad Request: version"}}'
            await Response(refusal, 400, media_type="application/json")(scope, receive, send)
            return
        await self._app(scope, receive, send)


def http_app(toolbox: Toolbox | None = None, *, resumable: bool = False) -> Recorder:
    """Streamable HTTP at `/mcp`, both eras."""
    server = build(toolbox)
    store = Events() if resumable else None
    return Recorder(server.streamable_http_app(event_store=store, retry_interval=10 if resumable else None))


def sse_app(toolbox: Toolbox | None = None, server: Server[Any] | None = None) -> Starlette:
    """HTTP+SSE at `/sse`, of a server around that toolbox, or of that server."""
    server, transport = server or build(toolbox), SseServerTransport("/messages/")
    options = server.create_initialization_options(NotificationOptions(tools_changed=True))

    async def stream(scope: Scope, receive: Receive, send: Send) -> None:
        async with transport.connect_sse(scope, receive, send) as (incoming, outgoing):
            await server.run(incoming, outgoing, options)

    class Stream:
        """An endpoint that is ASGI itself."""

        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            await stream(scope, receive, send)

    return Starlette(
        routes=[Route("/sse", cast(Any, Stream()), methods=["GET"]), Mount("/messages/", transport.handle_post_message)]
    )


@asynccontextmanager
async def stdio() -> AsyncIterator[None]:
    """Serve on our own pipes until stdin ends."""
    peer = build()
    async with stdio_server() as (incoming, outgoing):
        await peer.run(incoming, outgoing, peer.create_initialization_options(NotificationOptions(tools_changed=True)))
    yield


async def _main(transport: str) -> None:
    if transport == "stdio":
        async with stdio():
            return
    app: ASGIApp = http_app() if transport == "http" else sse_app()
    async with serving(app) as address:
        print(f"{address}/{'mcp' if transport == 'http' else 'sse'}", file=sys.stderr, flush=True)
        await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1]))
