"""Answers of hosts that another replica sends on: only those of the session's own caller, and only answers."""

import json
from types import SimpleNamespace
from typing import Any, Final

import pytest

from aggregator.domain.principal import Principal
from aggregator.frontends.forwarded import ForwardedRequests
from aggregator.frontends.web.host_guard import Message
from aggregator.replicas.group.hops import Hop
from tests.peers.toolbox import Json

OWNER: Final = Principal("ada", key_id="k1")
ANSWER: Final[Json] = {"jsonrpc": "2.0", "id": 3, "result": {}}
CLAIMS: Final[Json] = {"agent": "ada", "key": "k1", "session": "one"}


@pytest.mark.parametrize(
    ("claims", "message", "status", "fed"),
    [
        ({}, ANSWER, 202, True),
        ({}, {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {}}, 202, False),
        ({}, [ANSWER], 202, False),
        ({"session": "other"}, ANSWER, 404, False),
        ({"session": 5}, ANSWER, 404, False),
        ({"key": "k2"}, ANSWER, 404, False),
        ({"agent": "bob"}, ANSWER, 404, False),
        ({"agent": "gone"}, ANSWER, 404, False),
        ({"agent": 5}, ANSWER, 404, False),
    ],
)
async def test_which_answers_are_taken(claims: Json, message: Any, status: int, fed: bool) -> None:
    taken: list[Json] = []
    session = SimpleNamespace(host=SimpleNamespace(principal=OWNER), peer=SimpleNamespace(feed=taken.append))
    access: Any = SimpleNamespace(
        let_in=lambda agent, key, token: Principal(agent, key_id=key) if agent != "gone" else None
    )
    parts: Any = SimpleNamespace()
    sessions: Any = {"one": session}
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        raise AssertionError("the body has been read")

    forwarded = ForwardedRequests(parts, access, parts, parts, sessions)
    body = json.dumps(message).encode()
    await forwarded._take_answer(Hop("other", {**CLAIMS, **claims}, ""), {}, body, receive, send)
    assert (sent[0]["status"], taken) == (status, [message] if fed else [])
