"""Hops between two replicas over real sockets: what is sent arrives whole, and nothing else is answered."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest

from aggregator.frontends.server import listening_socket
from aggregator.frontends.web.host_guard import Receive, Scope, Send
from aggregator.replicas.group import hop_client
from aggregator.replicas.group.clock import GroupClock
from aggregator.replicas.group.hop_client import HopClient, HopFailed
from aggregator.replicas.group.hops import Hop, HopSigner
from aggregator.replicas.group.membership import Membership
from aggregator.replicas.group.shared_key import SharedKey
from aggregator.replicas.hop_listener import HopListener, address_of, listen_at
from aggregator.storage.database import open_database

MIB = 1024 * 1024


class Replica:
    """One replica with a listener that answers `/echo` in two parts."""

    def __init__(self, secret: str) -> None:
        key, clock = SharedKey(), GroupClock()
        key.use(secret)
        self.membership = Membership(clock, 6.0)
        signer = HopSigner(self.membership.id, key, clock)
        self.client = HopClient(self.membership, signer)
        self.listener = HopListener(signer, MIB)
        self.listener.add("echo", self._echo)
        self.seen: list[tuple[Hop, str]] = []

    async def _echo(self, hop: Hop, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        self.seen.append((hop, scope["path"]))
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
        await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body", "body": b"!"})


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as opened:
        yield opened


@pytest.fixture
async def pair(tmp_path: Any, stack: AsyncExitStack) -> tuple[Replica, Replica]:
    database = await stack.enter_async_context(open_database(f"sqlite:///{tmp_path / 'shared.db'}"))
    found = Replica("s" * 32), Replica("s" * 32)
    for replica in found:
        bound = stack.enter_context(listening_socket(*listen_at(None, "127.0.0.1")))
        replica.membership.address = address_of(bound, None)
        await stack.enter_async_context(replica.listener.serving(bound))
        stack.push_async_callback(replica.client.close)
        await replica.membership.join(database.replicas("main", 6.0))
    await found[0].membership.join(database.replicas("main", 6.0))
    return found


async def test_a_hop_arrives_whole_with_its_claims(pair: tuple[Replica, Replica]) -> None:
    one, other = pair
    body = b"x" * MIB
    async with one.client.request(other.membership.id, "/echo/deep?a=b", body, {"agent": "ada"}) as answer:
        assert (answer.status, await answer.read()) == (200, body + b"!")
    ((hop, path),) = other.seen
    assert (hop.origin, hop.claims, path) == (one.membership.id, {"agent": "ada"}, "/echo/deep")


async def test_who_is_no_replica_is_refused(pair: tuple[Replica, Replica]) -> None:
    _, other = pair
    url = f"{other.membership.address}/echo"
    async with aiohttp.ClientSession() as session, session.post(url, data=b"x") as answer:
        assert answer.status == 403
        assert "no request of a replica" in await answer.text()
    assert not other.seen


async def test_a_hop_that_was_refused_was_not_taken(pair: tuple[Replica, Replica]) -> None:
    """Its sender may try another way; whatever else goes wrong after the request may have had an effect."""
    one, other = pair
    other.listener._signer._key.use("another secret")
    with pytest.raises(HopFailed, match="refused the request") as refused:
        async with one.client.request(other.membership.id, "/echo", b"x"):
            raise AssertionError("it was taken")
    assert not refused.value.sent
    assert not other.seen


@pytest.mark.parametrize(
    ("bound", "given_address", "slot", "address"),
    [
        (("127.0.0.1", 9000), None, 3, "http://127.0.0.1:9000"),
        (("::1", 9000), None, 0, "http://[::1]:9000"),
        (("10.0.0.7", 9000), "http://peer.example:8643", 0, "http://peer.example:8643"),
        (("10.0.0.7", 9000), "http://peer.example:8643", 2, "http://peer.example:8645"),
        (("10.0.0.7", 9000), "https://[fd00::1]:8643", 1, "https://[fd00::1]:8644"),
    ],
)
def test_each_worker_has_an_address_of_its_own(
    bound: tuple[str, int], given_address: str | None, slot: int, address: str
) -> None:
    """The one that is given is that of the first; the next ones take the ports after it."""
    listening: Any = SimpleNamespace(getsockname=lambda: bound)
    assert address_of(listening, given_address, slot) == address
    assert [listen_at("0.0.0.0:8643", "x", one) for one in (0, 2)] == [("0.0.0.0", 8643), ("0.0.0.0", 8645)]  # noqa: S104
    assert listen_at("[::]:0", "x", 2) == ("::", 0)
    assert listen_at(None, "[::1]", 2) == ("::1", 0)


async def test_a_request_that_does_not_arrive_holds_no_connection(stack: AsyncExitStack) -> None:
    """Only time bounds those that are never signed; the port for hosts shares the open files with this one."""
    listener = HopListener(HopSigner("me", SharedKey(), GroupClock()), MIB, arriving=0.05)
    bound = stack.enter_context(listening_socket("127.0.0.1", 0))
    await stack.enter_async_context(listener.serving(bound))
    reader, writer = await asyncio.open_connection(*bound.getsockname())
    writer.write(b"POST /echo HT")
    async with asyncio.timeout(10):
        assert (await reader.read()).startswith(b"HTTP/1.1 408 ")
    writer.close()


async def test_refused_requests_do_not_fill_the_log(
    pair: tuple[Replica, Replica], caplog: pytest.LogCaptureFixture
) -> None:
    url = f"{pair[1].membership.address}/echo"
    async with aiohttp.ClientSession() as session:
        for _ in range(20):
            async with session.post(url, data=b"x") as answer:
                assert answer.status == 403
    assert [record.levelname for record in caplog.records if "was refused" in record.message] == ["WARNING"]


async def test_what_cannot_be_sent_says_so(pair: tuple[Replica, Replica]) -> None:
    one, other = pair
    with pytest.raises(HopFailed, match="is gone") as gone:
        async with one.client.request("0123", "/echo"):
            pass
    assert not gone.value.sent
    with pytest.raises(HopFailed, match="refused"):
        async with one.client.request(other.membership.id, "/echo", b"x" * (2 * MIB)):
            pass
    async with one.client.request(other.membership.id, "/unknown") as answer:
        assert answer.status == 404


async def test_a_replica_behind_a_broken_network_got_nothing(
    pair: tuple[Replica, Replica], stack: AsyncExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection that is never made is no doubt about what became of the request."""
    one, other = pair
    monkeypatch.setattr(hop_client, "_CONNECTING", 0.05)
    full = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
    for _ in range(4):
        waiting = stack.enter_context(socket.socket())
        waiting.setblocking(False)
        waiting.connect_ex(full.getsockname())
    found = one.membership.get(other.membership.id)
    assert found is not None
    away = replace(found, address=f"http://127.0.0.1:{full.getsockname()[1]}")
    monkeypatch.setattr(one.membership, "reachable", lambda id: away)
    with pytest.raises(HopFailed, match="cannot be reached") as failed:
        async with one.client.request(other.membership.id, "/echo"):
            pass
    assert not failed.value.sent


async def test_a_hop_follows_no_redirect(pair: tuple[Replica, Replica]) -> None:
    """What a replica is sent to is said in the answer, and not asked."""
    one, other = pair

    async def away(hop: Hop, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        headers = [(b"location", f"{other.membership.address}/echo".encode()), (b"content-length", b"0")]
        await send({"type": "http.response.start", "status": 307, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    other.listener.add("away", away)
    async with one.client.request(other.membership.id, "/away", b"x") as answer:
        assert answer.status == 307
    assert not other.seen
