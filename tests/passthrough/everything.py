"""A server with all of MCP: a library that also asks, logs and pings, in the way of either era.

`python -m tests.passthrough.everything`: on its pipes.
"""

import asyncio
import json
import warnings
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

import mcp_types as types
from mcp.server import NotificationOptions
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError

from tests.conformance.input_requests import AskingTool, InputRequests, ToolContext, settle
from tests.peers.library import VENDOR, Library
from tests.peers.sdk import Context
from tests.peers.toolbox import Json, text, text_result, tool

PLACE: Final[Json] = {"place": {"type": "string", "x-mcp-header": "Place"}}
ASKED: Final = "demo://item/asked"
# Some 1 MB of JSON text, half of which does not parse.
LARGE: Final[Json] = {
    "content": [
        text(json.dumps({"rows": ["x" * 98] * 10_000})),
        {**text("for you"), "annotations": {"audience": ["user"]}},
    ]
}
LINES: Final[list[Json]] = [
    {"level": "debug", "data": "quiet", "logger": "inner"},
    {"level": "error", "data": {"deep": [1, None]}},
]
SCHEMA: Final[Json] = {"type": "object", "properties": {"answer": {"type": "string"}}}
_PAGE: Final[Json] = {"mode": "url", "message": "Log in.", "url": "https://example.com/in?a=1"}
_SAMPLED: Final = {"role": "user", "content": text("Say it.")}
QUESTIONS: Final[Mapping[str, Json]] = {
    "form": {"method": "elicitation/create", "params": {"message": "Which one?", "requestedSchema": SCHEMA}},
    "page": {"method": "elicitation/create", "params": {**_PAGE, "elicitationId": "its-own"}},
    "sampling": {"method": "sampling/createMessage", "params": {"messages": [_SAMPLED], "maxTokens": 10}},
    "roots": {"method": "roots/list", "params": {}},
}
SKILLS: Final = "io.modelcontextprotocol/skills"
SKILL_TEXT: Final = "---\nname: notes\ndescription: Keep notes\nx-vendor: [1, null]\n---\nWrite\u200b them down.\n"
SKILL: Final[Json] = {
    "uri": "skill://team/notes/SKILL.md",
    "frontmatter": {"name": "notes", "description": "Keep notes", "x-vendor": [1, None]},
    "resources": [
        {
            "uri": "skill://team/notes/SKILL.md",
            "digest": f"sha256:{sha256(SKILL_TEXT.encode()).hexdigest()}",
            "size": len(SKILL_TEXT.encode()),
            "x-vendor": "kept",
        }
    ],
    **VENDOR,
}
_OWN: Final[list[Json]] = [
    tool("echo", "Everything it was sent."),
    tool("ask", "Asks the host for something.", {"what": {"type": "string"}}),
    tool("ask_both", "Asks the host for two things at once."),
    tool("log", "Logs at two levels."),
    tool("any", "Structured content that is no object."),
    tool("place", "Has an argument in a header.", PLACE),
    tool("page", "Wants a page visited first.", {"key": {"type": "string"}}),
    tool("visited", "A page was visited.", {"key": {"type": "string"}}),
    tool("ping", "Pings the host."),
    tool("heard", "The notifications of the host so far."),
    tool("drop", "Takes something out of a list.", {"kind": {"type": "string"}, "name": {"type": "string"}}),
    tool("task", "Runs as a task only.", execution={"taskSupport": "required"}),
    tool("unasked", "Answers with a task."),
    tool("large", "A large result."),
    tool("app", "For an app alone.", _meta={"ui": {"visibility": ["app"]}}),
]
_ASKING: Final = (("prompts/get", "ask"), ("resources/read", ASKED))
_FIELDS: Final = {"resource": "resources", "template": "resourceTemplates", "prompt": "prompts", "tool": "tools"}
_NAMED_BY: Final = {"resource": "name", "template": "uriTemplate", "prompt": "name", "tool": "name"}


def _question(what: str) -> AskingTool:
    """Return a tool that asks once and repeats the answer."""

    def ask(known: ToolContext) -> Json | InputRequests:
        answer = known.answer("it")
        if answer is None:
            return InputRequests({"it": QUESTIONS[what]})
        return {**text_result(what), "structuredContent": {"answer": answer}}

    return ask


def _both(known: ToolContext) -> Json | InputRequests:
    """A form and the roots at once."""
    form, roots = known.answer("form"), known.answer("roots")
    if form is None or roots is None:
        return InputRequests({"form": QUESTIONS["form"], "roots": QUESTIONS["roots"]})
    return {**text_result("both"), "structuredContent": {"form": form, "roots": roots}}


def _context(known: ToolContext) -> Json | InputRequests:
    """Return the context of a prompt or a resource."""
    answer = known.answer("it")
    if answer is None:
        return InputRequests({"it": QUESTIONS["form"]})
    words = str(answer.get("action"))
    return {"messages": [{"role": "user", "content": text(words)}], "contents": [{"uri": ASKED, "text": words}]}


class Everything(Library):
    """One object may be behind several connections."""

    def __init__(self) -> None:
        super().__init__()
        self._visited: set[str] = set()
        self._heard: list[str] = []
        self.lists["tools"] = [*self.lists["tools"], *_OWN]
        self.lists["prompts"] = [*self.lists["prompts"], {"name": "ask"}]

        async def roots(ctx: Context, params: Any) -> None:
            self._heard.append("notifications/roots/list_changed")

        self.add_notification_handler("notifications/roots/list_changed", types.NotificationParams, roots)

    def get_capabilities(self, *args: Any, **kwargs: Any) -> types.ServerCapabilities:
        extensions: dict[str, dict[str, Any]] = {SKILLS: {"directoryRead": True}}
        return super().get_capabilities(*args, **kwargs).model_copy(update={"extensions": extensions})

    async def _made(self, ctx: Context, params: Json) -> Json | None:
        match ctx.method, params.get("uri"):
            case "skills/list", _:
                return {"skills": [SKILL]}
            case "skills/get", uri if uri == SKILL["uri"]:
                return {"skill": SKILL, "ttlMs": 0, "cacheScope": "private"}
            case "resources/directory/read", "skill://team/notes":
                return {"resources": [{"uri": SKILL["uri"], "name": "SKILL.md", **VENDOR}]}
            case "resources/read", uri if uri == SKILL["uri"]:
                return {"contents": [{"uri": uri, "text": SKILL_TEXT}]}
        if (ctx.method, params.get("name") or params.get("uri")) in _ASKING:
            return await settle(ctx, params, _context)
        return await super()._made(ctx, params)

    async def _call(self, ctx: Context, params: Json) -> Json:
        name, arguments = params["name"], params.get("arguments") or {}
        match name:
            case "echo":
                return {**text_result("sent"), "structuredContent": {"received": params}}
            case "ask":
                return await settle(ctx, params, _question(arguments["what"]))
            case "ask_both":
                return await settle(ctx, params, _both)
            case "log":
                for line in LINES:
                    note = types.LoggingMessageNotification(params=types.LoggingMessageNotificationParams(**line))
                    await ctx.session.send_notification(note, ctx.request_id)
                return text_result("logged")
            case "unasked":
                return {"resultType": "task", "taskId": "t", "status": "working"}
            case "any":
                return {**text_result("3.5"), "structuredContent": 3.5}
            case "large":
                return LARGE
            case "place":
                return text_result(arguments["place"])
            case "page" if arguments["key"] not in self._visited:
                page = {**_PAGE, "elicitationId": f"page-{arguments['key']}"}
                raise MCPError(types.URL_ELICITATION_REQUIRED, "Log in first.", {"elicitations": [page]})
            case "visited":
                self._visited.add(arguments["key"])
                await ctx.session.send_elicit_complete(f"page-{arguments['key']}", ctx.request_id)
            case "ping":
                await ctx.session.send_ping()
            case "heard":
                return {**text_result("heard"), "structuredContent": {"heard": self._heard}}
            case "drop":
                field, by = _FIELDS[arguments["kind"]], _NAMED_BY[arguments["kind"]]
                kept = [one for one in self.lists[field] if one.get(by) != arguments["name"]]
                self.lists[field] = kept
            case _:
                return await super()._call(ctx, params)
        return text_result("done")


async def _stdio() -> None:
    server = Everything()
    async with stdio_server() as (incoming, outgoing):
        every = NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True)
        await server.run(incoming, outgoing, server.create_initialization_options(every))


if __name__ == "__main__":
    warnings.simplefilter("ignore", MCPDeprecationWarning)
    asyncio.run(_stdio())
