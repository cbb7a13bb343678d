"""Upstreams that take more than their part: of memory, of the log, of our attention."""

import asyncio
import logging
import sys
from pathlib import Path
from typing import Any

import pytest

from aggregator.config.server_config import ServerConfig
from aggregator.upstream.process import memory
from aggregator.upstream.process import stderr as stderr_log
from aggregator.upstream.process.process import run_child
from aggregator.upstream.process.reaper_pipe import Reaper
from tests.bounds.web_harness import web_harness
from tests.faults.app_harness import AppHarness, Json, code_of, raw_stdio, running_app, server_config
from tests.faults.raw_http import RawHttpServer, RawSseServer, ReceivedRequest, ReplyWriter, raw_http, raw_sse
from tests.polling import until

SMALL = 200_000

# Waits for `initialize` as a server does, then does what its argument says.
MISBEHAVES = """
import json, sys, time
def serve():
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("method") == "initialize":
            result = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "m", "version": "0"}}
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
        elif "id" in message:
            error = {"code": -32601, "message": "no"}
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}), flush=True)
        elif sys.argv[1] == "grows":
            held = []
            for _ in range(1000):
                held.append(bytearray(b"x") * 4_000_000)
                time.sleep(0.01)
        elif sys.argv[1] == "talks":
            for number in range(100_000):
                sys.stderr.write(f"line {number}\\n")
            sys.stderr.write("the last word\\n")
        elif sys.argv[1] == "mutters":
            for _ in range(20):
                sys.stderr.write("x" * 65536)
            sys.stderr.flush()
            sys.exit(4)
serve()
"""


def misbehaving(kind: str, **fields: Any) -> ServerConfig:
    return server_config("m", type="stdio", command=sys.executable, args=("-I", "-S", "-c", MISBEHAVES, kind), **fields)


async def test_pending_calls_have_a_bound(tmp_path: Path) -> None:
    """Proves: D7, D11. One more is refused at once, as one that may be tried again; other servers do not notice."""
    async with (
        web_harness(tmp_path, raw_stdio("other"), upstream={"limits": {"max_pending": 2}}) as it,
        asyncio.TaskGroup() as tasks,
    ):
        held = [tasks.create_task(it.call(hang=True)) for _ in range(2)]
        await until(lambda: it.upstream.hanging == 2, "two calls hang")
        result = (await it.call()).json()["result"]
        assert code_of(result) == "upstream_busy"
        error = result["_meta"]["aggregator/error"]
        assert (error["retryable"], error["limit"], error["field"]) == (True, 2, "limits.max_pending")
        assert it.app.snapshot().upstreams["up"].refused == 1
        harness = AppHarness(it.app)
        await harness.check_echo("other.echo")
        it.upstream.release.set()
        assert [(await task).status for task in held] == [200, 200]
        assert "isError" not in (await it.call()).json()["result"]


async def test_a_large_answer_is_refused_on_every_transport() -> None:
    """Proves: C2, C3, C11. Whatever carries it, the field that raises the limit is named, and the next call is
    answered."""
    large = {"content": [{"type": "text", "text": "x" * 2 * SMALL}]}

    async def whole(seen: ReceivedRequest, reply: ReplyWriter) -> None:
        await (reply.result(seen, large) if seen.message["params"]["name"] == "odd" else raw.ordinary(seen, reply))

    async def streamed(seen: ReceivedRequest, reply: ReplyWriter) -> None:
        if seen.message["params"]["name"] != "odd":
            await sse.ordinary(seen, reply)
            return
        await reply.stream()
        await reply.event({"jsonrpc": "2.0", "id": seen.message["id"], "result": large})

    async with raw_http() as raw, raw_http() as sse, raw_sse() as old:
        raw.on["tools/call"], sse.on["tools/call"] = whole, streamed
        bound: Json = {"limits": {"max_message_bytes": SMALL}}
        servers = (
            raw_stdio("pipe", **bound),
            server_config("whole", type="http", url=raw.url, **bound),
            server_config("streamed", type="http", url=sse.url, **bound),
            server_config("old", type="sse", url=old.url, **bound),
        )
        async with running_app(*servers) as harness:
            for name in ("pipe.large", "whole.odd", "streamed.odd"):
                arguments: Json = {"size": 2 * SMALL} if name == "pipe.large" else {}
                result = await harness.call(name, **arguments)
                assert code_of(result) == "upstream_bad_answer"
                assert "`limits.max_message_bytes`" in result["content"][0]["text"]
                await harness.check_echo(f"{name.partition('.')[0]}.echo")
            # On HTTP+SSE there is one stream for all: it cannot be read on, and is opened anew.
            result = await harness.call("old.odd", say="x" * 2 * SMALL)
            assert code_of(result) == "outcome_unknown"
            assert "`limits.max_message_bytes`" in result["content"][0]["text"]
            await harness.check_echo("old.echo")


@pytest.mark.skipif(not memory.can_measure(), reason="no /proc here")
async def test_one_that_takes_too_much_memory_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: C4, D11. With a reason that names the field; its neighbour goes on."""
    monkeypatch.setattr(memory, "INTERVAL", 0.02)
    monkeypatch.setattr(memory, "_GOOD_FOR", 0.01)
    async with running_app(
        misbehaving("grows", limits={"memory_limit": 60_000_000}), raw_stdio("good", limits={"memory_limit": 2**30})
    ) as harness:
        await until(lambda: "`limits.memory_limit`" in harness.upstream("m").reason, "it was ended for that")
        await harness.check_echo("good.echo")


async def test_stderr_is_logged_at_a_rate(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: D11. So many lines, then how many were left out; its last words are known all the same."""
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(stderr_log, "LINES_PER_MINUTE", 50)
    async with running_app(misbehaving("talks"), raw_stdio("good")) as harness:
        connection: Any = harness.upstream("m").shared.session
        stderr = connection.connection.child.stderr
        await until(lambda: "the last word" in stderr.tail, "it has said everything")
        await harness.check_echo("good.echo")
        stderr._log_dropped()
    said = [one for one in caplog.records if one.name == "aggregator.server.m"]
    lines = [one for one in said if one.getMessage().startswith("line ")]
    told = [one.getMessage() for one in said if "more than 50 a minute" in one.getMessage()]
    assert 50 <= len(lines) <= 60
    assert told
    assert sum(int(one.split()[0]) for one in told) == 100_001 - len(lines) - ("the last word" in said[-1].getMessage())


async def test_a_line_of_stderr_without_an_end_keeps_no_memory(caplog: pytest.LogCaptureFixture) -> None:
    """Proves: C3, D11. A megabyte without a line break are a few kilobytes here."""
    caplog.set_level(logging.INFO)
    async with running_app(misbehaving("mutters")) as harness:
        await until(lambda: "exit code 4" in harness.upstream("m").reason, "it has left")
    said = [one.getMessage() for one in caplog.records if one.name == "aggregator.server.m"]
    assert said
    assert max(map(len, said)) <= 8192


async def test_what_a_launched_program_prints_is_read_at_a_rate() -> None:
    """Proves: D11. Nobody listens to its stdout: it is read only so that the program can go on."""
    prints = "import sys\nwhile True: sys.stdout.write('x' * 65536)"
    reaper = Reaper()
    async with run_child("m", sys.executable, ("-I", "-S", "-c", prints), {}, None, None, reaper, 0) as child:
        stdout: Any = child._pipe(1)
        await until(lambda: not stdout.is_reading(), "it is left alone")
        await until(stdout.is_reading, "it goes on")
    await reaper.close()


NOTE = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x" * 50}}


@pytest.mark.parametrize("kind", ["standing", "answer", "sse"])
async def test_a_flood_of_notifications_is_read_at_a_rate(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: C2, D11. What nobody asked for waits on the server's side of the wire; the neighbour has its turn."""
    monkeypatch.setattr("aggregator.upstream.transports.rate_limit.BURST", 50.0)
    flooding: RawHttpServer
    written = [0]

    async def pour(reply: ReplyWriter) -> None:
        while True:
            await reply.event(NOTE)
            written[0] += 1

    async def stand(seen: ReceivedRequest, reply: ReplyWriter) -> None:
        await reply.stream()
        await pour(reply)

    async def pour_elsewhere(seen: ReceivedRequest, reply: ReplyWriter) -> None:
        await reply.send(202)
        assert isinstance(flooding, RawSseServer)
        await pour(next(iter(flooding.streams.values())))

    async with raw_sse() if kind == "sse" else raw_http() as flooding:
        flooding.on["GET" if kind == "standing" else "tools/call"] = pour_elsewhere if kind == "sse" else stand
        flood = server_config("flood", type="sse" if kind == "sse" else "http", url=flooding.url, timeout=0.3)
        async with running_app(flood, raw_stdio("good")) as harness:
            calling = asyncio.create_task(harness.call("flood.echo"))
            await until(lambda: written[0] > 100, "the flood has begun")
            for _ in range(20):
                await harness.check_echo("good.echo")
            # What is not read stays in the buffers of the sockets, some hundred kilobytes each; a handshake server over
            # HTTP has two sessions with a standing stream each.
            assert written[0] < 200_000
            assert (await calling).get("isError") or kind == "standing"


async def test_where_memory_cannot_be_told_that_is_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Proves: C4, E9. The limit has no effect there, and the server runs."""
    monkeypatch.setattr("aggregator.upstream.process.process.can_measure", lambda: False)
    async with running_app(raw_stdio("good", limits={"memory_limit": 1_000_000})) as harness:
        await harness.check_echo("good.echo")
    assert "`limits.memory_limit` has no effect" in caplog.text
