"""The down servers announced to one receiver: after a grace period, and as back only if announced as down."""

import asyncio
from collections.abc import Callable, Iterable
from time import monotonic

# Announces that a server is down (`back` None), or is back after so many seconds.
AnnounceServer = Callable[[str, str, float | None], None]


class DownServers:
    """The servers that are down, each with its timer until the announcement."""

    def __init__(self, grace: float, announce: AnnounceServer, announced: Iterable[tuple[str, float]] = ()) -> None:
        self._grace = grace
        self._announce = announce
        self._reasons: dict[str, str] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        # The time of failure of each announced server, by the monotonic clock.
        self._announced: dict[str, float] = dict(announced)

    @property
    def announced(self) -> tuple[tuple[str, float], ...]:
        """The servers announced as down, with the time of failure."""
        return tuple(self._announced.items())

    def down(self, server: str, reason: str) -> None:
        """Record that a server is down; it is announced after the grace period."""
        self._reasons[server] = reason
        if server not in self._announced and server not in self._timers:
            began = monotonic()
            self._timers[server] = asyncio.get_running_loop().call_later(self._grace, self._due, server, began)

    def up(self, server: str) -> None:
        """Record that a server is up; it is announced if its failure was."""
        began = self._announced.get(server)
        self.forget(server)
        if began is not None:
            self._announce(server, "", monotonic() - began)

    def forget(self, server: str) -> None:
        """Tell nothing more of a server: it is switched off or taken out."""
        timer = self._timers.pop(server, None)
        if timer is not None:
            timer.cancel()
        self._announced.pop(server, None)
        self._reasons.pop(server, None)

    def close(self) -> None:
        """End the timers."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _due(self, server: str, began: float) -> None:
        del self._timers[server]
        self._announced[server] = began
        self._announce(server, self._reasons.get(server, ""), None)
