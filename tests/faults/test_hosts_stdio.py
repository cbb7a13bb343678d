"""Hosts over stdio that send what no host should: one clear error each, and the frontend keeps working."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from aggregator.config.settings import StdioConfig
from aggregator.frontends.stdio import serve_stdio
from aggregator.gateway.host import Host
from aggregator.wire.values import NAMES_AT_MOST
from tests.polling import until

from .app_harness import BOUND, AppHarness, Json, modern, raw_stdio, running_app


class Pipes:
    """The host's ends of the two pipes."""

    def __init__(
        self,
        harness: AppHarness,
        write: asyncio.WriteTransport,
        reader: asyncio.StreamReader,
        serving: asyncio.Task[None],
    ) -> None:
        self.harness = harness
        self.serving = serving
        self._write = write
        self._reader = reader

    def send(self, message: Any) -> None:
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        self._write.write(data + b"\n")

    async def receive(self) -> Any:
        """Return the next message; fail if the frontend has stopped."""
        async with asyncio.timeout(BOUND):
            reading = asyncio.ensure_future(self._reader.readline())
            await asyncio.wait({reading, self.serving}, return_when=asyncio.FIRST_COMPLETED)
            if not reading.done() or not reading.result():
                reading.cancel()
                await self.serving
                raise AssertionError("the stream is closed")
            # A thread has a stack of its own: what nests deeply can be read there.
            return await asyncio.to_thread(json.loads, reading.result())

    async def check(self) -> None:
        """Check that the frontend works: calls go through."""
        message = {"name": "s.echo", "arguments": {"say": "hello"}}
        self.send({"jsonrpc": "2.0", "id": "check", "method": "tools/call", "params": modern(**message)})
        answer = await self.receive()
        assert answer["id"] == "check", answer
        assert answer["result"]["content"][0]["text"] == "hello"


@asynccontextmanager
async def plugged(limits: StdioConfig | None = None) -> AsyncIterator[Pipes]:
    """Run the application with a stdio frontend on pipes of this process."""
    in_read, in_write = os.pipe()
    out_read, out_write = os.pipe()
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=2**26)
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(out_read, "rb", buffering=0)
    )
    writer, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, os.fdopen(in_write, "wb", buffering=0))
    async with running_app(raw_stdio("s")) as harness:
        host = Host("stdio", "compatible")
        with os.fdopen(in_read, "rb", buffering=0) as stdin, os.fdopen(out_write, "wb", buffering=0) as stdout:
            serving = asyncio.create_task(serve_stdio(harness.app.gateway, host, stdin, stdout, limits))
            try:
                yield Pipes(harness, writer, reader, serving)
            finally:
                writer.close()
                async with asyncio.timeout(BOUND):
                    await asyncio.gather(serving, return_exceptions=True)
                transport.close()


ANSWERED: dict[str, tuple[Any, int]] = {
    "not json": (b"{oops", -32700),
    "not text": (b"\xff\xfe{}", -32700),
    "a number": (b"7", -32600),
    "null": (b"null", -32600),
    "an empty batch": (b"[]", -32600),
    "too deep": (b"[" * 100_000, -32700),
    "too many names": (json.dumps({f"k{at}": 0 for at in range(NAMES_AT_MOST + 1)}).encode(), -32700),
    "id null": ({"id": None, "method": "ping"}, -32600),
    "id a float": ({"id": 1.5, "method": "ping"}, -32600),
    "id true": ({"id": True, "method": "ping"}, -32600),
    "id a list": ({"id": [1], "method": "ping"}, -32600),
    "id an object": ({"id": {}, "method": "ping"}, -32600),
    "method a number": ({"id": 1, "method": 7}, -32600),
    "method null": ({"id": 1, "method": None}, -32600),
    "params a list": ({"id": 1, "method": "tools/call", "params": [1]}, -32600),
    "params a string": ({"id": 1, "method": "tools/call", "params": "x"}, -32600),
    "no handshake": ({"id": 1, "method": "tools/list"}, -32600),
    "unknown method": ({"id": 1, "method": "tools/destroy", "params": modern()}, -32601),
    "no name": ({"id": 1, "method": "tools/call", "params": modern(arguments={})}, -32602),
    "name a number": ({"id": 1, "method": "tools/call", "params": modern(name=7)}, -32602),
    "name a list": ({"id": 1, "method": "tools/call", "params": modern(name=["s.echo"])}, -32602),
    "name null": ({"id": 1, "method": "tools/call", "params": modern(name=None)}, -32602),
    "name empty": ({"id": 1, "method": "tools/call", "params": modern(name="")}, -32602),
    "name unknown": ({"id": 1, "method": "tools/call", "params": modern(name="nobody.nothing")}, -32602),
    "name a surrogate": ({"id": 1, "method": "tools/call", "params": modern(name="s.\ud800")}, -32602),
    "name of 1 MB": ({"id": 1, "method": "tools/call", "params": modern(name="s." + "x" * 60_000)}, -32602),
    "arguments a list": ({"id": 1, "method": "tools/call", "params": modern(name="s.echo", arguments=[1])}, -32602),
    "arguments a string": ({"id": 1, "method": "tools/call", "params": modern(name="s.echo", arguments="x")}, -32602),
    "arguments false": ({"id": 1, "method": "tools/call", "params": modern(name="s.echo", arguments=False)}, -32602),
    "meta a list": ({"id": 1, "method": "tools/list", "params": {"_meta": [1]}}, -32600),
    "cursor a number": ({"id": 1, "method": "tools/list", "params": modern(cursor=7)}, -32602),
    "cursor unknown": ({"id": 1, "method": "tools/list", "params": modern(cursor="x")}, -32602),
    "version unknown": (
        {
            "id": 1,
            "method": "tools/list",
            "params": {
                "_meta": {
                    "io.modelcontextprotocol/protocolVersion": "2031-01-01",
                    "io.modelcontextprotocol/clientCapabilities": {},
                }
            },
        },
        -32022,
    ),
    "initialize without version": ({"id": 1, "method": "initialize", "params": {}}, -32602),
}


@pytest.mark.parametrize("fault", ANSWERED)
async def test_each_fault_has_its_error_and_the_frontend_stays_open(fault: str) -> None:
    """F1, C13, A7: exactly one answer, with the code JSON-RPC has for it."""
    message, code = ANSWERED[fault]
    if isinstance(message, dict):
        message = {"jsonrpc": "2.0", **message}
    async with plugged() as pipes:
        pipes.send(message)
        answer = await pipes.receive()
        assert answer["error"]["code"] == code, answer
        assert answer["error"]["message"]
        await pipes.check()


UNANSWERED: dict[str, Any] = {
    "empty lines": b"\n\n  \n",
    "cancel of an unknown id": {"method": "notifications/cancelled", "params": {"requestId": 77}},
    "cancel of no id": {"method": "notifications/cancelled", "params": {}},
    "cancel without params": {"method": "notifications/cancelled"},
    "cancel of null": {"method": "notifications/cancelled", "params": {"requestId": None}},
    "cancel of a list": {"method": "notifications/cancelled", "params": {"requestId": [1]}},
    "cancel of an object": {"method": "notifications/cancelled", "params": {"requestId": {}}},
    "unknown notification": {"method": "notifications/whatever", "params": {"x": 1}},
    "progress of a list": {"method": "notifications/progress", "params": {"progressToken": [1], "progress": 1}},
    "progress of an object": {"method": "notifications/progress", "params": {"progressToken": {}, "progress": "x"}},
    "an answer nobody asked for": {"id": 1, "result": {}},
    "an answer with a huge id": {"id": "9" * 5000, "result": {}},
    "an error nobody asked for": {"id": None, "error": {"code": 1, "message": "x"}},
    "a notification with a number for a method": {"method": 7},
    "a batch of notifications": b'[{"jsonrpc":"2.0","method":"x"},{"jsonrpc":"2.0","method":"y"}]',
}


@pytest.mark.parametrize("fault", UNANSWERED)
async def test_what_needs_no_answer_gets_none(fault: str) -> None:
    """F1: the next thing on the wire is the answer to the next request."""
    message = UNANSWERED[fault]
    if isinstance(message, dict):
        message = {"jsonrpc": "2.0", **message}
    async with plugged() as pipes:
        pipes.send(message)
        await pipes.check()


@pytest.mark.parametrize("depth", range(100, 1000, 100))
async def test_nested_batches_do_not_break_the_frontend(depth: int) -> None:
    """F1: brackets that can just be read."""
    async with plugged() as pipes:
        pipes.send(b"[" * depth + b'{"jsonrpc":"2.0","method":"x"}' + b"]" * depth)
        pipes.send({"jsonrpc": "2.0", "id": "mark", "method": "ping"})
        while (await pipes.receive()).get("id") != "mark":
            pass
        await pipes.check()


@pytest.mark.parametrize("depth", [400, 800, 880, 900, 920, 930, 940, 950, 960, 970, 980])
async def test_deep_arguments_and_results_have_one_answer(depth: int) -> None:
    """A7, F1: a result that could just be read must not be lost because it cannot be written."""
    deep = "[" * depth + "]" * depth
    line = '{"jsonrpc":"2.0","id":$ID,"result":{"content":[],"structuredContent":{"value":$V}}}'.replace("$V", deep)
    async with plugged() as pipes:
        await pipes.harness.ask("tools/list", {})
        request = modern(
            name="s.raw", arguments={"lines": [line, '{"jsonrpc":"2.0","id":$ID,"result":{"content":[]}}']}
        )
        pipes.send({"jsonrpc": "2.0", "id": "deep", "method": "tools/call", "params": request})
        assert (await pipes.receive())["id"] == "deep"
        mirrored = json.dumps(modern(name="s.echo", arguments={"deep": 7})).replace("7}", f"{deep}}}")
        pipes.send(b'{"jsonrpc":"2.0","id":"up","method":"tools/call","params":%b}' % mirrored.encode())
        answer = await pipes.receive()
        assert answer["id"] in ("up", None)
        await pipes.check()


@pytest.mark.parametrize("token", [0, -1, 1.5, True, "", "\ud800", [1], {"a": 1}, 10**30])
async def test_progress_tokens_of_strange_types(token: Any) -> None:
    """F1: given back as they came, or ignored; the call goes through."""
    async with plugged() as pipes:
        progress = '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":$ID,"progress":1}}'
        good = '{"jsonrpc":"2.0","id":$ID,"result":{"content":[]}}'
        params = modern(name="s.raw", arguments={"lines": [progress, good]})
        params["_meta"]["progressToken"] = token
        pipes.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        heard = []
        while "result" not in (message := await pipes.receive()):
            heard.append(message)
        assert message["id"] == 1
        assert all(note["params"]["progressToken"] == token for note in heard)
        await pipes.check()


async def test_an_id_in_use_is_refused_and_the_first_call_lives() -> None:
    """F1: the second of two requests with one id is an error; cancelling it ends the first."""
    async with plugged() as pipes:
        hanging: Json = {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": modern(name="s.hang")}
        pipes.send(hanging)
        await until(lambda: pipes.harness.upstream("s").in_flight == 1, "the call runs")
        pipes.send(hanging)
        answer = await pipes.receive()
        assert (answer["id"], answer["error"]["code"]) == (5, -32600)
        assert pipes.harness.upstream("s").in_flight == 1
        pipes.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "5"}})
        pipes.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5.5}})
        await pipes.check()
        assert pipes.harness.upstream("s").in_flight == 1
        pipes.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}})
        await until(lambda: pipes.harness.upstream("s").in_flight == 0, "the call was ended")
        await pipes.check()


async def test_a_message_above_the_limit() -> None:
    """F1: refused, and not kept; what comes behind it is read."""
    async with plugged(StdioConfig(max_message_bytes=300_000)) as pipes:
        pipes.send({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": "y" * 2_000_000}})
        answer = await pipes.receive()
        assert answer["error"]["code"] == -32700
        pipes.send({"jsonrpc": "2.0", "id": "mark", "method": "ping"})
        while (answer := await pipes.receive()).get("id") != "mark":
            assert "error" in answer
        await pipes.check()
