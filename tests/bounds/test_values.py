"""Messages of very many values, and results that together take too much: refused, told, and nobody else's matter."""

import json
import threading
from pathlib import Path
from typing import Any, Final

import pytest

from aggregator.domain.bounds.result_memory import SMALL
from aggregator.frontends.v1.result_text import as_text
from aggregator.redaction.redactor import Redactor
from aggregator.upstream.redaction import server_redaction
from aggregator.wire.codec import decode_from_host
from aggregator.wire.values import NAMES_AT_MOST, VALUES_AT_MOST
from tests.bounds.web_harness import MODERN, call, web_harness
from tests.faults.app_harness import Json, code_of, raw_stdio, running_app, server_config, text_of
from tests.faults.raw_http import RawHttpServer, ReceivedRequest, ReplyWriter, raw_http, raw_sse

MOST: Final = 1_000
MANY: Final[list[Any]] = [{}] * 3 * MOST
# By what a message has too many of.
FLOODS: Final = {
    "250,000 values": b"[" + b"{}," * VALUES_AT_MOST + b"{}]",
    "50,000 names of fields": json.dumps({f"k{at}": 1 for at in range(NAMES_AT_MOST + 1)}).encode(),
}


async def test_an_answer_of_too_many_values_is_refused_on_every_transport() -> None:
    """Proves: C3, D11. The field that raises the limit is named, and the connection goes on."""
    many: Json = {"content": MANY}

    def odd(raw: RawHttpServer, *, streams: bool) -> Any:
        async def answer(seen: ReceivedRequest, reply: ReplyWriter) -> None:
            if seen.message["params"]["name"] != "odd":
                await raw.ordinary(seen, reply)
            elif streams:
                await reply.stream()
                await reply.event({"jsonrpc": "2.0", "id": seen.message["id"], "result": many})
            else:
                await reply.result(seen, many)

        return answer

    async def on_the_stream(seen: ReceivedRequest, reply: ReplyWriter) -> None:
        if seen.message["params"]["name"] != "odd":
            await old.ordinary(seen, reply)
            return
        await reply.send(202)
        await next(iter(old.streams.values())).event({"jsonrpc": "2.0", "id": seen.message["id"], "result": many})

    async with raw_http() as whole, raw_http() as sse, raw_sse() as old:
        whole.on["tools/call"], sse.on["tools/call"] = odd(whole, streams=False), odd(sse, streams=True)
        old.on["tools/call"] = on_the_stream
        bound: Json = {"limits": {"max_message_values": MOST}}
        servers = (
            raw_stdio("pipe", **bound),
            server_config("whole", type="http", url=whole.url, **bound),
            server_config("streamed", type="http", url=sse.url, **bound),
            server_config("old", type="sse", url=old.url, **bound),
        )
        connection = json.dumps({"jsonrpc": "2.0", "id": "$ID", "result": many}).replace('"$ID"', "$ID")
        async with running_app(*servers) as harness:
            for name in ("pipe.raw", "whole.odd", "streamed.odd", "old.odd"):
                result = await harness.call(name, None, **({"lines": [connection]} if name == "pipe.raw" else {}))
                assert code_of(result) == "upstream_bad_answer", name
                assert "`limits.max_message_values`" in result["content"][0]["text"]
                await harness.check_echo(f"{name.partition('.')[0]}.echo")


async def test_what_a_server_says_unasked_is_bounded_too() -> None:
    """Proves: C8, D11. A notification of too many values is dropped unread; the answer behind it is taken."""
    note = json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": MANY}})
    good = '{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"good"}]}}'
    async with running_app(raw_stdio("odd", limits={"max_message_values": MOST})) as harness:
        assert text_of(await harness.call("odd.raw", lines=[note, good])) == "good"


@pytest.mark.parametrize("most", FLOODS)
@pytest.mark.parametrize(("path", "status"), [("/mcp", 400), ("/v1/tool_calls", 400), ("/sse", 400)])
async def test_a_host_is_held_to_it_at_every_web_frontend(tmp_path: Path, path: str, status: int, most: str) -> None:
    """Proves: D11. Nothing is made of its message, and another is answered."""
    async with web_harness(tmp_path) as it, it.connect() as connection, it.connect() as stream:
        target = path
        if path == "/sse":
            stream.send(b"GET /sse HTTP/1.1\r\nhost: 127.0.0.1\r\naccept: text/event-stream\r\n\r\n")
            await stream.answer()
            target = (await stream.event()).decode()
        message = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"arguments":{"a":' + FLOODS[most] + b"}}}"
        answer = await connection.ask(target, message, **({} if path != "/mcp" else MODERN))
        assert answer.status == status
        assert f"more than {most}".encode() in answer.body
        assert (await it.call()).status == 200


@pytest.mark.parametrize("most", FLOODS)
async def test_arguments_written_as_a_text_count_too(tmp_path: Path, most: str) -> None:
    """Proves: D11. What is JSON inside of a string is read as well, by frontends and tools that take it so."""
    async with web_harness(tmp_path) as it, it.connect() as connection:
        wanted = {"name": "up.echo", "arguments": '{"a":' + FLOODS[most].decode() + "}"}
        answer = await connection.ask("/v1/tool_calls", {"tool_call": wanted})
        assert answer.json()["error"]["code"] == "invalid_arguments"
        assert f"more than {most}" in answer.json()["error"]["message"]
        inner = {**MODERN, "mcp_name": "call_tool"}
        refused = (await connection.ask("/mcp", call("call_tool", **wanted), **inner)).json()["result"]
        assert code_of(refused) == "invalid_arguments"


async def test_a_long_message_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: D11. A call that a connection repeats is not read there and then again, where it turns out to be slow."""
    read: list[int] = []

    def counted(data: bytes) -> Any:
        read.append(len(data))
        return decode_from_host(data)

    for place in ("request_cache", "streamable_http"):
        monkeypatch.setattr(f"aggregator.frontends.web.{place}.decode_from_host", counted)
    async with web_harness(tmp_path) as it, it.connect() as connection:
        for _ in range(2):
            assert (await connection.ask("/mcp", call(say="before"), **MODERN)).status == 200
        read.clear()
        for many in (1_000, 40_000):
            said = call(say="x", more=dict.fromkeys(map(str, range(many)), 0))
            assert (await connection.ask("/mcp", said, **MODERN)).status == 200
        assert len(read) == 2


async def test_results_together_have_a_bound(tmp_path: Path) -> None:
    """Proves: D11. What has no room is dropped and told; what is answered makes room again."""
    size = 2 * SMALL
    async with raw_http() as raw, raw_http() as other:
        held: list[ReplyWriter] = []

        async def large(seen: ReceivedRequest, reply: ReplyWriter) -> None:
            await reply.result(seen, {"content": [{"type": "text", "text": "x" * size}]})

        async def question(seen: ReceivedRequest, reply: ReplyWriter) -> None:
            held.append(reply)
            await reply.stream()

        raw.on["tools/call"] = large
        other.on["tools/call"] = question
        servers = (server_config("raw", type="http", url=raw.url), raw_stdio("pipe"))
        async with running_app(*servers, max_results_bytes=3 * size) as harness:
            results = harness.app.gateway.call_log.results
            for _ in range(5):
                assert text_of(await harness.call("raw.odd")) == "x" * size
                assert text_of(await harness.call("pipe.large", size=size)) == "x" * size
                assert results.held == 0
            # Somebody else has it all.
            assert results.take(results.most // 2, (("agent", "a"),))
            assert results.take(results.most // 2, (("agent", "b"),))
            for name, arguments in (("raw.odd", Json()), ("pipe.large", Json(size=size))):
                refused = await harness.call(name, None, **arguments)
                assert code_of(refused) == "results_full"
                assert refused["_meta"]["aggregator/error"]["field"] == "max_results_bytes"
            await harness.check_echo("pipe.echo", "small ones go on")
            results.give(results.most // 2, (("agent", "a"),))
            assert text_of(await harness.call("raw.odd")) == "x" * size


async def test_a_long_list_is_gone_through_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: D11. Many blocks become a text in a thread, so that others have their turn; a few do so at once."""
    where: list[bool] = []

    def noted(result: Json) -> str:
        where.append(threading.current_thread() is threading.main_thread())
        return as_text(result)

    monkeypatch.setattr("aggregator.frontends.v1.render_results.as_text", noted)
    async with web_harness(tmp_path) as it, it.connect() as connection:
        for blocks in (2, 60_000):

            async def many(seen: ReceivedRequest, reply: ReplyWriter, blocks: int = blocks) -> None:
                await reply.result(seen, {"content": [{"type": "text", "text": "a"}] * blocks})

            it.upstream.on["tools/call"] = many
            answer = await connection.ask("/v1/tool_calls", {"tool_call": {"name": "up/echo", "arguments": {}}})
            assert answer.json()["content"] == "\n".join(["a"] * blocks)
    assert where == [True, False]


@pytest.mark.parametrize("large", [False, True])
async def test_a_large_error_is_looked_through_aside(large: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: D11. A secret in it is taken out all the same, wherever it stands."""
    where: list[bool] = []

    def noted(self: Redactor, value: Any) -> Any:
        where.append(threading.current_thread() is threading.main_thread())
        return known(self, value)

    known = Redactor.known
    monkeypatch.setattr(Redactor, "known", noted)
    secret = "zqx-1234567890-zqx"
    discreet = server_redaction(raw_stdio("odd", env={"API_KEY": secret}))
    said = f"{'a b ' * 50_000 * large}{secret}{'c d ' * 50_000 * large}"
    result = await discreet.whole_for_host({"isError": True, "content": [{"type": "text", "text": said}]})
    words = result["content"][0]["text"]
    assert secret not in words
    assert words.replace("[redacted]", secret) == said
    assert where == [not large]
    # What is not looked through whole is not passed on.
    note = discreet.for_host({"level": "info", "data": said, "progress": 1})
    assert secret not in json.dumps(note)
    assert (note["progress"], "too large" in note["data"]) == (1, large)
