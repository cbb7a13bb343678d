"""The load: a process that keeps N calls in flight over keep-alive HTTP connections or one pair of pipes.

Run as `python -m benchmarks.load SPEC`. It shakes hands, writes `ready`, and then does one round for each line
`IN_FLIGHT SECONDS` on stdin, answering each with `{"calls", "seconds", "p50", "p95", "p99"}` (latencies in seconds).
Callbacks only, no task and no JSON parser per call, so that what is measured is at the other end.
"""

import asyncio
import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from aggregator.wire.codec import decode
from benchmarks.messages import INITIALIZE, INITIALIZED, Era, headers, request

MARK = "the text that has to come back"
# In the arguments of a call, stands for its number.
NUMBER = "%d"


@dataclass(frozen=True, slots=True)
class Spec:
    """The tool to call and the target: an address, or a command."""

    era: Era
    tool: str
    arguments: Mapping[str, Any]
    url: str | None = None
    command: list[str] = field(default_factory=list)
    key: str | None = field(default=None, repr=False)

    def call(self, request_id: int) -> bytes:
        written = request(self.era, request_id, "tools/call", {"name": self.tool, "arguments": self.arguments})
        return written.replace(NUMBER.encode(), b"%d" % request_id)


class Round:
    """Latencies of one round: until `until` every answer is followed by the next call."""

    def __init__(self, in_flight: int, seconds: float) -> None:
        self.began = time.perf_counter()
        self.until = self.began + seconds
        self.latencies: list[float] = []
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._open = in_flight

    def took(self, sent: float, answer: bytes) -> bool:
        """Count an answer; whether to call again."""
        now = time.perf_counter()
        if MARK.encode() not in answer and not self.done.done():
            self.done.set_exception(RuntimeError(f"not the answer that was expected: {answer[:300]!r}"))
        self.latencies.append(now - sent)
        if now < self.until:
            return True
        self._open -= 1
        if self._open == 0 and not self.done.done():
            self.done.set_result(None)
        return False

    def report(self) -> dict[str, float]:
        seconds = time.perf_counter() - self.began
        ordered = sorted(self.latencies)
        return {
            "calls": len(ordered),
            "seconds": seconds,
            "p50": ordered[len(ordered) // 2],
            "p95": ordered[int(len(ordered) * 0.95)],
            "p99": ordered[int(len(ordered) * 0.99)],
        }


class HttpCaller(asyncio.Protocol):
    """One keep-alive connection with one request on it at a time; answers with a length or in chunks."""

    def __init__(self) -> None:
        self.answered: Callable[[int, bytes, bytes], None] = lambda status, head, body: None
        self.lost: Callable[[], None] = lambda: None
        self.is_open = True
        self._transport: asyncio.Transport | None = None
        self._data = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        self.lost()

    def write(self, data: bytes) -> None:
        assert self._transport is not None
        self._transport.write(data)

    def data_received(self, data: bytes) -> None:
        self._data = self._data + data if self._data else data
        head, separator, body = self._data.partition(b"\r\n\r\n")
        if not separator:
            return
        length = _length(head)
        if length is None and not body.endswith(b"0\r\n\r\n"):
            return
        if length is not None and len(body) < length:
            return
        self._data = b""
        self.answered(int(head[9:12]), head, body)


def _length(head: bytes) -> int | None:
    """The Content-Length; None for a chunked body, which its last chunk ends."""
    lower = head.lower()
    at = lower.find(b"\r\ncontent-length:")
    if at >= 0:
        return int(lower[at + 17 :].partition(b"\r\n")[0])
    return None if b"\r\ntransfer-encoding:" in lower else 0


class HttpLoad:
    """An HTTP load with as many connections as calls in flight, in one session."""

    def __init__(self, spec: Spec) -> None:
        assert spec.url is not None
        parts = urlsplit(spec.url)
        self._spec = spec
        self._address = (parts.hostname or "", parts.port or 80)
        self._start = f"POST {parts.path} HTTP/1.1\r\nhost: {parts.netloc}\r\n"
        if spec.key is not None:
            self._start += f"authorization: Bearer {spec.key}\r\n"
        self._session: str | None = None
        self._callers: list[HttpCaller] = []

    async def begin(self) -> None:
        if self._spec.era == "legacy":
            caller = await self._connect()
            body = request("legacy", 0, "initialize", INITIALIZE)
            head = await self._once(caller, self._post(body, headers("legacy", "initialize", {}, None)))
            for line in head.decode("latin-1").split("\r\n"):
                name, _, value = line.partition(": ")
                if name.lower() == "mcp-session-id":
                    self._session = value
            said = headers("legacy", "notifications/initialized", {}, self._session)
            await self._once(caller, self._post(INITIALIZED, said))

    async def run(self, in_flight: int, seconds: float) -> dict[str, float]:
        # Servers close what was idle while others had their turn.
        self._callers = [caller for caller in self._callers if caller.is_open]
        while len(self._callers) < in_flight:
            self._callers.append(await self._connect())
        params = {"name": self._spec.tool}
        lines = headers(self._spec.era, "tools/call", params, self._session)
        this = Round(in_flight, seconds)
        for number, caller in enumerate(self._callers[:in_flight]):
            self._loop(this, caller, self._post(self._spec.call(number + 1), lines))
        try:
            await this.done
            return this.report()
        finally:
            for caller in self._callers:
                caller.lost = lambda: None

    def _loop(self, this: Round, caller: HttpCaller, data: bytes) -> None:
        sent = time.perf_counter()

        def answered(status: int, head: bytes, body: bytes) -> None:
            nonlocal sent
            if this.took(sent, body):
                sent = time.perf_counter()
                caller.write(data)

        def lost() -> None:
            if not this.done.done():
                this.done.set_exception(RuntimeError("the server closed a connection"))

        caller.answered, caller.lost = answered, lost
        caller.write(data)

    def _post(self, body: bytes, lines: Mapping[str, str]) -> bytes:
        more = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        return f"{self._start}{more}content-length: {len(body)}\r\n\r\n".encode() + body

    async def _connect(self) -> HttpCaller:
        _, caller = await asyncio.get_running_loop().create_connection(HttpCaller, *self._address)
        return caller

    async def _once(self, caller: HttpCaller, data: bytes) -> bytes:
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        caller.answered = lambda status, head, body: (
            answer.set_result(head) if status < 300 else answer.set_exception(RuntimeError(repr(body[:300])))
        )
        caller.write(data)
        return await asyncio.wait_for(answer, 30)


class StdioLoad(asyncio.SubprocessProtocol):
    """One server on two pipes, every call in flight on them."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._rest = b""
        self._transport: asyncio.SubprocessTransport | None = None
        self._stdin: asyncio.WriteTransport | None = None
        self._answered: Callable[[bytes], None] = lambda line: None

    async def begin(self) -> None:
        transport, _ = await asyncio.get_running_loop().subprocess_exec(
            lambda: self, *self._spec.command, stderr=asyncio.subprocess.DEVNULL
        )
        self._transport, self._stdin = transport, transport.get_pipe_transport(0)  # type: ignore[assignment]
        if self._spec.era == "legacy":
            greeted = asyncio.Event()
            self._answered = lambda line: greeted.set()
            self._write(request("legacy", 0, "initialize", INITIALIZE))
            await asyncio.wait_for(greeted.wait(), 30)
            self._write(INITIALIZED)

    async def run(self, in_flight: int, seconds: float) -> dict[str, float]:
        this = Round(in_flight, seconds)
        sent = dict.fromkeys(range(1, in_flight + 1), 0.0)
        calls = {number: self._spec.call(number) for number in sent}

        def answered(line: bytes) -> None:
            number = decode(line).get("id")
            if number in sent and this.took(sent[number], line):
                sent[number] = time.perf_counter()
                self._write(calls[number])

        self._answered = answered
        for number, data in calls.items():
            sent[number] = time.perf_counter()
            self._write(data)
        await this.done
        return this.report()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._answered(line)

    def close(self) -> None:
        if self._stdin is not None:
            self._stdin.close()

    def _write(self, data: bytes) -> None:
        assert self._stdin is not None
        self._stdin.write(data + b"\n")


async def _main(spec: Spec) -> None:
    load = HttpLoad(spec) if spec.url is not None else StdioLoad(spec)
    await load.begin()
    print("ready", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        in_flight, seconds = line.split()
        print(json.dumps(await load.run(int(in_flight), float(seconds))), flush=True)
    if isinstance(load, StdioLoad):
        load.close()
        await asyncio.sleep(0)


if __name__ == "__main__":
    from uvloop import new_event_loop

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(_main(Spec(**json.loads(sys.argv[1]))))
