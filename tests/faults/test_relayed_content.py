"""What an upstream says besides the usual reaches hosts: in errors, hosts that lack something, and in old eras."""

import asyncio
import json
from typing import Any, Final

import pytest

from aggregator.domain.errors import RpcError
from aggregator.domain.versions import META_CLIENT_CAPABILITIES, META_VERSION
from aggregator.gateway.host import Host
from tests.faults.app_harness import AppHarness, Json, modern, running_app, server_config
from tests.faults.asgi_client import asgi_client
from tests.faults.raw_http import RawHttpServer, ReceivedRequest, ReplyWriter, raw_http
from tests.peers.back_channel import FakeBackChannel
from tests.polling import until

PAGE: Final[Json] = {"mode": "url", "url": "https://login.example/in?a=1", "elicitationId": "e1", "message": "Log in."}
ERROR: Final[Json] = {"code": -32001, "message": "no", "data": {"a": 1}, "com.example/why": {"x": [1]}, "hint": "h"}
NEEDED: Final[Json] = {"code": -32042, "message": "Log in first.", "data": {"elicitations": [PAGE]}}


def failing(raw: RawHttpServer, error: Json) -> None:
    async def fail(seen: ReceivedRequest, reply: ReplyWriter) -> None:
        await reply.send(200, {"jsonrpc": "2.0", "id": seen.message["id"], "error": error})

    for method in ("tools/call", "prompts/get", "completion/complete", "resources/read", "resources/subscribe"):
        raw.on[method] = fail


async def failed(harness: AppHarness, host: Host, method: str, params: Json) -> Json:
    with pytest.raises(RpcError) as error:
        await harness.app.gateway.answer(host, method, params, FakeBackChannel())
    return error.value.to_wire()


async def test_members_of_an_error_that_json_rpc_does_not_know() -> None:
    """They reach a host of either era; what JSON-RPC knows cannot be overwritten by them."""
    async with raw_http() as raw, running_app(server_config("up", type="http", url=raw.url)) as harness:
        failing(raw, ERROR)
        new = Host("http", "canonical")
        params: Json = {"name": "up.echo", "arguments": {}}
        assert await failed(harness, harness.host, "tools/call", params) == ERROR
        assert await failed(harness, new, "tools/call", modern(**params)) == ERROR
    assert RpcError(1, "a", {"b": 2}, {"code": 3, "message": "c", "x": 4}).to_wire() == {
        "code": 1,
        "message": "a",
        "data": {"b": 2},
        "x": 4,
    }


async def test_the_page_of_a_host_that_shows_none() -> None:
    """Its address is in what the model reads and in what programs read, in either era and over `/v1`."""
    async with raw_http() as raw, asgi_client(server_config("up", type="http", url=raw.url)) as hosts:
        failing(raw, NEEDED)
        harness = hosts.harness
        old = await harness.call("up.echo")
        assert PAGE["url"] in old["content"][0]["text"]
        error = old["_meta"]["aggregator/error"]
        assert (error["code"], error["pages"]) == ("host_lacks_capability", [PAGE])
        new = await failed(harness, Host("http", "canonical"), "tools/call", modern(name="up.echo", arguments={}))
        assert new["code"] == -32021
        assert PAGE["url"] in new["message"]
        assert new["data"] == {"requiredCapabilities": {"elicitation": {"url": {}}}, "pages": [PAGE]}
        call = {"tool_call": {"name": "up.echo", "arguments": {}}}
        plain = (await hosts.request("POST", "/v1/tool_calls", json.dumps(call).encode()).done()).json()
        assert plain["is_error"] is True
        assert PAGE["url"] in plain["content"]
        assert plain["error"]["code"] == "host_lacks_capability"
        assert plain["error"]["rpc"]["data"]["pages"] == [PAGE]


async def test_a_question_that_plain_http_cannot_ask(caplog: pytest.LogCaptureFixture) -> None:
    """It ends the call with a reason, and not with a fault of ours."""
    form = {"method": "elicitation/create", "params": {"mode": "form", "message": "m", "requestedSchema": {}}}
    raw, answered = RawHttpServer(), asyncio.Event()

    async def hear(seen: ReceivedRequest, reply: ReplyWriter) -> None:
        answered.set()
        await reply.send(202)

    async def ask(seen: ReceivedRequest, reply: ReplyWriter) -> None:
        question = {"jsonrpc": "2.0", "id": "q", **form}
        await reply.stream()
        await reply.event(question)
        await answered.wait()
        refused = {"code": -32600, "message": "cannot go on"}
        await reply.event({"jsonrpc": "2.0", "id": seen.message["id"], "error": refused})

    raw.on |= {"tools/call": ask, "POST": hear}
    async with raw_http(raw), asgi_client(server_config("up", type="http", url=raw.url)) as hosts:
        call = {"tool_call": {"name": "up.echo", "arguments": {}}}
        plain = (await hosts.request("POST", "/v1/tool_calls", json.dumps(call).encode()).done()).json()
        assert plain["is_error"] is True
        assert plain["error"]["code"] == "host_lacks_capability"
        assert "elicitation" in plain["error"]["rpc"]["data"]["requiredCapabilities"]
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.parametrize("method", [{}, [], 7, None, {"a": {}}])
async def test_a_method_that_is_no_text(method: Any, caplog: pytest.LogCaptureFixture) -> None:
    """At the SSE frontend, in which such a request was never answered."""
    async with raw_http() as raw, asgi_client(server_config("up", type="http", url=raw.url)) as hosts:
        stream = hosts.request("GET", "/sse")
        await until(lambda: stream.body, "the stream opened")
        path = bytes(stream.body).split(b"data: ")[1].split(b"\r\n")[0].decode()
        message = {"jsonrpc": "2.0", "id": 3, "method": method, "params": {}}
        await hosts.request("POST", path, json.dumps(message).encode()).done()
        await until(stream.events, "it is answered")
        assert stream.events()[0]["error"]["code"] == -32600
        assert stream.events()[0]["id"] == 3
    assert not [record for record in caplog.records if record.exc_info]


async def test_a_question_of_no_known_kind() -> None:
    """`inputRequests` of a result may hold anything."""
    raw = RawHttpServer()
    raw.modern = True

    async def ask(seen: ReceivedRequest, reply: ReplyWriter) -> None:
        asked = {"x": {"method": ["elicitation/create"], "params": {}}}
        await reply.result(seen, {"resultType": "input_required", "inputRequests": asked})

    raw.on["tools/call"] = ask
    async with raw_http(raw), running_app(server_config("up", type="http", url=raw.url)) as harness:
        able = {META_VERSION: "2026-07-28", META_CLIENT_CAPABILITIES: {"elicitation": {}}}
        params: Json = {"name": "up.echo", "arguments": {}, "_meta": able}
        answer = dict(
            await harness.app.gateway.answer(Host("http", "canonical"), "tools/call", params, FakeBackChannel())
        )
        assert answer["_meta"]["aggregator/error"]["code"] == "upstream_bad_answer"


@pytest.mark.parametrize("knows", [True, False])
async def test_completion_of_a_server_from_before_the_capability(knows: bool) -> None:
    """2024-11-05 had completion and no word for it: such a server is asked, once if it does not know it."""
    hello: Json = {"protocolVersion": "2024-11-05", "capabilities": {"prompts": {}}, "serverInfo": {"name": "old"}}

    async def greet(seen: ReceivedRequest, reply: ReplyWriter) -> None:
        raw.sessions.add("s")
        await reply.result(seen, hello, mcp_session_id="s")

    async def complete(seen: ReceivedRequest, reply: ReplyWriter) -> None:
        if knows:
            await reply.result(seen, {"completion": {"values": ["paris"]}})
        else:
            await reply.error(seen, 200, -32601, "Method not found")

    async def prompts(seen: ReceivedRequest, reply: ReplyWriter) -> None:
        await reply.result(seen, {"prompts": [{"name": "p"}]})

    async def tools(seen: ReceivedRequest, reply: ReplyWriter) -> None:
        await reply.result(seen, {"tools": []})

    raw = RawHttpServer()
    raw.on |= {"initialize": greet, "completion/complete": complete, "prompts/list": prompts, "tools/list": tools}
    async with raw_http(raw), running_app(server_config("up", type="http", url=raw.url)) as harness:
        params: Json = {"ref": {"type": "ref/prompt", "name": "up.p"}, "argument": {"name": "a", "value": ""}}
        for _ in range(3):
            found = (await harness.ask("completion/complete", params))["completion"]
            assert found["values"] == (["paris"] if knows else [])
        assert raw.count("completion/complete") == (3 if knows else 1)
