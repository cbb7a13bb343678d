"""The file of a host to write into, and single entries of it, in an object or in a list."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path as FilePath
from typing import Any, Final

from aggregator.domain.errors import OperatorError
from aggregator.domain.patient_files import same_path
from aggregator.editing.document import EditableDocument, Path
from aggregator.hosts.folders import shared_folders
from aggregator.hosts.model import HostFile, HostProgram, Machine, Scope

# Scopes that a user may write to.
SCOPES: Final[tuple[Scope, ...]] = ("user", "project", "local")
# VS Code moves servers out of its settings by itself; new ones belong in `mcp.json`.
_OLD_PLACES: Final = {("vscode", ("mcp", "servers")), ("vscode-insiders", ("mcp", "servers"))}
# A new file of a host that wants more than servers in it.
_NEW_FILE: Final = {"continue": "name: Local Config\nversion: 1.0.0\nschema: v1\n"}


def choose_file(host: HostProgram, machine: Machine, scope: str | None, named: FilePath | None) -> HostFile:
    """Return the file of a host to write into: the named one, else the first of the scope that is in use.

    Raises:
        OperatorError: the host has no such file.
    """
    if scope is not None and scope not in SCOPES:
        raise OperatorError(f"There is no scope {scope!r:.40}. Use one of {', '.join(SCOPES)}.")
    files = [
        file
        for file in host.files(machine)
        if file.scope in SCOPES and (host.id, file.servers) not in _OLD_PLACES and scope in (None, file.scope)
    ]
    if named is not None:
        wanted = os.path.abspath(os.path.expanduser(named))
        found = next((file for file in files if os.path.abspath(file.path) == wanted), None)
        found = found or next((file for file in files if same_path(file.path, wanted)), None)
        if found is None:
            raise OperatorError(f"{host.title} does not read {named}. It reads {_listed(files)}.")
        return found
    if scope is None:
        files = [file for file in files if file.scope == "user"] or files
    if not files:
        have = sorted({file.scope for file in host.files(machine)} & set(SCOPES))
        fix = f"Use --scope {' or '.join(have)}." if have else "Leave --scope out."
        raise OperatorError(f"{host.title} has no file {f'of the scope {scope}' if scope else 'of its own'}. {fix}")
    return min(files, key=lambda file: _distance(file, machine))


def other_files(chosen: HostFile, host: HostProgram, machine: Machine) -> list[HostFile]:
    """Return the other files of the same scope that are there."""
    return [
        file
        for file in host.files(machine)
        if file.scope == chosen.scope
        and file.path != chosen.path
        and (host.id, file.servers) not in _OLD_PLACES
        and os.path.exists(file.path)
    ]


def new_text(host: HostProgram, file: HostFile) -> str:
    """Return the content of a new host file before its first server."""
    return _NEW_FILE.get(host.id, "") if file.format == "yaml" else ""


def entries(root: Mapping[str, object], file: HostFile) -> dict[str, Any]:
    """Return the entries of a file by name. Raises OperatorError if there is something else in their place."""
    part: object = root
    for step in file.servers:
        if part is None:
            return {}
        if not isinstance(part, Mapping):
            raise _misshapen(file)
        part = part.get(step)
    if part is None:
        return {}
    if file.is_list:
        if not isinstance(part, list):
            raise _misshapen(file)
        # Of two with one name the first counts, as for `remove_entry`.
        return {name: item for item in reversed(part) if (name := name_of(item)) is not None}
    if not isinstance(part, Mapping):
        raise _misshapen(file)
    return {str(name): item for name, item in part.items()}


def put_entry(document: EditableDocument, file: HostFile, name: str, entry: Mapping[str, object]) -> None:
    """Set an entry in a document, after the others if it is new."""
    part = _part(document.root, file)
    if part is None:  # `mcpServers:` in YAML and `null` in JSON have no inside to put anything into
        document.put(file.servers, [dict(entry)] if file.is_list else {name: dict(entry)})
    else:
        document.put(_path(part, file, name), dict(entry))


def remove_entry(document: EditableDocument, file: HostFile, name: str) -> None:
    """Remove an entry from a document. Raises KeyError when it is not there."""
    part = _part(document.root, file)
    path = _path(part, file, name)
    if part is None or (isinstance(part, list) and path[-1] == len(part)):
        raise KeyError(name)
    document.remove(path)


def name_of(item: object) -> str | None:
    """Return the name of an entry in a list, or None."""
    name = item.get("name") if isinstance(item, Mapping) else None
    return name if isinstance(name, str) else None


def _part(root: Mapping[str, object], file: HostFile) -> object:
    part: object = root
    for step in file.servers:
        part = part.get(step) if isinstance(part, Mapping) else None
    return part


def _path(part: object, file: HostFile, name: str) -> Path:
    if not isinstance(part, list):
        return (*file.servers, name)
    index = next((index for index, item in enumerate(part) if name_of(item) == name), len(part))
    return (*file.servers, index)


def _distance(file: HostFile, machine: Machine) -> int:
    """Return how far a file is from being in use: it is there, its folder is, one of its program's folders, none."""
    if os.path.lexists(file.path):
        return 0
    if file.path.parent != machine.home and os.path.isdir(file.path.parent):
        return 1
    shared = shared_folders(machine)
    return 2 if any(os.path.isdir(folder) for folder in file.path.parents if folder not in shared) else 3


def _misshapen(file: HostFile) -> OperatorError:
    wanted = "a list" if file.is_list else "an object"
    return OperatorError(f"{file.path}: `{'.'.join(file.servers)}` is not {wanted}. Correct it there.")


def _listed(files: Iterable[HostFile]) -> str:
    return ", ".join(str(file.path) for file in files) or "no file of its own"
