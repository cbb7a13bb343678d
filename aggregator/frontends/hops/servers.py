"""Hops about servers that run here for other replicas, on the wire: one message on each line."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

from aggregator.domain.bounds.tasks import Tasks
from aggregator.domain.errors import INTERNAL_ERROR, RpcError
from aggregator.frontends.web.host_guard import Receive, Scope, Send, respond
from aggregator.replicas.hops import Hop
from aggregator.upstream.places.messages import ANSWER, ATTACH, NOT_HERE, REQUEST, TELL, line, rpc_error_to_wire
from aggregator.upstream.relaying.relay import NotHere, ServerRelay
from aggregator.wire.codec import TooDeep, decode

log = logging.getLogger(__name__)


class ServerHops:
    """The part of the peer listener for servers; a `ServeHop`."""

    def __init__(self, relay: ServerRelay) -> None:
        self._relay = relay

    def __repr__(self) -> str:
        return f"<ServerHops of {self._relay!r}>"

    async def __call__(self, hop: Hop, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        try:
            message = decode(body)
            match scope["path"]:
                case path if path == ATTACH:
                    await self._stream(self._relay.attach(hop, message), receive, send)
                case path if path == REQUEST:
                    await self._stream(self._relay.request(hop, message), receive, send)
                case path if path == ANSWER:
                    self._relay.answer(message)
                    await respond(send, 204)
                case path if path == TELL:
                    await self._relay.take_session_event(hop, message)
                    await respond(send, 204)
                case _:
                    await respond(send, 404, {"error": "this replica does not know that path"})
        except NotHere as refused:
            await respond(send, NOT_HERE, {"error": str(refused)})
        except (ValueError, KeyError, TypeError) as error:
            log.warning("the replica %s sent what is no message about a server: %r", hop.origin, error)
            await respond(send, 400, {"error": "this is no message about a server"})

    async def _stream(self, messages: AsyncGenerator[Mapping[str, Any]], receive: Receive, send: Send) -> None:
        """Send a message on each line as they come; the end of the connection ends what they come from.

        Raises:
            NotHere: before the first message.
        """
        async with Tasks("a hop about a server") as tasks:
            gone = tasks.start(_closed(receive))
            writing = tasks.start(_write(messages, send))
            await asyncio.wait({gone, writing}, return_when=asyncio.FIRST_COMPLETED)
            if writing.done() and (refused := writing.result()) is not None:
                raise refused


async def _closed(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _write(messages: AsyncGenerator[Mapping[str, Any]], send: Send) -> NotHere | None:
    begun = False
    async with aclosing(messages):
        try:
            async for message in messages:
                if not begun:
                    begun = True
                    head = [(b"content-type", b"application/x-ndjson")]
                    await send({"type": "http.response.start", "status": 200, "headers": head})
                await send({"type": "http.response.body", "body": _line(message), "more_body": True})
        except NotHere as refused:
            if begun:
                raise
            return refused
    await send({"type": "http.response.body", "body": b""})
    return None


def _line(message: Mapping[str, Any]) -> bytes:
    try:
        return line(message)
    except TooDeep:
        error = RpcError(INTERNAL_ERROR, "The answer is nested too deeply to be passed on.")
        return line({"error": rpc_error_to_wire(error)})
