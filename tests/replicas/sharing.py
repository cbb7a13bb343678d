"""Replicas in the test's own process, on one SQLite file, and a host that asks them in turns.

What depends on a process that dies is tried with real ones (`group.py`).
"""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import httpx2

from aggregator.app.app import App
from aggregator.app.build import build_app
from aggregator.config.load import load
from aggregator.domain.bounds.tasks import Tasks
from aggregator.frontends.server import WebServer, listening_socket, serve_web
from aggregator.replicas.hop_listener import HopListener, address_of, listen_at
from tests.end_to_end.scripted_host import ACCEPT, BOUND, CLIENT_INFO, META, MODERN, NO_TLS
from tests.peers.toolbox import Json
from tests.polling import until

LEGACY: Final = "2025-11-25"


class Replica:
    """One replica that runs."""

    def __init__(self, app: App, web: WebServer, url: str) -> None:
        self.app = app
        self.web = web
        self.url = url
        self._leaving = asyncio.Event()
        self.task: asyncio.Task[None] | None = None

    @property
    def id(self) -> str:
        """Return its id in the group."""
        return self.app.replication.membership.id

    def sessions(self) -> int:
        """Return the number of sessions in its memory."""
        return self.app.gateway.admission.in_use["sessions"]

    async def see(self, count: int) -> None:
        """Wait until it sees so many replicas."""
        membership = self.app.replication.membership
        await until(lambda: membership.count == count, f"it sees {count} replicas")

    async def leave(self) -> None:
        """End it, in order."""
        self._leaving.set()
        if self.task is not None:
            await self.task

    async def left(self) -> None:
        """Wait until it is to end."""
        await self._leaving.wait()


class Sharing:
    """Replicas that share a folder: configuration, policies, database."""

    def __init__(self, folder: Path, tasks: Tasks, *, alone: bool = False) -> None:
        self._folder = folder
        self._tasks = tasks
        self._alone = alone
        self.running: list[Replica] = []

    async def add(self) -> Replica:
        """Start one more replica."""
        entered: asyncio.Future[Replica] = asyncio.get_running_loop().create_future()

        async def live() -> None:
            async with self._opened() as replica:
                entered.set_result(replica)
                await replica.left()

        task = self._tasks.start(live())
        await asyncio.wait({task, entered}, return_when=asyncio.FIRST_COMPLETED)
        replica = entered.result() if entered.done() else task.result()
        assert replica is not None
        replica.task = task
        self.running.append(replica)
        for one in self.running:
            if not self._alone:
                await one.see(len(self.running))
        return replica

    async def remove(self, replica: Replica) -> None:
        """End a replica; the others know it then."""
        self.running.remove(replica)
        await replica.leave()
        for one in self.running:
            await one.see(len(self.running))

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[Replica]:
        loaded = load(self._folder / "aggregator.json", {})
        assert not loaded.problems, loaded.problems
        app = build_app(loaded.config, loaded.policies, f"sqlite:///{self._folder / 'shared.db'}")
        replication = app.replication
        replication.enabled = not self._alone
        web = WebServer(app.gateway, app.config, app.access, app.report)
        listener = HopListener(replication.hops, app.config.http.max_body_bytes)
        web.answer_hops(listener)
        await app.load_keys()
        async with AsyncExitStack() as stack:
            public, peers = (stack.enter_context(listening_socket(*listen_at(None, "127.0.0.1"))) for _ in range(2))
            replication.membership.address = address_of(peers, None)
            await stack.enter_async_context(app.running())
            await replication.start()
            await stack.enter_async_context(listener.serving(peers))
            async with asyncio.timeout(BOUND):
                await app.supervisor.wait_all_tried()
            replica = Replica(app, web, f"http://127.0.0.1:{public.getsockname()[1]}")
            stopping = asyncio.Event()
            serving = asyncio.create_task(serve_web(web, public, stopping))
            try:
                yield replica
            finally:
                stopping.set()
                await serving


@asynccontextmanager
async def sharing(
    folder: Path,
    servers: Mapping[str, Any],
    count: int = 2,
    *,
    policies: Mapping[str, str] | None = None,
    alone: bool = False,
    **settings: Any,
) -> AsyncIterator[Sharing]:
    """Give replicas that run. `alone`: each is a process that is not one of several."""
    path = folder / "aggregator.json"
    path.write_text(json.dumps({"mcpServers": dict(servers), "expose": "all", **settings}))
    path.chmod(0o600)
    for name, text in (policies or {}).items():
        (folder / "policies").mkdir(exist_ok=True)
        (folder / "policies" / name).write_text(text)
    async with Tasks("replicas") as tasks:
        shared = Sharing(folder, tasks, alone=alone)
        try:
            for _ in range(count):
                await shared.add()
            yield shared
        finally:
            for replica in shared.running:
                await replica.leave()


class Response:
    """The answer to one request over HTTP, read whole."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def messages(self) -> list[Json]:
        """Return every message of the answer, plain or on an event stream."""
        if self.headers.get("content-type", "").startswith("text/event-stream"):
            return [json.loads(line[6:]) for line in self.body.splitlines() if line.startswith(b"data: {")]
        return [json.loads(self.body)] if self.body else []

    @property
    def result(self) -> Json:
        """Return the result of the request."""
        answer = self.messages[-1]
        assert "result" in answer, answer
        result: Json = answer["result"]
        return result


class TurningHost:
    """A host of the handshake eras that sends each request to the address it is told, in one session."""

    def __init__(self, client: httpx2.AsyncClient, headers: Mapping[str, str] | None = None) -> None:
        self.client = client
        self.session = ""
        self._more = dict(headers or {})
        self._ids = itertools.count(1)

    def headers(self, **more: str) -> dict[str, str]:
        """Return the headers of a request in the session."""
        found = {**ACCEPT, **self._more, **more}
        return {**found, "mcp-session-id": self.session} if self.session else found

    async def post(self, at: str, message: Any) -> Response:
        """Post a message as it is."""
        async with asyncio.timeout(BOUND):
            answer = await self.client.post(f"{at}/mcp", json=message, headers=self.headers())
        return Response(answer.status_code, answer.headers, answer.content)

    async def ask(self, at: str, method: str, params: Json | None = None) -> Response:
        """Send a request."""
        return await self.post(at, {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": params or {}})

    async def notify(self, at: str, method: str, params: Json | None = None) -> Response:
        """Send a notification."""
        return await self.post(at, {"jsonrpc": "2.0", "method": method, "params": params or {}})

    async def call(self, at: str, tool: str, arguments: Json | None = None) -> Json:
        """Call a tool."""
        return (await self.ask(at, "tools/call", {"name": tool, "arguments": arguments or {}})).result

    async def greet(self, at: str, capabilities: Json | None = None, version: str = LEGACY) -> None:
        """Open a session."""
        hello = {"protocolVersion": version, "capabilities": capabilities or {}, "clientInfo": CLIENT_INFO}
        answer = await self.ask(at, "initialize", hello)
        assert answer.result["protocolVersion"] == version
        self.session = answer.headers["mcp-session-id"]
        await self.notify(at, "notifications/initialized")

    async def end(self, at: str) -> int:
        """End the session; return the status."""
        return (await self.client.delete(f"{at}/mcp", headers=self.headers())).status_code

    @asynccontextmanager
    async def streaming(
        self, at: str, message: Json | None = None, last_id: str | None = None
    ) -> AsyncIterator["EventReader"]:
        """Give the events that answer a message as they come; without a message, those behind `last_id`, or those of
        the standing stream.
        """
        how: Json = {"method": "GET"} if message is None else {"method": "POST", "json": message}
        headers = self.headers(**({"last-event-id": last_id} if last_id is not None else {}))
        async with self.client.stream(url=f"{at}/mcp", headers=headers, **how) as answer:
            yield EventReader(answer)


class EventReader:
    """The events of one answer, one after the other; `last_id` is that of the last event which had one."""

    def __init__(self, answer: httpx2.Response) -> None:
        self.status = answer.status_code
        self._lines = answer.aiter_lines()
        self.last_id = ""

    async def next(self) -> Json:
        """Return the next message."""
        async with asyncio.timeout(BOUND):
            async for line in self._lines:
                if line.startswith("id: "):
                    self.last_id = line[4:]
                if line.startswith("data: {"):
                    message: Json = json.loads(line[6:])
                    return message
        raise AssertionError("the stream ended")


@asynccontextmanager
async def turning_host(headers: Mapping[str, str] | None = None) -> AsyncIterator[TurningHost]:
    """Give a host that has no session yet."""
    async with httpx2.AsyncClient(verify=NO_TLS, timeout=BOUND) as client:
        yield TurningHost(client, headers)


def modern(method: str, params: Json, capabilities: Json | None = None, request_id: int = 1) -> tuple[Json, Json]:
    """Return the headers and the message of a request of 2026-07-28."""
    envelope = {
        f"{META}protocolVersion": MODERN,
        f"{META}clientInfo": CLIENT_INFO,
        f"{META}clientCapabilities": capabilities or {},
    }
    headers = {**ACCEPT, "mcp-protocol-version": MODERN, "mcp-method": method}
    if "name" in params:
        headers["mcp-name"] = params["name"]
    return headers, {"jsonrpc": "2.0", "id": request_id, "method": method, "params": {**params, "_meta": envelope}}


def in_turns(replicas: Iterable[Replica]) -> "itertools.cycle[str]":
    """Return the addresses of replicas, one after the other, again and again."""
    return itertools.cycle([replica.url for replica in replicas])
