"""The close of a listening socket: connections that wait at it are served; one that never speaks is not waited for."""

import asyncio
import socket
from pathlib import Path

import pytest
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from aggregator.config.settings import TlsConfig
from aggregator.frontends.acceptor import Acceptor, WorkerLine
from aggregator.frontends.http_server import Listener
from aggregator.frontends.tls import server_context
from aggregator.frontends.web.host_guard import Receive, Scope, Send, respond
from aggregator.workers.table import WorkerTable, make_table_file
from tests.deploy.authority import Authority
from tests.polling import BOUND, until


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    await respond(send, 200, {"served": True})


@pytest.mark.parametrize("encrypted", [False, True])
async def test_connections_that_wait_are_taken_before_the_socket_is_closed(tmp_path: Path, encrypted: bool) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.give(tmp_path)
    tls = server_context(TlsConfig(certificate=str(certificate), key=str(key))) if encrypted else None
    server = Listener(app, HttpToolsProtocol, 1, tls=tls)
    bound = socket.create_server(("127.0.0.1", 0))
    port = bound.getsockname()[1]
    serving = asyncio.create_task(server.serve(sockets=[bound]))
    await until(lambda: server.started, "it serves")
    # Both are in the queue of the socket, since the loop that accepts has no turn until the close.
    waiting, silent = socket.create_connection(("127.0.0.1", port)), socket.create_connection(("127.0.0.1", port))
    closing = asyncio.create_task(server.accept_no_more(bound))
    waiting.setblocking(False)
    context = authority.trust() if encrypted else None
    name = "localhost" if encrypted else None
    async with asyncio.timeout(BOUND):
        reader, writer = await asyncio.open_connection(sock=waiting, ssl=context, server_hostname=name)
        writer.write(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 200")
        await closing
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)
        writer.close()
        silent.close()
        server.should_exit = True
        await serving


async def test_a_connection_that_a_worker_has_taken_is_waited_for(tmp_path: Path) -> None:
    """Else its first request would come after the look at what is still to be answered, and be refused."""
    authority = Authority(tmp_path)
    certificate, key = authority.give(tmp_path)
    tls = server_context(TlsConfig(certificate=str(certificate), key=str(key)))
    bound = socket.create_server(("127.0.0.1", 0))
    acceptor = Acceptor(bound, WorkerLine(WorkerTable(make_table_file(2)), 0))
    server = Listener(app, HttpToolsProtocol, 1, tls=tls, acceptor=acceptor)
    serving = asyncio.create_task(server.serve(sockets=[bound]))
    await until(lambda: server.started, "it serves")
    came = socket.create_connection(bound.getsockname())
    await until(lambda: acceptor.beginning, "the connection is taken")
    closing = asyncio.create_task(server.accept_no_more(bound))
    came.setblocking(False)
    async with asyncio.timeout(BOUND):
        _, writer = await asyncio.open_connection(sock=came, ssl=authority.trust(), server_hostname="localhost")
        await closing
        assert len(server.server_state.connections) == 1
        assert not acceptor.beginning
        writer.close()
        server.should_exit = True
        await serving
