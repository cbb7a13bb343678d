"""Failover: the tools of other servers that stand in for a tool, and the attempts to have one call answered.

Law: the rulings on the tool that the agent named stay in force, and those on the one that stands in come beside them:
failover leads around no policy. And no call goes on to another server that may already have been run.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from math import inf
from time import monotonic
from types import TracebackType
from typing import Final, Protocol, Self

from aggregator.config.server_config import ServerConfig
from aggregator.config.servers.fallbacks import split
from aggregator.domain.call_record import CallRecord
from aggregator.domain.errors import (
    OverLimit,
    StaleState,
    UpstreamError,
    UpstreamHttpStatus,
    UpstreamLost,
    UpstreamRefused,
    UpstreamUnavailable,
)
from aggregator.domain.records import ToolRecord
from aggregator.policy.limits import Limits, strictest
from aggregator.schemas.compatible import misfit
from aggregator.upstream.upstream import Upstream

log = logging.getLogger(__name__)

# Seconds that a preferred server has to be well before calls go back to it.
STABLE: Final = 30.0
# Statuses by which a proxy says that a server is not there; the call may have come through all the same.
_PASSING: Final = frozenset({502, 503, 504})
# Statuses by which a server says that it did not look at the call: it is not there, or wants fewer requests.
_NOT_RUN: Final = frozenset({404, 410, 429})
_VERDICTS: Final = 10_000
_NAMED: Final = 5

ToolsOf = Callable[[Upstream], tuple[ToolRecord, ...]]
# Servers in the order of preference.
Line = tuple[str, ...]


def choose(since: Sequence[float | None], current: int, now: float) -> int | None:
    """Return which of several servers is to answer, by its place in the order of preference; None if none is well.

    `since` says since when each has been well, None for one that is not. `current` answered last: it stays, while it is
    well, until one before it has been well for `STABLE` seconds.
    """
    for number, well in enumerate(since[:current]):
        if well is not None and now - well >= STABLE:
            return number
    if since[current] is not None:
        return current
    return next((number for number, well in enumerate(since) if well is not None), None)


def goes_on(error: Exception, *, repeatable: bool, first: bool) -> bool:
    """Return whether another server may be tried after this error: the call was surely not run, or may be run again.

    `first`: the attempt was that of the called tool, whose limits hold for all.
    """
    if isinstance(error, OverLimit):
        return not first
    if isinstance(error, UpstreamUnavailable | UpstreamRefused):
        return repeatable or "begun" not in error.details
    if isinstance(error, UpstreamHttpStatus):
        status = error.details["status"]
        return status in _NOT_RUN or (repeatable and status in _PASSING)
    return repeatable and isinstance(error, UpstreamLost)


def together(first: Limits, other: Limits, *, charged: bool) -> Limits:
    """Return the limits on a call of one tool that another stands in for; none counts the call twice.

    `charged`: the call was counted against the first's before.
    """
    own = [limit for limit in first.counted if not charged or limit.kind == "concurrent"]
    counters = {limit.counter for limit in first.counted}
    return Limits(
        (*own, *(limit for limit in other.counted if limit.counter not in counters)),
        strictest((first.result, other.result)),
        strictest((first.tokens, other.tokens)),
    )


class Failover:
    """The tools that may stand in for others, rebuilt whenever servers have other tools.

    `others` are those that may stand in for a tool, by its name, and `problems` the configured pairs that do not go
    together.
    """

    def __init__(self, upstreams: Mapping[str, Upstream]) -> None:
        self._upstreams = upstreams
        self.others: dict[str, tuple[ToolRecord, ...]] = {}
        self._verdicts: dict[tuple[str, str, str, str], str | None] = {}
        self._current: dict[Line, str] = {}
        self._passed_over: dict[str, float] = {}
        self._seen: list[tuple[ServerConfig, tuple[ToolRecord, ...]]] = []
        self.problems: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<Failover for {len(self.others)} tools, {len(self.problems)} problems>"

    def of(self, tool: ToolRecord) -> tuple[ToolRecord, ...]:
        """Return the tools that may stand in for a tool, best first."""
        return self.others.get(tool.name, ())

    def well_others(self, tool: ToolRecord) -> list[ToolRecord]:
        """Return the tools that may stand in for a tool and whose servers are well."""
        return [other for other in self.of(tool) if self._well(other.server) is not None]

    def covers(self, tool: ToolRecord) -> bool:
        """Return whether a call of a tool could be answered although its own server is away."""
        others = self.others
        return tool.name in others and any(self._is_ready(other.server) for other in others[tool.name])

    def answering(self, server: str) -> list[str]:
        """Return the other servers to which calls of this server's tools go now."""
        lines = (line for line in self._current if line[0] == server)
        numbers = ((line, self._choice(line)) for line in lines)
        return sorted({line[number] for line, number in numbers if number})

    def is_first(self, tools: Sequence[ToolRecord]) -> bool:
        """Return whether a call goes to the first of these tools now, and calls before it did."""
        servers = tuple(tool.server for tool in tools)
        return self._current.get(servers, servers[0]) == servers[0] and self._choice(servers) == 0

    def attempts(
        self, tools: Sequence[ToolRecord], starts: "StartsServers", *, resumed: bool, sent: bool = False
    ) -> "CallAttempts":
        """Return the attempts to have a call answered by one of these tools, the called one first.

        `resumed`: the call goes on with one that asked its host something, so only one of the servers knows it. `sent`:
        the called one has got the call.
        """
        order = ((tool, False) for tool in tools) if resumed else self.order(tools, sent=sent)
        return CallAttempts(self, tools[0], order, starts, resumed=resumed)

    def order(self, line: Sequence[ToolRecord], *, sent: bool = False) -> Iterator[tuple[ToolRecord, bool]]:
        """Yield the tools to try, one after the other, and whether a server is left that is well.

        The first tool is tried in any case: if no other can, its own server's state is the answer. `sent`: it is tried
        before all others.
        """
        servers = tuple(tool.server for tool in line)
        tried: set[int] = set()
        if sent:
            tried.add(0)
            yield line[0], self._choice(servers, tried) is not None

        while (number := self._choice(servers, tried)) is not None:
            self._use(servers, number)
            tried.add(number)
            yield line[number], self._choice(servers, tried) is not None
        if 0 not in tried:
            yield line[0], False

    def _choice(self, servers: Line, tried: Collection[int] = ()) -> int | None:
        since = [None if number in tried else self._well(server) for number, server in enumerate(servers)]
        before = self._current.get(servers)
        return choose(since, servers.index(before) if before is not None else 0, monotonic())

    def note_passed_over(self, server: str) -> None:
        """Note that a server that seemed well could not take a call."""
        self._passed_over[server] = monotonic()

    def rebuild(self, tools_of: ToolsOf) -> None:
        """Find out anew which tools go together, if servers have other tools or others stand in for them."""
        seen = [(upstream.config, tools_of(upstream)) for upstream in self._upstreams.values()]
        if len(seen) == len(self._seen) and all(
            config is known and tools is had for (config, tools), (known, had) in zip(seen, self._seen, strict=True)
        ):
            return
        self._seen = seen
        problems: list[str] = []
        self.others = {}
        paired = [(config, tools) for config, tools in seen if config.fallbacks or config.tools.fallbacks]
        if paired:
            by_server = {config.id: _by_name(tools) for config, tools in seen}
            for config, tools in paired:
                self._pair(config, tools, by_server, problems)
        for problem in problems:
            if problem not in self.problems:
                log.warning("%s", problem)
        self.problems = tuple(problems)
        pairs = {(config.id, other.server) for config, tools in paired for tool in tools for other in self.of(tool)}
        self._current = {
            line: who for line, who in self._current.items() if all((line[0], other) in pairs for other in line[1:])
        }
        known = {config.id for config, _ in seen}
        self._passed_over = {server: at for server, at in self._passed_over.items() if server in known}

    def _pair(
        self,
        config: ServerConfig,
        tools: Sequence[ToolRecord],
        by_server: Mapping[str, Mapping[str, ToolRecord]],
        problems: list[str],
    ) -> None:
        missing: dict[str, list[str]] = {}
        for tool in tools:
            found = []
            for server, names in _named(config, tool):
                known = by_server.get(server, {})
                other = next((known[name] for name in names if name in known), None)
                if other is None:
                    # A server whose tools are not known yet may have it.
                    if known:
                        missing.setdefault(server, []).append(names[0])
                elif (why := self._misfit(tool, other)) is not None:
                    problems.append(f"{other.name} cannot stand in for {tool.name}: {why}.")
                else:
                    found.append(other)
            if found:
                self.others[tool.name] = tuple(found)
        for server, lacking in missing.items():
            more = f" and {len(lacking) - _NAMED} more" if len(lacking) > _NAMED else ""
            said = ", ".join(lacking[:_NAMED]) + more
            problems.append(
                f"{server} cannot stand in for these tools of {config.id}, since it shows none named {said}."
            )

    def _misfit(self, tool: ToolRecord, other: ToolRecord) -> str | None:
        key = tool.name, tool.version, other.name, other.version
        if key not in self._verdicts:
            if len(self._verdicts) >= _VERDICTS:
                self._verdicts.clear()
            self._verdicts[key] = unfit(tool, other)
        return self._verdicts[key]

    def _well(self, server: str) -> float | None:
        """Return since when a server has been well; None if it is not.

        One that is stopped while idle is well, since a call starts it, and so is one that starts again; one that never
        came up is not.
        """
        upstream = self._upstreams.get(server)
        if upstream is None or not upstream.health.answers:
            return None
        woken = upstream.state == "starting" and upstream.connect_seconds is not None
        if upstream.state == "ready" or woken or upstream.lifecycle.startable:
            return max(upstream.health.since, self._passed_over.get(server, -inf))
        return None

    def _is_ready(self, server: str) -> bool:
        upstream = self._upstreams.get(server)
        return upstream is not None and (upstream.state == "ready" or upstream.lifecycle.startable)

    def _use(self, servers: Line, number: int) -> None:
        before = self._current.get(servers, servers[0])
        if before == servers[number]:
            return
        self._current[servers] = servers[number]
        if number == 0:
            log.info("calls for server %s go to it again", servers[0])
        else:
            log.warning("calls for server %s go to %s", servers[0], servers[number])


class StartsServers(Protocol):
    """The part that starts servers which were stopped while they were idle."""

    async def awake(self, tool: ToolRecord) -> None:
        """Return once the tool's server has come up or failed."""


class CallAttempts:
    """The attempts to have one call answered, one after the other: an async iterator of `CallAttempt`.

    At its end the failure is raised that the host is to hear of: that of the called tool's own server, if it was tried.
    """

    def __init__(
        self,
        failover: Failover,
        called: ToolRecord,
        order: Iterator[tuple[ToolRecord, bool]],
        starts: StartsServers,
        *,
        resumed: bool,
    ) -> None:
        self._failover = failover
        self.called = called
        self._order = order
        self._starts = starts
        self._resumed = resumed
        self._failure: StaleState | UpstreamError | OverLimit | None = None
        self._charged = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> "CallAttempt":
        found = next(self._order, None)
        if found is None:
            assert self._failure is not None, "the called tool is always tried"
            raise self._failure
        tool, others_left = found
        if tool is not self.called:
            await self._starts.awake(tool)
        return CallAttempt(self, tool, last=not others_left, charged=self._charged)

    def goes_on_after(self, tool: ToolRecord, error: BaseException | None, *, repeatable: bool) -> bool:
        """Return whether another tool may be tried after this error, which is kept for the end."""
        if not isinstance(error, StaleState | UpstreamError | OverLimit):
            return False
        first = tool is self.called
        if isinstance(error, StaleState):
            # The state of another server's question: one of those that follow knows it.
            if not self._resumed:
                return False
        elif self._resumed or not goes_on(error, repeatable=repeatable, first=first):
            return False
        if isinstance(error, UpstreamError):
            self._charged = True
            self._failover.note_passed_over(tool.server)
        if self._failure is None or first:
            self._failure = error
        return True


class CallAttempt:
    """One attempt to have a call answered.

    `tool` is the one that is tried. `last`: no other server is left that seems well. `charged`: an attempt before this
    one counted the call.
    """

    __slots__ = ("_attempts", "_record", "_repeatable", "charged", "last", "tool")

    def __init__(self, attempts: CallAttempts, tool: ToolRecord, *, last: bool, charged: bool) -> None:
        self._attempts = attempts
        self._record: CallRecord | None = None
        self._repeatable = False
        self.tool = tool
        self.last = last
        self.charged = charged

    def running(self, record: CallRecord, *, repeatable: bool) -> Self:
        """Return the attempt as a context manager, which swallows an error after which another tool may be tried.

        `repeatable`: the call may be run twice.
        """
        self._record, self._repeatable = record, repeatable
        return self

    def __enter__(self) -> None:
        self._name_other(self.tool.server if self.tool is not self._attempts.called else None)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not self._attempts.goes_on_after(self.tool, error, repeatable=self._repeatable):
            return False
        self._name_other(None)
        return True

    def _name_other(self, server: str | None) -> None:
        """Record the server that answers in place of the called one."""
        assert self._record is not None
        if self._record.sending.answered_by != server:
            self._record.sending = self._record.sending._replace(answered_by=server)


def unfit(tool: ToolRecord, other: ToolRecord) -> str | None:
    """Return why `other` surely cannot stand in for `tool`, by the top level of their schemas; None if it may.

    It has to take the arguments that `tool` takes, and to promise the structured results that `tool` promises. The
    arguments of each call are checked against its schema all the same.
    """
    why = misfit(tool.definition["inputSchema"], other.definition["inputSchema"])
    if why is not None:
        return f"of its arguments, {why}"
    promised, kept = tool.definition.get("outputSchema"), other.definition.get("outputSchema")
    if promised is None:
        return None
    if kept is None:
        return "it promises no structured result"
    why = misfit(kept, promised, named=False)
    return f"of its result, {why}" if why is not None else None


def _by_name(tools: Iterable[ToolRecord]) -> dict[str, ToolRecord]:
    """Return tools by their approved names, and by those that the server gives them now."""
    return {**{tool.sent_as: tool for tool in tools}, **{tool.own_name: tool for tool in tools}}


def _named(config: ServerConfig, tool: ToolRecord) -> list[tuple[str, tuple[str, ...]]]:
    """Return the servers that are configured to stand in for a tool of a server, with the names of the tool there."""
    for pattern, named in config.tools.fallbacks.items():
        if any(fnmatchcase(name, pattern) for name in tool.names):
            return [(server, (own,) if own else tool.names) for server, own in map(split, named)]
    return [(server, tool.names) for server in config.fallbacks]
