"""A standing connection of a host that takes notifications only."""

from collections.abc import Callable, Mapping
from typing import Any

from aggregator.wire.peer import NoBackChannel


class FakeConnection:
    """A connection to a host that passes each notification to `notified`; the host cannot be asked."""

    def __init__(self, notified: Callable[[str, Mapping[str, Any]], object]) -> None:
        self._notified = notified

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        self._notified(method, params)

    async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        raise NoBackChannel
