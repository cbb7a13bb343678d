"""The transport to a server that another replica runs: calls go to that replica, and what they lead to comes back.

The other replica has the connection, isolates hosts, and keeps the lists; here is only what hosts of this replica need.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Hashable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Final

from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.errors import INVALID_REQUEST, ResultsFull, RpcError, UpstreamUnavailable
from aggregator.domain.reasons import Reason
from aggregator.replicas.hop_client import HopClient, HopFailed, HopResponse
from aggregator.upstream.caller import RunningCall
from aggregator.upstream.connection import Connection, DeferredRequest, InboundHandlers, JsonRpcRequest
from aggregator.upstream.places.messages import (
    ANSWER,
    ATTACH,
    NOT_HERE,
    REQUEST,
    TELL,
    failure_from_wire,
    lines,
    rpc_error_from_wire,
    rpc_error_to_wire,
)
from aggregator.upstream.places.place import OwnerAway, ServerPlace, There
from aggregator.upstream.places.session_names import SessionNames
from aggregator.wire.codec import decode, encode
from aggregator.wire.peer import PeerGone
from aggregator.wire.pending_request import AnswerReceiver, OnProgress, PendingRequest

log = logging.getLogger(__name__)

# Seconds for a message without an answer.
_NOTICE: Final = 5.0
# Seconds between two attempts to bring the answer to a question: at first, and at most.
_AGAIN: Final = 0.1
_AGAIN_AT_MOST: Final = 1.0
# Statuses from here on say that the other replica could not do it now.
_OWN_FAULT: Final = 500
# Requests that need not leave this replica: the stream says whether the other one is there, and it keeps log levels.
_ANSWERED_HERE: Final = frozenset({"ping", "server/discover", "logging/setLevel"})
_ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
_LOG: Final = "notifications/message"
_COMPLETED: Final = "notifications/elicitation/complete"


class HopConnection(Connection):
    """A `Connection` to the replica that runs a server.

    greeting: what the server said of itself to that replica.
    ended: done when no further request may be sent; those under way go on until the stream ends.
    """

    def __init__(
        self, server: str, there: There, hops: HopClient, inbound: InboundHandlers, tasks: Tasks, names: SessionNames
    ) -> None:
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.greeting: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
        self._server = server
        self._there = there
        self._hops = hops
        self._inbound = inbound
        self._tasks = tasks
        self._names = names
        self._attachment = ""
        self._broken: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._exchanges: set[asyncio.Task[Any]] = set()

    def __repr__(self) -> str:
        return f"<HopConnection to {self._server} at {self._there.replica}>"

    # -- the port

    def begin(self, request: JsonRpcRequest, receiver: AnswerReceiver | None = None) -> PendingRequest:
        """See `Connection`: a hop always waits."""
        return DeferredRequest(partial(self._request, *request))

    async def _request(
        self,
        method: str,
        params: dict[str, Any],
        on_progress: OnProgress | None,
        headers: Mapping[str, str] | None,
        origin: RunningCall | None,
    ) -> dict[str, Any]:
        if self.ended.done():
            raise PeerGone(self.ended.result())
        if method in _ANSWERED_HERE:
            return {}
        if method == "subscriptions/listen":
            return await self._listen(params)
        caller = origin.caller if origin is not None else None
        asked = {
            "attachment": self._attachment,
            "method": method,
            "params": params,
            "progress": on_progress is not None,
            "headers": dict(headers) if headers is not None else None,
            "caller": self._names.facts(caller).to_wire() if caller is not None else None,
        }
        return await self._exchange(encode(asked), on_progress, origin)

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """See `Connection`; the other replica sends notifications of the connection itself."""

    def use_version(self, version: str) -> None:
        """See `Connection`; the other replica negotiates."""

    def end(self, reason: str, *, answered: bool = False) -> None:
        """End the connection; what waits for an answer gets none. May be called twice.

        answered: the other replica is there.
        """
        self._close(reason, answered=answered)
        if not self._broken.done():
            self._broken.set_result(reason)

    def _close(self, reason: str, *, answered: bool = False) -> None:
        """Send no further request; those under way go on."""
        if not self.ended.done():
            self.ended.set_result(reason)
        if not self.greeting.done():
            self.greeting.set_exception(OwnerAway(reason, answered=answered))
            # Read, or asyncio would log it where the attempt was given up.
            self.greeting.exception()

    async def finish(self) -> None:
        """Wait until the requests under way are answered, or cannot be any more."""
        while self._exchanges and not self._broken.done():
            await asyncio.wait({*self._exchanges, self._broken}, return_when=asyncio.FIRST_COMPLETED)

    # -- about sessions of hosts

    def host_left(self, session: Hashable) -> None:
        """Tell that the session of a host has ended."""
        name = self._names.forget(session)
        if name is not None:
            self._tasks.start(self._send_session_event({"session": name, "left": True}))

    async def notify_dedicated(self, session: Hashable, method: str) -> None:
        """Send a notification of a host over the connections that are for this host alone."""
        name = self._names.known(session)
        if name is not None:
            await self._send_session_event({"session": name, "method": method})

    async def _send_session_event(self, said: Mapping[str, Any]) -> None:
        await self._post(TELL, {"attachment": self._attachment, **said})

    async def _post(self, path: str, message: Mapping[str, Any]) -> bool:
        """Send a message that has no answer; return whether the other replica had it, taken or not."""
        try:
            async with (
                asyncio.timeout(_NOTICE),
                self._hops.request(self._there.replica, path, encode(message), self._claims) as response,
            ):
                if response.status >= 400:
                    log.debug("%s: the replica that runs it did not take a message: %d", self._server, response.status)
                return response.status < _OWN_FAULT
        except (HopFailed, TimeoutError) as error:
            log.debug("%s: the replica that runs it was not told: %s", self._server, error)
            return False

    @property
    def _claims(self) -> Mapping[str, Any]:
        return {"generation": self._there.generation}

    # -- one request

    async def _exchange(
        self, body: bytes, on_progress: OnProgress | None, origin: RunningCall | None
    ) -> dict[str, Any]:
        """Send a request and wait for its answer, or for the end of the connection."""
        exchange = self._tasks.start(self._outcome(body, on_progress, origin))
        self._exchanges.add(exchange)
        exchange.add_done_callback(self._exchanges.discard)
        try:
            await asyncio.wait({exchange, self._broken}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not exchange.done():
                exchange.cancel()
                await asyncio.wait({exchange})
        if exchange.cancelled():
            raise PeerGone(self._broken.result() if self._broken.done() else "the connection was closed")
        outcome = exchange.result()
        if isinstance(outcome, Exception):
            raise outcome
        result: dict[str, Any] = outcome
        return result

    async def _outcome(
        self, body: bytes, on_progress: OnProgress | None, origin: RunningCall | None
    ) -> dict[str, Any] | Exception:
        """Return the result, or the exception to raise: one that left the task would be logged as its fault."""
        try:
            async with (
                Tasks(f"questions of {self._server}") as questions,
                self._hops.request(self._there.replica, REQUEST, body, self._claims) as response,
            ):
                if response.status != 200:
                    return await self._not_taken(response)
                async for message in lines(response.parts()):
                    if "progress" in message:
                        if on_progress is not None:
                            on_progress(message["progress"])
                    elif "log" in message:
                        self._inbound.on_notification(_LOG, message["log"], origin)
                    elif "question" in message:
                        questions.start(self._answer(message, origin))
                    elif "result" in message:
                        return dict(message["result"])
                    elif "error" in message:
                        return rpc_error_from_wire(message["error"])
                    elif "failure" in message:
                        return failure_from_wire(self._server, message["failure"])
        except HopFailed as error:
            if not error.sent:
                self._close(str(error))
                return UpstreamUnavailable(self._server, f"{self._server} was not reached: {error}.")
            return PeerGone(str(error))
        except ResultsFull as error:
            return error
        except (ValueError, KeyError, TypeError) as error:
            return PeerGone(f"the replica that runs it answered nonsense: {error!r:.200}")
        return PeerGone("the replica that runs it ended in the middle")

    async def _not_taken(self, response: HopResponse) -> Exception:
        """Return the failure of a request that the other replica did not take: nothing was sent to the server."""
        why = await _reason(response)
        if response.status == NOT_HERE:
            self._close(why, answered=True)
        return UpstreamUnavailable(self._server, f"{self._server}: {why}.")

    async def _answer(self, message: Mapping[str, Any], origin: RunningCall | None) -> None:
        """Have a question of the server answered, and send the answer."""
        method, params = message["method"], message["params"]
        try:
            if origin is not None:
                result = await self._inbound.on_request(method, params, origin)
            else:
                caller = self._names.caller(str(message.get("session")))
                if caller is None:
                    raise RpcError(INVALID_REQUEST, "The host of this session is not here any more.")
                result = await caller.ask(self._server, method, params)
            answer: dict[str, Any] = {"result": result}
        except RpcError as error:
            answer = {"error": rpc_error_to_wire(error)}
        # Until it is there: the question, and with it the call, waits for as long as this task lives.
        pause = _AGAIN
        while not await self._post(ANSWER, {"question": message["question"], **answer}):
            await asyncio.sleep(pause)
            pause = min(pause * 2, _AGAIN_AT_MOST)

    # -- subscriptions

    async def _listen(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Listen as a stream of 2026-07-28 would, until cancelled; changes of lists are told in any case."""
        wanted = params.get("notifications")
        uris = wanted.get("resourceSubscriptions", []) if isinstance(wanted, Mapping) else []
        held: list[str] = []
        try:
            for uri in uris:
                await self.request("resources/subscribe", {"uri": uri})
                held.append(uri)
            if uris:
                self._inbound.on_notification(_ACKNOWLEDGED, {"notifications": {"resourceSubscriptions": uris}}, None)
            raise PeerGone(await asyncio.shield(self.ended))
        finally:
            for uri in held:
                self._tasks.start(self._unsubscribe(uri))

    async def _unsubscribe(self, uri: str) -> None:
        with suppress(PeerGone, RpcError, UpstreamUnavailable):
            await self.request("resources/unsubscribe", {"uri": uri})

    # -- the stream that belongs to no request

    async def read_stream(self, silence: float) -> None:
        """Read the stream of the other replica until it ends, or is silent for so many seconds."""
        body = encode({"server": self._server})
        try:
            async with self._hops.request(self._there.replica, ATTACH, body, self._claims) as response:
                if response.status != 200:
                    self.end(await _reason(response), answered=True)
                    return
                stream = lines(response.parts())
                while True:
                    async with asyncio.timeout(silence):
                        message = await anext(stream, None)
                    if message is None:
                        break
                    self._take(message)
        except TimeoutError:
            self.end(f"the replica that runs it has said nothing for {silence:g} s")
        except HopFailed as error:
            self.end(str(error))
        except (ValueError, KeyError, TypeError) as error:
            self.end(f"the replica that runs it answered nonsense: {error!r:.200}")
        else:
            self.end("the replica that runs it has ended")

    def _take(self, message: Mapping[str, Any]) -> None:
        if "greeting" in message:
            self._attachment = message["attachment"]
            if not self.greeting.done():
                self.greeting.set_result(message["greeting"])
        elif "away" in message:
            why = Reason(str(message["away"]), str(message.get("said", "")))
            if not self.greeting.done():
                self.greeting.set_exception(UpstreamUnavailable(self._server, str(why), said=why.said))
                self.greeting.exception()
            self.end(why)
        elif "notification" in message:
            self._inbound.on_notification(message["notification"], message["params"], None)
        elif "completed" in message:
            self._inbound.on_notification(_COMPLETED, {"elicitationId": message["completed"]}, None)
        elif "question" in message:
            self._tasks.start(self._answer(message, None))
        elif "log" in message:
            caller = self._names.caller(str(message.get("session")))
            if caller is not None:
                caller.on_log(self._server, message["log"])
        elif "leaving" in message:
            self._close(str(message["leaving"]), answered=True)
        elif "ended" in message:
            self.end(str(message["ended"]), answered=True)


async def _reason(response: HopResponse) -> str:
    try:
        return str(decode(await response.read())["error"])
    except (HopFailed, ValueError, KeyError, TypeError):
        return f"the replica that runs it answered HTTP {response.status}"


@asynccontextmanager
async def open_hop(
    place: ServerPlace, there: There, inbound: InboundHandlers, names: SessionNames
) -> AsyncIterator[HopConnection]:
    """Connect to a server by way of the replica that runs it.

    Raises:
        OwnerAway: that replica does not answer, or does not run it any more.
        UpstreamUnavailable: it says that the server is away.
    """
    async with Tasks(f"server {place.server}") as tasks:
        connection = HopConnection(place.server, there, place.hops, inbound, tasks, names)

        async def end_when_moved() -> None:
            await place.moved(there)
            connection.end("another replica runs it now")

        tasks.start(connection.read_stream(place.silence))
        tasks.start(end_when_moved())
        try:
            await connection.greeting
            place.reached()
            yield connection
            # The other replica is about to end: what it has begun it finishes.
            await connection.finish()
        finally:
            connection.end("closed")
