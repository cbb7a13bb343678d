"""Three makers' APIs as hosts use them: the tools that a request shows to the model, and how an answer is written.

Sources: Anthropic's Messages, OpenAI's Responses and Google's generateContent, each with server-sent events.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

# A namespace and a name, as Codex gives them, in one.
_JOINED: Final = "/"


@dataclass(frozen=True, slots=True)
class ToolRequest:
    """A tool that the model asks for, under the name that the host has for it."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ModelView:
    """One request as the model sees it: tools with their whole definitions, all text, results of earlier calls."""

    definitions: Mapping[str, str]
    text: str
    results: Sequence[str]

    def named(self, ending: str) -> str:
        """Return the name that ends so, of a tool or, where a host keeps definitions back, in the text.

        Those of the aggregator go before those of servers that the host has besides.

        Raises:
            LookupError: there is none.
        """
        mentioned: list[str] = re.findall(r"\bmcp__[\w.-]+", self.text)
        found = sorted({name for name in (*self.definitions, *mentioned) if name.endswith(ending)}, key=_own_first)
        if not found:
            raise LookupError(f"no tool whose name ends with {ending}")
        return found[0]


class ModelApi(Protocol):
    """One maker's API."""

    # The end of the paths that models are asked at, before any `?`.
    path: str

    def view(self, body: Mapping[str, Any]) -> ModelView:
        """Return what a request shows to the model."""
        ...

    def answer(self, wanted: ToolRequest | None, count: int) -> bytes:
        """Return the answer that asks for a tool, or ends the turn, as an event stream; `count` makes ids unique."""
        ...


def _events(*events: Mapping[str, Any]) -> bytes:
    named = (f"event: {event['type']}\n" if "type" in event else "" for event in events)
    lines = (f"{name}data: {json.dumps(event)}\n\n" for name, event in zip(named, events, strict=True))
    return "".join(lines).encode()


class AnthropicMessages:
    """`POST /v1/messages`."""

    path = "/messages"

    def view(self, body: Mapping[str, Any]) -> ModelView:
        """Tools are in `tools`; with its tool search, Claude Code names the others in the text only."""
        parts = [
            part
            for message in body["messages"]
            for part in (message["content"] if isinstance(message["content"], list) else ())
        ]
        results = [_text(part.get("content")) for part in parts if part.get("type") == "tool_result"]
        definitions = {tool["name"]: json.dumps(tool, ensure_ascii=False) for tool in body.get("tools", ())}
        return ModelView(definitions, _text([body.get("system"), body["messages"]]), results)

    def answer(self, wanted: ToolRequest | None, count: int) -> bytes:
        """Return the events of a message with one block."""
        block: dict[str, Any] = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": "Done."}
        if wanted is not None:
            block = {"type": "tool_use", "id": f"toolu_{count}", "name": wanted.name, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(wanted.arguments)}
        message: dict[str, Any] = {
            "id": f"msg_{count}",
            "type": "message",
            "role": "assistant",
            "model": "scripted",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
        ending = {"stop_reason": "tool_use" if wanted is not None else "end_turn", "stop_sequence": None}
        return _events(
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": ending, "usage": {"output_tokens": 1}},
            {"type": "message_stop"},
        )


class OpenAiResponses:
    """`POST /v1/responses`."""

    path = "/responses"

    def view(self, body: Mapping[str, Any]) -> ModelView:
        """A tool may be inside a namespace; the two are joined here."""
        definitions: dict[str, str] = {}
        for tool in body.get("tools", ()):
            if tool["type"] == "namespace":
                for inner in tool["tools"]:
                    definitions[f"{tool['name']}{_JOINED}{inner['name']}"] = json.dumps(inner, ensure_ascii=False)
            else:
                definitions[tool.get("name", tool["type"])] = json.dumps(tool, ensure_ascii=False)
        results = [_text(item["output"]) for item in body["input"] if item.get("type") == "function_call_output"]
        return ModelView(definitions, _text([body.get("instructions"), body["input"]]), results)

    def answer(self, wanted: ToolRequest | None, count: int) -> bytes:
        """Return the events of a response with one item."""
        item: dict[str, Any] = {
            "type": "message",
            "role": "assistant",
            "id": f"msg_{count}",
            "content": [{"type": "output_text", "text": "Done."}],
        }
        if wanted is not None:
            namespace, _, name = wanted.name.rpartition(_JOINED)
            item = {
                "type": "function_call",
                "id": f"fc_{count}",
                "call_id": f"call_{count}",
                "name": name,
                "arguments": json.dumps(wanted.arguments),
            } | ({"namespace": namespace} if namespace else {})
        usage = {"input_tokens": 1, "input_tokens_details": None, "output_tokens": 1, "output_tokens_details": None}
        whole = {"id": f"resp_{count}", "usage": usage | {"total_tokens": 2}}
        return _events(
            {"type": "response.created", "response": {"id": whole["id"]}},
            {"type": "response.output_item.done", "item": item},
            {"type": "response.completed", "response": whole},
        )


class GoogleContents:
    """`POST /v1beta/models/MODEL:streamGenerateContent`."""

    path = ":streamGenerateContent"

    def view(self, body: Mapping[str, Any]) -> ModelView:
        """Tools are in `tools[].functionDeclarations`."""
        parts = [part for content in body["contents"] for part in content.get("parts", ())]
        results = [_text(part["functionResponse"].get("response")) for part in parts if "functionResponse" in part]
        definitions = {
            function["name"]: json.dumps(function, ensure_ascii=False)
            for tool in body.get("tools", ())
            for function in tool.get("functionDeclarations", ())
        }
        return ModelView(definitions, _text([body.get("systemInstruction"), body["contents"]]), results)

    def answer(self, wanted: ToolRequest | None, count: int) -> bytes:
        """Return one event with one candidate; Google's calls have no ids."""
        part: dict[str, Any] = {"text": "Done."}
        if wanted is not None:
            part = {"functionCall": {"name": wanted.name, "args": wanted.arguments}}
        usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
        candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
        return _events({"candidates": [candidate], "usageMetadata": usage, "responseId": f"response-{count}"})


APIS: Final[tuple[ModelApi, ...]] = (AnthropicMessages(), OpenAiResponses(), GoogleContents())


def _own_first(name: str) -> tuple[bool, int]:
    return "aggregator" not in name, len(name)


def _text(value: Any) -> str:
    """Return all text in a value, one line each."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        value = list(value.values())
    return "\n".join(filter(None, map(_text, value))) if isinstance(value, list) else ""
