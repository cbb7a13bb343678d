"""One end of a duplex JSON-RPC 2.0 connection: stdio and SSE, towards hosts and towards upstreams.

Law: ids, progress tokens and cancellations are of this hop: minted here, matched here, never copied on.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import partial
from itertools import count
from math import inf
from typing import Any, Final, Protocol

from aggregator.domain.bounds.lru import LruCache
from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.errors import INVALID_REQUEST, RpcError
from aggregator.wire.codec import encode
from aggregator.wire.message import error_of, incoming, is_answer, sane_id
from aggregator.wire.pending_request import (
    AnswerReceiver,
    CancelOuter,
    OnLateAnswer,
    OnProgress,
    PeerRequest,
    Send,
    notification,
)
from aggregator.wire.responses import encode_error, encode_result, error_message

log = logging.getLogger(__name__)

# Ids we mint never grow longer; some peers send them back as text.
_ID_DIGITS: Final = 16
# Requests whose wait was cancelled are remembered, up to so many, for the answers that may still come.
_GIVEN_UP: Final = 1_000
# Messages in one batch: they are all begun in one turn of the loop.
BATCH: Final = 1_000


class RequestInProgress(Protocol):
    """A request of the other end that is being answered without a task."""

    def take_over(self) -> None:
        """Promote it to a task, started with `Peer.answer_in_task`."""


class Answered(Enum):
    """Says of a request of the other end that its answer was sent."""

    ANSWERED = "answered"


# Begins to answer a request of the other end without a task, or returns None. The answer is sent with `Peer.finish`:
# later, or before this returns `ANSWERED`.
BeginRequest = Callable[[str | int, str, dict[str, Any]], RequestInProgress | Answered | None]


class Channel(Protocol):
    """The messages to the other end that belong to one running request of it, sent before its answer."""

    @property
    def request_id(self) -> str | int: ...

    def notify(self, method: str, params: Mapping[str, Any]) -> None: ...

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request to the other end while its own request runs, and return the result.

        Raises:
            NoBackChannel: no request can be sent in this direction.
            RpcError, PeerGone: see `Peer.request`.
        """
        ...


# The handler of requests of the other end: returns the result, or raises `RpcError`.
OnRequest = Callable[[str, dict[str, Any], Channel], Awaitable[Any]]
# The handler of notifications of the other end that are not about a request of ours.
OnNotification = Callable[[str, dict[str, Any]], None]


# A function that returns the result of a request of the other end, or raises `RpcError`.
AnswerRequest = Callable[["Channel"], Awaitable[Any]]


class NoBackChannel(Exception):
    """The connection, or the era it speaks, has no way to send a request in this direction."""


class PeerGone(Exception):
    """The connection ended before an answer came; `reason` is why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Peer:
    """One end of a duplex connection: sends requests and matches their answers, runs the requests of the other end.

    At most `most` requests of the other end run at once; further ones are refused. Requests of ours get one of `ids`.
    """

    def __init__(
        self,
        send: Send,
        tasks: Tasks,
        on_request: OnRequest,
        on_notification: OnNotification,
        most: float = inf,
        begin: BeginRequest | None = None,
        ids: Iterator[int] | None = None,
    ) -> None:
        self._begin, self._ids = begin, ids if ids is not None else count(1)
        self._most, self._send = most, send
        self._tasks = tasks
        self._on_request = on_request
        self._on_notification = on_notification
        self._waiting: dict[int, PeerRequest] = {}
        self._given_up: LruCache[int, OnLateAnswer] = LruCache(_GIVEN_UP)
        self._running: dict[str | int, asyncio.Task[None] | RequestInProgress] = {}
        self._answered = asyncio.Event()
        self._input_ended: str | None = None
        self._gone: str | None = None

    def __repr__(self) -> str:
        state = self._gone or "open"
        return f"<Peer {state}, {len(self._waiting)} waiting, {len(self._running)} running>"

    async def wait_running(self, running: int) -> None:
        """Wait until at most `running` requests of the other end are still being answered."""
        while len(self._running) > running:
            self._answered.clear()
            await self._answered.wait()

    async def wait_to_read(self, running: int) -> None:
        """Wait until the next message may be read: at most `running` requests run, or one of ours waits for its answer.

        A reader that did not read the answer would wait for itself.
        """
        while len(self._running) > running and not self._waiting:
            self._answered.clear()
            await self._answered.wait()

    # -- outwards

    def begin(
        self,
        method: str,
        params: dict[str, Any],
        receiver: AnswerReceiver | None = None,
        on_progress: OnProgress | None = None,
        *,
        cancellable: bool = True,
        via: Send | None = None,
        within: CancelOuter | None = None,
        late: OnLateAnswer | None = None,
    ) -> PeerRequest:
        """Send a request; its answer goes to `receiver`, or to the task that waits for it.

        Cancelling that wait tells the other side (`notifications/cancelled`), if the request is `cancellable`.
        `via` sends this request another way than the rest (over HTTP, on the stream of the request it belongs to).
        `within` ends that request: it is what ends when the other side can no longer answer this one. `late` is called
        when the other side answers after the wait was cancelled.

        Raises:
            PeerGone: the connection has ended.
            TooDeep: the params cannot be written.
        """
        if self._input_ended is not None:
            raise PeerGone(self._input_ended)
        sent = PeerRequest(self, via or self._send, on_progress, within, late, cancellable=cancellable)
        try:
            self._send_request(sent, method, params)
        except BaseException:
            self._waiting.pop(sent.id, None)
            raise
        sent.receiver = receiver
        return sent

    async def request(
        self, method: str, params: dict[str, Any], *, via: Send | None = None, within: CancelOuter | None = None
    ) -> dict[str, Any]:
        """Send a request and return its result. See `begin`.

        Raises:
            RpcError: the other side answered with an error.
            PeerGone: the connection ended first.
            ResultsFull: there is no room for the answer.
        """
        return await self.begin(method, params, via=via, within=within).wait()

    @property
    def is_open(self) -> bool:
        """See `RequestTable`."""
        return self._gone is None

    def forget(self, request_id: int) -> None:
        """See `RequestTable`."""
        del self._waiting[request_id]

    def give_up(self, request_id: int, late: OnLateAnswer) -> None:
        """See `RequestTable`."""
        self._given_up.put(request_id, late)

    def _send_request(self, sent: "PeerRequest", method: str, params: dict[str, Any]) -> None:
        sent.id = request_id = next(self._ids)
        if sent.on_progress is not None:
            params = {**params, "_meta": {**params.get("_meta", {}), "progressToken": request_id}}
        data = encode({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})
        self._waiting[request_id] = sent
        if self._running:
            self._answered.set()
        sent.send(data, request_id)

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification."""
        self._send(notification(method, params), None)

    def waits_for(self, request_id: Any) -> bool:
        """Return True if a message with this id would answer one of our requests."""
        return self._waiting_for(request_id) is not None

    def only_waiting(self) -> int | None:
        """Return the id of the one request of ours that waits for its answer; None if none does, or several do."""
        return next(iter(self._waiting)) if len(self._waiting) == 1 else None

    def fail(self, request_id: str | int, error: Exception) -> None:
        """Fail one waiting request of ours with an error."""
        sent = self._waiting_for(request_id)
        if sent is not None and not sent.done:
            sent.fail(error)

    def end_input(self, reason: str) -> None:
        """End the input: fail every waiting request with `PeerGone`, or cancel the one that it was sent within."""
        if self._input_ended is not None:
            return
        self._input_ended = reason
        for sent in list(self._waiting.values()):
            if not sent.done and not (sent.within is not None and sent.within()):
                sent.fail(PeerGone(reason))

    def close(self, reason: str) -> None:
        """End the input, and cancel every running request of the other end. May be called twice."""
        if self._gone is not None:
            return
        self.end_input(reason)
        self._gone = reason
        for request_id in list(self._running):
            self.cancel(request_id)

    def cancel(self, request_id: str | int) -> bool:
        """Cancel a request of the other end; return False if it is not running."""
        running = self._running.get(request_id)
        if running is not None and not isinstance(running, asyncio.Task):
            running.take_over()
            task = self._running[request_id]
            assert isinstance(task, asyncio.Task)
            # Not before its first step, so that it takes the request over in any case.
            asyncio.get_running_loop().call_soon(task.cancel)
            return True
        return running is not None and (running.cancelling() > 0 or running.cancel())

    def finish(self, request_id: str | int, result: Any) -> None:
        """Send the result of a request that was begun without a task."""
        if self._gone is None:
            self._send(encode_result(request_id, result), None)
        self._running.pop(request_id, None)
        self._answered.set()

    def refuse(self, request_id: str | int, error: Exception) -> None:
        """Answer a request with an error, if no task answers it."""
        if not isinstance(self._running.get(request_id), asyncio.Task):
            self._running.pop(request_id, None)
            self._answered.set()
            if self._gone is None:
                self._send(encode_error(request_id, error), None)

    def answer_in_task(self, request_id: str | int, answer: AnswerRequest) -> None:
        """Start a task that answers a request."""
        task = self._tasks.start(self._run(request_id, answer))
        self._running[request_id] = task
        # A callback: a task that is cancelled before its first step never runs a `finally` of its own.
        task.add_done_callback(partial(self._request_done, request_id))

    def channel(self, request_id: str | int) -> Channel:
        """Return the channel of one request of the other end."""
        return _PeerChannel(self, request_id)

    # -- inwards

    def feed(self, message: Any, size: int = 0) -> None:
        """Take one decoded message, or a batch of them (2025-03-26). No message of a peer makes it raise.

        size: bytes of the message on the wire, for answers that count towards the memory of results.
        """
        if isinstance(message, dict):
            if "method" in message and not (is_answer(message) and self.waits_for(message.get("id"))):
                self._on_request_or_notification(message)
            else:
                self._on_response(message, size)
        elif isinstance(message, list) and len(message) > BATCH:
            self._refuse(None, f"A batch may hold {BATCH} messages.")
        elif isinstance(message, list) and message and all(isinstance(part, dict) for part in message):
            for part in message:
                self.feed(part, size)
        else:
            self._refuse(None, "A message must be a JSON object.")

    def take_result(self, message: dict[str, Any], size: int) -> bool:
        """Take a message that is a result which we wait for; return False, and do nothing, for any other."""
        request_id, result = message.get("id"), message.get("result")
        sent = self._waiting.get(request_id) if type(request_id) is int else None
        if sent is None or sent.done or type(result) is not dict or "method" in message:
            return False
        sent.answer(result, size)
        return True

    def _on_response(self, message: dict[str, Any], size: int) -> None:
        request_id = message.get("id")
        sent = self._waiting_for(request_id)
        if sent is None or sent.done:
            log.debug("dropped an answer nobody waits for: id %.40r", request_id)
            late = self._given_up.pop(_minted(request_id))
            if late is not None:
                late()
        elif isinstance(result := message.get("result"), dict):
            sent.answer(result, size)
        else:
            sent.fail(error_of(message))

    def _waiting_for(self, request_id: Any) -> "PeerRequest | None":
        return self._waiting.get(request_id if type(request_id) is int else _minted(request_id))

    def _begin_at_once(self, message: dict[str, Any]) -> bool:
        """Answer a request without a task, if possible; return False, without an effect, if not."""
        request_id, method, params = sane_id(message.get("id")), message["method"], message.get("params")
        if self._begin is None or request_id is None or type(method) is not str or type(params) is not dict:
            return False
        if request_id in self._running or len(self._running) >= self._most:
            return False
        begun = self._begin(request_id, method, params)
        if begun is not None and begun is not Answered.ANSWERED:
            self._running[request_id] = begun
        return begun is not None

    def _on_request_or_notification(self, message: dict[str, Any]) -> None:
        if self._begin_at_once(message):
            return
        request_id, received = sane_id(message.get("id")), incoming(message)
        if "id" not in message:
            if received is not None:
                self._take_notification(received.method, received.params)
        elif request_id is None:
            self._refuse(None, "`id` must be a string or an integer.")
        elif received is None:
            self._refuse(request_id, "`method` must be a string and `params` an object.")
        elif request_id in self._running:
            self._refuse(request_id, f"A request with id {request_id!r:.200} is still running.")
        elif len(self._running) >= self._most:
            self._refuse(request_id, f"{self._most} requests are being worked on, as many as may be. Try again later.")
        else:
            self.answer_in_task(request_id, partial(self._on_request, received.method, received.params))

    def _take_notification(self, method: str, params: dict[str, Any]) -> None:
        if method == "notifications/progress":
            sent = self._waiting_for(params.get("progressToken"))
            if sent is not None and sent.on_progress is not None:
                sent.on_progress({key: value for key, value in params.items() if key != "progressToken"})
        elif method == "notifications/cancelled":
            request_id = sane_id(params.get("requestId"))
            if request_id is not None:
                self.cancel(request_id)
        else:
            self._on_notification(method, params)

    async def _run(self, request_id: str | int, answer_request: AnswerRequest) -> None:
        try:
            result = await answer_request(_PeerChannel(self, request_id))
            answer = encode_result(request_id, result)
        except asyncio.CancelledError:
            # Cancelled by the other end, or the connection is closing: no answer is wanted.
            return
        except Exception as error:
            answer = encode_error(request_id, error)
        if self._gone is None:
            self._send(answer, None)

    def _request_done(self, request_id: str | int, task: asyncio.Task[None]) -> None:
        self._running.pop(request_id, None)
        self._answered.set()

    def _refuse(self, request_id: str | int | None, why: str) -> None:
        self._send(encode(error_message(request_id, RpcError(INVALID_REQUEST, why))), None)


@dataclass(frozen=True, slots=True)
class _PeerChannel:
    peer: Peer
    request_id: str | int

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        self.peer.notify(method, params)

    async def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        return await self.peer.request(method, params, within=lambda: self.peer.cancel(self.request_id))


def _minted(request_id: Any) -> int:
    """Return the original id of a request of ours, in any spelling; -1 for an invalid one."""
    if isinstance(request_id, str) and request_id.isdecimal() and len(request_id) < _ID_DIGITS:
        return int(request_id)
    if isinstance(request_id, float):
        # Languages whose numbers are all floats write 5 as 5.0.
        return int(request_id) if request_id.is_integer() else -1
    return request_id if isinstance(request_id, int) and request_id is not True else -1
