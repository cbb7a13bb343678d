"""Names for completion: servers, tools, agents, hosts. They are read straight from files; no gateway is loaded.

Law: nothing here raises or waits: the user is typing. An unreadable file has no names.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from aggregator.config.files.find import find_config
from aggregator.config.files.jsonfile import read_object
from aggregator.config.servers.names import usable
from aggregator.domain.errors import AggregatorError
from aggregator.domain.principal import LOCAL
from aggregator.storage.locate import default_url, full_url, sqlite_path
from aggregator.storage.quick_read import key_holders, tool_names

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
                if path.suffix in (".yaml", ".yml") and path.stat().st_size <= _LARGEST_POLICY:
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
