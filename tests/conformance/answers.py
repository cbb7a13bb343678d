"""The answers of the fixture to each method, as plain JSON."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import mcp_types as types
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, PromptsListChanged, ToolsListChanged
from mcp.shared.exceptions import MCPError

from tests.conformance import definitions
from tests.conformance.asking_tools import ASKING_PROMPTS, ASKING_TOOLS
from tests.conformance.definitions import AUDIO, IMAGE, embedded
from tests.conformance.input_requests import settle
from tests.peers.sdk import MODERN, Context
from tests.peers.toolbox import Json, text, text_result

Params = Mapping[str, Any]

LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
_RESOURCE_NOT_FOUND: Final = -32002  # to 2025-11-25
_WORDS: Final = ("paris", "park", "party", "test", "testing")
# Between two notifications of one call, so that they are seen to come before its end.
_PAUSE: Final = 0.02

_PLAIN: Final[Mapping[str, Json]] = {
    "test_simple_text": text_result("This is a simple text response for testing."),
    "test_image_content": {"content": [IMAGE]},
    "test_audio_content": {"content": [AUDIO]},
    "test_embedded_resource": {
        "content": [embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")]
    },
    "test_multiple_content_types": {
        "content": [
            text("Multiple content types test:"),
            IMAGE,
            embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
        ]
    },
    "test_error_handling": {"content": [text("This tool intentionally returns an error for testing")], "isError": True},
    "test_extra_tool": text_result("Here for now"),
    "json_schema_2020_12_tool": text_result("The arguments fit"),
}


class Answers:
    """One server's worth of state: which lists have the extra entry, who watches what, who logs from which level."""

    def __init__(self) -> None:
        self._bus = InMemorySubscriptionBus()
        self.listen = ListenHandler(self._bus)
        self._tools, self._prompts = list(definitions.TOOLS), list(definitions.PROMPTS)
        self._level: dict[str, int] = {}
        self._watched: set[tuple[str, str]] = set()
        self._methods: Mapping[str, Callable[[Context, Params], Awaitable[Json]]] = {
            "tools/list": self._list_tools,
            "tools/call": self._call,
            "resources/list": self._list_resources,
            "resources/templates/list": self._list_templates,
            "resources/read": self._read,
            "resources/subscribe": self._subscribe,
            "resources/unsubscribe": self._unsubscribe,
            "resources/directory/read": self._read_directory,
            "skills/list": self._list_skills,
            "skills/get": self._get_skill,
            "prompts/list": self._list_prompts,
            "prompts/get": self._prompt,
            "completion/complete": self._complete,
            "logging/setLevel": self._set_level,
        }
        self._doing: Mapping[str, Callable[[Context, Params], Awaitable[Json]]] = {
            "test_tool_with_logging": self._log_thrice,
            "test_logging_tool": self._log_once,
            "test_tool_with_progress": self._progress,
            "test_reconnection": self._break_off,
            "test_trigger_tool_change": self._change_tools,
            "test_trigger_prompt_change": self._change_prompts,
            "test_x_mcp_header": self._repeat,
        }

    async def to(self, ctx: Context, params: Params) -> Json:
        """The result of one request.

        Raises:
            MCPError: the error to answer with.
        """
        result = await self._methods[ctx.method](ctx, params)
        return {"resultType": "complete", **result} if ctx.protocol_version == MODERN else result

    def schema_of(self, tool: str) -> Json | None:
        return next((known["inputSchema"] for known in self._tools if known["name"] == tool), None)

    # -- tools

    async def _list_tools(self, ctx: Context, params: Params) -> Json:
        return {"tools": self._tools}

    async def _call(self, ctx: Context, params: Params) -> Json:
        name = params["name"]
        if name in ASKING_TOOLS:
            return await settle(ctx, params, ASKING_TOOLS[name])
        if name in self._doing:
            return await self._doing[name](ctx, params)
        if self.schema_of(name) is None:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {name}")
        return dict(_PLAIN[name])

    async def _log_thrice(self, ctx: Context, params: Params) -> Json:
        for message in ("Tool execution started", "Tool processing data", "Tool execution completed"):
            await self._log(ctx, "info", message)
            await asyncio.sleep(_PAUSE)
        return text_result("Logged three times")

    async def _log_once(self, ctx: Context, params: Params) -> Json:
        await self._log(ctx, "info", "Logged")
        return text_result("Logged if that was wanted")

    async def _log(self, ctx: Context, level: types.LoggingLevel, message: str) -> None:
        """Send a log message where the level asks for it; in 2026-07-28 the SDK filters by the request."""
        if ctx.protocol_version == MODERN or LEVELS.index(level) >= self._level.get(_session(ctx), 0):
            await ctx.session.send_log_message(level, message, "fixture", related_request_id=ctx.request_id)

    async def _progress(self, ctx: Context, params: Params) -> Json:
        for done in (0, 50, 100):
            await ctx.session.report_progress(done, 100, f"Completed step {done} of 100")
            await asyncio.sleep(_PAUSE)
        return text_result("Done")

    async def _break_off(self, ctx: Context, params: Params) -> Json:
        if ctx.close_sse_stream is not None:
            await ctx.close_sse_stream()
            await asyncio.sleep(_PAUSE)
        return text_result("Reconnection test completed successfully")

    async def _change_tools(self, ctx: Context, params: Params) -> Json:
        _toggle(self._tools, definitions.EXTRA_TOOL)
        await self._bus.publish(ToolsListChanged())
        if ctx.protocol_version != MODERN:
            await ctx.session.send_tool_list_changed()
        return text_result("The tools have changed")

    async def _change_prompts(self, ctx: Context, params: Params) -> Json:
        _toggle(self._prompts, definitions.EXTRA_PROMPT)
        await self._bus.publish(PromptsListChanged())
        if ctx.protocol_version != MODERN:
            await ctx.session.send_prompt_list_changed()
        return text_result("The prompts have changed")

    async def _repeat(self, ctx: Context, params: Params) -> Json:
        return text_result(str(params["arguments"]["region"]))

    # -- resources

    async def _list_resources(self, ctx: Context, params: Params) -> Json:
        return {"resources": definitions.RESOURCES}

    async def _list_templates(self, ctx: Context, params: Params) -> Json:
        return {"resourceTemplates": definitions.TEMPLATES}

    async def _read(self, ctx: Context, params: Params) -> Json:
        uri = params["uri"]
        head, tail = definitions.TEMPLATE_URI.split("{id}")
        if uri == definitions.TEXT_URI:
            content = {"mimeType": "text/plain", "text": "This is the content of the static text resource."}
        elif uri == definitions.BINARY_URI:
            content = {"mimeType": "image/png", "blob": definitions.PNG}
        elif uri in definitions.SKILL_FILES:
            content = {"mimeType": "text/markdown", "text": definitions.SKILL_FILES[uri]}
        elif uri == definitions.WATCHED_URI:
            content = {"mimeType": "text/plain", "text": "Nothing has happened."}
        elif uri.startswith(head) and uri.endswith(tail):
            asked = uri[len(head) : -len(tail)]
            data = f'{{"id":"{asked}","templateTest":true,"data":"Data for ID: {asked}"}}'
            content = {"mimeType": "application/json", "text": data}
        else:
            code = types.INVALID_PARAMS if ctx.protocol_version == MODERN else _RESOURCE_NOT_FOUND
            raise MCPError(code, "Resource not found", {"uri": uri})
        return {"contents": [{"uri": uri, **content}]}

    async def _read_directory(self, ctx: Context, params: Params) -> Json:
        uri = params["uri"]
        if uri not in definitions.DIRECTORIES:
            raise MCPError(types.INVALID_PARAMS, f"{uri} is not a directory resource", {"uri": uri})
        return {"resources": definitions.DIRECTORIES[uri]}

    async def _list_skills(self, ctx: Context, params: Params) -> Json:
        return {"skills": definitions.SKILLS, **_hints(ctx)}

    async def _get_skill(self, ctx: Context, params: Params) -> Json:
        found = next((skill for skill in definitions.SKILLS if skill["uri"] == params["uri"]), None)
        if found is None:
            raise MCPError(types.INVALID_PARAMS, f"No skill is served at {params['uri']}", {"uri": params["uri"]})
        return {"skill": found, **_hints(ctx)}

    async def _subscribe(self, ctx: Context, params: Params) -> Json:
        self._watched.add((_session(ctx), params["uri"]))
        return {}

    async def _unsubscribe(self, ctx: Context, params: Params) -> Json:
        self._watched.discard((_session(ctx), params["uri"]))
        return {}

    # -- prompts, completion, logging

    async def _list_prompts(self, ctx: Context, params: Params) -> Json:
        return {"prompts": self._prompts}

    async def _prompt(self, ctx: Context, params: Params) -> Json:
        name, arguments = params["name"], params.get("arguments") or {}
        if name in ASKING_PROMPTS:
            return await settle(ctx, params, ASKING_PROMPTS[name])
        match name:
            case "test_simple_prompt" | "test_extra_prompt":
                contents = [text("This is a simple prompt for testing.")]
            case "test_prompt_with_arguments":
                contents = [text(f"Prompt with arguments: arg1='{arguments['arg1']}', arg2='{arguments['arg2']}'")]
            case "test_prompt_with_embedded_resource":
                resource = embedded(arguments["resourceUri"], "text/plain", "Embedded resource content for testing.")
                contents = [resource, text("Please process the embedded resource above.")]
            case "test_prompt_with_image":
                contents = [IMAGE, text("Please analyze the image above.")]
            case _:
                raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {name}")
        return {"messages": [{"role": "user", "content": content} for content in contents]}

    async def _complete(self, ctx: Context, params: Params) -> Json:
        values = [word for word in _WORDS if word.startswith(params["argument"]["value"])]
        return {"completion": {"values": values, "total": len(values), "hasMore": False}}

    async def _set_level(self, ctx: Context, params: Params) -> Json:
        self._level[_session(ctx)] = LEVELS.index(params["level"])
        return {}


def _hints(ctx: Context) -> Json:
    return {"ttlMs": 1_000, "cacheScope": "public"} if ctx.protocol_version == MODERN else {}


def _session(ctx: Context) -> str:
    """The session a request belongs to; there is one only on pipes."""
    if ctx.request is None:
        return ""
    return str(ctx.request.headers.get("mcp-session-id") or ctx.request.query_params.get("session_id") or "")


def _toggle(listed: list[Json], entry: Json) -> None:
    if entry in listed:
        listed.remove(entry)
    else:
        listed.append(entry)
