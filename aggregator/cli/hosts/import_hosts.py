"""`aggregator import`: takes the servers of other programs over into the configuration."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aggregator.cli.hosts.import_plan import ImportPlan, ImportRow, plan_import
from aggregator.cli.hosts.import_secrets import FOLDER, SecretsChoice, moved
from aggregator.cli.hosts.import_table import plan_json, plan_lines, redactor_of
from aggregator.cli.runtime.prompts import agreed, prompted
from aggregator.cli.runtime.tables import one_line
from aggregator.cli.runtime.writer import say
from aggregator.cli.secrets.store import can_store
from aggregator.cli.servers.edit import ConfigEdit, open_config
from aggregator.config.settings import HttpConfig
from aggregator.domain.errors import OperatorError
from aggregator.domain.shell import foreign_operands
from aggregator.editing.replace import only_for_owner
from aggregator.hosts.discover import FoundFile, discover
from aggregator.hosts.every_host import HOSTS, host_named
from aggregator.hosts.machine import this_machine
from aggregator.hosts.model import HostProgram, Machine
from aggregator.redaction.redactor import Redactor

_CHOICES: Final[tuple[SecretsChoice, ...]] = ("keep", "keyring", "file")


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """The options of the command. `this_folder`: import its own servers too, without asking."""

    write: bool = False
    as_json: bool = False
    only: Sequence[str] = ()
    prefix_host: bool = False
    all_projects: bool = False
    this_folder: bool = False
    secrets: SecretsChoice | None = None


def run(hosts: Sequence[str], config: Path | None, options: ImportOptions) -> int:
    """Show the servers of the named hosts, or of all, and import the new ones if wanted.

    Raises:
        OperatorError: a host is not known, or the configuration cannot be read or written.
    """
    machine = this_machine()
    chosen = tuple(dict.fromkeys(host_named(name) for name in hosts)) or HOSTS
    edit = open_config(config)
    files = discover(machine, chosen, all_projects=options.all_projects, misplaced=True)
    plan = plan_import(
        files,
        edit.servers,
        ports=_ports(edit.document.root),
        prefix_host=options.prefix_host,
        only=options.only,
        of_folder=options.this_folder or _asks(options),
    )
    _check_only(plan, options.only)
    redact = redactor_of(plan)
    if not options.as_json:
        _show(plan, files, chosen, machine, redact)
        if not options.all_projects and (more := _in_other_projects(machine, chosen, files)):
            say(f"{more}: add --all-projects to see them.")
    written = _write(plan, edit, options)
    if options.as_json:
        report = {"config": str(edit.path), "written": written is not None, "files": plan_json(plan)}
        if written is not None:
            report["backup"] = written.backup and str(written.backup)
        say(json.dumps(redact.known(report), indent=2))
    return 0


def _ports(root: Mapping[str, object]) -> set[int]:
    """Return the port on which the gateway of this configuration listens."""
    section = root.get("http")
    port = section.get("port") if isinstance(section, Mapping) else None
    return {port if isinstance(port, int) else HttpConfig().port}


def _check_only(plan: ImportPlan, only: Sequence[str]) -> None:
    names = {row.found.name for row in plan.rows} | {row.key for row in plan.rows}
    missing = [name for name in only if name not in names]
    if missing:
        raise OperatorError(f"No host has a server {missing[0]!r:.80}. Run the command without --only to see them all.")


def _show(
    plan: ImportPlan, files: Sequence[FoundFile], chosen: Sequence[HostProgram], machine: Machine, redact: Redactor
) -> None:
    for line in plan_lines(plan, machine.home):
        say(redact(line))
    if plan.rows or any(found.problem for found in files):
        return
    looked = [file.path for host in chosen for file in host.files(machine)]
    if len(chosen) < len(HOSTS):
        say(f"{', '.join(host.title for host in chosen)}: no server found. Looked at:")
        for path in dict.fromkeys(looked):
            say(f"  {one_line(str(path))}")
    else:
        places = f"{len(set(looked))} places of {len(HOSTS)} hosts"
        say(f"No server found in {places}. docs/hosts-and-servers.md lists them.")


def _in_other_projects(machine: Machine, chosen: Sequence[HostProgram], files: Sequence[FoundFile]) -> str:
    """Return in words how many servers hosts have in projects elsewhere; empty if they have none."""
    seen = {(found.file.path, found.file.servers) for found in files}
    elsewhere = [
        found
        for found in discover(machine, chosen, all_projects=True)
        if found.servers and found.file.scope == "local" and (found.file.path, found.file.servers) not in seen
    ]
    if not elsewhere:
        return ""
    servers = _counted(sum(len(found.servers) for found in elsewhere), "server")
    hosts = " and ".join(dict.fromkeys(found.host.title for found in elsewhere))
    return f"{hosts}: {servers} of {_counted(len(elsewhere), 'other project')}"


@dataclass(frozen=True, slots=True)
class _Written:
    backup: Path | None


def _write(plan: ImportPlan, edit: ConfigEdit, options: ImportOptions) -> _Written | None:
    """Write the additions of the plan, if there are any and they are wanted."""
    tell = _silent if options.as_json else say
    rows = plan.added
    if not rows:
        tell("There is nothing to add.")
        return None
    terminal = _at_terminal() and not options.as_json
    count = _counted(len(rows), "server")
    if not options.write and not (terminal and _yes(f"Add {count} to {edit.path}?")):
        tell(f"Nothing was written. Add --write to add {count} to {edit.path}.")
        return None
    made = moved(rows, _choice(rows, options, terminal), edit.path)
    for row in made:
        edit.add_entry(row.key or row.found.name, row.entry or {})
    clear = sum(len(row.places) for row in made)
    if clear:
        only_for_owner(edit.path)  # before the secrets are in it; the new content and the backup keep the mode
    backup = edit.write()
    if clear:
        keys = foreign_operands(*(row.key for row in made if row.places and row.key))
        say(
            f"warning: {_counted(clear, 'secret')} now in the clear in {edit.path} too. To keep them elsewhere: "
            f"`aggregator remove {keys}`, then `aggregator import --write --secrets keyring`.",
            file=sys.stderr,
        )
    tell(f"Added {count} to {edit.path}{f', which is kept as it was in {backup.name}' if backup else ''}.")
    tell("`aggregator check` connects to them. A running gateway loads them by itself.")
    return _Written(backup)


def _choice(rows: Sequence[ImportRow], options: ImportOptions, terminal: bool) -> SecretsChoice:
    count = sum(len(row.places) for row in rows)
    if options.secrets is not None or not count:
        return options.secrets or "keep"
    if options.write or not terminal:
        return "keep"
    say(
        f"{_counted(count, 'secret')} in the clear: `keyring` moves them into the keyring of this user, `file` into "
        f"files of their own in {FOLDER}/ beside the configuration, `keep` writes them into it."
    )
    problem = can_store()
    if problem is not None:
        say(f"The keyring cannot be used now: {problem}")
    default = "keyring" if problem is None else "file"
    while True:
        answer = prompted(f"Where to ({', '.join(_CHOICES)})", default=default).strip().lower()
        for choice in _CHOICES:
            if answer == choice:
                return choice


def _asks(options: ImportOptions) -> bool:
    """Tell whether a user sees the table before confirming."""
    return _at_terminal() and not options.as_json and not options.write


def _at_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _yes(question: str) -> bool:
    return agreed(question)


def _silent(text: str) -> None:
    """Print nothing: the JSON is all that is printed."""


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
