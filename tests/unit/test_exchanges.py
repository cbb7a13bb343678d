"""One HTTP request and its answer: how it ends, whoever ends it, and what its host reads then."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from types import SimpleNamespace
from typing import Any, Final

import pytest

from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.errors import ERROR_META_KEY, ShuttingDown
from aggregator.domain.missing import InsufficientScope
from aggregator.domain.principal import Principal
from aggregator.frontends.web import exchange as exchanges
from aggregator.frontends.web.answer import Answer
from aggregator.frontends.web.event_stream import UnreadBytes
from aggregator.frontends.web.exchange import Exchange, SlowRequests
from aggregator.frontends.web.host_guard import Message
from aggregator.frontends.web.request_cache import DirectPost, RequestCache
from aggregator.frontends.web.resumable import KeptEvents, ResumableStreams
from aggregator.wire.codec import decode
from aggregator.wire.peer import Peer, PeerGone
from tests.peers.toolbox import Json
from tests.polling import BOUND, until

LACKS: Final[Json] = {"isError": True, "_meta": {ERROR_META_KEY: {"code": InsufficientScope.code, "scopes": ["write"]}}}


class Requesting:
    """A host with one request, whose connection it closes with `leave`."""

    def __init__(self, tasks: Tasks) -> None:
        self.tasks = tasks
        self.sent: list[Message] = []
        self.received = 0
        self.asked_for: list[Sequence[str]] = []
        self._gone = asyncio.Event()
        self.more = asyncio.Event()
        self.answer = Answer(self._send, ask_for=self._ask_for)

    def leave(self) -> None:
        self._gone.set()

    async def receive(self) -> Message:
        self.received += 1
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        self.sent.append(message)

    def _ask_for(self, scopes: Sequence[str]) -> bytes:
        self.asked_for.append(scopes)
        return b"Bearer more"

    def exchange(self, **more: Any) -> Exchange:
        return Exchange(7, self.receive, self.answer, self.tasks, **{"modern": True, **more})

    @property
    def status(self) -> int:
        """The status of the answer."""
        status: int = self.sent[0]["status"]
        return status

    @property
    def headers(self) -> dict[bytes, bytes]:
        """The header fields of the answer."""
        return dict(self.sent[0]["headers"])

    @property
    def body(self) -> bytes:
        """The body so far."""
        return b"".join(message.get("body", b"") for message in self.sent)


@pytest.fixture
async def host() -> AsyncIterator[Requesting]:
    async with Tasks("a test") as tasks:
        yield Requesting(tasks)


async def ended_by(exchange: Exchange, end: Callable[[asyncio.Task[Any]], object], *, streamed: bool = False) -> Any:
    """Return the task of a request that `end` ended, once it is over."""

    async def run() -> int:
        async with exchange:
            if streamed:
                exchange.notify("notifications/progress", {})
            await asyncio.Event().wait()
        task = asyncio.current_task()
        assert task is not None
        return task.cancelling()

    task = asyncio.ensure_future(run())
    await until(lambda: exchange._running is not None)
    end(task)
    await asyncio.wait({task}, timeout=BOUND)
    return task


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_request_that_its_host_cancels_gets_no_answer_and_its_task_goes_on(
    host: Requesting, streamed: bool
) -> None:
    exchange = host.exchange()
    task = await ended_by(exchange, lambda _: exchange.cancel() and exchange.cancel(), streamed=streamed)
    assert task.result() == 0, "nothing else of the task is cancelled"
    assert not exchange.succeeded
    assert b'"id"' not in host.body
    assert not exchange.cancel(), "its answer is on its way"


@pytest.mark.parametrize("order", ["cancelled by us", "cancelled by us, then by its host"])
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_request_that_ends_for_another_reason_keeps_it(host: Requesting, order: str, streamed: bool) -> None:
    """A8: its task ends, with its stream, though the host reads nothing of it."""
    exchange = host.exchange()

    def end(task: asyncio.Task[Any]) -> None:
        task.cancel()
        if order.endswith("host"):
            assert exchange.cancel()

    task = await ended_by(exchange, end, streamed=streamed)
    assert task.cancelled()
    await until(lambda: not len(host.tasks), "its stream has ended")


async def test_a_request_that_is_over_is_watched_no_longer(host: Requesting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchanges, "SLOW", 0.0)
    slow = SlowRequests()
    async with host.exchange(slow=slow) as exchange:
        exchange.result = {}
    await until(lambda: slow._timer is None, "its timer has turned")
    assert host.received == 0
    async with host.exchange(slow=slow) as exchange:
        await until(lambda: host.received == 1, "a slow one is watched")
        exchange.result = {}
    await until(lambda: not len(host.tasks), "the watch has ended")


@pytest.mark.parametrize("primes", [None, False, True])
async def test_a_slow_answer_becomes_a_stream(
    host: Requesting, monkeypatch: pytest.MonkeyPatch, primes: bool | None
) -> None:
    """S: at once if the host can then resume it, else before a proxy cuts the silent connection."""
    streams = ResumableStreams(KeptEvents(UnreadBytes(), "me"), primes=bool(primes)) if primes is not None else None
    monkeypatch.setattr(exchanges, "KEEP_ALIVE_INTERVAL", BOUND)
    async with host.exchange(modern=False, resumable=streams) as exchange:
        exchange.watch()
        await until(lambda: host.received == 1)
        assert (exchange._stream is not None) is bool(primes)
        exchange.result = {}
    silent = Requesting(host.tasks)
    monkeypatch.setattr(exchanges, "KEEP_ALIVE_INTERVAL", 0.0)
    async with silent.exchange(modern=False, resumable=streams) as exchange:
        exchange.watch()
        await until(lambda: len(silent.sent) >= 1, "the head is sent")
        exchange.result = {}
    assert silent.headers[b"content-type"].startswith(b"text/event-stream")


async def test_a_host_that_has_left_is_asked_nothing(host: Requesting) -> None:
    """F1: the call fails at once, and does not wait for an answer that no one gives."""
    pushed: list[bytes] = []
    peer = Peer(lambda data, _: pushed.append(data), host.tasks, _never, lambda *_: None)
    async with host.exchange(modern=False, peer=peer) as exchange:
        exchange.notify("notifications/progress", {})
        exchange.watch()
        host.leave()
        await until(lambda: exchange._stream is not None and exchange._stream.ended, "its leaving is seen")
        with pytest.raises(PeerGone):
            await exchange.ask("elicitation/create", {})
        exchange.result = {}


async def test_a_question_ends_with_the_request_it_belongs_to(host: Requesting) -> None:
    """C3: if its session ends, the request is cancelled as the host has it, and does not fail by the question."""
    peer = Peer(lambda data, _: None, host.tasks, _never, lambda *_: None)
    exchange = host.exchange(modern=False, peer=peer)

    async def run() -> bool:
        async with exchange:
            exchange.result = await exchange.ask("elicitation/create", {})
        return True

    task = host.tasks.start(run())
    await until(lambda: peer.only_waiting() is not None, "it is asked")
    peer.end_input("the session ended")
    async with asyncio.timeout(BOUND):
        assert await task
    assert b'"error"' not in host.body
    assert not exchange.succeeded


async def _never(*_: object) -> None:
    raise AssertionError("the host asks nothing")


# -- what the host reads


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("refused", ["a result", "an error", None])
async def test_a_token_that_lacks_scopes_is_asked_for_more(
    host: Requesting, refused: str | None, streamed: bool
) -> None:
    """RFC 6750, 3.1: unless a part of the answer was sent, whose status stays; other fields stay too."""
    async with host.exchange(headers={b"mcp-session-id": b"one"}) as exchange:
        if streamed:
            exchange.notify("notifications/progress", {})
        if refused == "an error":
            raise InsufficientScope("read", "no", ("write",))
        exchange.result = LACKS if refused else {}
    asks = refused is not None and not streamed
    assert host.status == (403 if asks else 200)
    assert host.headers.get(b"www-authenticate") == (b"Bearer more" if asks else None)
    assert host.headers.get(b"mcp-session-id") == (None if streamed else b"one")
    assert [*map(list, host.asked_for)] == ([["write"]] if asks else [])


async def test_a_gateway_that_ends_says_when_to_come_back_and_closes(host: Requesting) -> None:
    async with host.exchange():
        raise ShuttingDown(3)
    assert (host.status, host.headers[b"retry-after"]) == (ShuttingDown.status, b"3")
    assert host.headers[b"connection"] == b"close"


@pytest.mark.parametrize(("result", "succeeded"), [({"a": 1}, True), ({"a": object()}, False)])
async def test_which_answers_succeed(host: Requesting, result: Json, succeeded: bool) -> None:
    async with host.exchange() as exchange:
        exchange.result = result
    assert exchange.succeeded is succeeded
    assert ("result" in decode(host.body)) is succeeded


# -- a call that was sent without a task, and that a task takes over


class Taking:
    """A direct call that a task takes over, in a session of the handshake eras or by a request of 2026-07-28."""

    def __init__(self, host: Requesting, *, modern: bool) -> None:
        self.host = host
        self.unread = UnreadBytes()
        streams = ResumableStreams(KeptEvents(self.unread, "me"), primes=False)
        self.session: Any = None if modern else SimpleNamespace(running={}, peer=None, streams=streams, left=0)
        self.released = 0
        self.taken = self.answered = False
        self.answer = asyncio.Event()
        direct = SimpleNamespace(take_over=self._take_over)
        limits: Any = SimpleNamespace(unread=self.unread)
        gateway: Any = SimpleNamespace(direct=direct)
        self.cache = RequestCache(gateway, None, limits, None, host.tasks)  # type: ignore[arg-type]
        self.post = DirectPost(self, 7, Principal("a"), self.session, gateway)  # type: ignore[arg-type]
        self.post.call = SimpleNamespace(known=SimpleNamespace(modern=modern), take_over=lambda: None)  # type: ignore[assignment]
        self.post.slot = SimpleNamespace(release=self._release)  # type: ignore[assignment]
        if self.session is not None:
            self.session.running[7] = self.post
            self.post.session = _WithExit(self.session)  # type: ignore[assignment]

    def _release(self) -> None:
        self.released += 1

    async def _take_over(self, call: object, exchange: Exchange) -> Json:
        self.taken = True
        exchange.notify("notifications/progress", {})
        await self.answer.wait()
        self.answered = True
        return {"content": []}

    def start(self) -> "asyncio.Task[None]":
        return self.host.tasks.start(self.cache.take_over(self.post, self.host.receive, self.host.answer))


class _WithExit:
    """A session whose use ends."""

    def __init__(self, session: Any) -> None:
        self.running, self.peer, self.streams = session.running, session.peer, session.streams
        self._session = session

    def __exit__(self, *_: object) -> None:
        self._session.left += 1


@pytest.mark.parametrize("modern", [False, True])
@pytest.mark.parametrize("end", ["answered", "cancelled before", "cancelled", "left"])
async def test_how_a_call_ends_that_a_task_has_taken_over(host: Requesting, end: str, modern: bool) -> None:
    """A8, C3: cancelled whenever its host says so; its place is free, once."""
    it = Taking(host, modern=modern)
    if end == "cancelled before":
        it.post.cancel()
    task = it.start()
    if end != "cancelled before":
        await until(lambda: it.taken, "the task runs")
    running = it.session.running[7] if not modern and end != "cancelled before" else None
    if end == "cancelled" and running is not None:
        assert running.cancel()
    elif end in ("left", "cancelled"):
        host.leave()
        if running is not None:
            await until(lambda: running._watching is not None and running._watching.done(), "its end is seen")
    if end == "answered" or (end == "left" and not modern):
        assert not task.done(), "in the handshake eras a closed connection means nothing"
        it.answer.set()
    async with asyncio.timeout(BOUND):
        await task
    assert it.answered is it.answer.is_set()
    if end != "left":
        assert (b'"result"' in host.body) is (end == "answered")
    assert it.released == 1
    assert modern or (it.session.running, it.session.left) == ({}, 1)
    await until(lambda: not len(host.tasks), "nothing is left")
    assert it.unread.size == 0
