"""The fence around a connection that this replica may use only while it holds a lease."""

from collections.abc import Coroutine, Mapping
from typing import Any

from aggregator.domain.errors import UpstreamUnavailable
from aggregator.replicas.leases import Held
from aggregator.upstream.caller import RunningCall
from aggregator.upstream.connection import Connection
from aggregator.wire.sent_request import AnswerReceiver, OnProgress, SentRequest


class FencedConnection:
    """A `Connection` that sends nothing once its lease may be another replica's."""

    def __init__(self, server: str, inner: Connection, held: Held) -> None:
        self._server = server
        self._inner = inner
        self._held = held
        self.ended = inner.ended

    def __repr__(self) -> str:
        return f"<FencedConnection to {self._server}, {self._held!r}>"

    def request(
        self,
        method: str,
        params: dict[str, Any],
        on_progress: OnProgress | None = None,
        headers: Mapping[str, str] | None = None,
        origin: RunningCall | None = None,
    ) -> Coroutine[Any, Any, dict[str, Any]]:
        """See `Connection`.

        Raises:
            UpstreamUnavailable: the lease is not good any more.
        """
        if not self._is_good():
            raise UpstreamUnavailable(self._server, f"{self._server} is being taken over by another replica.")
        return self._inner.request(method, params, on_progress, headers, origin)

    def begin(
        self,
        method: str,
        params: dict[str, Any],
        receiver: AnswerReceiver,
        on_progress: OnProgress | None = None,
        headers: Mapping[str, str] | None = None,
        origin: RunningCall | None = None,
    ) -> SentRequest | None:
        """See `Connection`."""
        if not self._is_good():
            return None
        return self._inner.begin(method, params, receiver, on_progress, headers, origin)

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
