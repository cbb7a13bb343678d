"""The form in which a host and its files are described."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from aggregator.editing.document import Format

System = Literal["linux", "macos", "windows"]
Scope = Literal["user", "project", "local", "profile", "managed"]


@dataclass(frozen=True, slots=True)
class Machine:
    """The facts of a machine that the paths of host files depend on, given so that tests can say them."""

    system: System
    home: Path
    environ: Mapping[str, str] = field(repr=False)
    folder: Path


@dataclass(frozen=True, slots=True)
class HostFile:
    """A file in which a host keeps its servers, whether it is there or not.

    `servers` is the path to the object, or list, of servers in it; `is_list` says which. `base` is the folder that
    relative paths in its entries start from, where the host has one of its own for them. `switches` are other files
    that may switch its servers off.
    """

    path: Path
    scope: Scope
    format: Format
    servers: tuple[str, ...]
    is_list: bool = False
    base: Path | None = None
    switches: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class OwnLaunch:
    """The way a host reaches the aggregator: a program over stdio, or an address; `headers` go with an address."""

    command: str | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    url: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


class UnusableEntry(Exception):
    """An entry that cannot become one of ours; the message is the reason, as the end of a sentence, without a value."""


def _none_off(root: Mapping[str, Any], file: HostFile) -> Collection[str]:
    return ()


def _no_notes(entry: Mapping[str, Any]) -> tuple[str, ...]:
    return ()


@dataclass(frozen=True, slots=True)
class HostProgram:
    """A host: its id on our command line, its title for people, its files, and how an entry is read and written.

    `files` yields the files in which it looks, those that count most first. `read` turns one entry of its file into
    one of `mcpServers` in our configuration, or raises UnusableEntry; `notes` says in sentences what is lost or changed
    by that. `write` makes the entry by which this host reaches us. `off` names the servers of a file that another place
    of it switches off. `source` is the address of the public documentation that this is taken from. `speaks` are the
    frontends that it can use, best first. `paste` is the line for people where the host has no file of its own.
    """

    id: str
    title: str
    source: str
    files: Callable[[Machine], tuple[HostFile, ...]]
    read: Callable[[Mapping[str, Any]], dict[str, Any]]
    write: Callable[[OwnLaunch], dict[str, Any]]
    speaks: tuple[Literal["stdio", "http", "sse"], ...] = ("stdio", "http")
    paste: str | None = None
    notes: Callable[[Mapping[str, Any]], tuple[str, ...]] = _no_notes
    off: Callable[[Mapping[str, Any], HostFile], Collection[str]] = _none_off
