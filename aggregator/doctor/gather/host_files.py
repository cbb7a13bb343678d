"""The files of the hosts on this machine, and what their entries for the aggregator say."""

import os
import re
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from aggregator.config.errors import ConfigError
from aggregator.config.files.find import own_file, trust_list
from aggregator.config.server_config import ServerConfig
from aggregator.doctor.checks.host_files import HostFacts, OwnEntry
from aggregator.hosts.discover import FoundFile, discover
from aggregator.hosts.every_host import HOSTS
from aggregator.hosts.machine import host_environment
from aggregator.hosts.model import HostProgram, Machine
from aggregator.hosts.own import identity, is_own, program_name
from aggregator.identity.keys import PREFIX

# The public part of a key of ours.
_KEY: Final = re.compile(rf"{re.escape(PREFIX)}([A-Za-z0-9]+)_")


@dataclass(frozen=True, slots=True)
class HostStart:
    """A start or connection as a host would make it: a program with its environment, or an address with headers.

    `own_env` are the variables that the file itself gives, and may hold secrets.
    """

    host: HostProgram
    place: Path
    name: str
    agent: str
    command: str | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    own_env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: str | None = None
    url: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def shown_url(self) -> str:
        """The address without user, password and query."""
        return _without_query(self.url or "")

    @property
    def key_id(self) -> str | None:
        """The public part of the key among the headers."""
        found = (_KEY.search(value) for value in self.headers.values())
        return next((key[1] for key in found if key is not None), None)

    @property
    def same(self) -> tuple[object, ...]:
        """A value that two starts share when they cannot differ."""
        env = tuple(sorted(self.env.items()))
        return self.command, self.args, env, self.cwd, self.url, tuple(sorted(self.headers.items()))


@dataclass(frozen=True, slots=True)
class HostsFound:
    """The hosts with the findings' facts, and the starts that work as far as can be seen."""

    hosts: Sequence[HostFacts]
    starts: Sequence[HostStart]


def find_hosts(
    machine: Machine, asked: HostProgram | None, port: int, servers: Iterable[ServerConfig] = ()
) -> HostsFound:
    """Return the hosts with an entry for the aggregator, and the requested one in any case.

    `port` is the gateway's, `servers` are the configured ones.
    """
    files = discover(machine, (asked,) if asked is not None else HOSTS)
    ours = {identity(_as_fields(server)): server.id for server in servers}
    hosts, starts = [], []
    for host in (asked,) if asked is not None else HOSTS:
        mine = [file for file in files if file.host is host]
        facts, started = _of_host(host, mine, machine, port, ours, asked is not None)
        if facts.entries or asked is not None:
            hosts.append(facts)
            starts += started
    return HostsFound(hosts, starts)


def start_environment(id: str | None, machine: Machine) -> dict[str, str]:
    """Return the variables of a program started by the host with an id; without an id, this shell's."""
    host = next((host for host in HOSTS if host.id == id), None)
    return dict(machine.environ) if host is None else host_environment(host, machine.system, machine.environ)


def _of_host(
    host: HostProgram,
    files: Sequence[FoundFile],
    machine: Machine,
    port: int,
    ours: Mapping[tuple[str, ...], str],
    asked_for: bool,
) -> tuple[HostFacts, list[HostStart]]:
    entries, starts, same = [], [], []
    for found in files:
        for server in found.servers:
            fields = server.fields
            if fields is None:
                continue
            if is_own(fields, (port,)):
                entry = replace(_entry(host, found.file.path, server.name, fields, machine), scope=found.file.scope)
                if found.file.scope == "project" and entry.url is None and not _is_known(entry, fields, machine):
                    entry = replace(entry, held_back=True)
                entries.append(entry)
                if entry.enabled and not entry.held_back and (entry.program is not None or entry.url is not None):
                    starts.append(_start(host, entry, fields, machine))
            elif fields.get("enabled", True) and (here := ours.get(identity(fields))) is not None:
                same.append((found.file.path, server.name, here, found.file.scope))
    places = host.files(machine)
    first = next((file for file in places if file.scope == "user"), next(iter(places), None))
    facts = HostFacts(
        host.id,
        host.title,
        first.path if first is not None else None,
        tuple(found.file.path for found in files),
        tuple((found.file.path, found.problem) for found in files if found.problem is not None),
        tuple(entries),
        tuple(same) if entries else (),
        asked_for,
    )
    return facts, starts


def _entry(host: HostProgram, place: Path, name: str, fields: Mapping[str, Any], machine: Machine) -> OwnEntry:
    enabled = bool(fields.get("enabled", True))
    if "url" in fields:
        return OwnEntry(name, place, enabled, url=_without_query(str(fields["url"])))
    command, args = str(fields["command"]), [str(arg) for arg in fields.get("args", ())]
    given = fields.get("env")
    env = {**start_environment(host.id, machine), **(given if isinstance(given, Mapping) else {})}
    config = _option(args, "--config", "-c")
    full = _full(config, machine)
    return OwnEntry(
        name,
        place,
        enabled,
        command,
        _program(command, str(env.get("PATH", "")), fields.get("cwd")),
        shutil.which(command, path=machine.environ.get("PATH")),
        config,
        full.exists() if full is not None else None,
        full,
        _option(args, "--agent") or env.get("AGGREGATOR_AGENT"),
    )


def _start(host: HostProgram, entry: OwnEntry, fields: Mapping[str, Any], machine: Machine) -> HostStart:
    given, headers = fields.get("env"), fields.get("headers")
    own_env = {str(name): str(value) for name, value in (given or {}).items()}
    env = {**start_environment(host.id, machine), **own_env}
    if entry.url is not None:
        texts = {str(name): _filled(str(value), machine) for name, value in (headers or {}).items()}
        return HostStart(host, entry.place, entry.name, "local", url=str(fields["url"]), headers=texts)
    cwd = fields.get("cwd")
    return HostStart(
        host,
        entry.place,
        entry.name,
        entry.agent or "local",
        entry.program,
        tuple(str(arg) for arg in fields.get("args", ())),
        env,
        own_env,
        str(cwd) if cwd else str(machine.home),
    )


def _is_known(entry: OwnEntry, fields: Mapping[str, Any], machine: Machine) -> bool:
    """Return whether an entry is this program as it is, with a configuration that the user has chosen.

    Another person may have made the folder: its files start nothing else, nor with variables of theirs.
    """
    words = [str(arg) for arg in fields.get("args", ())]
    options = words[1::2]
    if words[:1] != ["stdio"] or len(words) % 2 == 0 or len(set(options)) != len(options):
        return False
    if not {"--config", "--agent"}.issuperset(options) or fields.get("env"):
        return False
    if fields.get("cwd") not in (None, str(machine.folder)) or not _is_this_program(entry.program):
        return False
    if entry.config_file is None:
        return True
    if entry.config is None or not os.path.isabs(entry.config):
        return False
    with suppress(ConfigError, OSError):
        if os.path.realpath(entry.config_file) == os.path.realpath(own_file(machine.environ)):
            return True
        trust_list(machine.environ).check(entry.config_file)
        return True
    return False


def _is_this_program(program: str | None) -> bool:
    if program is None or program_name(program) != "aggregator":
        return False
    known = [sys.argv[0], os.path.join(os.path.dirname(sys.executable), os.path.basename(program))]
    with suppress(OSError):
        return os.path.isabs(program) and any(
            os.path.isabs(one) and os.path.samefile(program, one) for one in known if os.path.exists(one)
        )
    return False


def _program(command: str, path: str, cwd: object) -> str | None:
    """Return the full path of a program, as a host would find it."""
    if os.path.dirname(command):
        full = os.path.join(str(cwd), os.path.expanduser(command)) if cwd else os.path.expanduser(command)
        return full if os.access(full, os.X_OK) and not os.path.isdir(full) else None
    return shutil.which(command, path=path)


def _option(args: Sequence[str], *names: str) -> str | None:
    for at, arg in enumerate(args):
        if arg in names:
            return args[at + 1] if at + 1 < len(args) else None
        for name in names:
            if name.startswith("--") and arg.startswith(f"{name}="):
                return arg.partition("=")[2]
    return None


def _full(config: str | None, machine: Machine) -> Path | None:
    if config is None:
        return None
    path = Path(os.path.expanduser(config))
    return path if path.is_absolute() else machine.home / path


def _filled(text: str, machine: Machine) -> str:
    """Return a header with references to variables put in, as hosts do."""
    for name, value in machine.environ.items():
        text = text.replace(f"${{{name}}}", value).replace(f"${{env:{name}}}", value)
    return text


def _without_query(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return "an address that is none"
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}"


def _as_fields(server: ServerConfig) -> dict[str, Any]:
    if server.url is not None:
        return {"url": server.url}
    return {"command": server.command or "", "args": list(server.args)}
