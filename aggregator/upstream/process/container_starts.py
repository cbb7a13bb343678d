"""The command of an entry that starts a container: where its `run` is, and what removes the container.

Read are `docker run` and its like, behind programs that start another (`env`, `timeout`), the last in the script of a
shell or of `env -S`, and `docker compose run`, which writes no file of an id: its container gets a name of ours.
"""

import os
import re
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_PROGRAMS: Final = frozenset({"docker", "podman", "nerdctl"})
_COMPOSE: Final = {"docker-compose": "docker", "podman-compose": "podman"}
# Programs whose arguments are another command, and shells, which read one in a text.
_WRAPPERS: Final = frozenset({"env", "nice", "ionice", "timeout", "nohup", "setsid", "stdbuf", "time", "sudo", "cmd"})
_SHELLS: Final = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh"})
# Options before `run` whose value is a word of its own: of these programs, and of `compose`.
_WITH_VALUE: Final = frozenset(
    {"--context", "-c", "--host", "-H", "--config", "--log-level", "-l", "--tlscacert", "--tlscert", "--tlskey"}
    | {"--url", "--connection", "--identity", "--root", "--runroot", "--storage-driver", "--namespace", "-n"}
    | {"--address", "-a"}
)
_COMPOSE_WITH_VALUE: Final = frozenset(
    {"-f", "--file", "-p", "--project-name", "--profile", "--env-file", "--project-directory", "--ansi"}
    | {"--parallel", "--progress", "--context", "-c", "--host", "-H", "--tlscacert", "--tlscert", "--tlskey"}
)
_IN_SCRIPT: Final = re.compile(r"(?<![\w.-])((?:/[\w./-]*/)?(?:docker|podman|nerdctl))\s+(?:container\s+)?run(?=\s)")


@dataclass(frozen=True, slots=True)
class ContainerStart:
    """A command that starts a container.

    args: its arguments. at: the place among them of the word behind which options of `run` stand, and `column` the one
    in that word, if it is a script. remove: the command that removes a container, without its program if `program` is
    None: that is the one of the entry. own_file: the file for the id that the command names itself. named: a container
    has a name in place of such a file.
    """

    args: tuple[str, ...]
    at: int
    remove: tuple[str, ...]
    program: str | None = None
    column: int | None = None
    own_file: str | None = None
    named: bool = False

    def with_options(self, *options: str) -> tuple[str, ...]:
        """Return the arguments with more options of `run`."""
        word = self.args[self.at]
        if self.column is None:
            return (*self.args[: self.at + 1], *options, *self.args[self.at + 1 :])
        script = f"{word[: self.column]} {shlex.join(options)}{word[self.column :]}"
        return (*self.args[: self.at], script, *self.args[self.at + 1 :])


def container_start(command: str, args: Sequence[str]) -> ContainerStart | None:
    """Return the start of a container; None if a command is none, or does what cannot be followed."""
    name, args = _name(command), tuple(args)
    if name in _SHELLS:
        return _in_script(args)
    if name in _WRAPPERS:
        return _wrapped(args) or (_split_by_env(args) if name == "env" else None)
    if name in _COMPOSE:
        run = _compose_run(args, 0)
        return ContainerStart(args, run, ("rm", "-f"), _COMPOSE[name], named=True) if run is not None else None
    return _of_program(args) if name in _PROGRAMS else None


def _name(command: str) -> str:
    return os.path.basename(command).lower().removesuffix(".exe")


def _of_program(args: tuple[str, ...]) -> ContainerStart | None:
    """Return the start in the arguments of a program such as docker."""
    at = _command_at(args, 0, _WITH_VALUE)
    while at is not None and at < len(args) and args[at] == "container":
        at = _command_at(args, at + 1, _WITH_VALUE)
    if at is None:
        return None
    if args[at] == "compose":
        run = _compose_run(args, at + 1)
        return ContainerStart(args, run, (*args[:at], "rm", "-f"), named=True) if run is not None else None
    if args[at] != "run":
        return None
    return ContainerStart(args, at, (*args[:at], "rm", "-f"), own_file=_own_file(args[at + 1 :]))


def _command_at(args: tuple[str, ...], at: int, with_value: frozenset[str]) -> int | None:
    """Return the place of the first word that is no option, from a place on."""
    while at < len(args):
        if not args[at].startswith("-"):
            return at
        at += 2 if args[at] in with_value else 1
    return None


def _compose_run(args: tuple[str, ...], start: int) -> int | None:
    """Return the place of `run`; None if there is none, or it names its container itself."""
    at = _command_at(args, start, _COMPOSE_WITH_VALUE)
    if at is None or args[at] != "run":
        return None
    return None if any(word.partition("=")[0] == "--name" for word in args[at + 1 :]) else at


def _wrapped(args: tuple[str, ...]) -> ContainerStart | None:
    at = next((at for at, word in enumerate(args) if _name(word) in _PROGRAMS or _name(word) in _COMPOSE), None)
    inner = container_start(args[at], args[at + 1 :]) if at is not None else None
    if at is None or inner is None:
        return None
    remove = (*args[:at], inner.program or args[at], *inner.remove)
    return ContainerStart(args, at + 1 + inner.at, remove, own_file=inner.own_file, named=inner.named)


def _in_script(args: tuple[str, ...]) -> ContainerStart | None:
    """Return the last start in the script of a shell: what comes before a server prepares it."""
    option = next((at for at, word in enumerate(args) if re.fullmatch(r"-[a-z]*c[a-z]*", word)), None)
    return _in_word(args, option + 1) if option is not None else None


def _split_by_env(args: tuple[str, ...]) -> ContainerStart | None:
    """Return the start in the word that `env` splits."""
    for at, word in enumerate(args):
        if re.fullmatch(r"-[a-zA-Z0]*S|--split-string", word):
            return _in_word(args, at + 1)
        if re.match(r"-[a-zA-Z0]*S.|--split-string=", word):
            return _in_word(args, at)
    return None


def _in_word(args: tuple[str, ...], at: int) -> ContainerStart | None:
    """Return the last start in a word that is a command line; None also if an id has a file of its own already."""
    found = list(_IN_SCRIPT.finditer(args[at])) if at < len(args) else []
    if not found or any("--cidfile" in word for word in args):
        return None
    return ContainerStart(args, at, ("rm", "-f"), found[-1][1], column=found[-1].end())


def _own_file(args: Sequence[str]) -> str | None:
    """Return the file for the id that the arguments name themselves."""
    values: list[str | None] = [*args, None]
    for at, word in enumerate(args):
        if word.startswith("--cidfile="):
            return word.partition("=")[2]
        if word == "--cidfile":
            return values[at + 1]
    return None


def removing(start: ContainerStart, command: str, path: str | None) -> list[str] | None:
    """Return the command that removes the container of a start, up to its id; None if its program is not found."""
    program = shutil.which(start.program or command, path=path)
    return [program, *start.remove] if program is not None else None
