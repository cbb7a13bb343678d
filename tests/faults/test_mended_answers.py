"""Answers that break JSON or JSON-RPC, over every transport: used if there is no doubt, else a clear end at once."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from .app_harness import AppHarness, code_of, raw_stdio, running_app, server_config, text_of
from .raw_http import RawHttpServer, RawSseServer, ReceivedRequest, ReplyWriter, raw_http

RESULT = '{"content":[{"type":"text","text":"good"}]}'
GOOD = f'{{"jsonrpc":"2.0","id":$ID,"result":{RESULT}}}'
NOTICE = '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}'
# An answer, the text that the host gets of it, and words of the fault that is told; None if it is within the rules.
MENDED: dict[str, tuple[str, str, str | None]] = {
    "byte order mark": ("\ufeff" + GOOD, "good", "byte order mark"),
    "not UTF-8": (GOOD.replace("good", "go\udcffd"), "go\ufffd\ufffd\ufffdd", "not UTF-8"),
    "a tab in a string": (GOOD.replace("good", "go\tod"), "go\tod", "control characters"),
    "an escape in a string": (GOOD.replace("good", "go\x1bod"), "go\x1bod", "control characters"),
    "no version": (GOOD.replace('"jsonrpc":"2.0",', ""), "good", "without"),
    "another version": (GOOD.replace('"2.0"', '"1.0"'), "good", "without"),
    "version a number": (GOOD.replace('"2.0"', "2.0"), "good", "without"),
    "text before": ("DEBUG: half a line " + GOOD, "good", "other text"),
    "text behind": (GOOD + " done.", "good", "other text"),
    "two in one": (NOTICE + GOOD, "good", "several messages"),
    "id a float": (GOOD.replace("$ID", "$ID.0"), "good", None),
    "id a text": (GOOD.replace("$ID", '"$ID"'), "good", None),
    "every member of a message": (GOOD.replace("{", '{"method":null,"params":null,"error":null,', 1), "good", None),
    "its method again": (GOOD.replace("{", '{"method":"tools/call","params":{},', 1), "good", None),
    "in a batch": (f"[{NOTICE},{GOOD}]", "good", None),
    "in a batch with what is none": (f"[7,null,{GOOD}]", "good", None),
    "all at once": ("\ufefflog " + GOOD.replace("good", "\t\udcff"), "\t\ufffd\ufffd\ufffd", "byte order mark"),
}
# What cannot be mended, though it says which request it answers.
BROKEN = {
    "cut": GOOD[:-3],
    "cut in a string": GOOD[: GOOD.index("good") + 2],
    "a comma too many": GOOD.replace("}]}", "},]}"),
    "single quotes": GOOD.replace('"text":"good"', "'text':'good'"),
    "a bare word": GOOD.replace('"good"', "good"),
    "cut behind a mark": "\ufeff" + GOOD[:-3],
}
TRANSPORTS = ["stdio", "sse", "http", "stream"]


@asynccontextmanager
async def one_answering(transport: str, line: str) -> AsyncIterator[tuple[AppHarness, Callable[[], Any]]]:
    """A server that answers one call with a line, where `$ID` is the id, and keeps its connection open."""
    line_bytes = line.encode("utf-8", "surrogatepass")
    fields: dict[str, Any] = {"timeout": 30, "tools": {"include": ["echo", "raw"]}}
    if transport == "stdio":
        async with running_app(raw_stdio("s", **fields)) as harness:
            yield harness, lambda: harness.call("s.raw", lines=[line])
        return
    raw: RawHttpServer = RawSseServer() if transport == "sse" else RawHttpServer()

    async def answer(seen: ReceivedRequest, reply: ReplyWriter) -> None:
        if seen.message["params"]["name"] != "odd":
            await raw.ordinary(seen, reply)
            return
        body = line_bytes.replace(b"$ID", json.dumps(seen.message["id"]).encode())
        if isinstance(raw, RawSseServer):
            await reply.send(202)
            stream = next(stream for name, stream in raw.streams.items() if name in seen.target)
            await stream.raw(b"event: message\ndata: " + body + b"\n\n")
        elif transport == "http":
            await reply.send(200, body, "application/json")
        else:
            await reply.stream()
            await reply.raw(b"event: message\ndata: " + body + b"\n\n")
            await asyncio.Event().wait()

    raw.on["tools/call"] = answer
    kind = "sse" if transport == "sse" else "http"
    async with raw_http(raw), running_app(server_config("s", type=kind, url=raw.url, timeout=30)) as harness:
        yield harness, lambda: harness.call("s.odd")


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("case", MENDED)
async def test_an_answer_without_doubt_is_used(case: str, transport: str, caplog: pytest.LogCaptureFixture) -> None:
    """C8: at once, and what was wrong is told in the log and to whoever asks for the servers."""
    line, text, fault = MENDED[case]
    with caplog.at_level(logging.WARNING):
        async with one_answering(transport, line) as (harness, call):
            assert text_of(await call()) == text
            faults = " ".join(harness.upstream("s").faults.for_agents())
            await harness.check_echo("s.echo")
    # Over HTTP an answer is known by the request that it comes to, so that its version does not matter; and a mark at
    # the beginning of a whole text is allowed to be passed over (RFC 8259, 8.1).
    by_request = "version" in case and transport in ("http", "stream")
    if fault is None or by_request or (case == "byte order mark" and transport != "stdio"):
        assert faults == ""
    else:
        assert fault in faults
        assert fault in caplog.text


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("case", BROKEN)
async def test_an_answer_that_cannot_be_read_ends_its_call(case: str, transport: str) -> None:
    """C8, A7: at once and by name, and no other call."""
    async with one_answering(transport, BROKEN[case]) as (harness, call):
        result = await call()
        assert code_of(result) == "upstream_bad_answer"
        assert "cannot be read" in result["content"][0]["text"]
        assert "good" not in result["content"][0]["text"]
        await harness.check_echo("s.echo")


@pytest.mark.parametrize(
    "line",
    [
        '{"id":$ID,"result":{"content":[]},"level":30}',
        'oops {"id":$ID,"result":{"content":[]},"level":30}',
        '{"jsonrpc":"2.0","id":987654,"result":{"content":[]}} and more',
        '\ufeff{"jsonrpc":"2.0","id":987654,"result":',
        'GET /x {"method":"notifications/cancelled","params":{"requestId":$ID}}',
        '{"id":$ID}',
    ],
)
async def test_what_answers_nothing_is_not_taken_for_an_answer(line: str) -> None:
    """C3, C8: log lines with an id, and answers to requests that are not waited for, in whatever way they are odd."""
    async with running_app(raw_stdio("s")) as harness:
        assert text_of(await harness.call("s.raw", lines=[line, GOOD])) == "good"
        await harness.check_echo("s.echo")


async def test_a_list_in_an_odd_encoding_is_a_list(tmp_path: Path) -> None:
    """C5: one description that is not UTF-8 costs no tool."""
    path = tmp_path / "tools.json"
    tools = b'{"tools":[{"name":"echo","inputSchema":{"type":"object"}},{"name":"b","description":"\xc7\xd1\tx"}]}'
    path.write_bytes(tools)
    async with running_app(raw_stdio("s", listing=path)) as harness:
        assert harness.upstream("s").state == "ready", harness.upstream("s").reason
        assert harness.tools() == ["s.echo", "s.b"]
        assert any("not UTF-8" in said for said in harness.upstream("s").faults.for_operators())


CERTAIN = '{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"good"}]}}'


@pytest.mark.parametrize(
    ("status", "content_type", "body", "used"),
    [
        (200, "text/plain", CERTAIN, True),
        (200, "", CERTAIN, True),
        (200, "application/json-rpc", "\n " + CERTAIN, True),
        (200, "text/html", CERTAIN, True),
        (201, "application/json", CERTAIN, True),
        (203, "application/json", CERTAIN, True),
        (200, "text/event-stream", "data: " + CERTAIN, True),
        (200, "text/event-stream", "data: " + CERTAIN + "\n", True),
        # In any doubt, it is what its head says.
        (200, "text/plain", CERTAIN.replace("$ID", "987654"), False),
        (200, "text/plain", CERTAIN.replace('"jsonrpc":"2.0",', ""), False),
        (200, "text/plain", CERTAIN.replace('"id":$ID,', ""), False),
        (200, "text/plain", CERTAIN[:-1], False),
        (200, "text/plain", "log: " + CERTAIN, False),
        (200, "text/plain", CERTAIN.replace("result", "says"), False),
        (206, "application/json", CERTAIN, False),
        (200, "text/event-stream", "data: " + CERTAIN[:-1], False),
        (200, "text/event-stream", ": " + CERTAIN, False),
        (200, "text/event-stream", CERTAIN, False),
    ],
)
async def test_a_head_that_does_not_fit_costs_no_certain_answer(
    status: int, content_type: str, body: str, used: bool
) -> None:
    """C8: the answer to this very request, whole, over HTTP."""
    async with raw_http() as raw:

        async def answer(seen: ReceivedRequest, reply: ReplyWriter) -> None:
            if seen.message["params"]["name"] != "odd":
                await raw.ordinary(seen, reply)
                return
            data = body.replace("$ID", json.dumps(seen.message["id"])).encode()
            fields = f"content-type: {content_type}\r\n" if content_type else ""
            head = f"HTTP/1.1 {status} X\r\n{fields}content-length: {len(data)}\r\nconnection: close\r\n\r\n"
            await reply.raw(head.encode() + data)

        raw.on["tools/call"] = answer
        async with running_app(server_config("s", type="http", url=raw.url, timeout=30)) as harness:
            result = await harness.call("s.odd")
            assert (result["content"][0]["text"] == "good") is used
            assert result.get("isError", False) is not used
            await harness.check_echo("s.echo")
            faults = " ".join(harness.upstream("s").faults.for_agents())
            assert ("content type" in faults or "end of their event" in faults) is (used and status == 200)
