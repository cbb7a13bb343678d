"""A host that accepts every input request, in either era."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from tests.end_to_end.scripted_host import ScriptedHost
from tests.peers.toolbox import Json

ABLE: Final[Json] = {"elicitation": {}, "sampling": {}, "roots": {}}
_ROUNDS: Final = 5


def sample(schema: Mapping[str, Any]) -> Any:
    """A value that fits a simple schema."""
    by_type: dict[str, Any] = {"integer": 2, "number": 2, "boolean": True, "array": [], "object": {}, "null": None}
    return by_type.get(schema.get("type", "string"), "text")


def reply(request: Json) -> Json:
    """Accept an input request and leave every field at its default."""
    match request["method"]:
        case "elicitation/create":
            fields = request["params"]["requestedSchema"]["properties"]
            content = {name: field.get("default", sample(field)) for name, field in fields.items()}
            return {"action": "accept", "content": content}
        case "sampling/createMessage":
            return {"role": "assistant", "content": {"type": "text", "text": "Yes."}, "model": "none"}
        case _:
            return {"roots": []}


async def settle(host: ScriptedHost, method: str, params: Mapping[str, Any]) -> Json:
    """A request with everything that is asked on the way; the message that ends it."""
    asking = asyncio.create_task(_answer_questions(host))
    try:
        answers: Json = {}
        for _ in range(_ROUNDS):
            message = await host.ask(method, {**params, **answers}).message()
            result = message.get("result", {})
            if result.get("resultType") != "input_required":
                return message
            replies = {key: reply(request) for key, request in result.get("inputRequests", {}).items()}
            state = {"requestState": result["requestState"]} if "requestState" in result else {}
            answers = {"inputResponses": replies, **state}
        raise AssertionError(f"{method} {params} asks for ever")
    finally:
        asking.cancel()


async def _answer_questions(host: ScriptedHost) -> None:
    """Reply to what the other side asks from now on while a request runs, as it may in the handshake eras."""

    def is_question(message: Json) -> bool:
        return "method" in message and "id" in message and message["id"] not in answered

    answered: list[Any] = []
    answered += [message["id"] for message in host.inbox.messages if is_question(message)]
    while True:
        question = (await host.inbox.until(is_question))[0]
        answered.append(question["id"])
        await host.wire.notify({"jsonrpc": "2.0", "id": question["id"], "result": reply(question)})
