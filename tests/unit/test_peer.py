"""A pair of peers back to back: what is asked is answered, what is cancelled ends, and nothing stays in the tables."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.errors import INTERNAL_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, HostError, RpcError
from aggregator.wire.codec import decode
from aggregator.wire.message import error_of
from aggregator.wire.peer import Channel, Peer, PeerGone
from aggregator.wire.responses import error_message

from .strategies import json_values

# How long anything here may take before it counts as hanging.
BOUND = 5


class PeerEnd:
    """One side: what it heard, what it was asked, and the answers it gives."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, dict[str, Any]]] = []
        self.channels: list[Channel] = []
        self.cancelled: list[dict[str, Any]] = []
        self.started = asyncio.Event()
        self.go_on = asyncio.Event()

    async def answer(self, method: str, params: dict[str, Any], channel: Channel) -> Any:
        self.channels.append(channel)
        self.started.set()
        if method == "echo":
            return {"echo": params}
        if method == "wait":
            try:
                await self.go_on.wait()
            except asyncio.CancelledError:
                self.cancelled.append(params)
                raise
            return {"waited": params}
        if method == "progress":
            for step in params["steps"]:
                token = params["_meta"]["progressToken"]
                channel.notify("notifications/progress", {"progressToken": token, "progress": step})
            return {}
        if method == "ask":
            return {"asked": await channel.ask("echo", params)}
        if method == "ask in vain":
            try:
                return {"asked": await channel.ask("wait", params)}
            except asyncio.CancelledError:
                self.cancelled.append(params)
                raise
        if method == "bug":
            raise KeyError("inner secret")
        raise HostError(METHOD_NOT_FOUND, f"Method not found: {method}", {"method": method})

    def hear(self, method: str, params: dict[str, Any]) -> None:
        self.heard.append((method, params))


class PeerPair:
    """Two peers back to back: `near` asks, `far` answers, and every message passes through bytes."""

    def __init__(self, tasks: Tasks) -> None:
        self.near_end, self.far_end = PeerEnd(), PeerEnd()
        self.sent: list[dict[str, Any]] = []
        self.answered: list[dict[str, Any]] = []
        self.near = Peer(self._to_far, tasks, self.near_end.answer, self.near_end.hear)
        self.far = Peer(self._to_near, tasks, self.far_end.answer, self.far_end.hear)

    def _to_far(self, data: bytes, request_id: int | None) -> None:
        self.sent.append(decode(data))
        asyncio.get_running_loop().call_soon(self.far.feed, decode(data))

    def _to_near(self, data: bytes, request_id: int | None) -> None:
        self.answered.append(decode(data))
        asyncio.get_running_loop().call_soon(self.near.feed, decode(data))

    async def settle(self) -> None:
        """Let everything happen that can."""
        for _ in range(20):
            await asyncio.sleep(0)

    def at_rest(self) -> bool:
        """Return whether no table holds anything."""
        tables = [table for peer in (self.near, self.far) for table in (peer._waiting, peer._running)]
        return not any(tables)


@asynccontextmanager
async def peer_pair() -> AsyncIterator[PeerPair]:
    """A pair that has to be at rest in the end."""
    async with asyncio.timeout(BOUND), Tasks("a test") as tasks:
        made = PeerPair(tasks)
        yield made
        await made.settle()
        assert made.at_rest(), f"left over: {made.near!r}, {made.far!r}"


async def test_a_request_is_answered() -> None:
    """Proves: C8"""
    async with peer_pair() as both:
        assert await both.near.request("echo", {"a": [1, None]}) == {"echo": {"a": [1, None]}}
        assert both.sent == [{"jsonrpc": "2.0", "id": 1, "method": "echo", "params": {"a": [1, None]}}]


async def test_hundreds_at_once_answer_each_their_own() -> None:
    """Proves: B4"""
    async with peer_pair() as both:
        asked = [asyncio.ensure_future(both.near.request("wait", {"n": n})) for n in range(300)]
        await both.far_end.started.wait()
        assert await both.near.request("echo", {}) == {"echo": {}}
        both.far_end.go_on.set()
        assert [answer["waited"]["n"] for answer in await asyncio.gather(*asked)] == list(range(300))


async def test_an_error_comes_back_whole() -> None:
    """Proves: C12"""
    async with peer_pair() as both:
        with pytest.raises(RpcError) as caught:
            await both.near.request("nothing", {})
        assert caught.value.to_wire() == {
            "code": METHOD_NOT_FOUND,
            "message": "Method not found: nothing",
            "data": {"method": "nothing"},
        }


async def test_a_bug_tells_nothing_of_its_insides(caplog: pytest.LogCaptureFixture) -> None:
    async with peer_pair() as both:
        with caplog.at_level(logging.ERROR), pytest.raises(RpcError) as caught:
            await both.near.request("bug", {})
        assert caught.value.code == INTERNAL_ERROR
        assert "secret" not in str(both.answered)
        assert "inner secret" in caplog.text


async def test_a_result_that_cannot_be_written_is_answered_too(caplog: pytest.LogCaptureFixture) -> None:
    """Otherwise the other side waits until its own time-out."""
    async with asyncio.timeout(BOUND), Tasks("a test") as tasks:
        sent: list[Any] = []

        async def answer(method: str, params: dict[str, Any], channel: Channel) -> Any:
            deep: Any = []
            for _ in range(100_000):
                deep = [deep]
            return {"deep": deep}

        peer = Peer(lambda data, _: sent.append(decode(data)), tasks, answer, lambda *_: None)
        peer.feed({"jsonrpc": "2.0", "id": 1, "method": "x"})
        await peer.wait_running(0)
        await asyncio.sleep(0)
        assert [message["error"]["code"] for message in sent] == [INTERNAL_ERROR]


async def test_an_error_that_cannot_be_written_is_answered_too(caplog: pytest.LogCaptureFixture) -> None:
    """An upstream's error data may be as deep as can just be read."""
    async with asyncio.timeout(BOUND), Tasks("a test") as tasks:
        sent: list[Any] = []

        async def answer(method: str, params: dict[str, Any], channel: Channel) -> Any:
            deep: Any = []
            for _ in range(100_000):
                deep = [deep]
            raise RpcError(-32000, "too deep to tell", deep)

        peer = Peer(lambda data, _: sent.append(decode(data)), tasks, answer, lambda *_: None)
        peer.feed({"jsonrpc": "2.0", "id": 1, "method": "x"})
        await peer.wait_running(0)
        assert [message["id"] for message in sent] == [1]
        assert "error" in sent[0]


async def test_cancelling_the_wait_cancels_on_the_other_side() -> None:
    """Proves: A8"""
    async with peer_pair() as both:
        asked = asyncio.ensure_future(both.near.request("wait", {"n": 1}))
        await both.far_end.started.wait()
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        await both.settle()
        assert both.far_end.cancelled == [{"n": 1}]
        assert both.sent[-1]["method"] == "notifications/cancelled"
        assert both.sent[-1]["params"]["requestId"] == 1
        assert both.answered == [], "a cancelled request gets no answer"


async def test_an_answer_that_comes_late_is_told() -> None:
    """To whoever gave the request up, once; an answer to anything else is nobody's."""
    heard: list[int] = []
    async with peer_pair() as both:
        asked = asyncio.ensure_future(both.near.begin("wait", {}, late=lambda: heard.append(1)).wait())
        await both.far_end.started.wait()
        both.near.feed({"jsonrpc": "2.0", "id": 77, "result": {}})
        asked.cancel()
        with suppress(asyncio.CancelledError):
            await asked
        assert heard == []
        for _ in range(2):
            both.near.feed({"jsonrpc": "2.0", "id": 1, "error": {"code": 0, "message": "Request cancelled"}})
        assert heard == [1]


async def test_what_must_not_be_cancelled_is_not() -> None:
    async with peer_pair() as both:
        asked = asyncio.ensure_future(both.near.begin("wait", {}, cancellable=False).wait())
        await both.far_end.started.wait()
        asked.cancel()
        await asyncio.wait([asked])
        both.far_end.go_on.set()
        await both.settle()
        assert [message["method"] for message in both.sent] == ["wait"]
        assert both.far_end.cancelled == []


async def test_a_request_cancelled_in_the_same_breath_leaves_nothing_behind() -> None:
    """Both messages may come in one chunk, before the request's task took its first step."""
    async with peer_pair() as both:
        request = {"jsonrpc": "2.0", "id": "a", "method": "wait"}
        both.far.feed(request)
        both.far.feed({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "a"}})
        await both.far.wait_running(0)
        both.far_end.go_on.set()
        both.far.feed(request)
        await both.far.wait_running(0)
        assert [message.get("result") for message in both.answered] == [{"waited": {}}]


async def test_close_right_after_a_request_leaves_nothing_behind() -> None:
    async with peer_pair() as both:
        both.far.feed({"jsonrpc": "2.0", "id": "a", "method": "wait"})
        both.far.close("gone")
        await both.far.wait_running(0)


async def test_progress_reaches_its_own_request_under_a_token_of_this_hop() -> None:
    async with peer_pair() as both:
        one: list[dict[str, Any]] = []
        other: list[dict[str, Any]] = []
        await asyncio.gather(
            both.near.begin(
                "progress", {"steps": [1, 2], "_meta": {"kept": 1, "progressToken": "a"}}, None, one.append
            ).wait(),
            both.near.begin("progress", {"steps": [3]}, None, other.append).wait(),
        )
        assert one == [{"progress": 1}, {"progress": 2}]
        assert other == [{"progress": 3}]
        assert both.sent[0]["params"]["_meta"] == {"kept": 1, "progressToken": 1}
        both.near.feed({"method": "notifications/progress", "params": {"progressToken": 1, "progress": 9}})
        assert one == [{"progress": 1}, {"progress": 2}], "progress after the answer"


async def test_while_a_request_runs_its_sender_can_be_asked() -> None:
    async with peer_pair() as both:
        assert await both.near.request("ask", {"a": 1}) == {"asked": {"echo": {"a": 1}}}


async def test_a_request_may_go_another_way_and_so_does_its_cancellation() -> None:
    async with peer_pair() as both:
        other_way: list[dict[str, Any]] = []
        asked = asyncio.ensure_future(both.near.request("wait", {}, via=lambda data, _: other_way.append(decode(data))))
        await both.settle()
        asked.cancel()
        await asyncio.wait([asked])
        assert [message["method"] for message in other_way] == ["wait", "notifications/cancelled"]
        assert both.sent == []


async def test_notifications_are_handled_and_never_answered() -> None:
    async with peer_pair() as both:
        both.near.notify("notifications/x", {"a": 1})
        both.near.notify("notifications/y")
        await both.settle()
        assert both.far_end.heard == [("notifications/x", {"a": 1}), ("notifications/y", {})]
        assert both.answered == []


async def test_close_ends_waiters_and_what_runs() -> None:
    """Proves: C4"""
    async with peer_pair() as both:
        asked = asyncio.ensure_future(both.near.request("wait", {"n": 1}))
        await both.far_end.started.wait()
        both.near.close("the upstream left")
        both.near.close("twice is harmless")
        both.far.close("so did we")
        with pytest.raises(PeerGone, match="the upstream left"):
            await asked
        with pytest.raises(PeerGone, match="the upstream left"):
            await both.near.request("echo", {})
        await both.far.wait_running(0)
        assert both.far_end.cancelled == [{"n": 1}]
        assert both.answered == []


@pytest.mark.parametrize("end", [Peer.end_input, Peer.close])
async def test_what_was_asked_for_a_request_ends_with_it(end: Callable[[Peer, str], None]) -> None:
    """It is not told that there is no answer: its request is cancelled, and nothing goes on without one."""
    async with peer_pair() as both:
        asked = asyncio.ensure_future(both.near.request("ask in vain", {"n": 1}))
        await both.near_end.started.wait()
        end(both.far, "the other side left")
        await both.far.wait_running(0)
        assert both.far_end.cancelled == [{"n": 1}]
        await both.settle()
        assert [message for message in both.answered if "method" not in message] == []
        both.near_end.go_on.set()
        asked.cancel()


async def test_a_peer_that_handles_no_notification_still_answers() -> None:
    """What runs goes on; only what waits for an answer, and what would, ends."""
    async with peer_pair() as both:
        running = asyncio.ensure_future(both.near.request("wait", {"n": 1}))
        await both.far_end.started.wait()
        asked = asyncio.ensure_future(both.far.request("wait", {}))
        await both.near_end.started.wait()
        both.far.end_input("the other side said its last word")
        with pytest.raises(PeerGone, match="last word"):
            await asked
        with pytest.raises(PeerGone, match="last word"):
            await both.far.request("echo", {})
        both.far_end.go_on.set()
        assert await running == {"waited": {"n": 1}}
        both.near_end.go_on.set()


async def test_one_waiter_can_be_failed_alone() -> None:
    async with peer_pair() as both:
        asked = asyncio.ensure_future(both.near.request("wait", {}))
        await both.far_end.started.wait()
        both.near.fail(1, RuntimeError("the write failed"))
        both.near.fail(99, RuntimeError("nobody waits for this"))
        with pytest.raises(RuntimeError, match="the write failed"):
            await asked
        both.far_end.go_on.set()


async def test_a_send_that_fails_leaves_nothing_behind() -> None:
    def broken(data: bytes, request_id: int | None) -> None:
        raise OSError("no space")

    async with Tasks("a test") as tasks:
        peer = Peer(broken, tasks, PeerEnd().answer, PeerEnd().hear)
        with pytest.raises(OSError, match="no space"):
            await peer.request("echo", {})
        assert peer._waiting == {}


async def test_a_second_request_of_the_same_id_is_refused() -> None:
    async with peer_pair() as both:
        request = {"jsonrpc": "2.0", "id": 5, "method": "wait"}
        both.far.feed(request)
        both.far.feed(request)
        await both.settle()
        assert [message["error"]["code"] for message in both.answered] == [INVALID_REQUEST]
        both.far_end.go_on.set()
        await both.far.wait_running(0)
        both.far.feed(request)
        await both.far.wait_running(0)
        assert [message["id"] for message in both.answered] == [5, 5, 5]


@pytest.mark.parametrize(
    "answer",
    [
        {"id": 1, "result": {"ok": 1}},
        {"id": "1", "result": {"ok": 1}},
        {"jsonrpc": "1.0", "id": 1, "result": {"ok": 1}},
    ],
)
async def test_an_answer_finds_its_request(answer: dict[str, Any]) -> None:
    async with Tasks("a test") as tasks:
        peer: Peer = Peer(lambda data, _: peer.feed(answer), tasks, PeerEnd().answer, PeerEnd().hear)
        assert await peer.request("x", {}) == {"ok": 1}


@pytest.mark.parametrize(
    "answer",
    [{"id": 1}, {"id": 1, "result": None}, {"id": 1, "result": []}, {"id": 1, "error": "no"}, {"id": 1, "error": {}}],
)
async def test_an_answer_that_is_none_is_an_error(answer: dict[str, Any]) -> None:
    async with Tasks("a test") as tasks:
        peer: Peer = Peer(lambda data, _: peer.feed(answer), tasks, PeerEnd().answer, PeerEnd().hear)
        with pytest.raises(RpcError):
            await peer.request("x", {})


async def test_a_batch_is_its_messages() -> None:
    async with peer_pair() as both:
        both.far.feed([{"id": 1, "method": "echo"}, {"method": "notifications/x"}, {"id": 2, "method": "echo"}])
        await both.far.wait_running(0)
        assert [message["id"] for message in both.answered] == [1, 2]
        assert both.far_end.heard == [("notifications/x", {})]


REFUSED: list[tuple[Any, Any]] = [
    ("text", None),
    (7, None),
    (None, None),
    ([], None),
    ({"id": 1, "method": 7}, 1),
    ({"id": 1, "method": "x", "params": []}, 1),
    ({"id": [], "method": "x", "params": 7}, None),
    ({"id": None, "method": "x"}, None),
    ({"id": 1.5, "method": "x"}, None),
    ({"id": True, "method": "x"}, None),
    ({"id": {}, "method": "x"}, None),
]


@pytest.mark.parametrize(("message", "answered_id"), REFUSED)
async def test_what_is_no_request_is_refused(message: Any, answered_id: Any) -> None:
    async with peer_pair() as both:
        both.far.feed(message)
        await both.settle()
        (answer,) = both.answered
        assert answer["id"] == answered_id
        assert answer["error"]["code"] == INVALID_REQUEST


IGNORED: list[Any] = [
    {},
    {"id": 99, "result": {}},
    {"id": None, "error": {"code": 1, "message": "x"}},
    {"id": "nine", "result": {}},
    {"id": "9" * 5_000, "result": {}},
    {"id": "²", "result": {}},
    {"id": [1], "result": {}},
    {"method": 7},
    {"method": "notifications/progress"},
    {"method": "notifications/progress", "params": {"progressToken": [1]}},
    {"method": "notifications/progress", "params": {"progressToken": {}}},
    {"method": "notifications/cancelled"},
    {"method": "notifications/cancelled", "params": {"requestId": 99}},
    {"method": "notifications/cancelled", "params": {"requestId": None}},
    {"method": "notifications/cancelled", "params": {"requestId": [1]}},
    {"method": "notifications/cancelled", "params": {"requestId": {}}},
    {"method": "x", "params": "text"},
]


@pytest.mark.parametrize("message", IGNORED, ids=lambda message: str(message)[:70])
async def test_what_means_nothing_is_ignored(message: Any) -> None:
    async with peer_pair() as both:
        both.far.feed(message)
        await both.settle()
        assert both.answered == []


async def test_batches_within_batches_do_not_exhaust_the_stack() -> None:
    async with peer_pair() as both:
        message: Any = {"method": "notifications/x"}
        for _ in range(100_000):
            message = [message]
        both.far.feed(message)


async def test_true_is_not_the_request_number_one() -> None:
    """In Python `True == 1`: a table of numbers has to be told apart from it."""
    async with peer_pair() as both:
        heard: list[dict[str, Any]] = []
        asked = asyncio.ensure_future(both.near.begin("wait", {}, on_progress=heard.append).wait())
        await both.far_end.started.wait()
        both.near.feed({"id": True, "result": {}})
        both.near.feed({"method": "notifications/progress", "params": {"progressToken": True}})
        both.far.feed({"method": "notifications/cancelled", "params": {"requestId": True}})
        await both.settle()
        assert heard == []
        assert not asked.done()
        both.far_end.go_on.set()
        assert await asked == {"waited": {"_meta": {"progressToken": 1}}}


KEYS = st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error", "x"])
METHODS = st.sampled_from(
    ["echo", "bug", "ping", "notifications/progress", "notifications/cancelled", "notifications/x"]
)
PARAMS = st.dictionaries(st.sampled_from(["requestId", "progressToken", "_meta", "a"]), json_values(leaves=3))
PARTS = st.dictionaries(KEYS, json_values(leaves=4) | METHODS) | st.fixed_dictionaries(
    {"method": METHODS}, optional={"id": json_values(leaves=3), "params": PARAMS | json_values(leaves=3)}
)


@given(st.lists(PARTS | st.lists(PARTS, max_size=3) | json_values(leaves=4), max_size=5))
def test_no_message_at_all_makes_it_raise(messages: list[Any]) -> None:
    """Proves: E4"""

    async def feed_all() -> None:
        async with peer_pair() as both:
            for message in messages:
                both.far.feed(message)
            await both.far.wait_running(0)

    logging.disable(logging.CRITICAL)
    try:
        asyncio.run(feed_all())
    finally:
        logging.disable(logging.NOTSET)


async def test_at_most_waits_until_enough_has_been_answered() -> None:
    async with peer_pair() as both:
        for number in range(3):
            both.far.feed({"id": number, "method": "wait"})
        waiting = asyncio.ensure_future(both.far.wait_running(2))
        await both.settle()
        assert not waiting.done()
        assert "3 running" in repr(both.far)
        both.far_end.go_on.set()
        await waiting


ERRORS: list[tuple[dict[str, Any], Callable[[RpcError], bool]]] = [
    ({"error": {"code": -32000, "message": "m", "data": {"a": 1}}}, lambda e: e.to_wire()["data"] == {"a": 1}),
    ({"error": {"code": "x", "message": 7}}, lambda e: (e.code, e.message) == (INTERNAL_ERROR, "7")),
    ({"error": {"code": True}}, lambda e: (e.code, e.message) == (INTERNAL_ERROR, "")),
    ({"error": {"code": 1.5}}, lambda e: e.code == INTERNAL_ERROR),
    ({"result": 7}, lambda e: e.code == INVALID_REQUEST),
]


@pytest.mark.parametrize(("message", "holds"), ERRORS)
def test_error_of(message: dict[str, Any], holds: Callable[[RpcError], bool]) -> None:
    assert holds(error_of(message))


def test_error_message_is_a_response() -> None:
    assert error_message("a", RpcError(5, "m")) == {"jsonrpc": "2.0", "id": "a", "error": {"code": 5, "message": "m"}}


async def test_a_batch_has_a_bound() -> None:
    """C8: what comes in one message is begun in one go, so it may not be too much."""
    sent: list[dict[str, Any]] = []
    end = PeerEnd()
    async with Tasks("test") as tasks:
        peer = Peer(lambda data, _: sent.append(decode(data)), tasks, end.answer, lambda method, params: None)
        ping = {"jsonrpc": "2.0", "method": "echo"}
        peer.feed([{**ping, "id": number} for number in range(1_001)])
        assert [message["error"]["code"] for message in sent] == [INVALID_REQUEST]
        sent.clear()
        peer.feed([{**ping, "id": number} for number in range(1_000)])
        await peer.wait_running(0)
        assert len(sent) == 1_000
