"""The lines of `aggregator` without a command: first steps, or how things stand and what to do next."""

import os
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path

from aggregator import __version__
from aggregator.app.health_page import address, asked
from aggregator.cli.first_run.ask import at_terminal, yes
from aggregator.cli.hosts import import_hosts
from aggregator.cli.runtime.setup import environment
from aggregator.cli.runtime.tables import one_line
from aggregator.cli.runtime.writer import say
from aggregator.config.errors import ConfigMissing
from aggregator.config.files.find import ConfigLocation, find_config
from aggregator.config.load import load_found
from aggregator.config.settings import TlsConfig
from aggregator.domain.errors import OperatorError
from aggregator.hosts.discover import discover
from aggregator.hosts.machine import this_machine

_FIRST = f"""\
aggregator {__version__}: one MCP server in front of many. There is no configuration yet.
  aggregator init                       set it up in three questions
  aggregator import                     take over the servers that Claude, Cursor and others have here
  aggregator add time -- uvx mcp-server-time
                                        add one server: its name, and the command that starts it"""
_NEXT = """\
  aggregator check        connect to every server      aggregator install HOST   let a host use it
  aggregator add NAME     add a server                 aggregator doctor         find what is wrong
  aggregator serve        serve hosts over HTTP        aggregator --help         everything else"""


def run(help_instead: Callable[[], None]) -> int:
    """Print the next steps; without a user at a terminal, print the help.

    Raises:
        OperatorError: the configuration cannot be read, or is not trusted.
    """
    if not at_terminal():
        help_instead()
        return 2
    try:
        found = find_config(None, Path.cwd(), os.environ)
    except ConfigMissing:
        return _first()
    say(_stands(found))
    say(_NEXT)
    return 0


def _first() -> int:
    say(_FIRST)
    files = [file for file in discover(this_machine(), misplaced=True) if file.servers]
    if not files:
        return 0
    hosts = ", ".join(dict.fromkeys(file.host.title for file in files))
    count = sum(len(file.servers) for file in files)
    if yes(f"There {'is 1 server' if count == 1 else f'are {count} servers'} in {hosts}. Preview an import?"):
        return import_hosts.run((), None, import_hosts.ImportOptions())
    return 0


def _stands(found: ConfigLocation) -> str:
    """Return a line about the configuration, and one about the gateway."""
    loaded = load_found(found, environment())
    servers = loaded.config.servers
    off = sum(not server.enabled for server in servers)
    faults = sum(problem.severity == "error" for problem in loaded.problems)
    said = f"{found}: {_counted(len(servers), 'server')}"
    said += f", {off} switched off" if off else ""
    said += f", {_counted(faults, 'error')} (`aggregator check` shows them)" if faults else ""
    http = loaded.config.http
    return f"{one_line(said)}\n{_running(address(http), loaded.tls) if http.port else ''}".rstrip()


def _running(base: str, tls: TlsConfig | None) -> str:
    try:
        answer = asked(base, tls)
    except (OSError, HTTPException, ValueError, OperatorError):
        return f"No gateway answers at {base}; hosts that start `aggregator stdio` need none."
    tools = answer.get("tools")
    tools_said = f", {_counted(tools, 'tool')}" if isinstance(tools, int) else ""
    return f"A gateway runs at {base}: {'ready' if answer['ready'] else 'not ready'}{tools_said}"


def _counted(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"
