"""JSON Schemas of the bodies in `/v1`, for its OpenAPI document. Those of answers are closed, of requests open."""

from collections.abc import Mapping
from typing import Any, Final, get_args

from aggregator.frontends.v1.parse_query import INTENT_FIELDS
from aggregator.frontends.v1.render_results import STATUSES
from aggregator.upstream.lifecycle.states import State

Schema = Mapping[str, Any]

_SAID: Final[Schema] = {"type": "string", "minLength": 1}
_TEXT: Final[Schema] = {"type": "string"}
_COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
_MAYBE: Final[Schema] = {"type": ["string", "null"]}
_COMPATIBLE: Final[Schema] = {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$"}


def ref(name: str) -> Schema:
    """Return a reference to one of the named schemas."""
    return {"$ref": f"#/components/schemas/{name}"}


def answer(required: Schema, optional: Schema | None = None, said: str = "") -> Schema:
    """Return the schema of an object with these properties and no others."""
    closed = {**request(required, optional), "additionalProperties": False}
    return {**closed, "description": said} if said else closed


def request(required: Schema, optional: Schema | None = None) -> Schema:
    """Return the schema of an object with these properties and any others."""
    return {"type": "object", "properties": {**required, **(optional or {})}, "required": list(required)}


def _list(items: Schema, **more: Any) -> Schema:
    return {"type": "array", "items": items, **more}


# The parameters that model APIs take: a plain object, no combination at its top.
_COMBINATIONS: Final = ("allOf", "anyOf", "oneOf", "not", "enum", "const", "$ref")
_PLAIN_OBJECT: Final[Schema] = {
    **request({"type": {"const": "object"}, "properties": {"type": "object"}}),
    "not": {"anyOf": [{"required": [key]} for key in _COMBINATIONS]},
}
_ARGUMENTS: Final[Schema] = {
    "description": "An object, or a text that is the JSON of one. Anything else is told to the model, as "
    "`invalid_arguments`."
}
_MATCH: Final[Schema] = {
    "intent": {"type": "string", "description": "`none` if the message asks for no tool."},
    "rule": {**_MAYBE, "description": "What matched."},
    "matched": {**_MAYBE, "description": "The words of the message that matched."},
    "server": {**_MAYBE, "description": "The server that is meant, if it is one."},
}
_WEAK: Final[Schema] = {
    "weak": {**_SAID, "description": "Says why even the best tool hardly fits `query`. Not there if it fits."}
}
_COST: Final[Schema] = {
    "tokens": {**_COUNT, "description": "About what the tools cost a model."},
    "left_out": {**_COUNT, "description": "Tools that `max_tokens` left no room for."},
}
_UNFIT: Final[Schema] = {
    "unfit": _list(
        answer({"name": _SAID, "reason": _SAID}),
        minItems=1,
        description="Tools that the API would refuse, and the whole request with them.",
    )
}
_CONVERSATION: Final[Schema] = {
    "conversation_id": {
        **_MAYBE,
        "minLength": 1,
        "maxLength": 256,
        "description": "What the calls belong to, for limits and the audit. Or the header `X-Conversation-Id`.",
    }
}


def _definitions(form: str, items: Schema) -> Schema:
    return answer({"format": {"const": form}, "tools": _list(items), **_COST}, {**_MATCH, **_WEAK, **_UNFIT})


def schemas(most_calls: int) -> dict[str, Schema]:
    """Return the schemas by name; one request may carry `most_calls` calls."""
    calls = {"minItems": 1, "maxItems": most_calls}
    error = request({"code": {**_SAID, "description": f"Such as {', '.join(STATUSES)}, upstream_timeout."}})
    call_id = {"tool_call_id": {**_SAID, "description": "If the call had one."}}
    message = {"role": {"const": "tool"}, "name": {**_SAID, "description": "As called."}, "content": _TEXT}
    trouble = {
        "is_error": {"const": True, "description": "There is no result, or it is an error of the tool."},
        "error": ref("CallError"),
    }
    results = {"results": _list(ref("CallRecord"), minItems=1, description="What became of each call, in their order.")}
    return {
        "ToolReport": request(
            {
                "name": {**_SAID, "description": "The tool, by a name under which the agent may call it."},
                "why": {**_SAID, "description": "What is wrong: the first 500 characters are kept."},
            }
        ),
        "Failure": answer(
            {"error": answer({"code": _SAID, "message": _SAID}, {"field": _SAID})},
            said="Nothing was done. `field` is a parameter or a path in the body.",
        ),
        "Refusal": answer({"error": _SAID}, said="Refused for its `Host` or `Origin`, before anything was read."),
        "ToolTexts": answer(
            {
                "level": {"enum": [1, 2, 3]},
                "tools": _list(answer({"name": _SAID, "server": _SAID, "text": _SAID})),
                **_COST,
            },
            {**_MATCH, **_WEAK},
        ),
        "McpTools": _definitions("mcp", request({"name": _SAID, "inputSchema": {"type": "object"}})),
        "OpenAiTools": _definitions(
            "openai",
            answer(
                {
                    "type": {"const": "function"},
                    "function": answer(
                        {"name": _COMPATIBLE, "parameters": _PLAIN_OBJECT},
                        {"description": {"type": "string", "minLength": 1, "maxLength": 1024}},
                    ),
                }
            ),
        ),
        "AnthropicTools": _definitions(
            "anthropic", answer({"name": _COMPATIBLE, "input_schema": _PLAIN_OBJECT}, {"description": _SAID})
        ),
        "SeedTools": _definitions(
            "seed",
            {
                "oneOf": [
                    answer({"name": _SAID, "description": _TEXT, "params": _list(_SAID)}),
                    answer({"name": _SAID, "description": _TEXT, "parameters": {"type": "object"}}),
                ]
            },
        ),
        "IntentQuestion": request({"message": INTENT_FIELDS["message"]}, {"limit": INTENT_FIELDS["limit"]}),
        "Intent": answer(
            {
                **_MATCH,
                "tools": _list(_SAID, description="Names, the likeliest first."),
                "snippet": {
                    "type": "string",
                    "description": "Level 1, to put into the prompt; empty if nothing is to be.",
                },
                "tokens": _COUNT,
            }
        ),
        "Servers": answer(
            {
                "servers": _list(
                    answer(
                        {
                            "name": {**_SAID, "description": "The first half of its tools' names."},
                            "description": _TEXT,
                            "source": {"enum": ["mcp", "local"]},
                            "state": {"enum": list(get_args(State))},
                            "reason": {**_MAYBE, "description": "Why it is not ready."},
                            "tools": {**_COUNT, "description": "How many of its tools this agent may call."},
                            "notes": _list(_TEXT, description="What is amiss besides, as `list_servers` says it."),
                        }
                    )
                )
            }
        ),
        "BareCall": request({"name": _SAID}, {"arguments": _ARGUMENTS, "id": _MAYBE, "tool_call_id": _MAYBE}),
        "OpenAiCall": request({"id": _SAID, "function": request({"name": _SAID}, {"arguments": _ARGUMENTS})}),
        "ToolUse": request({"type": {"const": "tool_use"}, "id": _SAID, "name": _SAID}, {"input": _ARGUMENTS}),
        "SingleCall": request({"tool_call": {"anyOf": [ref("BareCall"), ref("OpenAiCall")]}}, _CONVERSATION),
        "OpenAiCalls": request(
            {"tool_calls": _list({"anyOf": [ref("OpenAiCall"), ref("BareCall")]}, **calls)}, _CONVERSATION
        ),
        "AnthropicCalls": request(
            {
                "content": {
                    "type": "array",
                    "contains": ref("ToolUse"),
                    "minContains": 1,
                    "maxContains": most_calls,
                    "description": "The content of the assistant's message; blocks of other types are passed over.",
                }
            },
            _CONVERSATION,
        ),
        "CallError": {**error, "description": "Why there is no result, for programs; more fields by code."},
        "CallRecord": answer(
            {
                "name": _SAID,
                "status": {"type": "integer", "enum": sorted({200, *STATUSES.values()})},
                "is_error": {"type": "boolean"},
            },
            {
                **call_id,
                "error": ref("CallError"),
                "corrected": _list(
                    _SAID,
                    minItems=1,
                    description="The arguments that were corrected before the call, each with its place.",
                ),
            },
        ),
        "ToolMessage": answer(message, call_id),
        "SingleResult": answer(message, {**call_id, **trouble}, "The message alone if the call went well."),
        "OpenAiResults": answer({"messages": _list(ref("ToolMessage"), minItems=1), **results}),
        "AnthropicResults": answer(
            {
                "messages": _list(
                    answer({"role": {"const": "user"}, "content": _list(ref("ToolResult"), minItems=1)}),
                    minItems=1,
                    maxItems=1,
                ),
                **results,
            }
        ),
        "ToolResult": answer(
            {"type": {"const": "tool_result"}, "tool_use_id": _SAID, "content": _TEXT}, {"is_error": {"const": True}}
        ),
    }
