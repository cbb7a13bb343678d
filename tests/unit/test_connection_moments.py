"""The bounds of one connection of a host, each at its moment: on the bound, past it, and for the request after."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

import pytest

from aggregator.frontends.web.connection_limits import HEAD_LIMIT, LEAST_BODY_RATE, LEAST_RATE, READ_AHEAD
from aggregator.frontends.web.host_guard import WRITE_WHOLE
from aggregator.frontends.web.request_cache import AnsweredPost, PostFailed
from tests.unit.connection_harness import ConnectionHarness

STALL: Final = 10.0
GET: Final = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"
HEAD: Final = b"POST /mcp HTTP/1.1\r\nhost: a\r\ncontent-length: %d\r\n\r\n"
POST: Final = HEAD % 2 + b"{}"
LONG: Final = HEAD % 10_000_000


class Posts:
    """A request cache for one connection: `begin` says what becomes of a call with a known head."""

    def __init__(self) -> None:
        self.taken_over = 0
        self.begin: Callable[[], Any] = lambda: self.call
        self.call = SimpleNamespace(call=SimpleNamespace(take_over=self._take_over))

    def _take_over(self) -> None:
        self.taken_over += 1

    def try_direct(self, post: object, body: bytes, connection: object) -> Any:
        return self.begin()


def known() -> tuple[ConnectionHarness, Posts]:
    """Return a connection between two requests that knows the head of `POST`."""
    posts: Any = Posts()
    it = ConnectionHarness(stall_timeout=STALL, posts=posts)
    it.feed(POST)
    it.answer()
    it.connection._heads.remember(HEAD % 2, posts)
    return it, posts


def fields(it: ConnectionHarness) -> list[tuple[bytes, bytes]]:
    """Return the header fields of the request that runs."""
    assert it.connection._answering is not None
    return list(it.connection._answering.scope["headers"])


# -- a body that comes slowly


@pytest.mark.parametrize(
    ("sent", "seconds"),
    [(0, STALL), (LEAST_BODY_RATE, STALL + 1), (30 * LEAST_BODY_RATE, STALL + 30)],
)
@pytest.mark.parametrize("before", [(), (POST,), (POST[:-1], b"}"), (LONG, b" " * 10_000_000)])
def test_each_byte_of_a_body_gives_it_time(sent: int, seconds: float, before: tuple[bytes, ...]) -> None:
    """D11: what came of the request before does not count."""
    it = ConnectionHarness(stall_timeout=STALL)
    if before:
        it.feed(*before)
        it.answer()
        it.loop.advance(50)
    it.feed(LONG)
    it.loop.advance(5)
    it.feed(b" " * sent)
    it.loop.advance(seconds - 5.1)
    assert not it.transport.closed
    it.loop.advance(0.2)
    assert (it.transport.closed, it.transport.aborted, it.refused) == (True, False, {"slow_body": 1})
    assert b" 408 " in it.transport.written


def test_a_body_that_is_whole_or_refused_is_not_timed() -> None:
    it = ConnectionHarness(stall_timeout=STALL)
    for pieces in ([LONG], [POST], [POST[:-1], b"}"]):
        it.feed(*pieces)
        it.answer()
        it.loop.advance(STALL * 3)
        assert not it.transport.closed
        if pieces == [LONG]:
            it.feed(b" " * 10_000_000)
    assert not it.refused


# -- a head that comes slowly, or has no end


def test_each_head_has_its_time_from_its_first_byte() -> None:
    it = ConnectionHarness(stall_timeout=STALL)
    for _ in range(2):
        it.feed(POST)
        it.answer()
        it.loop.advance(STALL * 2)
        assert not it.transport.closed, "nothing has come of the next request"
    it.feed(GET[:9])
    it.loop.advance(STALL - 0.1)
    it.feed(GET[9:12])
    assert not it.transport.closed
    it.loop.advance(0.2)
    assert (it.transport.closed, it.refused) == (True, {"slow_head": 1})
    assert b" 408 " in it.transport.written


@pytest.mark.parametrize("over", [0, 1])
def test_a_head_may_have_so_many_bytes(over: int) -> None:
    it = ConnectionHarness(stall_timeout=STALL)
    for _ in range(3):
        it.feed(b"GET / HTTP/1.1\r\nx: " + b"a" * (HEAD_LIMIT // 2), b"\r\nhost: a\r\n\r\n")
        it.answer()
    start = b"GET / HTTP/1.1\r\nx: "
    it.feed(start, b"a" * (HEAD_LIMIT - len(start) + over))
    assert it.refused == ({"head_size": 1} if over else {})


def test_the_parts_of_a_body_are_no_head() -> None:
    it = ConnectionHarness(stall_timeout=STALL)
    it.feed(b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n")
    for _ in range(HEAD_LIMIT // 1000):
        it.feed(b"3e8\r\n" + b" " * 1000 + b"\r\n")
    it.feed(b"0\r\nx-trailer: a\r\n\r\n")
    assert fields(it) == [(b"host", b"a"), (b"transfer-encoding", b"chunked")], "trailer fields are no headers"
    it.answer()
    assert (it.transport.closed, it.refused) == (False, {})
    assert it.connection.quiet_since == 0.0, "nothing has come of the next head"


@pytest.mark.parametrize(("target", "hosts"), [(b"a", [b"a"]), (b"b", [b"a", b"b"])])
def test_the_host_of_an_absolute_target_is_a_host_of_the_request(target: bytes, hosts: list[bytes]) -> None:
    """RFC 9112, 3.2.2: a request with two that differ is refused later."""
    it = ConnectionHarness()
    it.feed(b"GET http://%b/mcp HTTP/1.1\r\nhost: a\r\n\r\n" % target)
    assert [value for name, value in fields(it) if name == b"host"] == hosts


# -- what waits for an earlier answer


def test_what_is_read_ahead_of_an_answer_has_a_bound() -> None:
    """C6: up to it reading goes on, since only so the end of a connection is noticed; each answer begins anew."""
    it = ConnectionHarness(stall_timeout=1000)
    for _ in range(2):
        it.feed(POST, HEAD % READ_AHEAD, b" " * (READ_AHEAD // 2))
        assert not it.transport.paused
        it.feed(b" " * (READ_AHEAD // 2))
        assert it.transport.paused
        for _ in range(2):
            it.answer()
        assert not it.transport.paused


def test_the_rest_of_a_body_is_read_once_its_request_is_answered() -> None:
    """C6: or the next request of the connection would never be read."""
    it = ConnectionHarness()
    it.feed(LONG, b" " * 1_000_000)
    assert it.transport.paused
    it.answer()
    assert not it.transport.paused


# -- a host that reads slowly


@pytest.mark.parametrize(("reads", "stays"), [(LEAST_RATE * STALL, True), (LEAST_RATE * STALL - 1, False)])
def test_a_host_has_to_read_at_a_rate(reads: float, stays: bool) -> None:
    """D11: in each stretch of time, from the moment at which the buffer was full."""
    it = ConnectionHarness(stall_timeout=STALL)
    it.feed(GET)
    it.begin_answer()
    for _ in range(2):
        it.transport.unread = 10_000_000
        it.connection.pause_writing()
        it.loop.advance(STALL / 2)
        it.connection.resume_writing()
        it.loop.advance(STALL / 2)
    assert not it.transport.closed, "it reads"
    it.connection.pause_writing()
    for number in range(1, 4):
        it.transport.unread -= int(LEAST_RATE * STALL * 2 if number == 1 else reads)
        it.loop.advance(STALL)
        assert it.transport.aborted is (number > 1 and not stays)
        if it.transport.aborted:
            break
    assert it.refused == ({} if stays else {"slow_reader": 1})


# -- the end of a connection


def _paused(it: ConnectionHarness) -> None:
    it.feed(GET)
    it.begin_answer()
    it.connection.pause_writing()


def _answered(it: ConnectionHarness) -> None:
    it.feed(GET)
    it.answer()


MOMENTS: Final[dict[str, Callable[[ConnectionHarness], object]]] = {
    "nothing has come": lambda it: None,
    "half a head": lambda it: it.feed(GET[:9]),
    "half a body": lambda it: it.feed(LONG, b" "),
    "a call runs": lambda it: it.feed(POST),
    "a call runs, and a request waits": lambda it: it.feed(POST, GET),
    "an answer is not read": _paused,
    "between two requests": _answered,
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_nothing_is_left_of_a_connection_that_ends(moment: str) -> None:
    it = ConnectionHarness(stall_timeout=STALL)
    MOMENTS[moment](it)
    assert bool(it.loop.timers) is (not moment.startswith("a call runs"))
    running = it.connection._answering
    if running is not None:
        running.message_event.clear()
    it.connection.connection_lost(None)
    assert not it.loop.timers
    assert running is None or running.response_complete or (running.disconnected and running.message_event.is_set())


@pytest.mark.parametrize(
    ("first", "cut"),
    [
        ("not begun", False),
        ("begun", True),
        ("answered", False),
    ],
)
def test_a_slow_request_is_told_of_unless_an_answer_is_cut_by_that(first: str, cut: bool) -> None:
    """RFC 9112, 9.3.2: half an answer is no place for words of ours."""
    it = ConnectionHarness(stall_timeout=STALL)
    it.feed(LONG)
    if first == "answered":
        it.feed(b" " * 10_000_000)
        it.answer()
        it.feed(GET[:9])
    elif first == "begun":
        it.begin_answer()
    it.loop.advance(STALL + 10_000_000 / LEAST_BODY_RATE)
    assert (it.transport.closed, it.transport.aborted) == (True, cut)
    assert (b" 408 " in it.transport.written) is not cut
    it.feed(b"x" * HEAD_LIMIT * 2)
    assert it.refused.total() == 1, "it ends once"


# -- between two requests


def test_since_when_nothing_has_been_under_way() -> None:
    """D11: the connection that gives its place to another is the one idle for longest, never one with a request."""
    it, _ = known()
    it.loop.advance(3)
    assert it.connection.quiet_since == 0.0
    for pieces in ([GET[:9], GET[9:]], [HEAD % 2, b"{}"], [LONG, b" " * 10_000_000]):
        for piece in pieces:
            it.feed(piece)
            assert it.connection.quiet_since is None
        it.connection.resume() if it.connection._begun is not None else None
        it.answer()
        assert it.connection.quiet_since == it.loop.now
    fresh = ConnectionHarness()
    fresh.loop.advance(4)
    assert fresh.connection.quiet_since == 0.0
    fresh.feed(b"\r\n")
    assert fresh.connection.quiet_since is None


def test_which_connections_are_waited_for_at_the_end() -> None:
    """A8: for a first request and for an answer; an idle connection closes."""
    it = ConnectionHarness()
    assert it.connection.is_expected(5.0), "its first request is to come"
    it.feed(POST)
    assert it.connection.is_expected(0.0)
    it.answer()
    assert not it.connection.is_expected(5.0)
    it.loop.advance(4.9)
    assert (it.connection.is_expected(5.0), it.transport.closed) == (False, False)
    it.feed(POST)
    it.loop.advance(0.2)
    assert (it.connection.is_expected(5.0), it.transport.closed) == (True, False), "a request runs"
    it.answer()
    it.loop.advance(5.0)
    assert (it.connection.is_expected(5.0), it.transport.closed) == (False, True)
    closing = ConnectionHarness()
    closing.feed(POST)
    closing.transport.close()
    assert not closing.connection.is_expected()


@pytest.mark.parametrize("moment", ["idle", "running", "held", "begun", "two", "three"])
def test_the_last_answer_ends_its_connection(moment: str) -> None:
    """A8: it says so to its host; what waited with it is answered first."""
    it, posts = known()
    it.transport.written = b""
    waiting = {"two": 1, "three": 2}.get(moment, 0)
    it.feed(*{"idle": [], "held": [HEAD % 2], "begun": [POST]}.get(moment, [GET] * (1 + waiting)))
    if moment == "held":
        it.connection.shutdown()
    else:
        it.connection.answer_last()
    assert posts.taken_over == (moment == "begun")
    if moment == "begun":
        it.connection.resume()
    elif moment in ("idle", "held"):
        it.feed(b"{}" if moment == "held" else POST)
        assert it.connection._begun is None, "no call begins without a task any more"
    for _ in range(waiting):
        it.answer()
        assert not it.transport.closed
    it.answer()
    assert it.transport.closed
    assert it.transport.written.count(b"connection: close") == 1
    assert it.transport.written.count(b" 200 ") == 1 + waiting


# -- calls that need no task


@pytest.mark.parametrize("how", ["begun", "answered", "failed"])
def test_an_answer_without_a_task_leaves_the_connection_idle(how: str) -> None:
    it, posts = known()
    failed = PostFailed(500, b"{}")

    def fail() -> None:
        raise failed

    posts.begin = {"begun": posts.begin, "answered": lambda: AnsweredPost(200, b"{}"), "failed": fail}[how]
    for seconds in (60, 60, 10):
        it.loop.advance(seconds)
        it.feed(POST)
        if how == "begun":
            it.loop.advance(1000)
            assert not it.transport.closed, "it runs"
            it.connection.write_answer(200, b"{}")
        assert it.connection.quiet_since == it.loop.now
    assert it.transport.written.count(b"HTTP/1.1 ") == 4
    it.loop.advance(74.9)
    assert not it.transport.closed
    it.loop.advance(0.2)
    assert it.transport.closed
    it.feed(POST)
    it.connection.write_answer(200, b"{}")
    assert it.transport.written.count(b"HTTP/1.1 ") == 4, "nothing is written to a closed connection"


def test_a_connection_that_ends_with_a_call_has_a_task_take_it_over() -> None:
    """C3: the task notices that the host has left, and cancels the call."""
    it, posts = known()
    it.feed(POST)
    it.connection.connection_lost(None)
    assert (posts.taken_over, it.loop.timers) == (1, {})


def test_a_known_head_waits_for_its_body_for_a_moment() -> None:
    it, posts = known()
    it.feed(HEAD % 2)
    it.loop.advance(76)
    assert it.connection.quiet_since is None
    assert (posts.taken_over, it.transport.closed, it.refused) == (0, True, {"slow_body": 1})
    held, _ = known()
    held.loop.advance(74.5)
    held.feed(HEAD % 2)
    held.loop.advance(0.9)
    assert not held.transport.closed, "a request has begun"
    held.connection.connection_lost(None)
    assert not held.loop.timers
    again, posts = known()
    again.feed(HEAD % 2, b"{}")
    again.loop.advance(5)
    assert again.connection._begun is not None, "its bytes are read once"
    again.connection.resume()
    assert again.connection._answering is not None
    again.answer()
    again.feed(POST)
    assert again.connection._begun is not None, "the next one begins without a task again"


@pytest.mark.parametrize("why", ["not read", "closing", "blind", "waiting", "in a body"])
def test_a_call_that_cannot_be_answered_at_once_is_not_begun(why: str) -> None:
    it, _ = known()
    if why == "not read":
        it.connection.pause_writing()
    elif why == "closing":
        it.transport.close()
    elif why == "blind":
        it.feed(b"\r\n")
    else:
        it.feed(GET if why == "waiting" else LONG)
    if why == "in a body":
        it.answer()
    it.feed(POST)
    assert it.connection._begun is None


WHOLE: Final[dict[str, tuple[bytes, Callable[[ConnectionHarness], object], bool]]] = {
    "a call": (POST, lambda it: None, True),
    "a call that waits for 100": (POST.replace(b"host", b"expect: 100-continue\r\nhost"), lambda it: None, True),
    "a page": (GET, lambda it: None, False),
    "the last one, by its head": (POST.replace(b"host", b"connection: close\r\nhost"), lambda it: None, False),
    "the last one, by its version": (POST.replace(b"1.1", b"1.0"), lambda it: None, False),
    "the last one, by our end": (POST, lambda it: it.connection.answer_last(), False),
    "an answer that has begun": (POST, lambda it: it.begin_answer(), False),
    "a log of requests": (POST, lambda it: setattr(it.connection, "access_log", True), False),
    "a slow reader": (POST, lambda it: it.connection.pause_writing(), False),
    "a host that has left": (POST, lambda it: it.connection.connection_lost(None), False),
}


@pytest.mark.parametrize("case", WHOLE)
def test_which_answers_are_written_in_one_piece(case: str) -> None:
    asked, change, whole = WHOLE[case]
    it = ConnectionHarness()
    it.feed(asked)
    change(it)
    running, before = it.connection._answering, it.transport.written
    assert running is not None
    running.message_event.clear()
    assert running.scope[WRITE_WHOLE](200, b"{}") is whole  # type: ignore[typeddict-item]
    assert (it.transport.written != before) is whole
    if whole:
        assert running.response_complete
        assert running.message_event.is_set(), "who watches the connection sees the end of the request"
        assert not running.waiting_for_100_continue
        assert it.connection.quiet_since == it.loop.now
