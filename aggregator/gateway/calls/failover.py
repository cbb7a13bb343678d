"""Which tools of other servers stand in for a tool while its own server is away, and who is asked by a call.

Law: the rulings on the tool that the agent named stay in force, and those on the one that stands in come beside them:
no way leads around a policy. And no call goes on to another server that may already have been run.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from math import inf
from time import monotonic
from typing import Final

from aggregator.config.model import ServerConfig
from aggregator.config.servers.fallbacks import split
from aggregator.domain.errors import OverLimit, UpstreamHttpStatus, UpstreamLost, UpstreamRefused, UpstreamUnavailable
from aggregator.domain.records import ToolRecord
from aggregator.policy.limits import Limits, ResultLimit
from aggregator.schemas.compatible import misfit
from aggregator.upstream.upstream import Upstream

log = logging.getLogger(__name__)

# So long one that is preferred has to be well before calls go back to it.
STABLE: Final = 30.0
# By these somebody before a server says that it is not there; the call may have come through all the same.
_PASSING: Final = frozenset({502, 503, 504})
# By these a server says that it does not even look at the call: it is not there, or wants to be left alone.
_NOT_RUN: Final = frozenset({404, 410, 429})
_VERDICTS: Final = 10_000
_NAMED: Final = 5

ToolsOf = Callable[[Upstream], tuple[ToolRecord, ...]]
# Servers in the order of preference.
Line = tuple[str, ...]


def choose(since: Sequence[float | None], current: int, now: float) -> int | None:
    """Who is to answer, of several in the order of preference: `since` when each has been well, None for who is not.

    `current` answered last. It stays, while it is well, until one before it has been well for `STABLE` seconds.
    """
    for number, well in enumerate(since[:current]):
        if well is not None and now - well >= STABLE:
            return number
    if since[current] is not None:
        return current
    return next((number for number, well in enumerate(since) if well is not None), None)


def goes_on(error: Exception, *, repeatable: bool, first: bool) -> bool:
    """Whether another server may be asked after this: the call was surely not run, or may be run again. `first`: it was
    the turn of the one that the agent named, whose limits hold for all."""
    if isinstance(error, OverLimit):
        return not first
    if isinstance(error, UpstreamUnavailable | UpstreamRefused):
        return repeatable or "begun" not in error.details
    if isinstance(error, UpstreamHttpStatus):
        status = error.details["status"]
        return status in _NOT_RUN or (repeatable and status in _PASSING)
    return repeatable and isinstance(error, UpstreamLost)


def together(first: Limits, other: Limits, *, charged: bool) -> Limits:
    """The limits on a call of one tool that another stands in for; none counts it twice. `charged`: it was counted
    against the first's before."""
    own = [limit for limit in first.counted if not charged or limit.kind == "concurrent"]
    counters = {limit.counter for limit in first.counted}
    results: list[ResultLimit] = [one.result for one in (first, other) if one.result is not None]
    return Limits(
        (*own, *(limit for limit in other.counted if limit.counter not in counters)),
        min(results, key=lambda result: result.most, default=None),
    )


class Failover:
    """`restock` says what there is; `others` are then those that may stand in for a tool, by its name, and `problems`
    the pairs that were configured and do not go together."""

    def __init__(self, links: Mapping[str, Upstream]) -> None:
        self._links = links
        self.others: dict[str, tuple[ToolRecord, ...]] = {}
        self._verdicts: dict[tuple[str, str, str, str], str | None] = {}
        self._current: dict[Line, str] = {}
        self._gave_way: dict[str, float] = {}
        self._seen: list[tuple[ServerConfig, tuple[ToolRecord, ...]]] = []
        self.problems: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<Failover for {len(self.others)} tools, {len(self.problems)} problems>"

    def of(self, tool: ToolRecord) -> tuple[ToolRecord, ...]:
        """What may stand in for it, best first."""
        return self.others.get(tool.name, ())

    def covers(self, tool: ToolRecord) -> bool:
        """Whether a call of it could be answered although its own server is away."""
        others = self.others
        return tool.name in others and any(self._is_ready(other.server) for other in others[tool.name])

    def answering(self, server: str) -> list[str]:
        """The other servers to which calls of this one's tools go now."""
        lines = (line for line in self._current if line[0] == server)
        numbers = ((line, self._choice(line)) for line in lines)
        return sorted({line[number] for line, number in numbers if number})

    def order(self, line: Sequence[ToolRecord]) -> Iterator[tuple[ToolRecord, bool]]:
        """Whom to ask, one after the other until one has it, and whether somebody is left who is well.

        The first one has its turn in any case: if nobody else can, its own state is the answer.
        """
        servers = tuple(tool.server for tool in line)
        tried: set[int] = set()

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

    def gave_way(self, server: str) -> None:
        """A server that seemed well could not take a call."""
        self._gave_way[server] = monotonic()

    def restock(self, tools_of: ToolsOf) -> None:
        """The servers have other tools, or others stand in for them."""
        seen = [(link.config, tools_of(link)) for link in self._links.values()]
        if len(seen) == len(self._seen) and all(
            config is known and tools is had for (config, tools), (known, had) in zip(seen, self._seen, strict=True)
        ):
            return
        self._seen = seen
        problems: list[str] = []
        self.others = {}
        paired = [(config, tools) for config, tools in seen if config.fallbacks or config.tools.fallbacks]
        if paired:
            by_server = {config.id: {tool.own_name: tool for tool in tools} for config, tools in seen}
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
        self._gave_way = {server: at for server, at in self._gave_way.items() if server in known}

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
            for server, own in _named(config, tool.own_name):
                other = by_server.get(server, {}).get(own)
                if other is None:
                    # One that nobody has seen yet may have it.
                    if by_server.get(server):
                        missing.setdefault(server, []).append(own)
                elif (why := self._misfit(tool, other)) is not None:
                    problems.append(f"{other.name} cannot stand in for {tool.name}: {why}.")
                else:
                    found.append(other)
            if found:
                self.others[tool.name] = tuple(found)
        for server, names in missing.items():
            said = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
            problems.append(f"{server} cannot stand in for these tools of {config.id}, since it has none named {said}.")

    def _misfit(self, tool: ToolRecord, other: ToolRecord) -> str | None:
        key = tool.name, tool.version, other.name, other.version
        if key not in self._verdicts:
            if len(self._verdicts) >= _VERDICTS:
                self._verdicts.clear()
            self._verdicts[key] = unfit(tool, other)
        return self._verdicts[key]

    def _well(self, server: str) -> float | None:
        """Since when a server has been well; None if it is not.

        One that is asleep is, since a call wakes it, and one that was woken; one that never was there is not.
        """
        link = self._links.get(server)
        if link is None or not link.health.answers:
            return None
        woken = link.state == "starting" and link.connect_seconds is not None
        if link.state == "ready" or woken or link.lifecycle.startable:
            return max(link.health.since, self._gave_way.get(server, -inf))
        return None

    def _is_ready(self, server: str) -> bool:
        link = self._links.get(server)
        return link is not None and (link.state == "ready" or link.lifecycle.startable)

    def _use(self, servers: Line, number: int) -> None:
        before = self._current.get(servers, servers[0])
        if before == servers[number]:
            return
        self._current[servers] = servers[number]
        if number == 0:
            log.info("calls for server %s go to it again", servers[0])
        else:
            log.warning("calls for server %s go to %s", servers[0], servers[number])


def unfit(tool: ToolRecord, other: ToolRecord) -> str | None:
    """Return why `other` surely cannot stand in for `tool`, by the top level of their schemas; None where it may.

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


def _named(config: ServerConfig, own: str) -> list[tuple[str, str]]:
    """The servers and tools that are to stand in for a tool of this server."""
    for pattern, named in config.tools.fallbacks.items():
        if fnmatchcase(own, pattern):
            return [split(one, own) for one in named]
    return [(server, own) for server in config.fallbacks]
