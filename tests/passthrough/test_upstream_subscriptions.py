"""What an upstream is asked to tell of, held against what it was asked, with an upstream that does as a test says."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.errors import RpcError, UpstreamRpcError, UpstreamTimeout, UpstreamUnavailable
from aggregator.upstream.connection import SessionExpired
from aggregator.upstream.lists import subscriptions as watch_module
from aggregator.upstream.lists.subscriptions import UpstreamSubscriptions
from aggregator.upstream.sessions.negotiate import Negotiated
from aggregator.upstream.sessions.session import UpstreamSession
from aggregator.wire.peer import PeerGone
from tests.peers.toolbox import Json
from tests.polling import until

LEGACY, MODERN = "2025-11-25", "2026-07-28"
ACK = "notifications/subscriptions/acknowledged"


class FakeConnection:
    """Answers each request as `does` says: an error is raised, a future waited for."""

    def __init__(self, watch: UpstreamSubscriptions) -> None:
        self.watch = watch
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.asked: list[tuple[str, Any]] = []
        self.open: list[asyncio.Future[Json]] = []
        self.does: Callable[[str, Json], Exception | None] = lambda method, params: None
        self.acknowledges = True

    async def request(self, method: str, params: Json, *rest: Any, **more: Any) -> Json:
        uris = params["uri"] if "uri" in params else params["notifications"]["resourceSubscriptions"]
        self.asked.append((method.rpartition("/")[2], uris))
        problem = self.does(method, params)
        if problem is not None:
            raise problem
        if method != "subscriptions/listen":
            return {}
        if self.acknowledges:
            self.watch.on_notification(ACK, {"notifications": {"resourceSubscriptions": uris}})
        stream: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self.open.append(stream)
        try:
            return await stream
        finally:
            self.open.remove(stream)


class RunningWatch:
    """A watch on its connection."""

    def __init__(self) -> None:
        self.watch = UpstreamSubscriptions("box", lambda watched, uri: self.told.append((watched, uri)))
        self.upstream = FakeConnection(self.watch)
        self.told: list[tuple[list[str], str]] = []
        self.lost: list[str] = []
        self.busy = False
        self.calls = 0
        self.session: UpstreamSession | None = None

    async def for_lists(self) -> UpstreamSession | None:
        return self.session

    def lose(self, session: UpstreamSession, reason: str) -> None:
        self.lost.append(reason)
        self.session = None


@asynccontextmanager
async def watching(version: str) -> AsyncIterator[RunningWatch]:
    made = RunningWatch()
    upstream: Any = made.upstream
    made.session = UpstreamSession(upstream, Negotiated(version), "local", {})
    async with Tasks("a test") as tasks:
        tasks.start(made.watch.keep(made))
        await asyncio.sleep(0)
        yield made


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_module, "_ACKNOWLEDGED_WITHIN", 0.02)
    monkeypatch.setattr("aggregator.upstream.lifecycle.backoff.FIRST", 0.01)


async def test_one_request_each_before_2026() -> None:
    async with watching(LEGACY) as made:
        made.watch.want("a:1")
        made.watch.want("a:1")
        await made.watch.agreed("a:1", 5)
        made.watch.unwant("a:1")
        made.watch.want("a:2")
        await made.watch.agreed("a:2", 5)
        made.watch.unwant("a:1")
        await until(lambda: len(made.upstream.asked) == 3)
        assert made.upstream.asked == [("subscribe", "a:1"), ("subscribe", "a:2"), ("unsubscribe", "a:1")]
        assert made.watch.on_notification("notifications/resources/updated", {"uri": "a:2/x"})
        assert made.watch.on_notification("notifications/resources/updated", {"uri": "a:1"}), (
            "about this, and nobody's any more"
        )
        assert made.told == [(["a:2"], "a:2/x")]
        assert not made.watch.on_notification("notifications/message", {})


async def test_one_stream_for_all_since_and_no_gap_between_two() -> None:
    async with watching(MODERN) as made:
        made.watch.want("a:1")
        await made.watch.agreed("a:1", 5)
        (first,) = made.upstream.open
        made.watch.want("a:2")
        await made.watch.agreed("a:2", 5)
        await until(lambda: first.cancelled())
        assert made.upstream.asked == [("listen", ["a:1"]), ("listen", ["a:1", "a:2"])]
        for uri in ("a:1", "a:2"):
            made.watch.unwant(uri)
        await until(lambda: not made.upstream.open)
        assert made.told == []


@pytest.mark.parametrize("version", [LEGACY, MODERN])
async def test_what_is_refused_is_told_and_not_asked_again_until_somebody_wants_it_anew(version: str) -> None:
    async with watching(version) as made:
        made.upstream.does = lambda method, params: RpcError(-32602, "no") if "bad" in str(params) else None
        made.watch.want("a:bad")
        with pytest.raises(UpstreamRpcError, match="no"):
            await made.watch.agreed("a:bad", 5)
        made.watch.unwant("a:bad")
        made.watch.want("a:good")
        await made.watch.agreed("a:good", 5)
        assert len(made.upstream.asked) == 2
        made.upstream.does = lambda method, params: None
        made.watch.want("a:bad")
        await made.watch.agreed("a:bad", 5)


@pytest.mark.parametrize("version", [LEGACY, MODERN])
async def test_a_session_that_was_forgotten(version: str) -> None:
    """The upstream is asked for another connection, and whoever waits is told that there is no answer."""
    async with watching(version) as made:
        made.upstream.does = lambda method, params: SessionExpired()
        made.watch.want("a:1")
        with pytest.raises(UpstreamUnavailable):
            await made.watch.agreed("a:1", 5)
        await until(lambda: len(made.lost) == 1)


async def test_a_connection_that_ends_meanwhile() -> None:
    async with watching(LEGACY) as made:
        made.upstream.does = lambda method, params: PeerGone("gone")
        made.watch.want("a:1")
        with pytest.raises(UpstreamUnavailable, match="ended"):
            await made.watch.agreed("a:1", 5)


async def test_an_upstream_that_says_nothing() -> None:
    """It is not waited for longer than the call may take, nor for an acknowledgement that does not come."""
    watch = UpstreamSubscriptions("box", lambda watched, uri: None)
    watch.want("a:1")
    with pytest.raises(UpstreamTimeout):
        await watch.agreed("a:1", 0.01)
    async with watching(MODERN) as made:
        made.upstream.acknowledges = False
        made.watch.want("a:1")
        await made.watch.agreed("a:1", 5)


async def test_a_new_session_is_asked_for_everything_and_hosts_are_told_once() -> None:
    """What changed before it nobody told us."""
    async with watching(LEGACY) as made:
        made.watch.want("a:1")
        await made.watch.agreed("a:1", 5)
        made.watch.reset()
        await until(lambda: bool(made.told))
        assert made.upstream.asked == [("subscribe", "a:1")] * 2
        assert made.told == [(["a:1"], "a:1")]


async def test_a_stream_that_ends_is_opened_again() -> None:
    """Gracefully or not; hosts are told that they may have missed something."""
    async with watching(MODERN) as made:
        made.watch.want("a:1")
        await made.watch.agreed("a:1", 5)
        made.upstream.open[0].set_result({})
        await until(lambda: len(made.told) == 1)
        made.upstream.open[0].set_exception(PeerGone("broken"))
        await until(lambda: len(made.told) == 2)
        assert made.upstream.asked == [("listen", ["a:1"])] * 3
        assert made.told == [(["a:1"], "a:1")] * 2
        made.watch.on_notification("notifications/resources/updated", {"uri": "b:part"})
        assert made.told[-1] == (["a:1"], "b:part"), "the stream was for this one alone"
