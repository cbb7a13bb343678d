"""The servers of the tasks on the SDK's low-level server, in this process: `local` entries of a configuration.

A middleware answers with plain JSON, since the SDK's models would drop fields that it does not know.
"""

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import mcp_types as types
from mcp.server import Server
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata

from benchmarks.flow_corpus.definitions import SERVERS, TOOLBOX, TOOLBOX_PROMPTS, TOOLBOX_TOOLS, Json, ServerSpec
from benchmarks.flow_corpus.world import WORLD
from benchmarks.systems import HERE

ATTACKS: Final = HERE / "data" / "attacks.json"
BENIGN: Final = HERE / "data" / "benign.json"
_MODERN: Final = "2026-07-28"
_LISTS: Final = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}
_Context = ServerRequestContext[Any, Any]


def _specs() -> dict[str, tuple[ServerSpec, str]]:
    """Return the servers by name, with their instructions: the strangers' have what the attacks put there."""
    attacks = json.loads(ATTACKS.read_text(encoding="utf-8"))

    def added(kind: str) -> tuple[Json, ...]:
        return tuple(item for attack in attacks for item in attack.get("listed", {}).get(kind, ()))

    toolbox = ServerSpec(
        (*TOOLBOX_TOOLS, *added("tools")),
        frozenset(),
        added("resources"),
        (),
        (*TOOLBOX_PROMPTS, *added("prompts")),
        foreign=True,
    )
    specs = {name: (spec, "") for name, spec in SERVERS.items()} | {TOOLBOX: (toolbox, "")}
    files = SERVERS["files"]
    specs["files"] = (files._replace(resources=(*files.resources, *added("files"))), "")
    for attack in attacks:
        for server in attack.get("listed", {}).get("servers", ()):
            spec = ServerSpec(tuple(server["tools"]), frozenset(), foreign=True)
            specs[server["name"]] = (spec, server["instructions"])
    return specs


def build(name: str) -> Server[Any]:
    """Return a new server of that name."""
    spec, instructions = SPECS[name]

    async def never(ctx: _Context, params: Any) -> Any:
        raise AssertionError("the middleware answers before this is asked")

    server: Server[Any] = Server(
        name,
        version="1.0",
        instructions=instructions or None,
        get_tool_input_schema=lambda name: None,
        on_list_tools=never,
        on_call_tool=never,
        on_list_resources=never,
        on_list_resource_templates=never,
        on_read_resource=never,
        on_subscribe_resource=never,
        on_subscriptions_listen=ListenHandler(InMemorySubscriptionBus()),
        on_list_prompts=never,
        on_get_prompt=never,
        on_completion=never,
    )

    async def answer(ctx: _Context, call_next: CallNext) -> HandlerResult:
        params: Mapping[str, Any] = ctx.params or {}
        if ctx.method == "subscriptions/listen":
            _note_listening(name, spec, params)
        match ctx.method:
            case method if ctx.request_id is None or method not in (*_LISTS, *_ANSWERED):
                return await call_next(ctx)
            case "tools/call":
                return _dressed(ctx, await _call(name, spec, ctx, params))
            case method if method in _LISTS:
                return _dressed(ctx, {_LISTS[method]: list(getattr(spec, _FIELDS[method]))}, cacheable=True)
            case method:
                return _dressed(ctx, _READS[method](name, spec, params), cacheable=method == "resources/read")

    server.middleware.append(answer)
    return server


async def _call(server: str, spec: ServerSpec, ctx: _Context, params: Mapping[str, Any]) -> Json:
    name, given = params["name"], params.get("arguments") or {}
    tool = f"{server}.{name}"
    if spec.foreign or name in spec.sinks:
        WORLD.send(tool, given)
    # What a tool sends that the model has not read: it stands in the server already.
    shared = WORLD.placed("shares", tool, given)
    if shared is not None:
        WORLD.send(tool, shared["text"])
    asked = WORLD.placed("samples", tool, given)
    if asked is not None:
        message = types.SamplingMessage(role="user", content=types.TextContent(type="text", text=asked["text"]))
        question = types.CreateMessageRequest(
            params=types.CreateMessageRequestParams(messages=[message], max_tokens=500)
        )
        answered = params.get("inputResponses")
        if ctx.protocol_version != _MODERN:
            about = ServerMessageMetadata(related_request_id=ctx.request_id)
            answer = await ctx.session.send_request(question, types.CreateMessageResult, metadata=about)
            answered = answer.model_dump(mode="json")
        elif answered is None:
            return {"resultType": "input_required", "inputRequests": {"model": _as_json(question)}}
        WORLD.send(f"sampling of {tool}", answered)
    failing = WORLD.placed("fails", tool, given)
    if failing is not None:
        raise MCPError(-32000, failing["text"])
    return WORLD.tool_result(tool, given)


def _as_json(request: types.CreateMessageRequest) -> Json:
    return request.model_dump(by_alias=True, mode="json", exclude_none=True)


def _read(server: str, spec: ServerSpec, params: Mapping[str, Any]) -> Json:
    uri = str(params["uri"])
    if spec.foreign or server == "web":
        WORLD.send(f"resource of {server}", uri)
    text = WORLD.read_text("resource", uri, {})
    return {"contents": [{"uri": uri, "mimeType": "text/plain", "text": text}]}


def _note_listening(server: str, spec: ServerSpec, params: Mapping[str, Any]) -> None:
    """Take down the resources that a server of 2026-07-28 is to tell the changes of."""
    uris = (params.get("notifications") or {}).get("resourceSubscriptions")
    if uris and (spec.foreign or server == "web"):
        WORLD.send(f"subscription of {server}", uris)


def _subscribe(server: str, spec: ServerSpec, params: Mapping[str, Any]) -> Json:
    if spec.foreign or server == "web":
        WORLD.send(f"subscription of {server}", str(params["uri"]))
    return {}


def _prompt(server: str, spec: ServerSpec, params: Mapping[str, Any]) -> Json:
    name, given = f"{server}.{params['name']}", params.get("arguments") or {}
    if spec.foreign:
        WORLD.send(f"prompt {name}", given)
    text = WORLD.read_text("prompt", name, given)
    return {"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}


def _complete(server: str, spec: ServerSpec, params: Mapping[str, Any]) -> Json:
    if spec.foreign:
        WORLD.send(f"completion of {server}", params)
    known = WORLD.placed("completes", f"{server}.{params['ref'].get('name')}", {})
    return {"completion": {"values": ["one", "two"] if known is None else [known["text"]]}}


_READS: Final[Mapping[str, Callable[[str, ServerSpec, Mapping[str, Any]], Json]]] = {
    "resources/read": _read,
    "resources/subscribe": _subscribe,
    "prompts/get": _prompt,
    "completion/complete": _complete,
}
_ANSWERED: Final = ("tools/call", *_READS)
_FIELDS: Final = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "templates",
    "prompts/list": "prompts",
}


def _dressed(ctx: _Context, result: Json, *, cacheable: bool = False) -> Json:
    """Complete a result for its era."""
    if ctx.protocol_version != _MODERN:
        return result
    dressed = {"resultType": "complete", **result}
    return {**dressed, "ttlMs": 0, "cacheScope": "private"} if cacheable else dressed


SPECS: Final = _specs()


def __getattr__(name: str) -> Callable[[], Server[Any]]:
    """Return the function that makes the server of a name, as `target` of a configuration wants it."""
    if name in SPECS:
        return partial(build, name)
    raise AttributeError(name)


def schema_of(tool: str) -> Json | None:
    """Return the input schema of a tool, None of one that no server has."""
    server, _, name = tool.partition(".")
    spec, _ = SPECS.get(server, (None, ""))
    found = [one for one in spec.tools if one["name"] == name] if spec is not None else []
    return found[0]["inputSchema"] if found else None
