"""The existing host files, and the servers in them.

Law: nothing in a file makes this raise: a sentence with file and place reports an unreadable part.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from aggregator.config.servers.foreign_references import harmless
from aggregator.hosts.every_host import HOSTS
from aggregator.hosts.model import HostFile, HostProgram, Machine, UnusableEntry
from aggregator.hosts.parse import UnreadableFile, is_there, parse_file, repeated_names
from aggregator.hosts.percent import with_references

# The keys under which hosts keep their servers: people paste the entries of one host into the file of another.
_USUAL_KEYS: Final = ("mcpServers", "servers", "mcp_servers")
_STARTS: Final = frozenset({"command", "url", "httpUrl", "serverUrl"})


@dataclass(frozen=True, slots=True)
class FoundServer:
    """One entry of a host file. `fields` is the entry in our form, or None for the reason in `problem`.

    `notes` are sentences about losses and changes in our form.
    """

    name: str
    entry: Mapping[str, Any] = field(repr=False)
    fields: dict[str, Any] | None = field(repr=False)
    notes: tuple[str, ...] = ()
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A host file that is there, with its servers; `problem` says why it, or its part for servers, cannot be read."""

    host: HostProgram
    file: HostFile
    servers: tuple[FoundServer, ...] = ()
    problem: str | None = None
    root: Mapping[str, Any] = field(default_factory=dict, repr=False)


def discover(
    machine: Machine,
    hosts: Iterable[HostProgram] = HOSTS,
    *,
    all_projects: bool = False,
    misplaced: bool = False,
) -> tuple[FoundFile, ...]:
    """Return the existing host files, host by host; a file that two hosts share counts for the first.

    `all_projects` takes the servers of every project that a host knows, not those of the working folder alone.
    `misplaced` takes servers under the key of another host too, which the host of the file does not read.
    """
    found: list[FoundFile] = []
    seen: set[tuple[str, tuple[str, ...]]] = set()
    read: dict[str, Mapping[str, Any] | UnreadableFile] = {}
    for host in hosts:
        for file in _files(host, machine, all_projects):
            key = os.path.normcase(os.path.abspath(file.path))
            if (key, file.servers) in seen or not is_there(file.path):
                continue
            seen.add((key, file.servers))
            if key not in read:
                try:
                    read[key] = parse_file(file.path, file.format)
                except UnreadableFile as error:
                    read[key] = error
                    found.append(FoundFile(host, file, problem=str(error)))
            root = read[key]
            if not isinstance(root, UnreadableFile):
                environ = machine.environ if machine.system == "windows" else None
                other = _other_key(file, root) if misplaced else None
                found.append(
                    _found(host, file, root, environ) if other is None else _misplaced(host, file, other, root, environ)
                )
    return tuple(found)


def _other_key(file: HostFile, root: Mapping[str, Any]) -> str | None:
    """Return the key of another host that servers stand under, if the file has no key of its own host."""
    if file.scope == "local" or root.get(file.servers[0]) is not None:
        return None
    for key in _USUAL_KEYS:
        part = root.get(key)
        if isinstance(part, Mapping) and any(
            isinstance(one, Mapping) and _STARTS & one.keys() for one in part.values()
        ):
            return key
    return None


def _misplaced(
    host: HostProgram, file: HostFile, key: str, root: Mapping[str, Any], environ: Mapping[str, str] | None
) -> FoundFile:
    found = _found(host, replace(file, servers=(key,), is_list=False), root, environ)
    note = f"It stands under `{key}`, and {host.title} reads `{'.'.join(file.servers)}`: it has no effect there."
    return replace(found, servers=tuple(replace(server, notes=(note, *server.notes)) for server in found.servers))


def _files(host: HostProgram, machine: Machine, all_projects: bool) -> Iterator[HostFile]:
    yield from host.files(machine)
    if all_projects:
        yield from host.every_project(machine)


def _found(
    host: HostProgram, file: HostFile, root: Mapping[str, Any], environ: Mapping[str, str] | None = None
) -> FoundFile:
    """Return the content of a host file; `environ` are the variables of a machine with Windows."""
    part: Any = root
    for at, key in enumerate(file.servers):
        if part is None:
            break
        if not isinstance(part, Mapping):
            return FoundFile(host, file, problem=_misshapen(file, file.servers[:at], "an object"), root=root)
        part = part.get(key)
    if part is None:
        return FoundFile(host, file, root=root)
    if file.is_list and isinstance(part, list):
        named = [(_name(item), item) for item in part]
    elif isinstance(part, Mapping):
        named = [(str(name), item) for name, item in part.items()]
    elif (file.is_list and not part) or (file.format == "yaml" and not part):
        named = []
    else:
        wanted = "a list" if file.is_list else "an object"
        return FoundFile(host, file, problem=_misshapen(file, file.servers, wanted), root=root)
    twice = repeated_names(root, file.servers)
    off = host.off(root, file)
    servers = tuple(_server(host, name, item, name in twice, name in off, environ) for name, item in named)
    return FoundFile(host, file, servers, root=root)


def _name(item: object) -> str:
    name = item.get("name") if isinstance(item, Mapping) else None
    return name if isinstance(name, str) and name.strip() else "unnamed"


def _misshapen(file: HostFile, path: tuple[str, ...], wanted: str) -> str:
    return f"{file.path}: `{'.'.join(path)}` is not {wanted}. Correct it there."


def _server(
    host: HostProgram, name: str, entry: object, twice: bool, off: bool, environ: Mapping[str, str] | None
) -> FoundServer:
    if not isinstance(entry, Mapping):
        return FoundServer(name, {}, None, problem="it is no object")
    try:
        fields, notes = host.read(entry), host.notes(entry)
    except UnusableEntry as error:
        return FoundServer(name, entry, None, problem=str(error))
    if environ is not None:
        fields, more = with_references(fields, environ)
        notes = (*notes, *more)
    if twice:
        notes = ("Its name is there twice in the file; the last one counts.", *notes)
    if off:
        fields = {**fields, "enabled": False}
    # Once more as a whole: a host may make references of names that stand elsewhere in its entry.
    return FoundServer(name, entry, harmless(fields), notes)
