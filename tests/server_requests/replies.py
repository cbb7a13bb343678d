"""Answers of a host to requests of a server, in either era."""

import json
from collections.abc import Sequence
from typing import Any

from tests.end_to_end.scripted_host import Call, ScriptedHost
from tests.peers.toolbox import Json

QUESTION = {"elicitation/create", "sampling/createMessage", "roots/list"}


def is_question(message: Json) -> bool:
    return message.get("method") in QUESTION and "id" in message


async def asked(host: ScriptedHost, count: int = 1) -> Json:
    """Wait for `count` requests to a handshake-era host; return the last."""
    return (await host.inbox.until(is_question, count))[-1]


async def reply(host: ScriptedHost, question: Json, result: Json) -> None:
    await host.wire.notify({"jsonrpc": "2.0", "id": question["id"], "result": result})


async def refuse(host: ScriptedHost, question: Json, code: int = -1, message: str = "no") -> None:
    error = {"code": code, "message": message}
    await host.wire.notify({"jsonrpc": "2.0", "id": question["id"], "error": error})


def resume(host: ScriptedHost, method: str, params: Json, interim: Json, answers: Sequence[Json] | Json) -> Call:
    """Send the request of a 2026-07-28 host again, with answers by key or in the order of the requests."""
    named = answers if isinstance(answers, dict) else dict(zip(interim["inputRequests"], answers, strict=True))
    more: Json = {"inputResponses": named} if "inputRequests" in interim else {}
    return host.ask(method, {**params, **more, "requestState": interim["requestState"]})


async def ask_and_answer(
    host: ScriptedHost, method: str, params: Json, rounds: Sequence[Sequence[Json]], meta: Json | None = None
) -> tuple[Json, list[Json]]:
    """Send a request, answer each round of input requests; return the result and the input requests."""
    questions: list[Json] = []
    if host.modern:
        result = await host.ask(method, params, meta).result()
        for answers in rounds:
            assert result["resultType"] == "input_required", result
            questions += result["inputRequests"].values()
            result = await resume(host, method, params, result, answers).result()
        return result, questions
    before = len([message for message in host.inbox.messages if is_question(message)])
    call = host.ask(method, params, meta)
    for answers in rounds:
        for answer in answers:
            question = await asked(host, before + len(questions) + 1)
            questions.append(question)
            await reply(host, question, answer)
    return await call.result(), questions


def text_as_json(result: Json) -> Any:
    """Return the text of a tool's result as JSON."""
    return json.loads(result["content"][0]["text"])
