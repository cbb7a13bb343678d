"""The web frontends on a real socket, an upstream that does as each call says, and hosts that write bytes."""

import asyncio
import json
import re
import socket
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, Self

from aggregator.app.app import App
from aggregator.app.build import build_app
from aggregator.config.model import Config
from aggregator.config.server_config import ServerConfig
from aggregator.config.settings import HttpConfig
from aggregator.frontends.server import WebServer, listening_socket, serve_web
from aggregator.identity.keys import new_key, policy_line
from tests.faults.app_harness import BOUND, Json, modern, server_config
from tests.faults.raw_http import RawHttpServer, ReceivedRequest, ReplyWriter

HELLO: Final[Json] = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}


class ScriptedUpstream(RawHttpServer):
    """An upstream that does as the arguments of a call say.

    `hang` waits for `release`, `size` sets the bytes of the answer, `notes` and `each` the progress before it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.release = asyncio.Event()
        self.hanging = 0
        self.on["tools/call"] = self._call

    async def _call(self, seen: ReceivedRequest, reply: ReplyWriter) -> None:
        arguments = seen.message["params"].get("arguments", {})
        if arguments.get("hang"):
            self.hanging += 1
            try:
                await self.release.wait()
            finally:
                self.hanging -= 1
        words = "x" * arguments["size"] if "size" in arguments else str(arguments.get("say", "done"))
        answer = {"jsonrpc": "2.0", "id": seen.message["id"], "result": {"content": [{"type": "text", "text": words}]}}
        if "notes" not in arguments:
            await reply.send(200, answer)
            return
        await reply.stream()
        for number in range(arguments["notes"]):
            note = {"progressToken": seen.message["id"], "progress": number, "message": "x" * arguments["each"]}
            await reply.event({"jsonrpc": "2.0", "method": "notifications/progress", "params": note})
        await reply.event(answer)


class HttpResponse:
    """One HTTP response."""

    def __init__(self, head: bytes, body: bytes) -> None:
        first, *lines = head.decode("latin-1").split("\r\n")
        self.status = int(first.split(" ")[1])
        self.headers = {
            name.lower(): value.strip() for name, _, value in (connection.partition(":") for connection in lines)
        }
        self.body = body

    def json(self) -> Any:
        return json.loads(self.body)


class RawConnection:
    """A TCP connection on which a test writes HTTP by hand. `small` shrinks the receive buffer of the system."""

    def __init__(self, port: int, *, small: bool = False) -> None:
        self._port, self._small = port, small

    async def __aenter__(self) -> Self:
        own = socket.socket()
        if self._small:
            own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        own.setblocking(False)
        await asyncio.get_running_loop().sock_connect(own, ("127.0.0.1", self._port))
        self.reader, self.writer = await asyncio.open_connection(sock=own, limit=8192)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.transport.abort()

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    def post(self, path: str, message: Any, **headers: str) -> None:
        """A whole request."""
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.send(head("POST", path, content_length=str(len(body)), **headers) + body)

    async def answer(self) -> HttpResponse:
        """The next response; its body is what `content-length` says, or a stream's first event."""
        async with asyncio.timeout(BOUND):
            answer = HttpResponse((await self.reader.readuntil(b"\r\n\r\n"))[:-4], b"")
            if "content-length" in answer.headers:
                answer.body = await self.reader.readexactly(int(answer.headers["content-length"]))
            return answer

    async def ask(self, path: str, message: Any, **headers: str) -> HttpResponse:
        self.post(path, message, **headers)
        return await self.answer()

    async def event(self) -> bytes:
        """The data of the next event of a stream that is open."""
        async with asyncio.timeout(BOUND):
            while not (connection := await self.reader.readline()).startswith(b"data: "):
                assert connection, "the stream ended"
            return connection[6:].strip()

    async def ended(self) -> bytes:
        """Return the bytes that arrive until the other side closes or resets the connection."""
        rest = b""
        try:
            async with asyncio.timeout(BOUND):
                while data := await self.reader.read(65536):
                    rest += data
        except ConnectionError:
            pass
        return rest


def head(verb: str, path: str, **headers: str) -> bytes:
    """The head of a request."""
    lines = {"host": "127.0.0.1", "content-type": "application/json", "accept": "application/json, text/event-stream"}
    lines |= {name.replace("_", "-"): value for name, value in headers.items()}
    return (
        f"{verb} {path} HTTP/1.1\r\n".encode() + b"".join(f"{n}: {v}\r\n".encode() for n, v in lines.items()) + b"\r\n"
    )


def call(tool: str = "up.echo", **arguments: Any) -> Json:
    """A call of 2026-07-28."""
    params = modern(name=tool, arguments=arguments)
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


MODERN: Final = {"mcp_protocol_version": "2026-07-28", "mcp_method": "tools/call", "mcp_name": "up.echo"}


class WebHarness:
    """A running aggregator with web frontends on `port`; `keys` are those of its agents; `stopping` ends it."""

    def __init__(
        self, app: App, port: int, upstream: ScriptedUpstream, keys: dict[str, str], stopping: asyncio.Event
    ) -> None:
        self.app, self.port, self.upstream, self.keys, self.stopping = app, port, upstream, keys, stopping

    def connect(self, *, small: bool = False) -> RawConnection:
        return RawConnection(self.port, small=small)

    async def call(self, agent: str | None = None, **arguments: Any) -> HttpResponse:
        """One call on a connection of its own."""
        async with self.connect() as connection:
            return await connection.ask("/mcp", call(**arguments), **MODERN, **self.key(agent))

    def key(self, agent: str | None) -> dict[str, str]:
        return {"x_api_key": self.keys[agent]} if agent is not None else {}

    async def initialize(self, connection: RawConnection, agent: str | None = None) -> HttpResponse:
        """A handshake over Streamable HTTP."""
        hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HELLO}
        return await connection.ask("/mcp", hello, **self.key(agent))

    def refused(self, limit: str) -> int:
        """Return how often `limit` was exceeded, as `/metrics` counts it."""
        counted: int = self.app.snapshot().refused.get(limit, 0)
        return counted


@asynccontextmanager
async def web_harness(
    folder: Path, *servers: ServerConfig, agents: Iterable[str] = (), upstream: Json | None = None, **http: Any
) -> AsyncIterator[WebHarness]:
    """Run the aggregator on a free port before one `ScriptedUpstream` named `up`; every agent has a key."""
    behind = ScriptedUpstream()
    await behind.start()
    first = server_config("up", type="http", url=behind.url, protocol="legacy", **(upstream or {}))
    config = Config(servers=(first, *servers), startup_wait=0.1, http=HttpConfig(port=0, **http))
    keys, policies = {}, None
    if agents:
        policies = folder / "policies"
        policies.mkdir()
        lines = ["agents:"]
        for agent in agents:
            key = new_key(agent, now=time.time())
            keys[agent] = key.text
            lines += [f"  {agent}:", f"    keys: ['{policy_line(key.record)}']", "    allow: ['*']"]
        (policies / "agents.yaml").write_text("\n".join(lines) + "\n")
    app = build_app(config, policies)
    await app.load_keys()
    web = WebServer(app.gateway, config, app.access, app.report)
    stopping = asyncio.Event()
    try:
        with listening_socket("127.0.0.1", 0) as bound:
            async with app.running():
                async with asyncio.timeout(BOUND):
                    await app.supervisor.wait_all_tried()
                serving = asyncio.create_task(serve_web(web, bound, stopping))
                try:
                    yield WebHarness(app, bound.getsockname()[1], behind, keys, stopping)
                finally:
                    behind.release.set()
                    stopping.set()
                    async with asyncio.timeout(BOUND):
                        await serving
    finally:
        await behind.stop()


def error_of(answer: HttpResponse) -> Json:
    """Return the JSON-RPC error of a refusal, after checking that its text names a setting."""
    error: Json = answer.json()["error"]
    assert re.search(r"`http\.\w+`", error["message"])
    return error
