"""Back channels of a call that record what a gateway sends to the host."""

import itertools
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from aggregator.wire.peer import NoBackChannel
from tests.peers.toolbox import Json


class FakeBackChannel:
    """A back channel of a host that cannot be asked; `notifications` are the method and params of each."""

    _ids = itertools.count(1)

    def __init__(self) -> None:
        self.request_id: str | int = next(self._ids)
        self.notifications: list[tuple[str, Mapping[str, Any]]] = []

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Record a notification."""
        self.notifications.append((method, params))

    async def ask(self, method: str, params: Json) -> Json:
        """Refuse, as a host without a back channel does."""
        raise NoBackChannel


class AnsweringBackChannel(FakeBackChannel):
    """A back channel whose `person` answers elicitations, or that refuses them; `asked` are the params of each."""

    def __init__(self, person: Callable[[Json], Awaitable[Json]] | None = None) -> None:
        super().__init__()
        self._person = person
        self.asked: list[Json] = []

    async def ask(self, method: str, params: Json) -> Json:
        """Record an elicitation and return the answer of the person."""
        assert method == "elicitation/create"
        self.asked.append(params)
        if self._person is None:
            raise NoBackChannel
        return await self._person(params)
