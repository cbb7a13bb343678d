"""The plan of an install, worked out from the options, the machine and both files."""

import codecs
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aggregator.app.health_page import address
from aggregator.cli.hosts.install.entry import KEY_VARIABLE, Pointing, http_entry, named, pointing, stdio_launch
from aggregator.cli.hosts.install.environment import entry_variables, looked_up
from aggregator.cli.hosts.install.host_files import choose_file, entries
from aggregator.cli.hosts.install.options import ENTRY, InstallOptions
from aggregator.cli.hosts.install.plan import (
    InstallPlan,
    ServerMove,
    check_not_read_only,
    edit_host_file,
    open_host_file,
)
from aggregator.cli.hosts.install.program import own_command, this_program
from aggregator.cli.hosts.install.take_over import server_moves
from aggregator.cli.runtime.setup import environment, storage_url
from aggregator.cli.servers.edit import open_config
from aggregator.config.load import Loaded, load, load_content, load_mapping
from aggregator.domain.errors import OperatorError
from aggregator.hosts.model import HostFile, HostProgram, Machine, OwnLaunch
from aggregator.hosts.parse import plain_json_fault
from aggregator.identity.keys import NewKey, new_key


@dataclass(frozen=True, slots=True)
class BuiltInstall:
    """A plan; and the key that its entry holds, to be stored in this database before anything is written."""

    plan: InstallPlan
    key: NewKey | None = field(default=None, repr=False)
    storage: str = ""
    audited: bool = True
    chain_key: str | None = field(default=None, repr=False)


def build_plan(host: HostProgram, machine: Machine, options: InstallOptions) -> BuiltInstall:
    """Return the plan of an install; nothing is written yet.

    Raises:
        OperatorError: there is no configuration or no such file, one cannot be edited, or another entry has the name.
    """
    file = choose_file(host, machine, options.scope, options.file)
    config = open_config(options.config, make=options.take_over)
    path = Path(os.path.abspath(config.path))
    loaded = load(path, environment()) if not config.is_new else load_mapping({}, environment())
    if options.take_over:
        check_not_read_only(path)
    edited = open_host_file(host, file)
    _check_plain(host, file, edited.was)
    found = entries(edited.document.root, file)
    url = served_address(loaded) if loaded.config.http.port else None
    ports = {loaded.config.http.port} - {0}
    points = {name: pointing(host, entry, path, ports) for name, entry in found.items()}
    name = options.name or ENTRY
    moves: tuple[ServerMove, ...] = ()
    if options.take_over:
        moves = server_moves(host, file, machine, found, config, ports)
    moved = tuple(move.name for move in moves if move.key is not None)
    key = _key(options)
    # With the servers that are moved.
    served = load_content(path, config.document.text.encode(), environment())
    taken = {name for own in served.variables.values() for name, needed in own.items() if needed}
    variables = entry_variables(host, machine.system, served_commands(loaded, moves), taken, os.environ)
    state = [*host.state(machine, file.path).remarks, *_mark_remark(host, edited.was)]
    remarks = [*state, *variables.remarks]
    if options.http:
        if url is None:
            raise OperatorError("The configuration leaves the port to the system (`http.port` is 0): set one there.")
        entry = http_entry(host, url, options.agent, None if key is None else key.text)
        remarks = [
            *host.state(machine, file.path).remarks,
            "The host reaches this address while `aggregator serve` runs.",
        ]
        if options.agent is not None and key is None:
            remarks.append(
                f"{host.title} takes the key from the variable {KEY_VARIABLE}: `aggregator keys new {options.agent}` "
                "makes one."
            )
    else:
        own = own_command(this_program())
        launch = stdio_launch(own, path, options.agent, variables.env)
        _check_spaces(host, launch)
        entry = host.write(launch)
        remarks += [own.remark] if own.remark else []
    entry = named(entry, name)
    if name not in moved:
        _check_name(name, found, points, file, options)
    others = [other for other, where in points.items() if where == "here" and other != name]
    if others and name not in found:
        remarks.append(f"{', '.join(others)} in this file points here too: the host will list every tool twice.")
    edit_host_file(edited, file, name, entry, moved)
    plan = InstallPlan(
        host,
        file,
        name,
        entry,
        edited,
        found,
        config if moves else None,
        moves,
        tuple(remarks),
        None if key is None else key.record.key_id,
        frozenset(loaded.hidden | ({key.text} if key is not None else set())),
    )
    if key is None:
        return BuiltInstall(plan)
    audit = loaded.config.audit
    return BuiltInstall(plan, key, storage_url(loaded), audit.enabled, audit.chain_key)


def _check_spaces(host: HostProgram, launch: OwnLaunch) -> None:
    words = {"command": (launch.command or "",), "arguments": launch.args}.get(host.spaceless or "", ())
    broken = next((word for word in words if " " in word), None)
    if broken is not None:
        raise OperatorError(
            f"{host.title} splits {'a command' if host.spaceless == 'command' else 'arguments'} at spaces, and "
            f"{broken!r:.300} has one. Move that to a path without spaces."
        )


def _check_plain(host: HostProgram, file: HostFile, content: bytes | None) -> None:
    fault = plain_json_fault(content) if host.plain_json and content else None
    if fault is not None:
        raise OperatorError(
            f"{host.title} cannot read {file.path}, and so starts no server of it: {fault}. It takes plain JSON in "
            "UTF-8, without comments and without commas before a closing bracket. Correct it there."
        )


def _mark_remark(host: HostProgram, content: bytes | None) -> tuple[str, ...]:
    if not host.plain_json or content is None or not content.startswith(codecs.BOM_UTF8):
        return ()
    return (f"The file begins with a byte order mark: if {host.title} reports an error in it, save it without one.",)


def _check_name(
    name: str, found: Mapping[str, Any], points: Mapping[str, Pointing | None], file: HostFile, options: InstallOptions
) -> None:
    if name not in found or options.replace or points[name] == "here":
        return
    what = "an aggregator with another configuration" if points[name] else "something else"
    raise OperatorError(
        f"{file.path} has an entry {name!r} that points to {what}. Add --replace to replace it, or --name NAME to use "
        "another name."
    )


def served_address(loaded: Loaded) -> str:
    """Return the address by which hosts reach `aggregator serve`."""
    http = loaded.config.http
    return f"{http.public_url or address(http)}".rstrip("/") + http.path


def _key(options: InstallOptions) -> NewKey | None:
    if not options.new_key or options.agent is None:
        return None
    return new_key(options.agent, now=time.time(), label=f"aggregator install {options.host}")


def served_commands(loaded: Loaded, moves: tuple[ServerMove, ...] = ()) -> set[str]:
    """Return the commands that are searched on PATH when the configuration is served."""
    enabled = [server for server in loaded.config.servers if server.enabled]
    programs = [program for server in enabled for program in (server, server.launch) if program is not None]
    found = {one.command for one in programs if one.command is not None and "PATH" not in one.env}
    found |= {str(move.fields.get("command") or "") for move in moves if move.fields is not None}
    return set(filter(looked_up, found))
