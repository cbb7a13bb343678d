"""The limit of open files: connections beyond it wait, idle ones make room, and one sender has its share alone."""

import asyncio
import errno
import json
import resource
import socket
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from aggregator.frontends.acceptor import Acceptor
from aggregator.frontends.connection_admission import ConnectionAdmission
from aggregator.frontends.http_server import Listener
from aggregator.frontends.web.connection_limits import LEAST_RATE, BoundedConnection
from aggregator.frontends.web.host_guard import Receive, Scope, Send, respond
from tests.bounds.web_harness import RawConnection, head
from tests.operating.program_harness import ProgramHarness
from tests.polling import BOUND, until

# Open files of the program, and connections beyond them.
LIMIT = 128
FLOOD = 150
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}},
}
NO_ROOM = "no room for a further connection"


@contextmanager
def idle_connections(port: int, count: int) -> Iterator[list[socket.socket]]:
    """Open connections on which nothing is said."""
    with ExitStack() as stack:
        opened = []
        for _ in range(count):
            one = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=BOUND))
            one.setblocking(False)
            opened.append(one)
        yield opened


def was_reset(connection: socket.socket) -> bool:
    """Return whether the other side broke a connection off, and did not close it."""
    try:
        connection.recv(1)
    except BlockingIOError:
        return False
    except OSError as error:
        return error.errno == errno.ECONNRESET
    return False


async def metric(url: str, name: str) -> float:
    async with httpx2.AsyncClient() as client:
        page = (await client.get(f"{url}/metrics")).raise_for_status().text
    return next((float(line.split()[-1]) for line in page.splitlines() if line.startswith(name)), 0.0)


async def test_idle_connections_do_not_shut_the_others_out(tmp_path: Path) -> None:
    """Again and again more connections than files: a host that speaks is answered, and no connection is broken off."""
    harness = ProgramHarness(tmp_path)
    harness.write_config({})
    async with harness.serving() as served:
        resource.prlimit(served.process.pid, resource.RLIMIT_NOFILE, (LIMIT, LIMIT))
        port = int(served.url.rpartition(":")[2])
        async with RawConnection(port) as under_way:
            body = json.dumps(HELLO).encode()
            under_way.send(head("POST", "/mcp", content_length=str(len(body))) + body[:10])
            for _ in range(3):
                with idle_connections(port, FLOOD) as idle:
                    async with RawConnection(port) as host:
                        assert (await host.ask("/mcp", HELLO)).status == 200
                    assert not any(map(was_reset, idle))
            under_way.send(body[10:])
            assert (await under_way.answer()).status == 200
        assert harness.log.count(NO_ROOM) == 1, harness.log
        assert f"(`ulimit -n`) is {LIMIT}" in harness.log
        assert "Too many open files" not in harness.log
        assert await metric(served.url, 'aggregator_refused_total{limit="connections"}') >= 1
        assert await metric(served.url, 'aggregator_refused_total{limit="idle_connection"}') >= FLOOD
        # The page itself comes over one.
        assert await metric(served.url, 'aggregator_open{limit="connections"}') >= 1


async def test_connections_that_are_all_busy_are_waited_for(tmp_path: Path) -> None:
    harness = ProgramHarness(tmp_path)
    harness.write_config({})
    async with harness.serving() as served:
        resource.prlimit(served.process.pid, resource.RLIMIT_NOFILE, (LIMIT, LIMIT))
        port = int(served.url.rpartition(":")[2])
        with idle_connections(port, FLOOD) as busy:
            for one in busy:
                one.send(head("POST", "/mcp", content_length="5"))
            await until(lambda: NO_ROOM in harness.log, "the log says so")
            async with RawConnection(port) as host:
                host.post("/mcp", HELLO)
                # Its place is there once others have ended, and no sooner.
                for one in busy:
                    one.close()
                assert (await host.answer()).status == 200
            assert harness.log.count(NO_ROOM) == 1


async def _app(scope: Scope, receive: Receive, send: Send) -> None:
    await respond(send, 200, {"served": True})


@asynccontextmanager
async def serving(admission: ConnectionAdmission) -> AsyncIterator[int]:
    """Serve one page; yields the port."""
    bound = socket.create_server(("127.0.0.1", 0))
    server = Listener(_app, HttpToolsProtocol, 1, acceptor=Acceptor(bound, admission=admission))
    task = asyncio.create_task(server.serve(sockets=[bound]))
    await until(lambda: server.started, "it serves")
    try:
        yield bound.getsockname()[1]
    finally:
        server.should_exit = True
        async with asyncio.timeout(BOUND):
            await task


async def test_a_sender_has_its_share_of_the_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """One more than that is refused in words; those of a proxy, behind which many stand, are not counted."""
    limit = 1_000
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    refused: Counter[str] = Counter()
    admission = ConnectionAdmission(refused, 3.5 / limit, lambda address: address == "127.0.0.9")

    async def said(port: int, address: str) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
        writer.write(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
        opened.append(writer)
        return await reader.readuntil(b"\r\n")

    opened: list[asyncio.StreamWriter] = []
    async with asyncio.timeout(BOUND), serving(admission) as port:
        for _ in range(3):
            assert b"200" in await said(port, "127.0.0.1")
        assert b"503" in await said(port, "127.0.0.1")
        assert refused["connections_of_sender"] == 1
        for _ in range(4):
            assert b"200" in await said(port, "127.0.0.9")
        assert b"200" in await said(port, "127.0.0.2")
        opened[0].close()
        await until(lambda: len(admission) == 7, "its place is free")
        assert b"200" in await said(port, "127.0.0.1")
        assert refused == {"connections_of_sender": 1}
        for one in opened:
            one.close()
    assert len(admission) == 0
    assert not admission._of_sender, "nothing is kept of senders that are gone"


class Quiet:
    """A connection, idle for so many seconds, or busy."""

    def __init__(self, idle: float | None) -> None:
        self.quiet_since = asyncio.get_running_loop().time() - idle if idle is not None else None
        self.closed = False

    def give_way(self) -> None:
        self.closed = True


async def test_the_longest_idle_one_of_the_busiest_sender_makes_room() -> None:
    refused: Counter[str] = Counter()
    admission = ConnectionAdmission(refused)
    alone, busy, longest, shorter, new = Quiet(900), Quiet(None), Quiet(60), Quiet(30), Quiet(0)
    admission.enter(alone, "10.0.0.1")
    for one in (busy, shorter, longest, new):
        admission.enter(one, "10.0.0.2")
    admission.make_room()
    assert [one.closed for one in (alone, busy, longest, shorter, new)] == [False, False, True, False, False]
    for one in (longest, shorter):
        admission.leave(one)
    admission.leave(longest)
    # Only one that is busy and one that has just come are left of that sender.
    admission.make_room()
    assert [one.closed for one in (alone, busy, new)] == [True, False, False]
    assert refused == {"connections": 1, "idle_connection": 2}


@pytest.mark.parametrize(
    ("state", "since"),
    [
        ({}, 1.0),
        ({"_idle_since": 5.0}, 5.0),
        ({"_idle_since": 5.0, "cycle": SimpleNamespace(response_complete=True)}, 5.0),
        ({"_idle_since": 5.0, "cycle": SimpleNamespace(response_complete=False)}, None),
        ({"_idle_since": 5.0, "_begun": object()}, None),
        ({"_idle_since": 5.0, "_held": b"a head"}, None),
        ({"_idle_since": 5.0, "_blind": 1}, None),
    ],
)
def test_a_connection_is_quiet_unless_anything_of_a_request_has_come(
    state: dict[str, Any], since: float | None
) -> None:
    """C8: the call that it carries would be lost."""
    given = {"_begun": None, "_held": b"", "_blind": 0, "_idle_since": None, "_made": 1.0, "cycle": None}
    quiet: Any = BoundedConnection.quiet_since
    assert quiet.fget(SimpleNamespace(**{**given, **state})) == since


async def test_each_time_without_room_is_counted_once() -> None:
    refused: Counter[str] = Counter()
    admission = ConnectionAdmission(refused)
    for times in (1, 2):
        for _ in range(2):
            admission.make_room()
            assert refused == {"connections": times}
        assert not admission.is_full(0)


@pytest.mark.parametrize(("read", "slow"), [(0, True), (LEAST_RATE * 10 - 1, True), (LEAST_RATE * 10, False)])
def test_a_host_reads_so_many_bytes_a_second_at_least(read: int, slow: bool) -> None:
    """D7: one that reads a byte now and then holds its connection no longer than one that reads none."""
    refused, ended, again = Counter[str](), list[bool](), list[int]()
    connection: Any = SimpleNamespace(
        transport=SimpleNamespace(get_write_buffer_size=lambda: 10**6 - read, abort=lambda: ended.append(True)),
        _stall_timeout=10,
        _refused=refused,
        _look_again=again.append,
    )
    BoundedConnection._look(connection, 10**6)
    assert (ended, again, refused["slow_reader"]) == (([True], [], 1) if slow else ([], [10**6 - read], 0))
