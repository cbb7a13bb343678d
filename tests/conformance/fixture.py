"""A server that passes every server scenario of the suite, on the real SDK, in both eras.

`python -m tests.conformance.fixture stdio` serves on its pipes; with `web` it serves, and prints the addresses of,
Streamable HTTP in both eras, Streamable HTTP of the handshake eras alone, and SSE: a server of its own each.
"""

import argparse
import asyncio
import json
import sys
import warnings
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

import mcp_types as types
from mcp.server import NotificationOptions, Server
from mcp.server.caching import CacheHint
from mcp.server.runner import serve_loop
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPDeprecationWarning
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.conformance.answers import Answers
from tests.conformance.definitions import SKILLS_EXTENSION
from tests.peers.library import SseApp
from tests.peers.sdk import Context, Events, LegacyOnly
from tests.peers.serving import serving
from tests.peers.toolbox import Json

_CACHED: Final = CacheHint(ttl_ms=1_000, scope="public")
_RECONNECT_AFTER: Final = 100  # ms
_METHODS: Final[Mapping[str, type[types.RequestParams]]] = {
    "tools/list": types.PaginatedRequestParams,
    "tools/call": types.CallToolRequestParams,
    "resources/list": types.PaginatedRequestParams,
    "resources/templates/list": types.PaginatedRequestParams,
    "resources/read": types.ReadResourceRequestParams,
    "resources/subscribe": types.SubscribeRequestParams,
    "resources/unsubscribe": types.UnsubscribeRequestParams,
    "resources/directory/read": types.ReadResourceRequestParams,
    "skills/list": types.PaginatedRequestParams,
    "skills/get": types.ReadResourceRequestParams,
    "prompts/list": types.PaginatedRequestParams,
    "prompts/get": types.GetPromptRequestParams,
    "completion/complete": types.CompleteRequestParams,
    "logging/setLevel": types.SetLevelRequestParams,
}


class Fixture(Server[Any]):
    """An SDK server that declares `listChanged` for every list, in every era."""

    def __init__(self) -> None:
        answers = Answers()
        super().__init__(
            "conformance-fixture",
            version="1.0",
            instructions="What the conformance suite looks for.",
            cache_hints={
                "tools/list": _CACHED,
                "prompts/list": _CACHED,
                "resources/list": _CACHED,
                "resources/templates/list": _CACHED,
                "resources/read": _CACHED,
            },
            get_tool_input_schema=answers.schema_of,
            on_subscriptions_listen=answers.listen,
        )

        async def answer(ctx: Context, params: types.RequestParams) -> Json:
            # The raw parameters: the models of the SDK are for refusing what is malformed.
            return await answers.to(ctx, ctx.params or {})

        for method, params_type in _METHODS.items():
            self.add_request_handler(method, params_type, answer)

    def get_capabilities(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
        *,
        protocol_version: str | None = None,
    ) -> types.ServerCapabilities:
        everything = NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True)
        skills: dict[str, dict[str, Any]] = {SKILLS_EXTENSION: {"directoryRead": True}}
        return super().get_capabilities(
            everything, experimental_capabilities, {**(extensions or {}), **skills}, protocol_version=protocol_version
        )


async def _stdio(*, handshake_only: bool) -> None:
    fixture = Fixture()
    async with stdio_server() as (incoming, outgoing):
        if handshake_only:
            await serve_loop(fixture, incoming, outgoing, lifespan_state={})
        else:
            await fixture.run(incoming, outgoing, fixture.create_initialization_options())


class Trimmed:
    """ASGI: header values without the blanks at their end (RFC 9110, 5.5), which uvicorn's parser leaves there."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if "headers" in scope:
            scope = {**scope, "headers": [(name, value.strip()) for name, value in scope["headers"]]}
        await self._app(scope, receive, send)


@asynccontextmanager
async def web() -> AsyncIterator[dict[str, str]]:
    """The addresses by what is served there; `direct` is as `http`, for the suite alone."""
    apps: dict[str, ASGIApp] = {
        "direct": _http(),
        "http": _http(),
        "http-legacy": LegacyOnly(_http()),
        "sse": SseApp(Fixture()),
    }
    async with AsyncExitStack() as stack:
        bases = {name: await stack.enter_async_context(serving(app)) for name, app in apps.items()}
        yield {name: f"{base}/{'sse' if name == 'sse' else 'mcp'}" for name, base in bases.items()}


def _http() -> ASGIApp:
    return Trimmed(Fixture().streamable_http_app(event_store=Events(), retry_interval=_RECONNECT_AFTER))


async def _web() -> None:
    async with web() as addresses:
        print(json.dumps(addresses), flush=True)
        await asyncio.to_thread(sys.stdin.read)


def main() -> None:
    """Serve until stdin ends."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.fixture")
    parser.add_argument("transport", choices=("stdio", "web"))
    parser.add_argument("--handshake-only", action="store_true", help="stdio: know nothing of 2026-07-28")
    options = parser.parse_args()
    warnings.simplefilter("ignore", MCPDeprecationWarning)
    asyncio.run(_web() if options.transport == "web" else _stdio(handshake_only=options.handshake_only))


if __name__ == "__main__":
    main()
