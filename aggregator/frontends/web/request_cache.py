"""The request cache of connections: requests with the same head as before, for calls that need no task
(`gateway/calls/direct.py`).

Rule 1: the cache compares heads by their bytes, except for the digits of `Content-Length`. The HTTP server below reads
every other head, and every message that does not come whole, in one piece or as its head and its body.
Rule 2: the facts of an answered head hold for the same bytes again. The key, the session, the number of requests and
the message are checked each time.
Rule 3: a request that cannot be answered at once takes the ordinary way: the HTTP server gets the same bytes.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Protocol

from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.call_record import TOOL_CALL
from aggregator.domain.principal import Principal
from aggregator.frontends.web.body_limits import BodyLimits
from aggregator.frontends.web.exchange import Exchange, SlowRequests, refused
from aggregator.frontends.web.header_context import has_context, with_context
from aggregator.frontends.web.host_guard import Receive, Scope, Send
from aggregator.frontends.web.repeated_fields import memory_of
from aggregator.frontends.web.sessions.http_session import HttpSession
from aggregator.frontends.web.sessions.session_table import Sessions
from aggregator.gateway.access import Access, Authentication
from aggregator.gateway.admission import Slot
from aggregator.gateway.calls.direct_call import DirectCall
from aggregator.gateway.calls.known_host import KnownHost
from aggregator.gateway.dispatcher import Dispatcher
from aggregator.gateway.host import Host
from aggregator.gateway.revocation import RevocableTask
from aggregator.wire.codec import decode_from_host, encode
from aggregator.wire.message import sane_id
from aggregator.wire.responses import encode_result

# In a scope: a request that was begun without a task.
BEGUN: Final = "aggregator.begun"

# The largest body to read here: a call that turns out to need a task is read once more.
BODY_READ: Final = 64 * 1024
# The largest head to remember, in bytes, and how many a connection remembers.
HEAD_KEPT: Final = 4096
HEADS_KEPT: Final = 4
_LENGTH: Final = b"\r\ncontent-length:"
# Fields of messages that are more than a head and a body of declared length.
_NOT_KNOWN: Final = (b"\r\nexpect:", b"\r\ntransfer-encoding:", b"\r\nupgrade:")
_DIGITS: Final = 8
_HEAD_END: Final = b"\r\n\r\n"


class AnsweringConnection(Protocol):
    """The connection of a request without a task."""

    def write_answer(self, status: int, body: bytes) -> None:
        """Write the answer to the request that was begun."""

    def resume(self) -> None:
        """Hand the bytes of the request that was begun to the HTTP server."""


class CachedRequest(Protocol):
    """The facts from the head of an answered call."""

    @property
    def authentication(self) -> Authentication: ...

    def begin(
        self, posts: "RequestCache", principal: Principal, body: bytes, connection: AnsweringConnection
    ) -> "DirectPost | AnsweredPost | None":
        """Begin the call of a message with this head; return None, and do nothing, if it is not plain.

        Raises:
            PostFailed: it cannot be begun, by an error of ours.
        """

    def refused(self, error: Exception) -> tuple[int, bytes]:
        """Return the answer to a call that could not be begun."""


class AnsweredPost(NamedTuple):
    """The whole answer to a call that needed no wait."""

    status: int
    body: bytes


class CachedMcpRequest:
    """The facts from the head of an answered call of MCP.

    name: the tool in the head; None in the handshake eras. session: the host's, in these eras.
    headers: the fields of the head by name. may_repeat: a call with this head may be one that is answered again
    (`DirectCalls.answer_again`).
    """

    __slots__ = ("authentication", "has_context", "headers", "host", "may_repeat", "name", "session")

    def __init__(
        self,
        authentication: Authentication,
        host: KnownHost,
        headers: Mapping[str, list[str]],
        *,
        name: str | None,
        session: HttpSession | None,
        may_repeat: bool,
    ) -> None:
        self.authentication = authentication
        self.host = host
        self.headers = headers
        self.name = name
        self.session = session
        self.has_context = has_context(headers)
        self.may_repeat = may_repeat

    def begin(
        self, posts: "RequestCache", principal: Principal, body: bytes, connection: AnsweringConnection
    ) -> "DirectPost | AnsweredPost | None":
        """See `CachedRequest`."""
        session, sessions = self.session, posts.sessions
        if session is not None and sessions.get(session.id) is not session:
            return None
        host = self.host.host
        if principal.token is not None and host.principal is not principal:
            return None
        if session is not None and host.log_level != session.host.log_level:
            # The host of the session may have been copied for a token.
            return None
        try:
            message = decode_from_host(body)
        except (ValueError, MemoryError):
            return None
        if type(message) is not dict or message.get("method") != TOOL_CALL:
            return None
        params, request_id = message.get("params"), sane_id(message.get("id"))
        if type(params) is not dict or request_id is None or (session is not None and request_id in session.running):
            return None
        name = params.get("name")
        if self.name is not None and name != self.name:
            return None
        if self.has_context:
            params = with_context(params, self.headers)
        if self.may_repeat and type(name) is str and name in posts.gateway.direct.answered_again:
            result = posts.gateway.direct.answer_again(self.host, params, request_id)
            if result is None:
                return None
            if session is not None:
                session.note_use()
            return AnsweredPost(200, encode_result(request_id, result))
        post = DirectPost(connection, request_id, principal, session, posts.gateway)
        if not posts.send(post, self.host, params):
            return None
        if session is not None:
            session.__enter__()
            session.running[request_id] = post
        return post

    def refused(self, error: Exception) -> tuple[int, bytes]:
        """See `CachedRequest`."""
        return refused(None, error, modern=self.host.modern)


class KnownHead:
    """The bytes of a head, around the digits of its `Content-Length`."""

    __slots__ = ("_after", "_before", "_start", "post")

    def __init__(self, before: bytes, after: bytes, post: CachedRequest) -> None:
        self._before = before
        self._after = after
        self._start = len(before)
        self.post = post

    @classmethod
    def of(cls, head: bytes, post: CachedRequest) -> "KnownHead | None":
        """Return the head in a form that is quick to compare; None if it is not to be remembered."""
        lower = head.lower()
        if lower.count(_LENGTH) != 1 or any(field in lower for field in _NOT_KNOWN):
            return None
        start = lower.index(_LENGTH) + len(_LENGTH)
        while head[start : start + 1] == b" ":
            start += 1
        end = start
        while head[end : end + 1].isdigit():
            end += 1
        return cls(head[:start], head[end:], post) if head[start:end] and head[end : end + 2] == b"\r\n" else None

    def is_same(self, other: "KnownHead") -> bool:
        """Return True if the other head has the same bytes."""
        return (self._before, self._after) == (other._before, other._after)

    def body(self, data: bytes) -> bytes | None:
        """Return the body of a whole message with this head; empty if only the head has come, None for any other
        message.
        """
        if not data.startswith(self._before):
            return None
        start = self._start
        end = data.find(b"\r", start, start + _DIGITS)
        length = data[start:end]
        if end < 0 or not length.isdigit() or not data.startswith(self._after, end):
            return None
        body, size = data[end + len(self._after) :], int(length)
        return body if size and (len(body) == size or not body) else None


class CallHeads:
    """The heads that one connection remembers, the latest first, and the current one."""

    __slots__ = ("_head", "_read", "known")

    def __init__(self) -> None:
        self.known: list[KnownHead] = []
        self._head = b""
        self._read = 0

    def find(self, data: bytes) -> tuple[CachedRequest, bytes] | None:
        """Return the call with the head of a message, and its body, empty if only the head has come; None for another
        head.
        """
        for head in self.known:
            body = head.body(data)
            if body is not None:
                return head.post, body
        return None

    def begin(self, data: bytes, *, whole: bool) -> None:
        """Note bytes for the parser; `whole`: a message begins with them."""
        if not whole and self._head:
            # More of the body: the head has come apart from it.
            self._read += len(data)
            return
        self._head, self._read = b"", len(data)
        if whole:
            end = data.find(_HEAD_END, 0, HEAD_KEPT)
            if end >= 0:
                self._head = data[: end + len(_HEAD_END)]

    def end(self, body_size: int) -> bytes | None:
        """Return the head of a message that ends, with a body of that size; None if other bytes came with it."""
        head, self._head = self._head, b""
        return head if head and len(head) + body_size == self._read else None

    def remember(self, head: bytes | None, post: CachedRequest | None) -> None:
        """Remember the head of a call, if there is a head and a call."""
        known = KnownHead.of(head, post) if post is not None and head is not None else None
        if known is not None:
            self.known = [known, *(other for other in self.known if not other.is_same(known))][:HEADS_KEPT]


class PostFailed(Exception):
    """The answer to a call that could not be begun, by an error of ours."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(f"answered with {status}")
        self.status = status
        self.body = body


class RequestCache:
    """The calls of all connections that need no task."""

    def __init__(
        self, gateway: Dispatcher, access: Access, limits: BodyLimits, sessions: Sessions, tasks: Tasks
    ) -> None:
        self.gateway = gateway
        self._access = access
        self._limits = limits
        self.sessions = sessions
        self._tasks = tasks
        self.slow = SlowRequests()

    def remember(self, scope: Scope, host: Host, params: dict[str, Any], session: HttpSession | None = None) -> None:
        """Have the connection remember an answered call, for later ones like it.

        The response can have ended before: then the memory may be about the next request, which is another host's.
        """
        memory = memory_of(scope)
        if memory is None or memory.authentication is None or memory.headers is None:
            return
        name = params.get("name") if session is None else None
        if isinstance(name, str) and not self.gateway.direct.may_take(name):
            return
        known = self.gateway.direct.known(host, params)
        if known is not None:
            headers, authentication = memory.headers, memory.authentication
            again = self.gateway.direct.answered_again
            may_repeat = session is not None or (isinstance(name, str) and name in again)
            memory.note_post(
                CachedMcpRequest(authentication, known, headers, name=name, session=session, may_repeat=may_repeat)
            )

    def try_direct(
        self, known: CachedRequest, body: bytes, connection: AnsweringConnection
    ) -> "DirectPost | AnsweredPost | None":
        """Begin the call of a message; return None, and do nothing, if it is not plain.

        Raises:
            PostFailed: it cannot be begun, by an error of ours.
        """
        try:
            principal = self._access.repeated(known.authentication)
            if principal is None or len(body) > min(self._limits.max_body, BODY_READ):
                return None
            return known.begin(self, principal, body, connection)
        except PostFailed:
            raise
        except Exception as error:
            raise PostFailed(*known.refused(error)) from error

    def send(self, post: "DirectPost", known: KnownHost, params: dict[str, Any]) -> bool:
        """Send the call of a request to its upstream; return False, and do nothing, if it has to wait for anything.

        Raises:
            PostFailed: it cannot be begun, by an error of ours.
        """
        principal = post.principal
        slot = self._limits.admission.acquire_if_free("pending", principal)
        if slot is None:
            return False
        post.slot = slot
        try:
            call = self.gateway.direct.send_at_once(known, params, post)
        except Exception as error:  # our error, or no memory: it may be sent already, so nothing sends it again
            slot.release()
            raise PostFailed(*post.refused(error, known.modern)) from error
        if call is None:
            slot.release()
            return False
        post.call = call
        post.going = self.gateway.revocation.add(principal, call.take_over)
        return True

    async def take_over(self, post: "DirectPost", receive: Receive, send: Send) -> None:
        """Answer a call that was sent to its upstream without a task: ASGI."""
        session = post.session
        exchange = Exchange(
            post.request_id,
            receive,
            send,
            self._tasks,
            modern=post.call.known.modern,
            slow=self.slow,
            peer=session.peer if session is not None else None,
            unread=self._limits.unread,
            resumable=session.streams if session is not None else None,
        )
        # Its place is held until the host has read the answer.
        try:
            async with exchange:
                if session is not None:
                    session.running[post.request_id] = exchange
                if post.cancelled:
                    exchange.cancel()
                exchange.result = await self.gateway.direct.take_over(post.call, exchange)
        finally:
            post.release()


class DirectPost:
    """One request over HTTP without a task.

    cancelled: the host has cancelled it since a task took it over.
    """

    __slots__ = (
        "_connection", "_ended", "_gateway", "call", "cancelled", "going", "principal", "request_id", "session", "slot",
    )  # fmt: skip

    call: DirectCall
    going: RevocableTask
    slot: Slot

    def __init__(
        self,
        connection: AnsweringConnection,
        request_id: str | int,
        principal: Principal,
        session: HttpSession | None,
        gateway: Dispatcher,
    ) -> None:
        self._connection = connection
        self._gateway = gateway
        self.request_id = request_id
        self.principal = principal
        self.session = session
        self.cancelled = self._ended = False

    def answered(self, result: Mapping[str, Any], /) -> None:
        """See `DirectAnswer`."""
        status = 200
        try:
            body = encode({"jsonrpc": "2.0", "id": self.request_id, "result": result})
        except Exception as error:  # of any kind: a value that cannot be written
            status, body = self.refused(error, self.call.known.modern)
        self._end(status, body)

    def failed(self, error: Exception, /) -> None:
        """See `DirectAnswer`."""
        if not self._ended:
            self._end(*self.refused(error, self.call.known.modern))

    def refused(self, error: Exception, modern: bool) -> tuple[int, bytes]:
        """Return the status and the body of the answer if there is no result to send, by an error of ours."""
        return refused(self.request_id, error, modern=modern)

    def _end(self, status: int, body: bytes) -> None:
        try:
            self.release()
            self._gateway.revocation.remove(self.going)
        finally:
            self._ended = True
            self._connection.write_answer(status, body)

    def take_over(self, call: DirectCall, /) -> None:
        """See `DirectAnswer`. The frontend then answers as it does for any request (`StreamableHttpFrontend.serve`)."""
        self._gateway.revocation.remove(self.going)
        self._connection.resume()

    def cancel(self) -> bool:
        """Cancel the request: the host no longer wants the answer."""
        self.cancelled = True
        self.call.take_over()
        return True

    def release(self) -> None:
        """Give back the place among the requests, and in the session."""
        self.slot.release()
        if self.session is not None:
            self.session.running.pop(self.request_id, None)
            self.session.__exit__(None, None, None)
