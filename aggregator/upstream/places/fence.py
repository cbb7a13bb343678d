"""The fence around a connection that this replica may use only while it holds a lease."""

from collections.abc import Mapping
from typing import Any

from aggregator.domain.errors import UpstreamUnavailable
from aggregator.replicas.leases import Held
from aggregator.upstream.connection import Connection, JsonRpcRequest
from aggregator.wire.pending_request import AnswerReceiver, PendingRequest


class FencedConnection(Connection):
    """A `Connection` that sends nothing once its lease may be another replica's."""

    def __init__(self, server: str, inner: Connection, held: Held) -> None:
        self._server = server
        self._inner = inner
        self._held = held
        self.ended = inner.ended

    def __repr__(self) -> str:
        return f"<FencedConnection to {self._server}, {self._held!r}>"

    def begin(self, request: JsonRpcRequest, receiver: AnswerReceiver | None = None) -> PendingRequest:
        """See `Connection`.

        Raises:
            UpstreamUnavailable: the lease is not good any more.
        """
        if not self._is_good():
            raise UpstreamUnavailable(self._server, f"{self._server} is being taken over by another replica.")
        return self._inner.begin(request, receiver)

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """See `Connection`."""
        if self._is_good():
            await self._inner.notify(method, params)

    def use_version(self, version: str) -> None:
        """See `Connection`."""
        self._inner.use_version(version)

    def _is_good(self) -> bool:
        if not self._held.good and not self.ended.done():
            # No further call comes here: it waits for the next owner.
            self.ended.set_result("another replica may run it by now")
        return self._held.good
