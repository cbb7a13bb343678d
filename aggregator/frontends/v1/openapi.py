"""The OpenAPI 3.1 document of `/v1`; the tests validate every answer against it."""

from collections.abc import Mapping
from typing import Any, Final

from aggregator import __version__
from aggregator.config.settings import V1Config
from aggregator.frontends.v1.parse_query import PARAMETERS
from aggregator.frontends.v1.render_results import STATUSES
from aggregator.frontends.v1.schemas import ref, schemas

Part = Mapping[str, Any]

_FORMS: Final = ("SingleResult", "OpenAiResults", "AnthropicResults")
_MEANINGS: Final[Mapping[int, str]] = {
    202: "One call, which waits until a person has agreed. Make it again then, with the same arguments.",
    403: "One call, which the policy does not allow, or a person did not; or the request itself is refused.",
    404: "One call, of a tool that is not there for this agent.",
    429: "One call more than a limit allows, or too many wrong keys; `Retry-After` if it is known.",
    503: "The aggregator is shutting down, and none of the calls was made; `Retry-After` says when to ask again.",
}


def _body(*names: str, said: str) -> Part:
    schema = ref(names[0]) if len(names) == 1 else {"anyOf": [ref(name) for name in names]}
    return {"description": said, "content": {"application/json": {"schema": schema}}}


_FAILURES: Final[Mapping[str, Part]] = {
    "400": _body("Failure", said="The request is not as it should be; `field` says where."),
    "401": _body("Failure", said="A key is needed, or this one is not known."),
    "403": _body("Failure", "Refusal", said="The key or the `Origin` is refused."),
    "405": _body("Failure", said="Another method is due; `Allow` names it."),
    "421": _body("Refusal", said="The `Host` is not one of ours."),
    "429": _body("Failure", said="Too many wrong keys from this address; `Retry-After` says how long to wait."),
    "500": _body("Failure", said="A bug of the aggregator's own."),
    "503": _body(
        "Failure", said="The aggregator is shutting down, or has no room; `Retry-After` says when to ask again."
    ),
}
_POSTED: Final[Mapping[str, Part]] = {
    "413": _body("Failure", said="The body is larger than `http.max_body_bytes`."),
    "415": _body("Failure", said="The body is not `application/json`."),
}


def document(config: V1Config, public_url: str | None = None) -> dict[str, Any]:
    """Return the document for a configuration; `public_url` is the configured address of the aggregator, if any."""
    limit = config.max_calls_per_conversation
    allowed = (
        f"at most {limit} to an upstream in one conversation" if limit is not None else "any number in one conversation"
    )
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Aggregator, HTTP API for agents",
            "version": __version__,
            "description": "Tools of many MCP servers for applications that do not speak MCP: which there are, which a "
            "message asks for, and calls of them. An agent sees what it may call, and nothing else.",
        },
        "servers": [{"url": public_url or "/"}],
        "security": [{"bearer": []}, {"key": []}, {}],
        "paths": {
            "/v1/tools": {"get": _tools()},
            "/v1/servers": {
                "get": {
                    "summary": "The servers of this agent's tools, and how each is",
                    "responses": {"200": _body("Servers", said="Those with tools for it, or away."), **_FAILURES},
                }
            },
            "/v1/intent": {
                "post": {
                    "summary": "Which tools a person's message asks for",
                    "requestBody": _posted("IntentQuestion"),
                    "responses": {"200": _body("Intent", said="Perhaps none."), **_FAILURES, **_POSTED},
                }
            },
            "/v1/reports": {"post": _reports()},
            "/v1/tool_calls": {"post": _tool_calls(f"Calls run side by side, {allowed}; each ends for itself.")},
            "/v1/openapi.json": {
                "get": {
                    "summary": "This document",
                    "responses": {
                        "200": {
                            "description": "This.",
                            "content": {"application/json": {"schema": {"type": "object"}}},
                        },
                        **_FAILURES,
                    },
                }
            },
        },
        "components": {
            "schemas": schemas(config.max_calls_per_request),
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
            },
        },
    }


def _tools() -> Part:
    parameters = [
        {
            "name": name,
            "in": "query",
            "description": known["description"],
            "schema": {key: value for key, value in known.items() if key != "description"},
        }
        for name, known in PARAMETERS.items()
    ]
    kinds = ("ToolTexts", "McpTools", "OpenAiTools", "AnthropicTools", "SeedTools")
    return {
        "summary": "The tools this agent may call, or those that fit",
        "parameters": parameters,
        "responses": {"200": _body(*kinds, said="Texts, or definitions in the format asked for."), **_FAILURES},
    }


def _reports() -> Part:
    said = "Too many reports by the agent, or too many reported tools; `Retry-After` says when to try again, if known."
    return {
        "summary": "Report a tool that is broken to the operators",
        "requestBody": _posted("ToolReport"),
        "responses": {
            "200": _body("SingleResult", said="The report is kept, or the server of the tool is away."),
            **_FAILURES,
            **_POSTED,
            "400": _body("SingleResult", "Failure", said="There is no such tool for this agent, or no reason."),
            "403": _body("SingleResult", "Failure", "Refusal", said="The agent may not call the tool, or is refused."),
            "404": _body("Failure", said="Reports are not taken: `report_tool` of the configuration is off."),
            "429": _body("SingleResult", "Failure", said=said),
            "503": _body("SingleResult", "Failure", said="The aggregator is shutting down, or has no room."),
        },
    }


def _tool_calls(said: str) -> Part:
    refused = {str(status): _body(*_FORMS, said=_MEANINGS[status]) for status in (202, 404)}
    both = {
        str(status): _body(*_FORMS, "Failure", *(["Refusal"] if status == 403 else []), said=meaning)
        for status, meaning in {
            **{key: _MEANINGS[key] for key in (403, 429, 503)},
            400: "The request is not as it should be, or its one call has arguments that do not fit.",
        }.items()
    }
    assert {200, 202, 400, 403, 404, 429, 503} >= set(STATUSES.values())
    conversation = {
        "name": "X-Conversation-Id",
        "in": "header",
        "description": "What the calls belong to, if the body does not say.",
        "schema": {"type": "string", "maxLength": 256},
    }
    corrected = {
        "description": "Of a single `tool_call` whose arguments were corrected before the call: how, a list of texts.",
        "content": {"application/json": {"schema": {"type": "array", "items": {"type": "string"}, "minItems": 1}}},
    }
    return {
        "summary": "Call tools",
        "description": f"{said} The status is that of the call if there is one, and 200 if there are several: each has "
        "its own in `results`. What goes wrong at a server is told to the model in a 200: the conversation goes on.",
        "parameters": [conversation],
        "requestBody": _posted("SingleCall", "OpenAiCalls", "AnthropicCalls"),
        "responses": {
            **_FAILURES,
            **_POSTED,
            "200": {
                **_body(*_FORMS, said="Messages for the conversation, in the form of the calls."),
                "headers": {"X-Corrected-Arguments": corrected},
            },
            **refused,
            **both,
        },
    }


def _posted(*names: str) -> Part:
    schema = ref(names[0]) if len(names) == 1 else {"anyOf": [ref(name) for name in names]}
    return {"required": True, "content": {"application/json": {"schema": schema}}}
