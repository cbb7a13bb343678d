"""Servers where a host starts them: which a session must name, those that came up in this shell alone, and the
variables that only this shell has.

Rule: these functions read the configuration again: call them in a thread.
"""

import sys
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from aggregator.config.errors import ConfigError
from aggregator.config.load import Loaded, load
from aggregator.doctor.checks.host_starts import LostServer, of_host_start
from aggregator.doctor.checks.servers import ServerFacts
from aggregator.doctor.finding import CheckFinding
from aggregator.doctor.gather.configuration import lost_servers
from aggregator.doctor.gather.host_files import start_environment
from aggregator.doctor.gather.sessions import HostSession, SessionPlan
from aggregator.domain.shell import foreign_word
from aggregator.hosts.every_host import host_named
from aggregator.hosts.model import Machine
from aggregator.redaction.redactor import Redactor
from aggregator.upstream.process.environment import network_variables, passed_on

# Variables that `aggregator stdio` adds to its own.
INTERPRETER: Final = {"AGGREGATOR_PYTHON": sys.executable}
_TOLD_AT: Final = ("debug", "info")
_ENTRY: Final = "aggregator"

# Variables of a session of work, which differ and change nothing for a server.
_INDIFFERENT: Final = frozenset(
    {"SHELL", "TERM", "LANG", "LANGUAGE", "TZ", "LOGNAME", "USER", "USERNAME", "TMPDIR", "TEMP", "TMP"}
)


def session_plan(loaded: Loaded | None, tried: Sequence[ServerFacts], patience: float) -> SessionPlan:
    """Return the plan of the sessions: each tells of the servers that came up here and are switched on there."""
    if loaded is None:
        return SessionPlan(Redactor(), patience, lambda _: ())
    eager = {server.id for server in loaded.config.servers if server.enabled and server.start == "eager"}
    up = {server.id for server in tried if server.state == "ready"} & eager

    def awaited(env: Mapping[str, str]) -> Collection[str]:
        return up - {server for server, _ in lost_servers(loaded, {**INTERPRETER, **env})}

    # A quieter log would not tell of them.
    args = () if loaded.config.log.level in _TOLD_AT else ("--log-level", "info")
    return SessionPlan(loaded.redactor, patience, awaited if _tells(loaded) else lambda _: (), args)


def of_servers_there(
    session: HostSession, loaded: Loaded, tried: Sequence[ServerFacts], machine: Machine
) -> list[CheckFinding]:
    """Return the findings about servers that came up in this process, and not in the session of a host."""
    seen, start = session.seen, session.start
    if session.over_http or seen.fault is not None or not _tells(loaded):
        return []
    env = start.env if start is not None else start_environment(session.host, machine)
    awaited = session_plan(loaded, tried, 0.0).awaited(env)
    lacking = differing(loaded, {**INTERPRETER, **machine.environ}, {**INTERPRETER, **env})
    lost = []
    for server in tried:
        told = seen.told.get(server.id)
        if server.id not in awaited or (told is not None and told.state == "ready"):
            continue
        reason, words = (told.reason, list(told.words)) if told is not None else ("", [])
        lost.append(LostServer(server.id, server.place, reason, words, lacking.get(server.id, ())))
    took = {server.id: server.seconds for server in tried if server.seconds is not None}
    declares = host_named(session.host).limits.declares if session.host is not None else None
    return list(of_host_start(session.title, _install(session), seen.waited, lost, took, declares))


def _tells(loaded: Loaded) -> bool:
    """Return whether the log, at level `info`, tells of the states of servers."""
    return not any(name.partition(".")[0] == "upstream" for name in loaded.config.log.levels)


def _install(session: HostSession) -> str:
    name = session.start.name if session.start is not None else _ENTRY
    named = f" --name {foreign_word(name)}" if name != _ENTRY else ""
    return f"aggregator install {session.host or 'HOST'} --replace{named}"


def differing(loaded: Loaded, shell: Mapping[str, str], host: Mapping[str, str]) -> dict[str, list[str]]:
    """Return for each server the variables of the shell that a host lacks or has with another value.

    Those that the entry of the server refers to come first, then those about the network, then folders.
    """
    ours, theirs = passed_on(shell), passed_on(host)
    network = network_variables(shell)
    names = sorted(
        (name for name, value in ours.items() if theirs.get(name) != value and not _is_indifferent(name)),
        key=lambda name: (name not in network, name),
    )
    found = {}
    referring = _referring(loaded, shell, host)
    for server in loaded.config.servers:
        own = [name for name in referring.get(server.id, ()) if name not in names]
        found[server.id] = [*own, *(name for name in names if name not in server.env)]
    return found


def _referring(loaded: Loaded, shell: Mapping[str, str], host: Mapping[str, str]) -> dict[str, list[str]]:
    """Return for each server that is another one with the variables of the host the references that differ."""
    if loaded.path is None:
        return {}
    try:
        there = {one.id: one for one in load(loaded.path, host, loaded.trust).config.servers}
    except (ConfigError, OSError):
        return {}
    return {
        one.id: sorted(name for name in loaded.variables.get(one.key, ()) if shell.get(name) != host.get(name))
        for one in loaded.config.servers
        if one.id in there and there[one.id] != one
    }


def _is_indifferent(name: str) -> bool:
    return name in _INDIFFERENT or name.startswith("LC_")
