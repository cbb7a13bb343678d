"""`aggregator init`: sets up in at most three questions; with `--yes` in none."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aggregator.cli import keys
from aggregator.cli.first_run.ask import answered, at_terminal
from aggregator.cli.hosts import import_hosts
from aggregator.cli.hosts.install.command import run as install_into
from aggregator.cli.hosts.install.options import InstallOptions
from aggregator.cli.policy.policy import init as write_policy
from aggregator.cli.runtime.setup import configured_database
from aggregator.cli.runtime.tables import one_line
from aggregator.cli.runtime.writer import say
from aggregator.cli.servers.edit import begin_config, open_config
from aggregator.domain.errors import OperatorError
from aggregator.domain.principal import check_agent_id
from aggregator.domain.text.error_text import error_text
from aggregator.editing.edited_file import open_file
from aggregator.hosts.discover import FoundFile, discover
from aggregator.hosts.every_host import HOSTS, host_named
from aggregator.hosts.machine import this_machine
from aggregator.policy.files.folder import is_policy_file
from aggregator.policy.files.starter import FILE

_NONE: Final = "none"
_ALL: Final = "all"
_ASK_AGENT: Final = "2. A policy file and a key for an agent: its name, or none"


@dataclass(frozen=True, slots=True)
class InitAnswers:
    """The answers given as options; None means to ask."""

    hosts: str | None
    agent: str | None
    install: str | None


def run(config: Path | None, answers: InitAnswers, yes: bool) -> int:
    """Import servers, write a first policy file with a key, and install into hosts, as far as the user wants.

    Raises:
        OperatorError: no user can answer, or a step before the installs is impossible. A host that cannot be written
            to is named, and costs itself alone: the exit code is 2.
    """
    if not yes and not at_terminal() and None in (answers.hosts, answers.agent, answers.install):
        raise OperatorError("There is no terminal to ask at. Add --yes, or --import, --agent and --install.")
    there = [file for file in discover(this_machine(), misplaced=True) if file.servers]
    known = list(dict.fromkeys(file.host.id for file in there))
    every = [host.id for host in HOSTS]
    hosts = _hosts(answers.hosts, every) if answers.hosts or yes else _ask_import(there, every)
    agent = _agent(answers.agent or _NONE) if answers.agent or yes else answered(_ASK_AGENT, _NONE, _agent)
    ask_install = f"3. Install into which hosts ({_listed(there)}, {_ALL} or {_NONE})"
    install = (
        _hosts(answers.install or _NONE, known)
        if answers.install or yes
        else answered(ask_install, _NONE, lambda said: _hosts(said, known))
    )
    if hosts:
        import_hosts.run(hosts, config, import_hosts.ImportOptions(write=True))
    begun = begin_config(config)
    if begun is not None:
        say(f"Made {begun}. It has no servers yet: `aggregator add` adds them.")
    if agent != _NONE:
        _give_key(config, agent)
    failed = False
    for host in install:
        try:
            install_into(InstallOptions(host=host, config=config, write=answers.install is not None))
        except OperatorError as error:  # such as a host that runs, or whose file is broken
            say(f"aggregator: {host} was left out: {error}", file=sys.stderr)
            failed = True
            continue
        if host in hosts:
            say(f"{host} has its own servers too: `aggregator install {host} --take-over` moves them here.")
    say("Next: `aggregator check` connects to every server, `aggregator doctor` finds what is wrong.")
    return 2 if failed else 0


def _ask_import(there: Sequence[FoundFile], every: Sequence[str]) -> list[str]:
    if not there:
        say(f"1. None of the {len(HOSTS)} known hosts has servers here, so there is nothing to import.")
        return []
    for file in there:
        say(
            f"   {file.host.id}: {', '.join(one_line(server.name) for server in file.servers):.100}  ({file.file.path})"
        )
    question = f"1. Import the servers of which hosts ({_listed(there)}, {_ALL} or {_NONE})"
    return answered(question, _ALL, lambda said: _hosts(said, every))


def _listed(there: Sequence[FoundFile]) -> str:
    return ", ".join(dict.fromkeys(file.host.id for file in there)) or "`aggregator install` lists them"


def _hosts(answer: str | None, every: Sequence[str]) -> list[str]:
    """Return the hosts that an answer names; `every` are those that `all`, and no answer, stand for.

    Raises:
        OperatorError: there is no such host.
    """
    names = (answer or _ALL).replace(",", " ").split()
    folded = [name.casefold() for name in names]
    if folded == [_NONE]:
        return []
    return list(every) if folded == [_ALL] else [host_named(name).id for name in names]


def _agent(answer: str) -> str:
    """Return the agent that an answer names, or none. Raises OperatorError for an invalid name."""
    if answer.casefold() == _NONE:
        return _NONE
    if answer.casefold() == _ALL:
        raise OperatorError("The policy file is for one agent: write its name, or none. `keys new` makes more keys.")
    try:
        check_agent_id(answer)
    except ValueError as error:
        raise OperatorError(error_text(error)) from None
    return answer


def _give_key(config: Path | None, agent: str) -> None:
    """Write the first policy file with this agent in it, and make its key."""
    edit = open_config(config, make=False)
    if not edit.servers:
        say("There is no server yet, so no policy file was written: `aggregator policy init` does that later.")
        return
    named = edit.document.root.get("policies")
    folder = edit.path.absolute().parent / (named if isinstance(named, str) else "policies")
    if not any(map(is_policy_file, folder.iterdir() if folder.is_dir() else ())):
        write_policy(edit.path)
        file = open_file(folder / FILE, "yaml")
        file.document.put(("agents", agent), {"roles": ["everything"]})
        backup = file.write()
        if backup is not None:
            os.unlink(backup)  # of a file that was made a moment ago
    else:
        say(f"{folder} has policy files already: add the agent {agent} there.")
    database = configured_database(config)
    keys.new(database.url, agent, audited=database.audited, chain_key=database.chain_key)
