"""The proxy before the aggregator changes names, and nothing else."""

import json
from typing import Any, Final

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from tests.conformance.renaming import Renaming, renamed
from tests.journeys.hosts import client_for
from tests.peers.serving import serving

RENAMING: Final = Renaming("fx")


def sent(message: Any) -> Any:
    return json.loads(RENAMING.request(json.dumps(message).encode()))


def got(message: Any) -> Any:
    return json.loads(RENAMING.answer(json.dumps(message).encode()))


@pytest.mark.parametrize("method", ["tools/call", "prompts/get"])
def test_what_is_named_gets_the_prefix(method: str) -> None:
    params = {"name": "echo", "arguments": {"name": "echo"}}
    assert sent({"id": 1, "method": method, "params": params})["params"] == {**params, "name": "fx.echo"}
    assert RENAMING.header(method, "echo") == "fx.echo"


def test_a_completion_names_its_prompt_and_not_its_template() -> None:
    def completed(ref: dict[str, str]) -> Any:
        return sent({"id": 1, "method": "completion/complete", "params": {"ref": ref}})["params"]["ref"]

    assert completed({"type": "ref/prompt", "name": "p"}) == {"type": "ref/prompt", "name": "fx.p"}
    template = {"type": "ref/resource", "uri": "test://{id}"}
    assert completed(template) == template


def test_lists_hold_one_upstreams_names_without_the_prefix() -> None:
    tools = [{"name": "fx.a", "x": 1}, {"name": "other.a"}, {"name": "call_tool"}]
    answered = got({"id": 1, "result": {"tools": tools, "nextCursor": "fx.1"}})
    assert answered == {"id": 1, "result": {"tools": [{"name": "a", "x": 1}], "nextCursor": "fx.1"}}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no json",
        b"[1]",
        b'{"method": "tools/call"}',
        b'{"result": {"content": [{"text": "fx.a"}]}}',
        b'{"id":1,"method":"resources/read","params":{"uri":"test://fx.a"}}',
    ],
)
def test_the_rest_is_left_alone(body: bytes) -> None:
    for passed_on in (RENAMING.request(body), RENAMING.answer(body)):
        assert passed_on == body or json.loads(passed_on) == json.loads(body)


@pytest.mark.parametrize("line", [b": ping\r\n", b"id: 7\r\n", b"data: \r\n", b"\r\n", b"retry: 100\r\n"])
def test_lines_of_a_stream_without_a_message_are_left_alone(line: bytes) -> None:
    assert RENAMING.line(line) == line


async def told(scope: Scope, receive: Receive, send: Send) -> None:
    """Tells what came; at `/stream` as events, at `/gone` as an error."""
    request = Request(scope, receive)
    said = {"headers": dict(request.headers), "body": (await request.body()).decode(), "method": request.method}
    response: Response
    match request.url.path:
        case "/stream":
            message = json.dumps({"result": {"tools": [{"name": "fx.t"}]}})
            events = [f"id: {number}\r\ndata: {message}\r\n\r\n" for number in (1, 2)]
            response = StreamingResponse(iter(events), media_type="text/event-stream")
        case "/gone":
            response = JSONResponse(said, 404, {"mcp-session-id": "s"})
        case _:
            response = JSONResponse(said)
    await response(scope, receive, send)


async def test_a_request_and_its_answer_pass_through() -> None:
    async with serving(told) as base, renamed(base, "fx") as outside, client_for(outside) as client:
        call = {"id": 1, "method": "tools/call", "params": {"name": "t"}}
        headers = {"mcp-method": "tools/call", "mcp-name": "wrong", "x-own": "kept", "origin": outside}
        came = (await client.post("/mcp?a=b%20c", json=call, headers=headers)).json()
        assert json.loads(came["body"])["params"] == {"name": "fx.t"}
        assert came["headers"]["mcp-name"] == "fx.wrong"
        assert came["headers"]["x-own"] == "kept"
        assert came["headers"]["host"] == base.removeprefix("http://")
        assert came["headers"]["origin"] == base

        gone = await client.delete("/gone")
        assert (gone.status_code, gone.headers["mcp-session-id"], gone.json()["method"]) == (404, "s", "DELETE")

        streamed = await client.get("/stream")
        assert streamed.headers["content-type"].startswith("text/event-stream")
        assert streamed.text.split("\r\n")[:2] == ["id: 1", 'data: {"result": {"tools": [{"name": "t"}]}}']


async def test_a_strangers_host_is_left_for_the_aggregator_to_see() -> None:
    async with serving(told) as base, renamed(base, "fx") as outside, client_for(outside) as client:
        strange = {"host": "evil.example.com", "origin": "http://evil.example.com"}
        came = (await client.post("/mcp", json={}, headers=strange)).json()["headers"]
        assert (came["host"], came["origin"]) == (strange["host"], strange["origin"])
