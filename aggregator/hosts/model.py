"""The form in which a host and its files are described."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from aggregator.editing.document import Format

System = Literal["linux", "macos", "windows"]
# The capabilities of a client that let a server ask it.
Asked = Literal["roots", "sampling", "elicitation"]
Scope = Literal["user", "project", "local", "profile", "managed"]
_PLAIN: Final = re.compile(r"[A-Za-z0-9_-]+")
# A regular expression that matches nothing.
_NOTHING: Final = "(?!)"


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
    relative paths in its entries start from, if the host has one of its own for them. `switches` are other files
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


@dataclass(frozen=True, slots=True)
class HostState:
    """A host on this machine: `running` is the sign in its folder that it runs, `remarks` are about its files here."""

    running: Path | None = None
    remarks: tuple[str, ...] = ()


class UnusableEntry(Exception):
    """An entry that cannot become one of ours; the message is the reason, as the end of a sentence, without a value."""


@dataclass(frozen=True, slots=True)
class HostLimits:
    """The limits of a host on tools, as a client of MCP; docs/hosts-and-servers.md has the evidence.

    `client` is the name in its `clientInfo`, None if it is not known. `plain`: it refuses names with a dot. `longest`
    is the most characters that a name may have, with `prefix` before it; `tools` the most tools that it takes from all
    servers together. `spellings` is a regular expression for the names of its clients in lower case; without one,
    `client` as a word. `declares` is what a server may ask of it, None if that is not known.
    """

    client: str | None
    plain: bool = False
    longest: int | None = None
    prefix: str = ""
    tools: int | None = None
    spellings: str | None = None
    declares: tuple[Asked, ...] | None = None

    @property
    def client_names(self) -> str:
        """The regular expression for its name in `clientInfo`, in lower case."""
        if self.spellings is not None:
            return self.spellings
        return rf"(?<![a-z]){re.escape(self.client.lower())}(?![a-z])" if self.client is not None else _NOTHING

    def refused_names(self, names: Sequence[str]) -> list[str]:
        """Return the names that the host refuses for their characters."""
        return [name for name in names if self.plain and not _PLAIN.fullmatch(name)]

    def long_names(self, names: Sequence[str], entry: str) -> list[str]:
        """Return the names that are too long for the host, in whose file the aggregator is called `entry`."""
        longest = self.longest
        before = len(self.prefix.replace("{}", entry))
        return [name for name in names if longest is not None and before + len(name) > longest]


def _none_off(root: Mapping[str, Any], file: HostFile) -> Collection[str]:
    return ()


def _no_notes(entry: Mapping[str, Any]) -> tuple[str, ...]:
    return ()


def _no_files(machine: Machine) -> Iterable[HostFile]:
    return ()


def _no_programs(machine: Machine) -> tuple[Path, ...]:
    return ()


def _no_state(machine: Machine, path: Path) -> HostState:
    return HostState()


@dataclass(frozen=True, slots=True)
class HostProgram:
    """A host: all that the commands and the gateway know about one program.

    `id` is its name on our command line, `title` its name for people, `also` are other names that people type.
    `source` is the address of the public documentation that this is taken from. `limits` says what it takes of a list
    of tools.

    `files` yields the files in which it looks, those that count most first. `read` turns one entry of its file into one
    of `mcpServers` in our configuration, or raises UnusableEntry; `notes` says in sentences what is lost or changed by
    that. `write` makes the entry by which this host reaches us. `off` names the servers of a file that another place of
    it switches off. `every_project` yields the files, or parts of files, of all projects that the host knows. `speaks`
    are the frontends that it can use, best first. `paste` is the line for people if the host has no file of its own: a
    command follows it, with `paste_json` an object of servers, or an address if it starts no programs.

    `program` is its program on PATH, `programs` are the places in which it is installed otherwise. `state` is what is
    to be known of it on a machine before one of its files is written. `plain_json`: a comment, a comma before a closing
    bracket or another encoding than UTF-8 makes it refuse its whole file. `spaceless`: it splits the command, or each
    argument, at spaces. `shell_path`: it is started in a terminal, or asks a shell for its variables, so its PATH is
    the shell's. `all_variables`: it gives its servers every variable it has; others pass on a few, such as HOME and
    PATH. `header_variable` is a reference to the variable NAME in a header. `key_field` is the field of an entry that
    names the variable with our key, in place of a header.

    `reload` is the sentence that says how a person makes it read a changed file, `shows` the one that says how it shows
    our entry, `errors` the place in which it shows why a server did not start.
    """

    id: str
    title: str
    source: str
    files: Callable[[Machine], tuple[HostFile, ...]]
    read: Callable[[Mapping[str, Any]], dict[str, Any]]
    write: Callable[[OwnLaunch], dict[str, Any]]
    limits: HostLimits
    also: tuple[str, ...] = ()
    speaks: tuple[Literal["stdio", "http", "sse"], ...] = ("stdio", "http")
    paste: str | None = None
    paste_json: bool = False
    notes: Callable[[Mapping[str, Any]], tuple[str, ...]] = _no_notes
    off: Callable[[Mapping[str, Any], HostFile], Collection[str]] = _none_off
    every_project: Callable[[Machine], Iterable[HostFile]] = _no_files
    program: str | None = None
    programs: Callable[[Machine], tuple[Path, ...]] = _no_programs
    state: Callable[[Machine, Path], HostState] = _no_state
    plain_json: bool = False
    spaceless: Literal["command", "arguments"] | None = None
    shell_path: bool = False
    all_variables: bool = False
    header_variable: str | None = None
    key_field: str | None = None
    reload: str | None = None
    shows: str = ""
    errors: str = ""

    @property
    def next_step(self) -> str:
        """The action of a person after which the host has read its changed file."""
        return self.reload or f"Restart {self.title}."

    @property
    def after_install(self) -> str:
        """The action of a person after an install, and the sign by which the host shows our entry."""
        return f"{self.next_step} {self.shows}".rstrip()
