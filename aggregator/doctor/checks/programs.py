"""Programs that servers need, on the `PATH` of a shell and of a host. This file decides."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from aggregator.doctor.finding import CheckFinding, found

# Node.js 18 is the oldest that the MCP SDK for TypeScript takes.
_OLDEST_NODE: Final = 18


@dataclass(frozen=True, slots=True)
class ProgramFacts:
    """A program that a server starts by its name: its full path on the `PATH` of a shell and of a host, or None."""

    server: str
    place: str
    name: str
    shell: str | None
    host: str | None


def of_programs(programs: Iterable[ProgramFacts], title: str, host: str) -> Iterator[CheckFinding]:
    """Yield the programs that a shell finds and a host does not; `title` and `host` describe the host."""
    for program in programs:
        if program.host is not None or program.shell is None:
            continue
        yield found(
            "server_command_not_found",
            f"{program.server} starts `{program.name}`, which is on the PATH of your shell and not on that of {title}.",
            f"Run `aggregator install {host} --replace`, which gives it this PATH; or write the full path: "
            f'"command": "{program.shell}".',
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
