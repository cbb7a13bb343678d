"""One end of a duplex JSON-RPC 2.0 connection: stdio and SSE, towards hosts and towards upstreams.

Law: ids, progress tokens and cancellations are of this hop: minted here, matched here, never copied on.
"""

import asyncio
import logging
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any, Final, Protocol

from aggregator.domain.bounds.result_memory import SMALL, hold
from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.errors import INVALID_REQUEST, RpcError, to_wire
from aggregator.domain.lru import LruCache
from aggregator.wire.codec import encode
from aggregator.wire.message import error_of, incoming, sane_id

log = logging.getLogger(__name__)

_CANCEL_REASON: Final = "no longer waited for"
# Ids we mint never grow longer; some peers send them back as text.
_ID_DIGITS: Final = 16
# Requests whose wait was cancelled are remembered, up to so many, for the answers that may still come.
_GIVEN_UP: Final = 1_000
# Messages in one batch: they are all begun in one turn of the loop.
BATCH: Final = 1_000


class OnProgress(Protocol):
    """Called with the params of each `notifications/progress` of one request, without the token."""

    def __call__(self, params: dict[str, Any], /) -> None: ...


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


class Send(Protocol):
    """The function that puts one message on the wire.

    request_id: of our own request in the message, so that a failed write can fail that request.
    """

    def __call__(self, data: bytes, request_id: int | None, /) -> None: ...


class OnRequest(Protocol):
    """The handler of requests of the other end: returns the result, or raises `RpcError`."""

    def __call__(self, method: str, params: dict[str, Any], channel: Channel, /) -> Awaitable[Any]: ...


class OnNotification(Protocol):
    """The handler of notifications of the other end that are not about a request of ours."""

    def __call__(self, method: str, params: dict[str, Any], /) -> None: ...


class CancelOuter(Protocol):
    """The function that cancels the request that another one was sent within; returns False if it has ended."""

    def __call__(self) -> bool: ...


class OnLateAnswer(Protocol):
    """Called when the other end answers a request whose wait was cancelled."""

    def __call__(self) -> None: ...


class NoBackChannel(Exception):
    """The connection, or the era it speaks, has no way to send a request in this direction."""


class PeerGone(Exception):
    """The connection ended before an answer came."""


class Peer:
    """One end of a duplex connection: sends requests and matches their answers, runs the requests of the other end.

    At most `most` requests of the other end run at once; further ones are refused.
    """

    def __init__(
        self,
        send: Send,
        tasks: Tasks,
        on_request: OnRequest,
        on_notification: OnNotification,
        most: float = inf,
    ) -> None:
        self._most = most
        self._send = send
        self._tasks = tasks
        self._on_request = on_request
        self._on_notification = on_notification
        self._next_id = 0
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        # The bytes of answers that are not small, by request id.
        self._sizes: dict[int, int] = {}
        self._within: dict[int, CancelOuter] = {}
        self._progress: dict[int, OnProgress] = {}
        self._given_up: LruCache[int, OnLateAnswer] = LruCache(_GIVEN_UP)
        self._running: dict[str | int, asyncio.Task[None]] = {}
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

    async def request(
        self,
        method: str,
        params: dict[str, Any],
        on_progress: OnProgress | None = None,
        *,
        cancellable: bool = True,
        via: Send | None = None,
        within: CancelOuter | None = None,
        late: OnLateAnswer | None = None,
    ) -> dict[str, Any]:
        """Ask and wait; cancelling the wait tells the other side (`notifications/cancelled`).

        `via` sends this request another way than the rest (over HTTP, on the stream of the request it belongs to).
        `within` ends that request: it is what ends when the other side can no longer answer this one. `late` is called
        when the other side answers after the wait was cancelled.

        Raises:
            RpcError: the other side answered with an error.
            PeerGone: the connection ended first.
            ResultsFull: there is no room for the answer.
        """
        if self._input_ended is not None:
            raise PeerGone(self._input_ended)
        self._next_id = request_id = self._next_id + 1
        if on_progress is not None:
            params = {**params, "_meta": {**params.get("_meta", {}), "progressToken": request_id}}
            self._progress[request_id] = on_progress
        message = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[request_id] = answer
        if self._running:
            self._answered.set()
        if within is not None:
            self._within[request_id] = within
        send = via or self._send
        try:
            send(encode(message), request_id)
            result = await answer
            if self._sizes and request_id in self._sizes:
                hold(self._sizes[request_id])
            return result
        except asyncio.CancelledError:
            if late is not None:
                self._given_up.put(request_id, late)
            if cancellable and self._gone is None:
                send(
                    _notification("notifications/cancelled", {"requestId": request_id, "reason": _CANCEL_REASON}), None
                )
            raise
        finally:
            del self._waiting[request_id]
            self._sizes.pop(request_id, None)
            self._within.pop(request_id, None)
            self._progress.pop(request_id, None)

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification."""
        self._send(_notification(method, params), None)

    def waits_for(self, request_id: Any) -> bool:
        """Return True if a message with this id would answer one of our requests."""
        return self._waiting_for(request_id) is not None

    def fail(self, request_id: str | int, error: Exception) -> None:
        """Fail one waiting request of ours with an error."""
        answer = self._waiting_for(request_id)
        if answer is not None and not answer.done():
            answer.set_exception(error)

    def end_input(self, reason: str) -> None:
        """End the input: fail every waiting request with `PeerGone`, or cancel the one that it was sent within."""
        if self._input_ended is not None:
            return
        self._input_ended = reason
        for request_id, answer in self._waiting.items():
            end = self._within.get(request_id)
            if not answer.done() and not (end is not None and end()):
                answer.set_exception(PeerGone(reason))

    def close(self, reason: str) -> None:
        """End the input, and cancel every running request of the other end. May be called twice."""
        if self._gone is not None:
            return
        self.end_input(reason)
        self._gone = reason
        for request_id in self._running:
            self.cancel(request_id)

    def cancel(self, request_id: str | int) -> bool:
        """Cancel a request of the other end; return False if it is not running."""
        task = self._running.get(request_id)
        return task is not None and (task.cancelling() > 0 or task.cancel())

    def channel(self, request_id: str | int) -> Channel:
        """Return the channel of one request of the other end."""
        return _PeerChannel(self, request_id)

    # -- inwards

    def feed(self, message: Any, size: int = 0) -> None:
        """Take one decoded message, or a batch of them (2025-03-26). No message of a peer makes it raise.

        size: bytes of the message on the wire, for answers that count towards the memory of results.
        """
        if isinstance(message, dict):
            if "method" in message:
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

    def _on_response(self, message: dict[str, Any], size: int) -> None:
        request_id = message.get("id")
        answer = self._waiting_for(request_id)
        if answer is None or answer.done():
            log.debug("dropped an answer nobody waits for: id %.40r", request_id)
            late = self._given_up.pop(_minted(request_id))
            if late is not None:
                late()
        elif isinstance(result := message.get("result"), dict):
            answer.set_result(result)
            if size > SMALL:
                self._sizes[int(message["id"])] = size
        else:
            answer.set_exception(error_of(message))

    def _waiting_for(self, request_id: Any) -> asyncio.Future[dict[str, Any]] | None:
        return self._waiting.get(request_id if type(request_id) is int else _minted(request_id))

    def _on_request_or_notification(self, message: dict[str, Any]) -> None:
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
            task = self._tasks.start(self._run(request_id, received.method, received.params))
            self._running[request_id] = task
            # A callback: a task that is cancelled before its first step never runs a `finally` of its own.
            task.add_done_callback(partial(self._request_done, request_id))

    def _take_notification(self, method: str, params: dict[str, Any]) -> None:
        if method == "notifications/progress":
            token = sane_id(params.get("progressToken"))
            listener = self._progress.get(token) if isinstance(token, int) else None
            if listener is not None:
                listener({key: value for key, value in params.items() if key != "progressToken"})
        elif method == "notifications/cancelled":
            request_id = sane_id(params.get("requestId"))
            if request_id is not None:
                self.cancel(request_id)
        else:
            self._on_notification(method, params)

    async def _run(self, request_id: str | int, method: str, params: dict[str, Any]) -> None:
        try:
            result = await self._on_request(method, params, _PeerChannel(self, request_id))
            answer = encode({"jsonrpc": "2.0", "id": request_id, "result": result})
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
    """Return the id of a request of ours as it was minted, whichever way it is written; -1 for what is none."""
    if isinstance(request_id, str) and request_id.isdecimal() and len(request_id) < _ID_DIGITS:
        return int(request_id)
    return request_id if isinstance(request_id, int) and request_id is not True else -1


def _notification(method: str, params: Mapping[str, Any] | None) -> bytes:
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    if params is not None:
        message["params"] = params
    return encode(message)


def error_message(request_id: str | int | None, error: Exception) -> dict[str, Any]:
    """Return the error response for `request_id`; an exception that is not one of our errors is logged, not shown."""
    wire = to_wire(error)
    if wire["code"] == -32603 and not hasattr(error, "server"):
        log.error("a request failed by a fault of the aggregator's own", exc_info=error)
    return {"jsonrpc": "2.0", "id": request_id, "error": wire}


def encode_error(request_id: str | int | None, error: Exception) -> bytes:
    """Return the error response for `request_id` as bytes; `data` that cannot be encoded is left out."""
    message = error_message(request_id, error)
    try:
        return encode(message)
    except ValueError:
        message["error"].pop("data", None)
        return encode(message)
