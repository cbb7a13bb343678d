"""Variables that servers see in this shell, and not where a host starts the aggregator.

Rule: `differing` reads the configuration again: call it in a thread.
"""

from collections.abc import Mapping
from typing import Final

from aggregator.config.errors import ConfigError
from aggregator.config.load import Loaded, load
from aggregator.upstream.process.environment import network_variables, passed_on

# Variables of a session of work, which differ and change nothing for a server.
_INDIFFERENT: Final = frozenset(
    {"SHELL", "TERM", "LANG", "LANGUAGE", "TZ", "LOGNAME", "USER", "USERNAME", "TMPDIR", "TEMP", "TMP"}
)


def differing(loaded: Loaded, shell: Mapping[str, str], host: Mapping[str, str]) -> dict[str, list[str]]:
    """Return for each server the variables of the shell that a host lacks or has with another value.

    Those that the entry of the server refers to come first, then those about the network, then folders.
    """
    ours, theirs = passed_on(shell), passed_on(host)
    network = network_variables(shell)
    names = sorted(
        (name for name, value in ours.items() if theirs.get(name) != value and not _is_indifferent(name)),
        key=lambda name: (name not in network, name),
    )
    found = {}
    referring = _referring(loaded, shell, host)
    for server in loaded.config.servers:
        own = [name for name in referring.get(server.id, ()) if name not in names]
        found[server.id] = [*own, *(name for name in names if name not in server.env)]
    return found


def _referring(loaded: Loaded, shell: Mapping[str, str], host: Mapping[str, str]) -> dict[str, list[str]]:
    """Return for each server that is another one with the variables of the host the references that differ."""
    if loaded.path is None:
        return {}
    try:
        there = {one.id: one for one in load(loaded.path, host, loaded.trust).config.servers}
    except (ConfigError, OSError):
        return {}
    return {
        one.id: sorted(name for name in loaded.variables.get(one.key, ()) if shell.get(name) != host.get(name))
        for one in loaded.config.servers
        if one.id in there and there[one.id] != one
    }


def _is_indifferent(name: str) -> bool:
    return name in _INDIFFERENT or name.startswith("LC_")
