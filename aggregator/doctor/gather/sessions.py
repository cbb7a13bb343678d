"""Sessions in the place of each host: every different start and address of the host files, or our own start."""

import asyncio
import sys
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import Final

from aggregator.config.servers.secrets import secrets_in
from aggregator.doctor.checks.gateway import HttpAnswer, of_answer
from aggregator.doctor.checks.host_files import StartFacts, of_failed_start, of_version
from aggregator.doctor.checks.model_view import ToolsSeen, ToolsThere, of_seen
from aggregator.doctor.finding import CheckFinding
from aggregator.doctor.gather.host_files import HostStart, start_environment
from aggregator.doctor.gather.http_session import http_session
from aggregator.doctor.gather.one_session import LINE_SHOWN, LoggedServer, SessionTools
from aggregator.doctor.gather.stdio_session import stdio_session
from aggregator.domain.bounds.tasks import Tasks
from aggregator.hosts.every_host import limits_of
from aggregator.hosts.model import HostProgram, Machine
from aggregator.redaction.beginning import beginning
from aggregator.redaction.redactor import Redactor

# Starts that are tried, and those that run at once: each starts every server.
_MOST: Final = 6
_AT_ONCE: Final = 2
_TITLE: Final = "A host over stdio"


@dataclass(frozen=True, slots=True)
class HostSession:
    """The result of one start: `start` is the host's, None for our own; `seen` has the tools."""

    start: HostStart | None
    title: str
    host: str | None
    agent: str
    command: str
    place: str | None
    seen: SessionTools

    @property
    def over_http(self) -> bool:
        """True if it was an address."""
        return self.start is not None and self.start.url is not None


@dataclass(frozen=True, slots=True)
class SessionPlan:
    """The common part of all sessions: `patience` seconds for all of them, and the secrets that are not shown.

    A session is kept until it has told of the servers that `awaited` returns for its variables. `args` are added to the
    words of our own program.
    """

    redactor: Redactor
    patience: float
    awaited: Callable[[Mapping[str, str]], Collection[str]]
    args: tuple[str, ...] = ()


async def host_sessions(starts: Iterable[HostStart], plan: SessionPlan) -> list[HostSession]:
    """Return the result of each start; equal starts run once."""
    every = list(starts)
    different = {start.same: start for start in reversed(every)}
    chosen = dict(list(different.items())[:_MOST])
    each = plan.patience / max(1, ceil(len(chosen) / _AT_ONCE))
    turns = asyncio.Semaphore(_AT_ONCE)
    async with Tasks("the sessions of the doctor") as tasks:
        running = {same: tasks.start(_session(start, plan, each, turns)) for same, start in chosen.items()}
        made = dict(zip(running, await asyncio.gather(*running.values()), strict=True))
    return [_of_start(made[start.same], start) for start in every if start.same in made]


async def default_session(
    host: HostProgram | None, config: Path, agent: str, machine: Machine, plan: SessionPlan
) -> HostSession:
    """Return the result of a host's start after `aggregator install`."""
    id = host.id if host is not None else None
    args = ("-m", "aggregator", "stdio", "--config", str(config), "--agent", agent, *plan.args)
    env = start_environment(id, machine)
    awaited = await asyncio.to_thread(plan.awaited, env)
    client = limits_of(id).client
    seen = await stdio_session(sys.executable, args, env, str(machine.home), client, plan.patience, awaited)
    title = host.title if host is not None else _TITLE
    return HostSession(None, title, id, agent, "aggregator stdio", None, _redacted(seen, plan.redactor))


def of_session(session: HostSession, there: ToolsThere | None, own_version: str) -> list[CheckFinding]:
    """Return the findings about one session."""
    start, seen = session.start, session.seen
    place = session.place
    found = list(of_version(session.title, seen.version, own_version, place, session.host or "HOST"))
    if session.over_http and start is not None and seen.fault is not None:
        url = Redactor(_secrets(start))(start.shown_url)
        status = seen.status if seen.fault == "refused" else None
        answer = HttpAnswer(session.title, start.host.id, place, url, status, seen.said)
        return [*found, *of_answer(answer)]
    if seen.fault is not None:
        fault = seen.fault if seen.fault in ("ended", "hangs", "not_started") else "not_mcp"
        started = session.host or "HOST"
        facts = StartFacts(session.title, started, place, session.command, fault, seen.seconds, seen.words)
        return [*found, of_failed_start(facts)]
    entry = start.name if start is not None else "aggregator"
    tools = ToolsSeen(session.title, session.agent, seen.names, seen.tokens, place, entry)
    return [*found, *of_seen(tools, there, limits_of(session.host))]


def as_data(session: HostSession, there: ToolsThere | None) -> dict[str, object]:
    """Return a session as plain JSON values."""
    seen = session.seen
    return {
        "host": session.host,
        "title": session.title,
        "frontend": "http" if session.over_http else "stdio",
        "agent": session.agent,
        "file": session.place,
        "tools": len(seen.tools) if seen.fault is None else None,
        "tokens": seen.tokens if seen.fault is None else None,
        "tokens_of_all": there.tokens if there is not None else None,
        "tokens_with_search": there.search if there is not None else None,
        "version": seen.version,
        "fault": seen.fault,
        "seconds": round(seen.seconds, 2),
    }


def _of_start(session: HostSession, start: HostStart) -> HostSession:
    """Return a session as the result of another host, whose start cannot differ."""
    title, host, place = start.host.title, start.host.id, str(start.place)
    return replace(session, start=start, title=title, host=host, agent=start.agent, place=place)


async def _session(start: HostStart, plan: SessionPlan, patience: float, turns: asyncio.Semaphore) -> HostSession:
    client = start.host.limits.client
    own = Redactor(_secrets(start))
    async with turns:
        if start.url is not None:
            seen = await asyncio.to_thread(http_session, start.url, start.headers, client, patience)
            command = "an address"
        else:
            assert start.command is not None
            args = (*start.args, *plan.args) if "stdio" in start.args else start.args
            awaited = await asyncio.to_thread(plan.awaited, start.env)
            seen = await stdio_session(start.command, args, start.env, start.cwd, client, patience, awaited)
            command = own(plan.redactor(" ".join((Path(start.command).name, *start.args))))[:200]
    seen = _redacted(_redacted(seen, plan.redactor), own)
    return HostSession(start, start.host.title, start.host.id, start.agent, command, str(start.place), seen)


def _secrets(start: HostStart) -> set[str]:
    fields: Mapping[str, object] = {
        "env": start.own_env,
        "headers": start.headers,
        "args": start.args,
        "url": start.url,
    }
    return set(secrets_in(fields))


def _redacted(seen: SessionTools, redactor: Redactor) -> SessionTools:
    def shown(text: str) -> str:
        return beginning(text, redactor, LINE_SHOWN)

    words: Sequence[str] = tuple(map(shown, seen.words))
    told = {
        id: LoggedServer(one.state, shown(one.reason), deque(map(shown, one.words))) for id, one in seen.told.items()
    }
    return replace(seen, words=words, said=shown(seen.said), told=told)
