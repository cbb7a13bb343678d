"""The variables that a host started from a desktop lacks, and which of them our entry has to bring.

Programs that a desktop starts do not read the files of a shell, where version managers add their folders to PATH.
"""

import os
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from aggregator.hosts.machine import GIVEN, desktop_path
from aggregator.hosts.model import HostProgram, System
from aggregator.upstream.process.environment import network_variables

# Variables by which another run finds the same database.
_FOLDERS: Final = ("XDG_DATA_HOME",)
_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class EntryVariables:
    """The variables for our entry, and the messages about them."""

    env: Mapping[str, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()


def entry_variables(
    host: HostProgram,
    system: System,
    commands: Iterable[str],
    taken: Collection[str],
    environ: Mapping[str, str],
    which: Callable[[str, str], str | None] | None = None,
) -> EntryVariables:
    """Return the variables that our entry needs in a host.

    `commands` are those that the configuration looks up on PATH, `taken` the variables that it takes, and `environ` are
    the variables of this shell.
    """
    find = which or _which
    env: dict[str, str] = {}
    remarks: list[str] = []
    path = environ.get("PATH", "")
    bare = desktop_path(system, path)
    if not host.shell_path and bare != path:
        missing = sorted({command for command in commands if find(command, bare) is None})
        here = [command for command in missing if find(command, path) is not None]
        if here:
            env["PATH"] = absolute_folders(path)
            remarks.append(
                f"{_listed(here)} {'is' if len(here) == 1 else 'are'} not on the PATH of programs that a desktop "
                "starts, so the entry brings the PATH of this shell. Run this again when that changes."
            )
    env |= {name: environ[name] for name in _FOLDERS if os.path.isabs(environ.get(name, ""))}
    network = {} if host.all_variables else network_variables(environ)
    if network:
        env |= dict(sorted(network.items()))
        names = sorted(network)
        remarks.append(
            f"This shell has {_listed(names)}, which this host may not pass on, so the entry brings "
            f"{'it' if len(names) == 1 else 'them'}: servers may need {'it' if len(names) == 1 else 'them'} to reach "
            "the network. Run this again when that changes."
        )
        if left := sorted(name for name, value in network.items() if value != environ[name]):
            remarks.append(
                f"User name and password of {_listed(left)} are left out: the file of a host is no place for them."
            )
    absent = sorted(name for name in set(taken) - {*GIVEN, "AGGREGATOR_PYTHON"} if name in environ)
    if absent and not host.all_variables:
        remarks.append(
            f"The configuration takes {_listed(absent)} from the variables of this shell, which this host may not pass "
            f"on: give {'it' if len(absent) == 1 else 'them'} as ${{file:...}} or ${{keyring:...}} there."
        )
    return EntryVariables(env, tuple(remarks))


def absolute_folders(path: str) -> str:
    """Return a PATH without relative folders, which mean others elsewhere, and without repetitions."""
    folders = [folder for folder in path.split(os.pathsep) if os.path.isabs(folder)]
    return os.pathsep.join(dict.fromkeys(folders))


def looked_up(command: str) -> bool:
    """Return whether a command is a name that is searched on PATH."""
    return bool(command) and not os.path.dirname(command) and "\0" not in command


def _which(command: str, path: str) -> str | None:
    return shutil.which(command, path=path or os.defpath)


def _listed(names: list[str]) -> str:
    shown = names if len(names) <= _SHOWN else [*names[:_SHOWN], f"{len(names) - _SHOWN} others"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
