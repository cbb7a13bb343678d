"""A question put to the host as its era has it: `input_required`, or a request of our own while the call waits.

Who asks is a pure function of what is known: it returns a result, or an `Ask`, and is then called again.
"""

import asyncio
import base64
import hashlib
import hmac
import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata

from tests.peers.sdk import MODERN, Context
from tests.peers.toolbox import Json, text

_SECRET: Final = secrets.token_bytes(32)
_CAPABILITY: Final = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}


@dataclass(frozen=True, slots=True)
class InputRequests:
    """The requests by key, and what is to be known again when they are answered."""

    requests: Mapping[str, Json]
    state: Json | None = None


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The input of an asking tool: its arguments, the answers so far, its own state, the host's capabilities."""

    arguments: Mapping[str, Any]
    responses: Mapping[str, Any] = field(default_factory=dict)
    state: Json | None = None
    capabilities: frozenset[str] = frozenset()

    def accepted(self, key: str) -> Json | None:
        """The content of a form that was sent."""
        answer = self.responses.get(key)
        content = answer.get("content") if isinstance(answer, Mapping) and answer.get("action") == "accept" else None
        return content if isinstance(content, dict) else None

    def answer(self, key: str) -> Json | None:
        answer = self.responses.get(key)
        return answer if isinstance(answer, dict) else None


AskingTool = Callable[[ToolContext], Json | InputRequests]


def elicit(message: str, required: tuple[str, ...] = (), **properties: Json) -> Json:
    schema: Json = {"type": "object", "properties": properties, "required": list(required)}
    return {"method": "elicitation/create", "params": {"message": message, "requestedSchema": schema}}


def sample(prompt: str) -> Json:
    messages = [{"role": "user", "content": text(prompt)}]
    return {"method": "sampling/createMessage", "params": {"messages": messages, "maxTokens": 100}}


def roots() -> Json:
    return {"method": "roots/list", "params": {}}


async def settle(ctx: Context, params: Mapping[str, Any], asker: AskingTool) -> Json:
    """The result of `asker`, or the `input_required` that gets it nearer.

    Raises:
        MCPError: the host cannot do what is asked of it, or sends a state that is not ours.
    """
    declared = ctx.session.client_capabilities
    able = frozenset(name for name in _CAPABILITY.values() if getattr(declared, name, None) is not None)
    arguments, responses = params.get("arguments") or {}, params.get("inputResponses") or {}
    state = unsealed(params["requestState"]) if "requestState" in params else None
    while True:
        outcome = asker(ToolContext(arguments, responses, state, able))
        if not isinstance(outcome, InputRequests):
            return outcome
        _must_be_able(ctx, outcome, able)
        if ctx.protocol_version == MODERN:
            sealed_state = {} if outcome.state is None else {"requestState": sealed(outcome.state)}
            return {"resultType": "input_required", "inputRequests": dict(outcome.requests), **sealed_state}
        answers = await asyncio.gather(*(_put(ctx, request) for request in outcome.requests.values()))
        responses = dict(zip(outcome.requests, answers, strict=True))
        state = outcome.state


def _must_be_able(ctx: Context, ask: InputRequests, able: frozenset[str]) -> None:
    missing = {_CAPABILITY[request["method"]] for request in ask.requests.values()} - able
    if missing:
        code = types.MISSING_REQUIRED_CLIENT_CAPABILITY if ctx.protocol_version == MODERN else types.INVALID_REQUEST
        needs: Json = {name: {} for name in sorted(missing)}
        raise MCPError(code, f"The client cannot do this: {', '.join(needs)}", {"requiredCapabilities": needs})


async def _put(ctx: Context, request: Json) -> Json:
    """Ask on the stream of the running call."""
    related = ServerMessageMetadata(related_request_id=ctx.request_id)
    answer: types.Result
    match request["method"]:
        case "elicitation/create":
            elicitation = types.ElicitRequest.model_validate(request)
            answer = await ctx.session.send_request(elicitation, types.ElicitResult, metadata=related)
        case "sampling/createMessage":
            sampling = types.CreateMessageRequest.model_validate(request)
            answer = await ctx.session.send_request(sampling, types.CreateMessageResult, metadata=related)
        case _:
            answer = await ctx.session.send_request(types.ListRootsRequest(), types.ListRootsResult, metadata=related)
    return answer.model_dump(by_alias=True, mode="json", exclude_none=True)


def sealed(state: Json) -> str:
    """The state as text that only this process can have made."""
    body = base64.urlsafe_b64encode(json.dumps(state).encode()).decode()
    return f"{body}.{_signature(body)}"


def unsealed(token: str) -> Json:
    """The state again.

    Raises:
        MCPError: this process did not make it.
    """
    body, _, signature = token.partition(".")
    if not hmac.compare_digest(signature.encode(), _signature(body).encode()):
        raise MCPError(types.INVALID_PARAMS, "`requestState` is not one of ours.")
    state: Json = json.loads(base64.urlsafe_b64decode(body))
    return state


def _signature(body: str) -> str:
    return hmac.new(_SECRET, body.encode(), hashlib.sha256).hexdigest()
