"""One connection of a host to the web frontends, with bounds on how slow it may be.

The HTTP server below (uvicorn) bounds none of this: a head that trickles or has no end, a body that trickles, an
answer that is not read. Where pipelined requests wait for an earlier answer (RFC 9112, 9.3.2), it forgets that one
when the host leaves.

Rule: the end of a request and its host are read as every proxy reads them. The server below takes the body of a
request with `Upgrade` for the next request, trailer fields for headers, and ignores the host of an absolute target.
"""

import asyncio
from collections import Counter
from typing import Any, Final, cast

import httptools

from aggregator.frontends.http_server import absolute_host
from aggregator.frontends.spare_answers import TOO_LARGE, TOO_SLOW
from aggregator.frontends.tls import lacks_certificate
from aggregator.frontends.uvicorn_parts import HttpToolsProtocol, RequestResponseCycle
from aggregator.frontends.web.answer import AnswerWriter
from aggregator.frontends.web.host_guard import UNCERTIFIED, WRITE_WHOLE
from aggregator.frontends.web.repeated_fields import MEMORY, FieldMemory
from aggregator.frontends.web.request_cache import (
    BEGUN,
    AnsweredPost,
    CachedRequest,
    CallHeads,
    DirectPost,
    PostFailed,
    RequestCache,
)

HEAD_LIMIT: Final = 64 * 1024
# The least bytes a second of a host that reads, or sends a body; a slower one holds resources that others need.
LEAST_RATE: Final = 1024
LEAST_BODY_RATE: Final = 4096
# Bytes that are read ahead of an answer; only by reading is the end of a connection noticed.
READ_AHEAD: Final = 1024 * 1024
# Seconds that a known head waits for its body before the parser reads it.
_HELD_FOR: Final = 1.0

_CONNECT: Final = b"CONNECT"
# In a scope: the bytes of the head of a request that came in one piece with its body.
_HEAD: Final = "aggregator.head"


class BoundedConnection(HttpToolsProtocol):
    """An HTTP connection with timeouts. `stall_timeout` is in seconds; `refused` counts ended connections by reason."""

    def __init__(
        self, stall_timeout: float, refused: Counter[str], posts: RequestCache | None, *args: Any, **options: Any
    ) -> None:
        super().__init__(*args, **options)
        self._posts = posts
        self._heads = CallHeads()
        # The parser got whole messages only.
        self._between = True
        # The bytes of a request that was begun without the server below, and the request, until it is answered.
        self._begun_bytes = b""
        self._begun: DirectPost | None = None
        # A known head whose body has not come yet, and the timer for it.
        self._held = b""
        self._holding: asyncio.TimerHandle | None = None
        self._resumed: DirectPost | None = None
        self._stall_timeout = stall_timeout
        self._refused = refused
        # Timers: until a request has begun, while its body comes, and while the host does not read.
        self._head: asyncio.TimerHandle | None = None
        self._body: asyncio.TimerHandle | None = None
        self._reading: asyncio.TimerHandle | None = None
        self._blind = 0  # bytes that were neither a whole head nor a body
        self._body_size = 0
        self._body_began = 0.0
        self._answering: RequestResponseCycle | None = None
        self._ahead = 0
        self._made = self.loop.time()
        self._idle_since: float | None = None
        self._writer: AnswerWriter | None = None
        self._memory = FieldMemory()
        self._ending = False  # the next answer is the last one
        self._uncertified = False  # a client certificate is asked for, and the host showed none

    # -- what comes

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._writer = AnswerWriter(self.loop, transport)
        self._uncertified = lacks_certificate(transport)
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._release()
        if self._begun is not None:
            self._begun.call.take_over()
        # Waiting requests are never begun; `cycle` is the request that came last, not the one being answered.
        self.pipeline.clear()
        if self._answering is not None and not self._answering.response_complete:
            self._answering.disconnected = True
            self._answering.message_event.set()
        super().connection_lost(exc)
        for timer in (self._head, self._body, self._reading, self.timeout_keep_alive_task):
            if timer is not None:
                timer.cancel()
        self._head = self._body = self._reading = self.timeout_keep_alive_task = None

    def data_received(self, data: bytes) -> None:
        if self._begun is not None:
            self._begun.call.take_over()
        elif self._heads.known and self._resumed is None:
            data = self._release() + data
            if self._begin(data):
                return
        self._take(data)

    def _take(self, data: bytes) -> None:
        """Have the parser read bytes."""
        self._heads.begin(data, whole=self._posts is not None and self._between and self._resumed is None)
        self._blind += len(data)
        self._unset_keepalive_if_required()
        self._read(data)
        self._ahead = self._ahead + len(data) if self.pipeline else 0
        if self.pipeline and self._ahead <= READ_AHEAD and not self.transport.is_closing():
            self.flow.resume_reading()
        if self._blind > HEAD_LIMIT:
            self._end("head_size", TOO_LARGE)
        elif self.cycle is not None and not self.cycle.response_complete:
            if self._head is not None:
                self._head.cancel()
                self._head = None
            if self.cycle.more_body and self._body is None:
                self._body_began = self.loop.time()
                self._body = self.loop.call_later(self._stall_timeout, self._look_at_body)
        elif self._head is None and self._blind:
            # The rest of a body whose request was answered early does not count.
            self._wait_for_head()

    # -- calls that need no task

    def _begin(self, data: bytes) -> bool:
        """Begin the call that the bytes are, if they are one, and one like before. Return False, and do nothing, if
        not.
        """
        assert self._posts is not None
        # A line end before a request starts the timer for its head, which only the parser ends.
        if not self._between or self._blind or self.pipeline or self.flow.write_paused or self.transport.is_closing():
            return False
        if self._ending or self.cycle is None or not self.cycle.response_complete:
            return False
        found = self._heads.find(data)
        if found is None:
            return False
        post, body = found
        if not body:
            self._held = data
            self._holding = self.loop.call_later(_HELD_FOR, self._read_held)
            self._idle_since = None
            return True
        try:
            begun = self._posts.try_direct(post, body, self)
        except PostFailed as failed:
            self.write_answer(failed.status, failed.body)
            return True
        if begun is None:
            return False
        if isinstance(begun, AnsweredPost):
            self.write_answer(begun.status, begun.body)
            return True
        self._begun, self._begun_bytes = begun, data
        self._idle_since = None
        return True

    def _release(self) -> bytes:
        """Return the known head whose body has not come yet, if there is one, and hold it no longer."""
        held, self._held = self._held, b""
        if self._holding is not None:
            self._holding.cancel()
            self._holding = None
        return held

    def _read_held(self) -> None:
        self._take(self._release())

    def write_answer(self, status: int, body: bytes) -> None:
        """See `AnsweringConnection`."""
        self._begun, self._begun_bytes = None, b""
        if self._writer is None or self.transport.is_closing():
            return
        self._writer.write_json(status, self.server_state.default_headers, body)
        self.server_state.total_requests += 1
        self._idle_since = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self._wait_for_request(self.timeout_keep_alive)

    def resume(self) -> None:
        """See `AnsweringConnection`."""
        self._resumed, self._begun = self._begun, None
        data, self._begun_bytes = self._begun_bytes, b""
        try:
            self.data_received(data)
        finally:
            self._resumed = None

    def shutdown(self) -> None:
        self.answer_last()
        super().shutdown()

    def answer_last(self) -> None:
        """Have the connection end with the answer to the requests that have come, or with that to the next one."""
        self._ending = True
        if self._held:
            self._read_held()
        if self._begun is not None:
            self._begun.call.take_over()
        if self.cycle is not None:
            self.cycle.keep_alive = False

    def is_expected(self, idle: float = 0.0) -> bool:
        """Close the connection if it was idle so long; return whether its first request, or an answer, is to come."""
        if self._idle_since is not None and self.loop.time() - self._idle_since >= idle:
            self.transport.close()
        return (self.cycle is None or not self.cycle.response_complete) and not self.transport.is_closing()

    @property
    def quiet_since(self) -> float | None:
        """The time of the last answer, or of the start; None while a request is coming or under way."""
        answered = self.cycle is None or self.cycle.response_complete
        if self._begun is not None or self._held or self._blind or not answered:
            return None
        return self._idle_since if self._idle_since is not None else self._made

    def give_way(self) -> None:
        """Close the connection, on which nothing is under way: another one needs its place."""
        self.transport.close()

    # -- what the parser says

    def _read(self, data: bytes) -> None:
        """Parse requests. One with `Upgrade` is handled like all others (RFC 9110, section 7.8).

        The parser stops after the head of such a request, with or without a body: the head is parsed again without that
        field.
        """
        pieces: list[bytes | memoryview] = [data]
        while pieces:
            piece = pieces.pop()
            try:
                self.parser.feed_data(piece)
            except httptools.HttpParserUpgrade as asked:
                if self.parser.get_method() == _CONNECT:
                    self._refuse_unread()
                    return
                pieces += [memoryview(piece)[asked.args[0] :], self._head_without_upgrade()]
            except httptools.HttpParserError:
                self._refuse_unread()
                return

    def _head_without_upgrade(self) -> bytes:
        """Return the head that was parsed last, without `Upgrade`."""
        version = self.parser.get_http_version().encode()
        lines = [b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, version)]
        lines += [b"%b: %b" % line for line in self.headers if line[0] != b"upgrade"]
        return b"\r\n".join([*lines, b"", b""])

    def _refuse_unread(self) -> None:
        said = "Invalid HTTP request received."
        self.logger.warning(said)
        self.send_400_response(said)

    def on_message_begin(self) -> None:
        self._between = False
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        if self.parser.should_upgrade():
            return
        self._blind = self._body_size = 0
        host = absolute_host(self.url) if not self.url.startswith(b"/") else None
        if host is not None and (b"host", host) not in self.headers:
            # One more `Host`: a request with two of them is refused.
            self.headers.append((b"host", host))
        super().on_headers_complete()
        # Trailer fields are no headers (RFC 9110, section 6.5.1), and nothing here uses them.
        self.headers = []

    def on_body(self, body: bytes) -> None:
        self._blind = 0
        self._body_size += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():
            return
        self._blind = 0
        if self._body is not None:
            self._body.cancel()
            self._body = None
        super().on_message_complete()
        self._between = True
        cast(dict[str, Any], self.scope)[_HEAD] = self._heads.end(self._body_size)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._answering = cycle
        scope = cast(dict[str, Any], cycle.scope)
        scope[MEMORY], scope[WRITE_WHOLE] = self._memory, self._write_whole
        if self._resumed is not None:
            scope[BEGUN] = self._resumed
        if self._uncertified:
            scope[UNCERTIFIED] = True
        if self._ending and not self.pipeline:
            cycle.keep_alive = False
        cycle.transport = cast(asyncio.Transport, self._writer)
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        # As below, with one timer for the connection in place of one for each answer.
        if self.pipeline or self.transport.is_closing():
            super().on_response_complete()
            return
        self.server_state.total_requests += 1
        self.flow.resume_reading()
        self._idle_since = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self._wait_for_request(self.timeout_keep_alive)

    def _unset_keepalive_if_required(self) -> None:
        self._idle_since = None

    def timeout_keep_alive_handler(self) -> None:
        self.timeout_keep_alive_task = None
        if self._idle_since is not None:
            left = self._idle_since + self.timeout_keep_alive - self.loop.time()
            if left > 0:
                self._wait_for_request(left)
            else:
                super().timeout_keep_alive_handler()

    def _wait_for_request(self, seconds: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(seconds, self.timeout_keep_alive_handler)

    def _write_whole(self, status: int, body: bytes) -> bool:
        """Write the JSON answer of the running request in one piece, with the bytes that its cycle would write.

        Returns False if it has to wait for a slow reader, or is the last one of its connection: then the cycle does it.
        """
        cycle = self._answering
        if (
            cycle is None
            or cycle.response_started
            or cycle.disconnected
            or not cycle.keep_alive
            or self.flow.write_paused
        ):
            return False
        if self.access_log or self._writer is None or cycle.scope["method"] != "POST":
            return False
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        self._writer.write_json(status, cycle.default_headers, body)
        scope = cast(dict[str, Any], cycle.scope)
        post = self._memory.take_post(scope)
        if post is not None:
            self._heads.remember(scope.get(_HEAD), cast(CachedRequest, post))
        cycle.message_event.set()
        cycle.on_response()
        return True

    def _wait_for_head(self) -> None:
        self._head = self.loop.call_later(self._stall_timeout, self._no_head)

    def _no_head(self) -> None:
        self._head = None
        self._end("slow_head", TOO_SLOW)

    def _look_at_body(self) -> None:
        """End the connection if the body has come too slowly so far; otherwise check again later."""
        self._body = None
        if self.cycle.response_complete:
            return
        if self.pipeline:
            # A waiting request is perhaps not read yet.
            self._body_began = self.loop.time()
        left = self._body_began + self._stall_timeout + self._body_size / LEAST_BODY_RATE - self.loop.time()
        if left > 0:
            self._body = self.loop.call_later(left, self._look_at_body)
        else:
            self._end("slow_body", TOO_SLOW)

    # -- what goes

    def pause_writing(self) -> None:
        super().pause_writing()
        self._look_again(self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def _look_again(self, unread: int) -> None:
        self._reading = self.loop.call_later(self._stall_timeout, self._look, unread)

    def _look(self, before: int) -> None:
        """End the connection if the host has read too little while the buffer was full."""
        self._reading = None
        # Nothing is added meanwhile: writers wait for `resume_writing`.
        now = self.transport.get_write_buffer_size()
        if before - now < LEAST_RATE * self._stall_timeout:
            self._refused["slow_reader"] += 1
            self.transport.abort()
        else:
            self._look_again(now)

    def _end(self, why: str, answer: bytes) -> None:
        if self.transport.is_closing():
            return
        self._refused[why] += 1
        running = self._answering
        if running is None or running.response_complete or not running.response_started:
            self.transport.write(answer)
            self.transport.close()
        else:
            self.transport.abort()
