"""A host's answer finds the replica that asked, though a hop fails, or the replica that gets it cannot see the owner.

Law: it is brought, or refused so that the host can send it again. It is never dropped while the question is open.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from aggregator.frontends.web import forwarder
from aggregator.replicas.group.hop_client import HopClient, HopFailed, HopResponse
from aggregator.replicas.group.membership import HeartbeatTable
from aggregator.storage.errors import StorageBusy
from aggregator.storage.records import Heartbeat, ReplicaRecord
from tests.peers.serving import serving
from tests.peers.toolbox import Json
from tests.polling import until
from tests.replicas.sharing import EventReader, Replica, Sharing, TurningHost, modern, sharing, turning_host
from tests.server_requests.asking_server_web import AskingWebServer
from tests.server_requests.entries import ABLE, ANSWERS, FORM, SAMPLE

ASK = {"name": "asker.ask", "arguments": {"key": "k", "rounds": [[FORM]]}}
CALL = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": ASK}
# The path of the hop with a host's answer.
ANSWERS_HOP = "/answers"


class View:
    """The heartbeats of one replica, as the test lets them through, and the replicas that they show.

    A silent replica is one that the database has not heard of for a lease.
    """

    def __init__(self, replica: Replica) -> None:
        membership = replica.app.replication.membership
        assert membership._rows is not None
        self._rows: HeartbeatTable = membership._rows
        self._membership = membership
        self._open = asyncio.Event()
        self._open.set()
        self._held = False
        self.away = False
        self.silent: str | None = None
        membership._rows = self

    async def forget(self, other: Replica) -> None:
        """Let no heartbeat through from now on, and have the replica as before the other came."""
        self._open.clear()
        await until(lambda: self._held, "no heartbeat is under way")
        self._membership._replicas = {id: one for id, one in self._membership._replicas.items() if id != other.id}

    def go_on(self) -> None:
        """Let heartbeats through again."""
        self._open.set()

    async def beat(self, me: ReplicaRecord) -> Heartbeat:
        self._held = not self._open.is_set()
        await self._open.wait()
        self._held = False
        if self.away:
            raise StorageBusy("The database is away.")
        beat = await self._rows.beat(me)
        there = tuple(one for one in beat.replicas if one.id != self.silent)
        return replace(beat, replicas=there, silent=tuple(one for one in beat.replicas if one.id == self.silent))

    async def leave(self, id: str) -> None:
        await self._rows.leave(id)

    async def last_seen(self) -> Any:
        return await self._rows.last_seen()


class FaultyHops:
    """Faults in the hops of one replica to a path: each of `faults` comes in place of one hop."""

    def __init__(self, client: HopClient, path: str, *faults: HopFailed | int, after: bool = False) -> None:
        self.faults = list(faults)
        self.sent = 0
        self._client, self._path, self._after = client, path, after

    @asynccontextmanager
    async def request(self, target: str, path: str, *given: Any, **more: Any) -> AsyncIterator[HopResponse]:
        fault = self.faults.pop(0) if path == self._path and self.faults else None
        self.sent += path == self._path
        if isinstance(fault, HopFailed) and not self._after:
            raise fault
        asked = "/nowhere" if isinstance(fault, int) else path
        async with HopClient.request(self._client, target, asked, *given, **more) as response:
            if isinstance(fault, int):
                response.status = fault
            elif fault is not None:
                raise fault
            yield response


def break_hops(replica: Replica, patch: pytest.MonkeyPatch, path: str, *faults: HopFailed | int, after: bool = False
) -> FaultyHops:  # fmt: skip
    """Have the hops of a replica fail. `after`: once the other one has answered."""
    client = replica.app.replication.hop_client
    found = FaultyHops(client, path, *faults, after=after)
    patch.setattr(client, "request", found.request)
    return found


def reply(question: Json) -> Json:
    return {"jsonrpc": "2.0", "id": question["id"], "result": ANSWERS["form"]}


async def answered(events: EventReader) -> str:
    """Return the answer of a call, whatever comes before it."""
    while "method" in (message := await events.next()):
        pass
    return str(message)


@asynccontextmanager
async def asked(shared: Sharing) -> AsyncIterator[tuple[TurningHost, EventReader, Json]]:
    """Give a host that the first replica has asked something, the events of its call, and the question."""
    async with turning_host() as host:
        await host.greet(shared.running[0].url, ABLE)
        async with host.streaming(shared.running[0].url, CALL) as events:
            yield host, events, await events.next()


@pytest.fixture
async def servers() -> AsyncIterator[Json]:
    """A server that asks hosts."""
    async with serving(AskingWebServer("legacy")) as url:
        yield {"asker": {"type": "http", "url": f"{url}/mcp"}}


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that cannot be brought is refused soon."""
    monkeypatch.setattr(forwarder, "_PATIENCE", 0.2)


@pytest.fixture(autouse=True)
def _ended_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams and calls that are open at the end of a test keep no replica."""
    monkeypatch.setattr("aggregator.frontends.server.LAST_ANSWERS", 0.05)
    monkeypatch.setattr("aggregator.frontends.server.LAST_BYTES", 0.05)


# -- the owner is not seen


async def test_an_owner_that_came_a_moment_ago_is_waited_for(tmp_path: Path, servers: Json) -> None:
    """The replica that gets the answer has not seen the one that asked yet: it looks for it with the next heartbeat."""
    async with sharing(tmp_path, servers, 2) as shared, asked(shared) as (host, events, question):
        one, two = shared.running
        view = View(two)
        await view.forget(one)
        posting = asyncio.create_task(host.post(two.url, reply(question)))
        await until(lambda: two.app.replication.membership._next_through._waiters)
        assert not posting.done()
        view.go_on()
        assert (await posting).status == 202
        assert '"action": "accept"' in await answered(events)


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("batch", [False, True])
async def test_an_answer_that_cannot_be_brought_can_be_sent_again(
    tmp_path: Path, servers: Json, monkeypatch: pytest.MonkeyPatch, batch: bool
) -> None:
    async with sharing(tmp_path, servers, 2) as shared, turning_host() as host:
        one, two = shared.running
        await host.greet(one.url, ABLE, "2025-03-26" if batch else "2025-11-25")
        # What 2025-03-26 can ask.
        call = {**ASK, "arguments": {"key": "k", "rounds": [[SAMPLE]]}}
        async with host.streaming(one.url, {**CALL, "params": call}) as events:
            answer = {**reply(await events.next()), "result": ANSWERS["sample"]}
            sent: Any = [answer] if batch else answer
            view = View(two)
            await view.forget(one)
            refused = await host.post(two.url, sent)
            assert refused.status == 503
            assert refused.headers["retry-after"] == "1"
            assert "Send it again" in refused.messages[0]["error"]["message"]
            assert "the database cannot say" in refused.messages[0]["error"]["message"]
            view.away = True
            view.go_on()
            assert (await host.post(two.url, sent)).status == 503, "a heartbeat that failed says nothing"
            view.away = False
            await two.see(2)
            monkeypatch.undo()
            assert (await host.post(two.url, sent)).status == 202
            assert '"stopReason": "endTurn"' in await answered(events)


async def test_an_owner_that_is_cut_off_from_the_database_gets_its_answers(tmp_path: Path, servers: Json) -> None:
    """The database has not heard of it for a lease, but it works, and waits."""
    async with sharing(tmp_path, servers, 2) as shared, asked(shared) as (host, events, question):
        one, two = shared.running
        View(two).silent = one.id
        await two.see(1)
        assert (await host.post(two.url, reply(question))).status == 202
        assert '"action": "accept"' in await answered(events)


async def test_an_owner_that_has_left_wants_no_answer(tmp_path: Path, servers: Json) -> None:
    """Its call has ended with it: the host need not send the answer again."""
    async with sharing(tmp_path, servers, 2) as shared, asked(shared) as (host, _, question):
        one, two = shared.running
        await shared.remove(one)
        assert (await host.post(two.url, reply(question))).status == 202


@pytest.mark.usefixtures("short")
async def test_a_silent_owner_that_nothing_listens_for_wants_no_answer(
    tmp_path: Path, servers: Json, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was killed: its row is still there, and its address refuses connections, or another process has it."""
    async with sharing(tmp_path, servers, 2) as shared, asked(shared) as (host, _, question):
        one, two = shared.running
        dead = HopFailed("connection refused", sent=False)
        hops = break_hops(two, monkeypatch, ANSWERS_HOP, *[dead] * 100)
        refused = await host.post(two.url, reply(question))
        assert refused.status == 503, "it may be there: the database has heard of it"
        assert "connection refused" in refused.messages[0]["error"]["message"]
        View(two).silent = one.id
        await two.see(1)
        monkeypatch.setattr(forwarder, "_PATIENCE", 10.0)
        before = hops.sent
        assert (await host.post(two.url, reply(question))).status == 202
        assert hops.sent == before + 1


# -- a hop fails


@pytest.mark.parametrize(
    ("faults", "after"),
    [
        ([HopFailed("refused", sent=False)] * 2, False),
        ([HopFailed("the connection ended", sent=True)] * 2, False),
        # The owner has taken it, and that did not come back: it is brought again, and counts once.
        ([HopFailed("the connection ended", sent=True)], True),
        ([500, 503], False),
    ],
    ids=["not-sent", "in-doubt", "taken", "status"],
)
async def test_an_answer_whose_hop_fails_is_brought_again(
    tmp_path: Path, servers: Json, monkeypatch: pytest.MonkeyPatch, faults: list[HopFailed | int], after: bool
) -> None:
    async with sharing(tmp_path, servers, 2) as shared, asked(shared) as (host, events, question):
        two = shared.running[1]
        hops = break_hops(two, monkeypatch, ANSWERS_HOP, *faults, after=after)
        assert (await host.post(two.url, reply(question))).status == 202
        assert hops.sent == len(faults) + 1
        assert '"action": "accept"' in await answered(events)


async def test_an_owner_that_does_not_want_an_answer_is_not_asked_again(
    tmp_path: Path, servers: Json, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with sharing(tmp_path, servers, 2) as shared, asked(shared) as (host, _, question):
        two = shared.running[1]
        hops = break_hops(two, monkeypatch, ANSWERS_HOP, 404)
        assert (await host.post(two.url, reply(question))).status == 202
        assert hops.sent == 1


# -- what else belongs to another replica


async def test_a_parked_call_is_found_at_an_owner_that_came_a_moment_ago(tmp_path: Path, servers: Json) -> None:
    async with sharing(tmp_path, servers, 2) as shared, turning_host() as host:
        one, two = shared.running
        headers, message = modern("tools/call", ASK, ABLE)
        interim = (await host.client.post(f"{one.url}/mcp", json=message, headers=headers)).json()["result"]
        back = dict.fromkeys(interim["inputRequests"], ANSWERS["form"])
        params = {**ASK, "inputResponses": back, "requestState": interim["requestState"]}
        headers, message = modern("tools/call", params, ABLE)
        view = View(two)
        await view.forget(one)
        posting = asyncio.create_task(host.client.post(f"{two.url}/mcp", json=message, headers=headers))
        await until(lambda: two.app.replication.membership._next_through._waiters)
        view.go_on()
        assert '\\"action\\": \\"accept\\"' in (await posting).text


@pytest.mark.parametrize(
    ("fault", "sent", "said"),
    [
        (HopFailed("refused", sent=False), 2, '\\"action\\": \\"accept\\"'),
        (HopFailed("the connection ended", sent=True), 1, "not known what became of"),
    ],
    ids=["not-sent", "in-doubt"],
)
async def test_a_request_that_did_not_reach_its_owner_is_sent_again(
    tmp_path: Path, servers: Json, monkeypatch: pytest.MonkeyPatch, fault: HopFailed, sent: int, said: str
) -> None:
    async with sharing(tmp_path, servers, 2) as shared, turning_host() as host:
        one, two = shared.running
        headers, message = modern("tools/call", ASK, ABLE)
        interim = (await host.client.post(f"{one.url}/mcp", json=message, headers=headers)).json()["result"]
        back = dict.fromkeys(interim["inputRequests"], ANSWERS["form"])
        params = {**ASK, "inputResponses": back, "requestState": interim["requestState"]}
        headers, message = modern("tools/call", params, ABLE)
        hops = break_hops(two, monkeypatch, "/http", fault)
        assert said in (await host.client.post(f"{two.url}/mcp", json=message, headers=headers)).text
        assert hops.sent == sent


@pytest.mark.parametrize(("sent", "status"), [(False, 503), (True, 404)])
async def test_a_message_of_sse_that_did_not_reach_its_stream_can_be_sent_again(
    tmp_path: Path,
    servers: Json,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    sent: bool,
    status: int,
) -> None:
    monkeypatch.setattr(forwarder, "_SENDING_AGAIN", 0.0)
    async with sharing(tmp_path, servers, 2, sse={"enabled": True}) as shared, turning_host() as host:
        one, two = shared.running
        async with host.client.stream("GET", f"{one.url}/sse") as stream:
            lines = stream.aiter_lines()
            endpoint = urlsplit([line async for line in _until_data(lines)][-1].removeprefix("data: "))
            path = f"/messages?{endpoint.query}"
            break_hops(two, monkeypatch, path, HopFailed("it failed", sent=sent))
            message = {"jsonrpc": "2.0", "method": "x"}
            answer = await host.client.post(f"{two.url}{path}", json=message)
            assert answer.status_code == status
            assert "it failed" in answer.text
            assert (await host.client.post(f"{two.url}{path}", json=message)).status_code == 202
    assert not [one for one in caplog.records if one.levelno >= logging.ERROR]


@pytest.mark.usefixtures("short")
async def test_what_waits_for_the_database_is_refused_in_time(tmp_path: Path, servers: Json) -> None:
    """A parked call, the rest of an answer, and a message of SSE: none is said to be gone while that is not known."""
    async with sharing(tmp_path, servers, 2, sse={"enabled": True}) as shared, asked(shared) as (host, events, _):
        one, two = shared.running
        headers, message = modern("tools/call", ASK, ABLE)
        interim = (await host.client.post(f"{one.url}/mcp", json=message, headers=headers)).json()["result"]
        params = {**ASK, "inputResponses": {}, "requestState": interim["requestState"]}
        headers, message = modern("tools/call", params, ABLE)
        async with host.client.stream("GET", f"{one.url}/sse") as stream:
            lines = stream.aiter_lines()
            endpoint = urlsplit([line async for line in _until_data(lines)][-1].removeprefix("data: "))
            await View(two).forget(one)
            posts = [
                host.client.post(f"{two.url}/mcp", json=message, headers=headers),
                host.client.get(f"{two.url}/mcp", headers=host.headers(**{"last-event-id": events.last_id})),
                host.client.post(f"{two.url}{endpoint.path}?{endpoint.query}", json={"jsonrpc": "2.0", "method": "x"}),
            ]
            for post in posts:
                answer = await post
                assert answer.status_code == 503, answer.text
                assert answer.headers["retry-after"] == "1"
                assert "Send it again" in answer.text


async def test_ids_that_name_no_replica_wait_for_nothing(tmp_path: Path, servers: Json) -> None:
    async with sharing(tmp_path, servers, 2, sse={"enabled": True}) as shared, turning_host() as host:
        one, two = shared.running
        await host.greet(one.url, ABLE)
        view = View(two)
        await view.forget(one)
        assert (await host.client.post(f"{two.url}/messages?session_id=x.nonsense", json={})).status_code == 404
        odd: Any
        for odd in (0, -1, 10**15, 1.5, None, "x", True):
            assert (await host.post(two.url, {"jsonrpc": "2.0", "id": odd, "result": {}})).status == 202, odd
        view.go_on()


async def _until_data(lines: Any) -> AsyncIterator[str]:
    async for line in lines:
        yield line
        if line.startswith("data: "):
            return
