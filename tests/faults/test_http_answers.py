"""Streamable HTTP upstreams whose answers are none."""

import asyncio
import json
import logging
from typing import Any

import pytest

from aggregator.domain.errors import RpcError
from tests.polling import until

from .app_harness import code_of, raw_stdio, running_app, server_config, text_of
from .raw_http import Handler, RawHttpServer, ReceivedRequest, ReplyWriter, never, raw_http

pytestmark = pytest.mark.usefixtures("http_client")

# Nothing of these may show in a log line, an error or a result.
KEY = "key-in-the-query-5d1e"
TOKEN = "token-in-a-header-77aa"


def http(raw: RawHttpServer, **fields: Any) -> Any:
    secret = {"url": f"{raw.url}?key={KEY}", "headers": {"authorization": f"Bearer {TOKEN}"}}
    return server_config("web", **({"type": "http", "timeout": 1, "limits": {"connect_timeout": 2}} | secret | fields))


def status(number: int, body: Any = b"", kind: str = "", **headers: str) -> Handler:
    async def handler(seen: ReceivedRequest, reply: ReplyWriter) -> None:
        await reply.send(number, body, kind, **headers)

    return handler


def stream(*events: str, then: str = "end") -> Handler:
    """An event stream with these bytes in it, `$ID` being the request's id; then its end, or silence."""

    async def handler(seen: ReceivedRequest, reply: ReplyWriter) -> None:
        await reply.stream()
        for event in events:
            await reply.raw(event.replace("$ID", json.dumps(seen.message["id"])).encode())
        if then == "silence":
            await asyncio.Event().wait()

    return handler


def raw_bytes(data: bytes) -> Handler:
    async def handler(seen: ReceivedRequest, reply: ReplyWriter) -> None:
        reply.streaming = True
        await reply.raw(data)

    return handler


GOOD = 'data: {"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"good"}]}}\n\n'
LEADING = b"HTTP/1.1 200 S\r\ncontent-type: application/json\r\n"

AT_START: dict[str, tuple[Handler, str]] = {
    "never answers": (never, "did not answer within"),
    "401": (status(401), "HTTP 401"),
    "403": (status(403, {"error": {"code": 1, "message": "forbidden"}}), "HTTP 403"),
    "404": (status(404), "HTTP 404"),
    "500": (status(500), "HTTP 500"),
    "503": (status(503, retry_after="1"), "HTTP 503"),
    "202": (status(202), "202"),
    "204": (status(204), "HTTP 204"),
    "html": (status(200, "<html>Welcome</html>", "text/html"), "text/html"),
    "no type": (status(200, "ok"), "text/plain"),
    "not json": (status(200, "{oops", "application/json"), "cannot be read: it is not JSON"),
    "json array": (status(200, "[1]", "application/json"), "not JSON-RPC"),
    "empty": (status(200, "", "application/json"), "not JSON-RPC"),
    "not http": (raw_bytes(b"SSH-2.0-OpenSSH_9.0\r\n"), ""),
    "hangs up": (raw_bytes(b""), ""),
    "half an answer": (raw_bytes(LEADING + b"content-length: 100\r\n\r\n{"), ""),
    "endless headers": (raw_bytes(LEADING + b"x: " + b"y" * 1_000_000 + b"\r\n\r\n"), ""),
    "wrong encoding": (raw_bytes(LEADING + b"content-encoding: gzip\r\ncontent-length: 4\r\n\r\nnope"), ""),
}


@pytest.mark.parametrize("fault", AT_START)
async def test_one_that_cannot_be_greeted_says_why(fault: str, caplog: pytest.LogCaptureFixture) -> None:
    """C4, D3, D1: marked with a reason; the neighbour works; no secret is told."""
    handler, words = AT_START[fault]
    async with raw_http() as raw:
        raw.on = dict.fromkeys(("server/discover", "initialize", "GET"), handler)
        with caplog.at_level(logging.DEBUG):
            async with running_app(http(raw), raw_stdio("good")) as harness:
                upstream = harness.upstream("web")
                assert upstream.state == "unavailable"
                assert words in upstream.reason_for_operator
                await harness.check_echo("good.echo")
                result = await harness.call("web.echo")
                assert code_of(result) == "upstream_unavailable"
                await until(lambda: raw.count("initialize") + raw.count("server/discover") > 2, "it is tried again")
    told = caplog.text + json.dumps(result) + upstream.reason
    assert KEY not in told
    assert TOKEN not in told
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_connection_refused() -> None:
    """C4, D3, A7: nobody listens there; when somebody does, it is found."""
    async with raw_http() as raw:
        await raw.stop()
        async with running_app(http(raw), raw_stdio("good")) as harness:
            assert "cannot be reached" in harness.upstream("web").reason
            await harness.check_echo("good.echo")
            await raw.start()
            await until(lambda: harness.upstream("web").state == "ready", "it was found")
            await harness.check_echo("web.echo")


@pytest.mark.parametrize("kind", ["http", "sse", "auto"])
@pytest.mark.parametrize("number", [301, 302, 303, 307, 308])
async def test_a_redirect_is_told_and_not_followed(kind: str, number: int) -> None:
    """D1: nothing is sent elsewhere, least of all credentials, not even in the reason."""
    async with raw_http() as raw, raw_http() as stranger:
        elsewhere = status(number, location=f"{stranger.url}?leak={KEY}")
        raw.on = dict.fromkeys(("server/discover", "initialize", "GET"), elsewhere)
        async with running_app(http(raw, type=kind)) as harness:
            reason = harness.upstream("web").reason
            assert stranger.url in harness.upstream("web").reason_for_operator
            assert stranger.url not in reason
            assert KEY not in harness.upstream("web").reason_for_operator
        assert not stranger.seen


IN_A_CALL: dict[str, tuple[Handler, str]] = {
    "never answers": (never, "upstream_timeout"),
    "401": (status(401), "upstream_refused"),
    "403": (status(403), "upstream_refused"),
    "500": (status(500, "<html>"), "upstream_http_error"),
    "503": (status(503), "upstream_http_error"),
    "307": (status(307, location="http://127.0.0.1:9/?x=y"), "upstream_refused"),
    "202": (status(202), "upstream_bad_answer"),
    "html": (status(200, "<html>", "text/html"), "upstream_bad_answer"),
    "not json": (status(200, "}{", "application/json"), "upstream_bad_answer"),
    "json that is no answer": (status(200, {"message": "hello"}), "rpc"),
    "answer to another": (status(200, {"jsonrpc": "2.0", "id": 99_999, "result": {}}), "outcome_unknown"),
    "hangs up": (raw_bytes(b""), "outcome_unknown"),
    "half an answer": (raw_bytes(LEADING + b"content-length: 100\r\n\r\n{"), "outcome_unknown"),
    "wrong encoding": (raw_bytes(LEADING + b"content-encoding: gzip\r\ncontent-length: 4\r\n\r\nnope"), "any"),
    "stream that ends": (stream(": hi\n\n"), "outcome_unknown"),
    "stream that ends in an event": (stream("data: {"), "outcome_unknown"),
    "stream that never ends": (stream(": hi\n\n", then="silence"), "upstream_timeout"),
    "stream of nonsense": (stream("data: hello\n\n", "data: [1]\n\n", "data: {}\n\n"), "any"),
    "event above the limit": (stream("data: " + "x" * 200_000), "upstream_bad_answer"),
    "event of endless lines": (stream("data: x\n" * 100_000), "upstream_bad_answer"),
    "body above the limit": (status(200, {"x": "x" * 200_000}), "upstream_bad_answer"),
    "retry beyond all numbers": (stream(f"id: 1\nretry: {'9' * 5000}\ndata: x\n\n"), "any"),
    "retry of 400 digits": (stream(f"id: 1\nretry: {'9' * 400}\ndata: x\n\n"), "any"),
    "retry of a day": (stream("id: 1\nretry: 86400000\ndata: x\n\n"), "any"),
}


@pytest.mark.parametrize("modern", [False, True], ids=["legacy", "modern"])
@pytest.mark.parametrize("fault", IN_A_CALL)
async def test_a_call_that_goes_wrong_ends_for_itself(
    fault: str, modern: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A7, A8, C12: one clear end, one try, other calls over the same connection untouched; no secret is told."""
    handler, expected = IN_A_CALL[fault]
    async with raw_http() as raw:
        raw.modern = modern

        async def call(seen: ReceivedRequest, reply: ReplyWriter) -> None:
            await (handler if seen.message["params"]["name"] == "odd" else raw.ordinary)(seen, reply)

        raw.on["tools/call"] = call
        with caplog.at_level(logging.DEBUG):
            async with running_app(
                http(raw, limits={"connect_timeout": 2, "max_message_bytes": 100_000}), raw_stdio("good")
            ) as harness:
                try:
                    result = await harness.call("web.odd")
                except RpcError as error:
                    end, told = f"rpc {error.code}", json.dumps(error.to_wire())
                else:
                    end, told = code_of(result), json.dumps(result)
                assert end != "rpc -32603", "a fault of the aggregator's own"
                assert expected == "any" or end.startswith(expected)
                await harness.check_echo("web.echo")
                await harness.check_echo("good.echo")
        odd = [seen for seen in raw.seen if seen.method == "tools/call" and seen.message["params"]["name"] == "odd"]
        assert len(odd) == 1
    told += caplog.text
    assert KEY not in told
    assert TOKEN not in told
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_nonsense_before_the_answer_is_skipped() -> None:
    """C8: unknown ids, requests, text, comments on the stream of a call."""
    async with raw_http() as raw:
        nonsense = (
            "data: hello\n\n",
            'data: {"jsonrpc":"2.0","id":77777,"result":{}}\n\n',
            'data: {"jsonrpc":"2.0","id":"q","method":"ping"}\n\n',
            'data: {"jsonrpc":"2.0","id":"r","method":"sampling/createMessage","params":{}}\n\n',
            'data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":[1]}}\n\n',
            'data: {"jsonrpc":"2.0","method":7}\n\n',
            ": comment\r\n\r\n",
            "id: 7\nevent: other\nretry: x\n\n",
        )
        raw.on["tools/call"] = stream(*nonsense, GOOD, GOOD)
        async with running_app(http(raw)) as harness:
            assert text_of(await harness.call("web.odd")) == "good"
            await until(lambda: sum("method" not in seen.message for seen in raw.seen) >= 3, "it has our answers")
            answers = {
                seen.message["id"]: seen.message for seen in raw.seen if "method" not in seen.message and seen.message
            }
            assert answers["q"]["result"] == {}
            assert answers["r"]["error"]["code"] == -32601


async def test_calls_given_up_leave_no_connection_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """A8, C8: a server that takes everything and answers nothing any more does not fill up with our sockets."""
    monkeypatch.setattr("aggregator.upstream.transports.http.NOTICE_TIMEOUT", 0.3)
    async with raw_http() as raw, running_app(http(raw, timeout=0.3)) as harness:
        raw.on["tools/call"] = raw.on["notifications/cancelled"] = never
        before = raw.open
        results = await asyncio.gather(*(harness.call("web.odd") for _ in range(50)))
        assert {code_of(result) for result in results} == {"upstream_timeout"}
        await until(lambda: raw.open <= before + 2, "the connections of calls given up are closed")
