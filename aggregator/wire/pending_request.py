"""Requests of ours to the other end of a connection, from the moment they are begun until their answer has come."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from aggregator.domain.bounds.result_memory import SMALL, hold
from aggregator.wire.codec import encode

_CANCEL_REASON: Final = "no longer waited for"

# Called with the params of each `notifications/progress` of one request, without the token.
OnProgress = Callable[[dict[str, Any]], None]
# Puts one message on the wire. request_id: of our own request in the message, so that a failed write can fail that
# request.
Send = Callable[[bytes, int | None], None]
# Cancels the request that another one was sent within; returns False if it has ended.
CancelOuter = Callable[[], bool]
# Called when the other end answers a request whose wait was cancelled.
OnLateAnswer = Callable[[], None]


class AnswerReceiver(Protocol):
    """The receiver of the outcome of a request, if no task waits for it.

    One of its methods is called, once, outside of any task; none any more once `PendingRequest.wait` was called, and
    none before that if the request is not sent yet.
    """

    def take_result(self, result: dict[str, Any], /) -> None:
        """Take the result: an object of at most `SMALL` bytes on the wire."""

    def take_over(self) -> None:
        """Start a task that calls `PendingRequest.wait`: something else came, or has to be waited for."""


class PendingRequest(Protocol):
    """A request that was begun without a task."""

    @property
    def is_sent(self) -> bool:
        """False if something has to be waited for before the request can be sent: `wait` sends it then."""
        ...

    async def wait(self) -> dict[str, Any]:
        """Return the result, or raise the error that the request ended with.

        Call it once at most, in a task. Cancelling the wait cancels the request.
        """
        ...


class RequestTable(Protocol):
    """The requests of one connection that wait for their answer, by id."""

    @property
    def is_open(self) -> bool:
        """True until the connection has ended."""
        ...

    def forget(self, request_id: int) -> None:
        """Remove a request that waits no longer."""

    def give_up(self, request_id: int, late: OnLateAnswer) -> None:
        """Remember a request whose wait was cancelled, for the answer that may still come."""


class PeerRequest:
    """One request of ours until its answer has come: a `PendingRequest`, which is sent at once.

    `receiver` gets the answer until `wait` is called. `within` is the end of the request that this one was sent within.
    """

    is_sent: Final = True

    __slots__ = (
        "_answer",
        "_cancellable",
        "_late",
        "_size",
        "_table",
        "id",
        "on_progress",
        "receiver",
        "send",
        "within",
    )

    def __init__(
        self,
        table: RequestTable,
        send: Send,
        on_progress: OnProgress | None = None,
        within: CancelOuter | None = None,
        late: OnLateAnswer | None = None,
        *,
        cancellable: bool = True,
    ) -> None:
        self._table = table
        self.id = 0
        self.send = send
        self.on_progress = on_progress
        self.within = within
        self._late = late
        self._cancellable = cancellable
        self.receiver: AnswerReceiver | None = None
        self._answer: asyncio.Future[dict[str, Any]] | None = None
        self._size = 0

    @property
    def done(self) -> bool:
        """True after the answer has come, or cannot come any more."""
        return self._answer is not None and self._answer.done()

    def answer(self, result: dict[str, Any], size: int) -> None:
        """Set the result; `size` is the size of the message on the wire."""
        receiver, self.receiver = self.receiver, None
        if receiver is not None and size <= SMALL:
            self._table.forget(self.id)
            receiver.take_result(result)
            return
        self._size = size
        self._future().set_result(result)
        if receiver is not None:
            receiver.take_over()

    def fail(self, error: Exception) -> None:
        """Note why there will be no result."""
        receiver, self.receiver = self.receiver, None
        future = self._future()
        future.set_exception(error)
        if receiver is not None:
            # No task waits for it yet. If that is cancelled before it does, asyncio would log an error as not seen.
            future.exception()
            receiver.take_over()

    async def wait(self) -> dict[str, Any]:
        """See `PendingRequest`.

        Raises:
            RpcError, PeerGone, ResultsFull: as of `Peer.request`.
        """
        table, self.receiver = self._table, None
        try:
            result = await self._future()
            if self._size > SMALL:
                hold(self._size)
            return result
        except asyncio.CancelledError:
            if self._late is not None:
                table.give_up(self.id, self._late)
            if self._cancellable and table.is_open:
                gone = {"requestId": self.id, "reason": _CANCEL_REASON}
                self.send(notification("notifications/cancelled", gone), None)
            raise
        finally:
            table.forget(self.id)

    def _future(self) -> asyncio.Future[dict[str, Any]]:
        if self._answer is None:
            self._answer = asyncio.get_running_loop().create_future()
        return self._answer


def notification(method: str, params: Mapping[str, Any] | None) -> bytes:
    """Return a notification as bytes."""
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    if params is not None:
        message["params"] = params
    return encode(message)
