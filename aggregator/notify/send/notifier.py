"""The notifier: the receivers of each notice, and the tasks that deliver it.

A receiver learns of a down server after a grace period, and of its return only if it learnt of its end. Of the limits
that agents reach, the first is sent at once, later ones together.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from time import monotonic
from typing import Any, Final, NamedTuple

from aggregator.domain.bounds.tasks import Tasks
from aggregator.notify.config import NoticeType, ReceiverConfig
from aggregator.notify.send.delivery import RunProgram, delivery_to
from aggregator.notify.send.notice import Notice, NoticeWriter
from aggregator.notify.send.receiver import NoticeCounts, PauseFor, Receiver

log = logging.getLogger(__name__)

# Seconds for the last notices when the process ends.
LAST_MOMENT: Final = 2.0

# Announces that a server is down (`back` None), or is back after so many seconds.
AnnounceServer = Callable[[str, str, float | None], None]

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


class _Subscriber:
    """A receiver with its subscriptions, and the state that decides when to send."""

    def __init__(self, receiver: Receiver, writer: NoticeWriter, announced: Iterable[tuple[str, float]] = ()) -> None:
        config = self.config = receiver.config
        self.receiver = receiver
        self.task: asyncio.Task[Any] | None = None
        self.down_servers = DownServers(config.grace, self._announce_server, announced)
        self.reached_limits = ReachedLimits(self._announce_limit)
        self._writer = writer

    def wants(self, kind: NoticeType, agent: str | None = None, server: str | None = None) -> bool:
        """Tell whether the receiver gets a notice of this type about this agent and server."""
        config = self.config
        return kind in config.events and _fits(agent, config.agents) and _fits(server, config.servers)

    def put(self, notice: Notice) -> None:
        """Queue a notice."""
        self.receiver.put(notice)

    def close(self) -> None:
        """End the timers, and send the gathered notices."""
        self.down_servers.close()
        self.reached_limits.close()

    def _announce_server(self, server: str, reason: str, back: float | None) -> None:
        kind: NoticeType = "server.down" if back is None else "server.back"
        if self.wants(kind, server=server):
            written = self._writer.server_down(server, reason) if back is None else None
            self.put(written or self._writer.server_back(server, back or 0.0))

    def _announce_limit(self, reached: ReachedLimit, times: int) -> None:
        self.put(self._writer.limit_reached(*reached, times))


class Notifier:
    """The announcements to all receivers. Every method but those with `async` returns at once.

    `run` runs the program of a receiver; `writer` words the notices.
    """

    def __init__(
        self,
        receivers: Iterable[ReceiverConfig],
        writer: NoticeWriter,
        run: RunProgram,
        pause: PauseFor = asyncio.sleep,
    ) -> None:
        self.writer = writer
        self._run = run
        self._pause = pause
        self._tasks: Tasks | None = None
        # The servers that are down now, and why: receivers that are added later get them too.
        self._down: dict[str, str] = {}
        self._subscribers = {config.name: self._subscribe(config) for config in receivers}

    def __repr__(self) -> str:
        return f"<Notifier {list(self._subscribers)}>"

    def __bool__(self) -> bool:
        """Return whether there is anyone to tell."""
        return bool(self._subscribers)

    def wants_limits(self) -> bool:
        """Tell whether any receiver subscribes to reached limits."""
        return any("limit.reached" in one.config.events for one in self._subscribers.values())

    def announce(self, kind: NoticeType, agent: str | None, server: str | None, write: Callable[[], Notice]) -> None:
        """Tell those who want it; the notice is written only if there are any."""
        wanting = [one for one in self._subscribers.values() if one.wants(kind, agent, server)]
        if wanting:
            notice = write()
            for one in wanting:
                one.put(notice)

    def server_down(self, server: str, reason: str) -> None:
        """Note that a server is not there."""
        self._down[server] = reason
        for one in self._subscribers.values():
            one.down_servers.down(server, reason)

    def server_up(self, server: str) -> None:
        """Note that a server is there."""
        self._down.pop(server, None)
        for one in self._subscribers.values():
            one.down_servers.up(server)

    def server_gone(self, server: str) -> None:
        """Note that a server is switched off or taken out."""
        self._down.pop(server, None)
        for one in self._subscribers.values():
            one.down_servers.forget(server)

    def limit_reached(self, reached: ReachedLimit) -> None:
        """Note that a call was refused because of a limit."""
        for one in self._subscribers.values():
            if one.wants("limit.reached", reached.agent, reached.server):
                one.reached_limits.reached(reached)

    def reconfigure(self, receivers: Iterable[ReceiverConfig]) -> None:
        """Take other receivers. One that is as before goes on; what waits for a changed one stays."""
        before, self._subscribers = self._subscribers, {}
        for config in receivers:
            old = before.get(config.name)
            if old is not None and old.config == config:
                self._subscribers[config.name] = before.pop(config.name)
                continue
            if old is None:
                new = self._subscribe(config)
            else:
                self._end(before.pop(config.name))
                new = self._subscribe(config, old.receiver.take_waiting(), old.down_servers.announced)
            self._subscribers[config.name] = new
            for server, reason in self._down.items():
                new.down_servers.down(server, reason)
            self._begin(new)
        for gone in before.values():
            self._end(gone)
            left = len(gone.receiver.take_waiting())
            if left:
                log.warning("notify: %s was taken out; %d notices for it are dropped", gone.config.name, left)

    @asynccontextmanager
    async def running(self, hurry: asyncio.Event) -> AsyncIterator[None]:
        """Send notices inside; on exit, wait a moment for the queued ones, unless `hurry` is set."""
        async with Tasks("the notices") as tasks:
            self._tasks = tasks
            for one in self._subscribers.values():
                self._begin(one)
            try:
                yield
            finally:
                for one in self._subscribers.values():
                    one.close()
                await self._last_notices(tasks, hurry)
                self._tasks = None

    def report(self) -> dict[str, Any]:
        """Return the state of each receiver for `/readyz`."""
        return {name: one.receiver.report() for name, one in self._subscribers.items()}

    def counts(self) -> Mapping[str, NoticeCounts]:
        """Return the counts of each receiver for the metrics."""
        return {name: one.receiver.counts() for name, one in self._subscribers.items()}

    def _subscribe(
        self, config: ReceiverConfig, waiting: Iterable[Notice] = (), announced: Iterable[tuple[str, float]] = ()
    ) -> _Subscriber:
        receiver = Receiver(config, delivery_to(config, self._run), waiting, self._pause)
        return _Subscriber(receiver, self.writer, announced)

    def _begin(self, one: _Subscriber) -> None:
        if self._tasks is not None:
            one.task = self._tasks.start(one.receiver.run())

    def _end(self, one: _Subscriber) -> None:
        one.close()
        if one.task is not None:
            one.task.cancel()

    async def _last_notices(self, tasks: Tasks, hurry: asyncio.Event) -> None:
        settled = [tasks.start(one.receiver.wait_settled()) for one in self._subscribers.values()]
        if settled and not hurry.is_set():
            hurried = tasks.start(hurry.wait())
            all_settled = tasks.start(_all(settled))
            await asyncio.wait({hurried, all_settled}, timeout=LAST_MOMENT, return_when=asyncio.FIRST_COMPLETED)
        for one in self._subscribers.values():
            left = one.receiver.counts().waiting
            if left:
                log.warning("notify: %d notices for %s were not delivered before the end", left, one.config.name)


async def _all(tasks: Iterable[asyncio.Task[Any]]) -> None:
    await asyncio.wait(list(tasks))


def _fits(name: str | None, patterns: tuple[str, ...]) -> bool:
    """Return whether one of the patterns matches; also without a name, and without patterns."""
    return name is None or not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)
