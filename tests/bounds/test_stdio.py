"""A host over stdio that does not read what it is sent, or asks for too much at once."""

import asyncio
import json
import logging
import os
from types import SimpleNamespace
from typing import Any

import pytest

from aggregator.frontends import stdio
from aggregator.frontends.stdio import StdioFrontend, serve_stdio
from aggregator.gateway.host import Host
from tests.faults.app_harness import BOUND, AppHarness, Json, modern, raw_stdio, running_app
from tests.polling import until


class Pipes:
    """The host's ends, read from only when a test says so."""

    def __init__(self, harness: AppHarness) -> None:
        in_read, self.write_end = os.pipe()
        self.read_end, out_write = os.pipe()
        os.set_blocking(self.write_end, False)
        self.stdin, self.stdout = os.fdopen(in_read, "rb", buffering=0), os.fdopen(out_write, "wb", buffering=0)
        host = Host("stdio", "compatible")
        self.serving = asyncio.create_task(serve_stdio(harness.app.gateway, host, self.stdin, self.stdout))

    def send(self, *messages: Json) -> int:
        """Return how many of the messages went into the pipe."""
        for number, message in enumerate(messages):
            try:
                os.write(self.write_end, json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            except BlockingIOError:
                return number
        return len(messages)

    async def lines(self, count: int) -> list[Json]:
        """Read so many messages."""
        with os.fdopen(os.dup(self.read_end), "rb") as reader:
            async with asyncio.timeout(BOUND):
                return [json.loads(await asyncio.to_thread(reader.readline)) for _ in range(count)]

    async def close(self) -> None:
        os.close(self.write_end)
        async with asyncio.timeout(BOUND):
            await asyncio.wait([self.serving])
        os.close(self.read_end)
        self.stdin.close()
        self.stdout.close()


def call(number: int, tool: str, **arguments: object) -> Json:
    return {"id": number, "method": "tools/call", "params": modern(name=tool, arguments=arguments)}


async def test_who_does_not_read_is_not_read_from(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Proves: D11. From a part of what may wait on, stdin is left alone; read on, and all answers are there."""
    monkeypatch.setattr(stdio, "UNREAD_BYTES", 3_200_000)
    async with running_app(raw_stdio("s")) as harness:
        pipes = Pipes(harness)
        pipes.send(*(call(number, "s.large", size=100_000) for number in range(5)))
        await until(
            lambda: harness.upstream("s").in_flight == 0 and harness.upstream("s").lists["tool"], "they are answered"
        )
        await harness.check_echo("s.echo")
        ping = {"method": "ping", "params": modern(filler="x" * 500)}
        sent = pipes.send(*({"id": 1000 + number, **ping} for number in range(400)))
        assert sent < 400, "the pipe is full, since nobody reads it"
        got = await pipes.lines(5 + sent)
        assert {part["id"] for part in got} == {*range(5), *range(1000, 1000 + sent)}
        await pipes.close()
    assert not [one for one in caplog.records if one.levelno >= logging.ERROR]


async def test_too_much_unread_ends_the_session(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Proves: D11. Calls that were under way may fill it: then the session ends, with the reason in the log."""
    monkeypatch.setattr(stdio, "UNREAD_BYTES", 1_000_000)
    async with running_app(raw_stdio("s")) as harness:
        pipes = Pipes(harness)
        pipes.send(*(call(number, "s.large", size=400_000) for number in range(20)))
        async with asyncio.timeout(BOUND):
            await asyncio.wait([pipes.serving])
        assert pipes.serving.result() is None
        assert "the host does not read our stdout" in caplog.text
        await harness.check_echo("s.echo")
        await pipes.close()


async def test_what_waits_for_the_host_does_not_keep_it_from_answering(monkeypatch: pytest.MonkeyPatch) -> None:
    """Proves: D11. As many requests as may be, each asking the host something: its answers are read all the same, and
    only so many more requests with them."""
    monkeypatch.setattr(stdio, "_SPARE", 1)
    monkeypatch.setattr(stdio, "PENDING", 2)
    async with running_app(raw_stdio("s", isolation="per_session")) as harness:
        pipes = Pipes(harness)
        hello = {"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}, "clientInfo": {"name": "t"}}
        pipes.send({"id": 0, "method": "initialize", "params": hello}, {"method": "notifications/initialized"})
        await pipes.lines(1)
        schema = {"type": "object", "properties": {}}
        for number in (1, 2, 3):
            question = {"method": "elicitation/create", "params": {"message": "?", "requestedSchema": schema}}
            arguments = {"questions": [{"id": f"q{number}", **question}]}
            pipes.send({"id": number, "method": "tools/call", "params": {"name": "s.ask", "arguments": arguments}})
        asked = await pipes.lines(3)
        assert [part["method"] for part in asked] == ["elicitation/create"] * 3
        pipes.send({"id": 9, "method": "ping"})
        (refused,) = await pipes.lines(1)
        assert (refused["id"], refused["error"]["code"]) == (9, -32600)
        assert "Try again" in refused["error"]["message"]
        pipes.send(*({"id": part["id"], "result": {"action": "decline"}} for part in asked))
        assert {part["id"] for part in await pipes.lines(3)} == {1, 2, 3}
        await pipes.close()


@pytest.mark.parametrize(
    ("head", "at"),
    [
        (b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"x":"', False),
        (b'{"jsonrpc":"2.0","id":7,"result":{"x":"', False),
        (b'{"jsonrpc":"2.0","result":{"x":"', True),
        (b'{"params":{"x":"', True),
        (b"no JSON", True),
    ],
)
def test_a_message_that_is_too_large_is_refused_once(head: bytes, at: bool) -> None:
    """D7: as soon as it is known what it is, else at its end."""
    refused: list[bool] = []
    for ended in (False, True):
        frontend: Any = SimpleNamespace(_limit=9, _refuse=lambda *_, ended=ended: refused.append(ended))
        StdioFrontend.take_oversized(frontend, head, b'"},"id":7}', ended=ended)
    assert refused == [at]
