"""A server with resources, templates and prompts, on the real SDK: every transport, both eras, answers as plain JSON.

Tools change what there is: `add` (kind, name), `touch` (uri), and `watched` says which resources it was asked to tell
of, in order.
"""

import json
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import mcp_types as types
from mcp.server import Server
from mcp.server.context import CallNext, HandlerResult
from mcp.server.sse import SseServerTransport
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.peers.sdk import MODERN, Context
from tests.peers.toolbox import Json, text, text_result, tool

FILE: Final = "file:///notes/a.txt"
PAGE: Final = "https://example.com/page"
VIEW: Final = "ui://view/main.html"
BOOK: Final = "urn:isbn:1"
ITEM: Final = "demo://item/{id}"
DOCS: Final = "https://example.com/docs/{page}"
VENDOR: Final[Json] = {"x-vendor": {"kept": [1, None]}, "_meta": {"com.example/tag": "peer"}}

RESOURCES: Final[list[Json]] = [
    {"uri": FILE, "name": "a", "mimeType": "text/plain", "size": 5, **VENDOR},
    {"uri": PAGE, "name": "page", **VENDOR},
    {"uri": VIEW, "name": "view", "mimeType": "text/html;profile=mcp-app", "_meta": {"ui": {"csp": {}}}},
    {"uri": BOOK, "name": "book"},
]
TEMPLATES: Final[list[Json]] = [
    {"uriTemplate": ITEM, "name": "item", "title": "An item", **VENDOR},
    {"uriTemplate": DOCS, "name": "docs"},
]
PROMPTS: Final[list[Json]] = [
    {"name": "greet", "description": "Says hello.", "arguments": [{"name": "who", "required": True}], **VENDOR},
    {"name": "embed", "arguments": [{"name": "uri"}]},
    {"name": "a.b"},
]
TOOLS: Final[list[Json]] = [
    tool("links", "Everything that names a resource.", _meta={"ui": {"resourceUri": VIEW}, "ui/resourceUri": VIEW}),
    tool("add", "Adds a resource, template, prompt or tool.", {"kind": {"type": "string"}, "name": {"type": "string"}}),
    tool("touch", "Says that a resource changed.", {"uri": {"type": "string"}, "times": {"type": "integer"}}),
    tool("watched", "What it was asked to tell of."),
    tool("die", "Ends the whole process."),
]
LINKS: Final[list[Json]] = [
    text("see"),
    {"type": "resource_link", "uri": FILE, "name": "a", "x-vendor-block": 1},
    {"type": "resource", "resource": {"uri": "file:///not/listed", "text": "inside"}, "annotations": {"priority": 1}},
    {"type": "resource_link", "uri": PAGE, "name": "page"},
]
WORDS: Final = ("paris", "park", "party")
_MANY: Final = 150


class Library(Server[Any]):
    """An SDK server with resources and prompts; `name` is in every text that is read."""

    def __init__(self, name: str = "library", *, hints: Mapping[str, Any] | None = None, tells: bool = True) -> None:
        self.bus = InMemorySubscriptionBus()
        super().__init__(
            name,
            version="1.0",
            instructions=f"The {name} keeps notes. Ask it for a.txt first.",
            on_subscriptions_listen=ListenHandler(self.bus),
            get_tool_input_schema=self._schema_of,
        )
        self.lists: dict[str, list[Json]] = {
            "tools": list(TOOLS),
            "resources": list(RESOURCES),
            "resourceTemplates": list(TEMPLATES),
            "prompts": list(PROMPTS),
        }
        self.hints = dict(hints if hints is not None else {"ttlMs": 60_000, "cacheScope": "public"})
        self.tells = tells
        self.event_log: list[str] = []
        self.read: list[Json] = []
        self.asked: list[str] = []
        # What becomes of a method instead of an answer.
        self.broken: dict[str, Callable[[], Awaitable[Json]]] = {}
        self._sessions: dict[str, list[Any]] = {}
        self.middleware.append(self._answer)

    def get_capabilities(self, *args: Any, **kwargs: Any) -> types.ServerCapabilities:
        changed = self.tells or None
        return types.ServerCapabilities(
            tools=types.ToolsCapability(list_changed=changed),
            resources=types.ResourcesCapability(list_changed=changed, subscribe=changed),
            prompts=types.PromptsCapability(list_changed=changed),
            completions=types.CompletionsCapability(),
        )

    async def _answer(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        made = await self._made(ctx, dict(ctx.params or {})) if ctx.request_id is not None else None
        if made is None:
            return await call_next(ctx)
        if ctx.protocol_version != MODERN:
            return made
        info = {"io.modelcontextprotocol/serverInfo": {"name": self.name, "version": "1.0"}}
        holds = ctx.method.endswith(("/list", "/read")) and "resultType" not in made
        hints = self.hints if holds else {}
        return {"resultType": "complete", **made, "_meta": {**made.get("_meta", {}), **info}, **hints}

    def _schema_of(self, name: str) -> Json | None:
        return next((one["inputSchema"] for one in self.lists["tools"] if one["name"] == name), None)

    async def _made(self, ctx: Context, params: Json) -> Json | None:
        self.asked.append(ctx.method)
        if ctx.method in self.broken:
            return await self.broken[ctx.method]()
        match ctx.method:
            case "tools/list" | "resources/list" | "prompts/list":
                field = ctx.method.partition("/")[0]
                return {field: self.lists[field]}
            case "resources/templates/list":
                return {"resourceTemplates": self.lists["resourceTemplates"]}
            case "resources/read":
                return self._read(ctx, params)
            case "prompts/get":
                return self._prompt(params)
            case "completion/complete":
                return self._complete(params)
            case "tools/call":
                return await self._call(ctx, params)
            case "resources/subscribe" | "resources/unsubscribe":
                return self._watch(ctx, params)
        return None

    # -- what it has

    def _read(self, ctx: Context, params: Json) -> Json:
        uri = params["uri"]
        self.read.append(params)
        known = [one["uri"] for one in self.lists["resources"]]
        if uri not in known and not uri.startswith(("demo://item/", "file:///not/", "https://example.com/docs/")):
            code = -32602 if ctx.protocol_version == MODERN else -32002
            raise MCPError(code, "Resource not found", {"uri": uri, "com.example/hint": 1})
        more = [{"uri": f"{uri}/part", "blob": "AA=="}] if uri == FILE else []
        contents = [{"uri": uri, "mimeType": "text/plain", "text": f"{self.name}: {uri}", **VENDOR}, *more]
        return {"contents": contents, "x-vendor-result": "kept"}

    def _prompt(self, params: Json) -> Json:
        name, arguments = params["name"], params.get("arguments") or {}
        if name not in [one["name"] for one in self.lists["prompts"]]:
            raise MCPError(types.INVALID_PARAMS, f"No prompt {name}")
        if name == "embed":
            contents = [{"type": "resource", "resource": {"uri": arguments["uri"], "text": "inside"}}, LINKS[1]]
        else:
            contents = [text(f"{self.name} greets {json.dumps(arguments)}")]
        messages = [{"role": "user", "content": content} for content in contents]
        return {"description": name, "messages": messages, "x-vendor-result": "kept"}

    def _complete(self, params: Json) -> Json:
        ref, start = params["ref"], params["argument"]["value"]
        if start == "many":
            return {"completion": {"values": [f"many-{at}" for at in range(_MANY)], "total": _MANY}}
        said = ref.get("name") or ref.get("uri")
        context = params.get("context", {}).get("arguments", {}).get("before")
        values = [word for word in WORDS if word.startswith(start)]
        return {"completion": {"values": [*values, str(said), *([context] if context else [])], "hasMore": False}}

    # -- what changes it

    async def _call(self, ctx: Context, params: Json) -> Json:
        name, arguments = params["name"], params.get("arguments") or {}
        match name:
            case "links":
                return {"content": LINKS, "_meta": {"ui": {"resourceUri": VIEW}}}
            case "add":
                await self.add(arguments["kind"], arguments["name"], ctx)
            case "touch":
                for _ in range(arguments.get("times", 1)):
                    await self.touch(arguments["uri"])
            case "die":
                os._exit(7)
            case "watched":
                return text_result(json.dumps(self.event_log))
            case _:
                return text_result(f"{self.name} did {name}")
        return text_result("done")

    async def add(self, kind: str, name: str, ctx: Context | None = None) -> None:
        """Add an item and notify every subscriber."""
        uri = f"file:///{name}"
        event: ServerEvent
        match kind:
            case "resource":
                self.lists["resources"] = [*self.lists["resources"], {"uri": uri, "name": name}]
                event = ResourcesListChanged()
            case "template":
                self.lists["resourceTemplates"] = [*self.lists["resourceTemplates"], {"uriTemplate": f"{uri}/{{x}}"}]
                event = ResourcesListChanged()
            case "prompt":
                self.lists["prompts"] = [*self.lists["prompts"], {"name": name}]
                event = PromptsListChanged()
            case _:
                self.lists["tools"] = [*self.lists["tools"], tool(name, "Grown.")]
                event = ToolsListChanged()
        await self.bus.publish(event)
        if ctx is not None and ctx.protocol_version != MODERN:
            what = "resource" if kind == "template" else kind
            await getattr(ctx.session, f"send_{what}_list_changed")()

    async def touch(self, uri: str) -> None:
        """Notify every subscriber of a resource, or of what contains it, that it changed."""
        await self.bus.publish(ResourceUpdated(uri))
        for watched, sessions in self._sessions.items():
            if uri == watched or uri.startswith(f"{watched}/"):
                for session in sessions:
                    await session.send_resource_updated(uri)

    def _watch(self, ctx: Context, params: Json) -> Json:
        verb, uri = ctx.method.rpartition("/")[2], params["uri"]
        self.event_log.append(f"{verb} {uri}")
        if uri.endswith("refused"):
            raise MCPError(types.INVALID_PARAMS, "Nobody may watch that")
        sessions = self._sessions.setdefault(uri, [])
        if verb == "subscribe":
            sessions.append(ctx.session)
        else:
            sessions.clear()
        return {}


class SseApp:
    """An ASGI app that serves one SDK server over HTTP+SSE, the stream at `/sse`."""

    def __init__(self, server: Server[Any]) -> None:
        self._server = server
        self._transport = SseServerTransport("/messages/")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        if scope["path"] != "/sse":
            await self._transport.handle_post_message(scope, receive, send)
            return
        async with self._transport.connect_sse(scope, receive, send) as (incoming, outgoing):
            await self._server.run(incoming, outgoing, self._server.create_initialization_options())


def http_app(library: Library) -> ASGIApp:
    """Streamable HTTP at `/mcp`, both eras."""
    return library.streamable_http_app()
