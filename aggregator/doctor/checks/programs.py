"""Programs that servers need, on the `PATH` of a shell and on that of a desktop host. This file decides."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from aggregator.doctor.finding import CheckFinding, found

# Hosts that are started in a terminal, or that ask a shell for its variables: their `PATH` is the shell's.
SHELL_HOSTS: Final = frozenset(
    {"claude-code", "codex", "copilot-cli", "gemini-cli", "goose", "vscode", "vscode-insiders", "zed"}
    | {"cline", "continue", "roo-code"}
)
# Node.js 18 is the oldest that the MCP SDK for TypeScript takes.
_OLDEST_NODE: Final = 18

# Without what shells add: systemd's and launchd's defaults.
_PATHS: Final = {
    "linux": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/snap/bin",
    "macos": "/usr/bin:/bin:/usr/sbin:/sbin",
}


@dataclass(frozen=True, slots=True)
class ProgramFacts:
    """A program that a server starts by its name: its full path on both `PATH`s, None where it is not there."""

    server: str
    place: str
    name: str
    shell: str | None
    desktop: str | None


def desktop_path(system: Literal["linux", "macos", "windows"], shell: str) -> str:
    """Return the `PATH` of a host that is started from the desktop; on Windows it is the same as a shell's."""
    return _PATHS.get(system, shell)


def of_programs(programs: Iterable[ProgramFacts], host: str | None) -> Iterator[CheckFinding]:
    """Yield the programs that a shell finds and a desktop host does not; `host` is its title."""
    title = host or "a host that is started from the desktop"
    for program in programs:
        if program.desktop is not None or program.shell is None:
            continue
        yield found(
            "server_command_not_found",
            f"{program.server} starts `{program.name}`, which is on the PATH of your shell and not on that of {title}.",
            f'Write its full path: "command": "{program.shell}".',
            program.place,
        )


def of_node(version: str | None, path: str | None, needed: bool) -> Iterator[CheckFinding]:
    """Yield whether the Node.js that servers are run with is too old."""
    if version is None or not needed:
        return
    major = version.lstrip("v").partition(".")[0]
    if major.isdigit() and int(major) < _OLDEST_NODE:
        yield found(
            "node_old",
            f"{path} is Node.js {version}; most servers need {_OLDEST_NODE} or newer.",
            "Install a current Node.js (https://nodejs.org).",
            path,
        )
