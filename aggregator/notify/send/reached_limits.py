"""The limits that agents reached, gathered for one receiver: the first is sent at once, later ones together."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

# Pairs of agent and rule that are gathered apart; further ones are dropped, since agents choose their own names.
MOST: Final = 1_000
# Seconds after a reached limit in which further refusals by it are counted before they are told, together.
GATHER: Final = 300.0


class ReachedLimit(NamedTuple):
    """One refusal: the caller, the tool and server, the rule and its place (`FILE:LINE`)."""

    agent: str
    tool: str
    server: str | None
    rule: str | None
    source: str | None


# Announces that a limit was reached, so many times.
AnnounceLimit = Callable[[ReachedLimit, int], None]


@dataclass(slots=True)
class _Gathered:
    last: ReachedLimit
    timer: asyncio.TimerHandle
    more: int = 0


class ReachedLimits:
    """The limits that were announced, by agent and rule, and how often each was reached since."""

    def __init__(self, announce: AnnounceLimit) -> None:
        self._announce = announce
        self._open: dict[tuple[str, str | None, str | None], _Gathered] = {}

    def reached(self, limit: ReachedLimit) -> None:
        """Note one refusal."""
        key = limit.agent, limit.rule, limit.source
        known = self._open.get(key)
        if known is not None:
            known.last = limit
            known.more += 1
        elif len(self._open) < MOST:
            self._open[key] = _Gathered(limit, self._timer(key))
            self._announce(limit, 1)

    def close(self) -> None:
        """Send the counts, and end the timers."""
        for key in list(self._open):
            self._open[key].timer.cancel()
            self._due(key, last=True)

    def _timer(self, key: tuple[str, str | None, str | None]) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(GATHER, self._due, key)

    def _due(self, key: tuple[str, str | None, str | None], last: bool = False) -> None:
        gathered = self._open.pop(key)
        if not gathered.more:
            return
        if not last:
            # The period goes on: later refusals are gathered again.
            self._open[key] = _Gathered(gathered.last, self._timer(key))
        self._announce(gathered.last, gathered.more)
