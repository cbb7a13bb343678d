"""Variables that servers see in this shell, and not where a host starts the aggregator.

Rule: `differing` reads the configuration again: call it in a thread.
"""

import re
from collections.abc import Mapping
from typing import Final

from aggregator.config.errors import ConfigError
from aggregator.config.load import Loaded, load
from aggregator.domain.ordinary_files import read_ordinary
from aggregator.upstream.process.environment import network_variables, passed_on

_REFERENCE: Final = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-[^{}]*)?\}", re.ASCII)
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
        written = read_ordinary(loaded.path).decode("utf-8", "replace")
    except (ConfigError, OSError):
        return {}
    names = sorted(name for name in set(_REFERENCE.findall(written)) if shell.get(name) != host.get(name))
    here = loaded.config.servers
    other = [one.id for one in here if one.id in there and there[one.id] != one]
    return dict.fromkeys(other, names)


def _is_indifferent(name: str) -> bool:
    return name in _INDIFFERENT or name.startswith("LC_")
