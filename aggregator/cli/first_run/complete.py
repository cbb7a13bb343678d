"""Completion of a command line for a shell: commands, options, choices, and names.

Names of servers, tools, agents and hosts are read straight from files; no gateway is loaded. Law: reading names never
raises or waits: the user is typing. An unreadable file has no names.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from inspect import unwrap
from pathlib import Path
from typing import Any, Final, get_args, get_type_hints

import typer

from aggregator.cli.runtime.writer import as_shown
from aggregator.config.files.find import find_config
from aggregator.config.files.jsonfile import read_object
from aggregator.config.servers.names import usable
from aggregator.domain.errors import AggregatorError
from aggregator.domain.principal import LOCAL
from aggregator.policy.files.folder import is_policy_file
from aggregator.storage.locate import default_url, full_url, sqlite_path
from aggregator.storage.quick_read import key_holders, tool_names

# The word that makes a script complete the names of files.
FILES: Final = ":files"
SHELLS: Final = ("bash", "zsh", "fish")
# By the name of a parameter, the kind of its values; "COMMAND.parameter" goes before.
_KINDS: Final = {
    "names": "servers",
    "old": "servers",
    "server": "ids",
    "servers": "ids",
    "tool": "tools",
    "call.name": "tools",
    "agent": "agents",
    "host": "hosts",
    "hosts": "hosts",
    "serve.host": "",
    "stdio.names": "",
    "serve.names": "",
}
_CONFIG: Final = ("--config", "-c")
_ROOTS: Final = ("mcpServers", "servers")
_LARGEST_POLICY: Final = 2**18


class CompletionNames:
    """The names that one configuration, its policies and its database have."""

    def __init__(self, config: Path | None) -> None:
        self._root: Mapping[str, Any] = {}
        self._folder = Path.cwd()
        with suppress(AggregatorError, OSError):
            found = find_config(config, Path.cwd(), os.environ).path
            self._root, self._folder = read_object(found), found.absolute().parent

    def servers(self) -> Iterator[str]:
        """Yield the keys of the entries."""
        for key, _ in self._entries():
            yield key

    def ids(self) -> Iterator[str]:
        """Yield the ids of the servers."""
        for key, _ in self._entries():
            yield usable(key) or key

    def tools(self) -> Iterator[str]:
        """Yield the full names of the tools that the servers had when they were last connected."""
        prefixes = {usable(key) or key: _prefix(key, entry) for key, entry in self._entries()}
        database = self._database()
        for server, name in tool_names(database) if database is not None else ():
            if server in prefixes:
                yield f"{prefixes[server]}.{name}" if prefixes[server] else name

    def agents(self) -> Iterator[str]:
        """Yield the agents of the policy files, and those that have keys."""
        database = self._database()
        yield from dict.fromkeys(
            (LOCAL.agent_id, *self._agents_of_policies(), *(key_holders(database) if database is not None else ()))
        )

    def hosts(self) -> Iterator[str]:
        """Yield the ids of the hosts that can be imported from and installed into."""
        from aggregator.hosts.every_host import HOSTS

        yield from (host.id for host in HOSTS)

    def _entries(self) -> Iterator[tuple[str, Any]]:
        for where in _ROOTS:
            entries = self._root.get(where)
            yield from entries.items() if isinstance(entries, dict) else ()

    def _database(self) -> Path | None:
        named = self._root.get("storage")
        with suppress(AggregatorError):
            if not isinstance(named, str):
                return sqlite_path(default_url(os.environ))
            if "${" not in named:
                url = full_url(named)
                path = sqlite_path(url)
                relative = path is not None and not url.partition(":///")[2].startswith(("/", "~"))
                return self._folder / url.partition(":///")[2] if relative else path
        return None

    def _agents_of_policies(self) -> Iterable[str]:
        named = self._root.get("policies")
        folder = self._folder / (named if isinstance(named, str) else "policies")
        found: list[str] = []
        with suppress(OSError):
            for path in sorted(folder.iterdir()):
                if is_policy_file(path) and path.stat().st_size <= _LARGEST_POLICY:
                    found += _agents(path)
        return found


NAMES: Final[Mapping[str, Callable[[CompletionNames], Iterator[str]]]] = {
    "servers": CompletionNames.servers,
    "ids": CompletionNames.ids,
    "tools": CompletionNames.tools,
    "agents": CompletionNames.agents,
    "hosts": CompletionNames.hosts,
}


def _prefix(key: str, entry: Any) -> str:
    own = entry.get("prefix") if isinstance(entry, dict) else None
    return own if isinstance(own, str) else usable(key) or key


def _agents(path: Path) -> Iterator[str]:
    from aggregator.editing.edited_file import open_file

    with suppress(AggregatorError):
        agents = open_file(path, "yaml").document.root.get("agents")
        yield from agents if isinstance(agents, dict) else ()


@dataclass(slots=True)
class CommandLine:
    """The words before the one that is completed, as a command reads them."""

    command: Any
    path: tuple[str, ...] = ()
    given: list[str] = field(default_factory=list)
    config: Path | None = None
    # The option that the next word is the value of.
    option: Any = None
    only_arguments: bool = False

    def take(self, word: str) -> None:
        """Read one word."""
        if self.option is not None:
            if self.option.opts[0] in _CONFIG:
                self.config = Path(word)
            self.option = None
        elif word == "--" and not self.only_arguments:
            self.only_arguments = True
        elif word.startswith("-") and len(word) > 1 and not self.only_arguments:
            self._take_option(word)
        elif word in getattr(self.command, "commands", {}):
            self.command, self.path = self.command.commands[word], (*self.path, word)
        else:
            self.given.append(word)

    def _take_option(self, word: str) -> None:
        name, equals, value = word.partition("=")
        found = next((one for one in _options(self.command) if name in (*one.opts, *one.secondary_opts)), None)
        if found is None or found.is_flag or found.count:
            return
        if equals:
            self.config = Path(value) if name in _CONFIG else self.config
        else:
            self.option = found


def run(app: typer.Typer, words: Sequence[str]) -> int:
    """Print the completions of the last word of a line, one a line."""
    for text, said in candidates(typer.main.get_command(app), words[1:] if words[:1] == ["--"] else words):
        print("\t".join(map(as_shown, (text, said) if said else (text,))))
    return 0


def candidates(command: Any, words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the completions of the last word, each with a description; `(FILES, "")` means names of files."""
    line = CommandLine(command)
    *before, word = words or ("",)
    for one in before:
        line.take(one)
    name, equals, value = word.partition("=")
    if equals and name.startswith("--") and line.option is None:
        option = next((one for one in _options(line.command) if name in one.opts), None)
        for text, said in _values(line, option) if option else ():
            if text.startswith(value) and text.isprintable() and text != FILES:
                yield f"{name}={text}", said
        return
    for text, said in _of(line, word):
        if text == FILES or (text.startswith(word) and text.isprintable()):
            yield text, said


def _of(line: CommandLine, word: str) -> Iterator[tuple[str, str]]:
    if line.option is not None:
        yield from _values(line, line.option)
    elif word.startswith("-") and not line.only_arguments:
        for option in _options(line.command):
            for text in (*option.opts, *option.secondary_opts):
                if text.startswith("--") or word == text:
                    yield text, _said(option.help)
    elif hasattr(line.command, "commands"):
        # Nothing is known after a word that is no command.
        for name, inner in line.command.commands.items() if not line.given else ():
            if not inner.hidden:
                yield name, _said(inner.help)
    else:
        arguments = [one for one in line.command.params if one.param_type_name == "argument"]
        if arguments:
            argument = arguments[min(len(line.given), len(arguments) - 1)]
            if len(line.given) < len(arguments) or argument.nargs == -1:
                yield from _values(line, argument)


def _values(line: CommandLine, parameter: Any) -> Iterator[tuple[str, str]]:
    types = _types(line.command, parameter.name)
    choices = [one for kind in types if issubclass(kind, Enum) for one in kind]
    if choices:
        yield from ((str(one.value), "") for one in choices)
        return
    if (line.path[-1:], parameter.name) == (("completion",), "shell"):
        yield from ((shell, "") for shell in SHELLS)
        return
    kind = _KINDS.get(f"{line.path[-1] if line.path else ''}.{parameter.name}", _KINDS.get(parameter.name, ""))
    if kind:
        yield from ((name, "") for name in _fresh(NAMES[kind](CompletionNames(line.config)), line.given))
    elif Path in types:
        yield FILES, ""


def _types(command: Any, name: str) -> list[type]:
    """Return the types that a parameter of a command may have, from the function behind it."""
    hints = get_type_hints(unwrap(command.callback)) if command.callback else {}
    found = hints.get(name)
    return [one for one in (found, *get_args(found)) if isinstance(one, type)]


def _fresh(names: Iterable[str], given: Sequence[str]) -> Iterator[str]:
    """Yield the names that are not on the line yet, each once."""
    yield from (name for name in dict.fromkeys(names) if name not in given)


def _options(command: Any) -> Iterator[Any]:
    yield from (one for one in command.params if one.param_type_name == "option" and not one.hidden)


def _said(help: str | None) -> str:
    """Return the first sentence of a help text."""
    return " ".join((help or "").split()).partition(". ")[0].removesuffix(".")
