"""What the transports share that have one stream each way: a peer, and an end that everybody who waits is told of."""

import asyncio
from collections.abc import Mapping
from typing import Any

from aggregator.domain.bounds.tasks import Tasks
from aggregator.upstream.caller import RunningCall
from aggregator.upstream.connection import Inbound
from aggregator.wire.peer import Channel, OnProgress, Peer, Send


class DuplexConnection:
    """A `Connection` over a peer; a transport says how to send, and feeds `peer` what it hears."""

    def __init__(self, inbound: Inbound, tasks: Tasks, send: Send) -> None:
        self.ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        # One stream for everything: nothing tells which of our requests something belongs to.
        async def asked(method: str, params: dict[str, Any], channel: Channel) -> dict[str, Any]:
            return await inbound.on_request(method, params, None)

        def told(method: str, params: dict[str, Any]) -> None:
            inbound.on_notification(method, params, None)

        self.peer = Peer(send, tasks, asked, told)

    async def request(
        self,
        method: str,
        params: dict[str, Any],
        on_progress: OnProgress | None = None,
        headers: Mapping[str, str] | None = None,
        origin: RunningCall | None = None,
    ) -> dict[str, Any]:
        """See `Connection`."""
        return await self.ask(method, params, on_progress, origin=origin)

    async def ask(
        self,
        method: str,
        params: dict[str, Any],
        on_progress: OnProgress | None,
        via: Send | None = None,
        origin: RunningCall | None = None,
    ) -> dict[str, Any]:
        """One request through the peer. `initialize` must not be cancelled (L/basic/utilities/cancellation)."""
        late = origin.answer if origin is not None else None
        cancellable = method != "initialize"
        return await self.peer.request(method, params, on_progress, cancellable=cancellable, via=via, late=late)

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """See `Connection`."""
        self.peer.notify(method, params)

    def speak(self, version: str) -> None:
        """Nothing on these wires depends on it."""

    def end(self, reason: str) -> None:
        """The connection is over; everyone who waits is told. May be called twice."""
        self.peer.close(reason)
        if not self.ended.done():
            self.ended.set_result(reason)
