"""The words for a model about servers that do not start on this machine. Only `missing_programs` looks at the machine.

Law: the words are ours, with the name of a program or an exit code at most; a server's own words are for operators.
"""

import os
import re
import shutil
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from aggregator.config.server_config import ServerConfig
from aggregator.domain.connection_causes import cause_in
from aggregator.upstream.lifecycle.states import State
from aggregator.upstream.process.environment import environment

# The command that tells operators more.
DOCTOR: Final = "run `aggregator doctor`"
_ENDED: Final = re.compile(r"its process ended with (exit code -?\d+|signal \d+)")
_NOT_FOUND: Final = re.compile(r"the command (['\"])(.+)\1 was not found")
_NOT_RUN: Final = re.compile(r"the command (['\"])(.+)\1 (?:may not|cannot) be run|(['\"])(.+)\3 cannot be run")
_LATE: Final = "it did not answer in time"
_NAMED: Final = 3
_LONGEST: Final = 60


def start_fault(state: State, reason: str, *, connected: bool) -> str:
    """Return why a server does not start here; empty if it does, or if it has been connected before.

    `reason` is the reason for its state in our words. What waits for a sign-in is no fault of this machine.
    """
    if state != "unavailable" or connected:
        return ""
    if missing := _NOT_FOUND.search(reason):
        return _not_found(missing[2])
    if refused := _NOT_RUN.search(reason):
        return f"`{_short(refused[2] or refused[4])}` may not be run"
    if ended := _ENDED.search(reason):
        return f"its program ended with {ended[1]}"
    if cause := cause_in(reason):
        return cause.sentence
    return _LATE if "did not answer within" in reason else ""


def missing_programs(servers: Iterable[ServerConfig]) -> dict[str, str]:
    """Return by id why servers cannot start, as far as that is known before they are started."""
    path = environment()["PATH"]
    found: dict[str, str] = {}
    for server in servers:
        if server.enabled and server.type == "stdio" and server.command and not _is_there(server, path):
            found[server.id] = _not_found(server.command)
    return found


def fault_sentence(faults: Sequence[tuple[str, str]]) -> str:
    """Return the sentence about servers that do not start here, by name; empty if all do."""
    return _sentence(faults, ("does not start here", "do not start here", "do not either"))


def left_out_sentence(entries: Sequence[tuple[str, str]]) -> str:
    """Return the sentence about entries that cannot be used, by name with the reason; empty if all can."""
    return _sentence(entries, ("is left out", "are left out", "are too"))


def _sentence(faults: Sequence[tuple[str, str]], verbs: tuple[str, str, str]) -> str:
    """Return the sentence about names with one fault each. `verbs` are for one name, for several, and for the rest."""
    if not faults:
        return ""
    one, several, rest = verbs
    by_fault: dict[str, list[str]] = {}
    for name, fault in faults[:_NAMED]:
        by_fault.setdefault(fault, []).append(_short(name))
    said = [
        f"{' and '.join(names)} {one if len(names) == 1 else several}: {fault}" for fault, names in by_fault.items()
    ]
    more = [f"{len(faults) - _NAMED} more {rest}"] if len(faults) > _NAMED else []
    return f"{'; '.join([*said, *more, DOCTOR])}."


def _is_there(server: ServerConfig, path: str) -> bool:
    return _on_path(server.command or "", server.env.get("PATH", path))


@lru_cache(maxsize=512)
def _on_path(command: str, path: str) -> bool:
    """Tell whether a program is found, as `upstream.process` finds it; one with a folder is known by trying."""
    return (
        bool(os.path.dirname(command)) or "\0" in command or shutil.which(command, path=path or os.defpath) is not None
    )


def _not_found(command: str) -> str:
    if os.path.dirname(command):
        return f"`{_short(os.path.basename(command))}` is not where its entry says"
    return f"`{_short(command)}` was not found on PATH"


def _short(text: str) -> str:
    plain = "".join(char for char in text if char.isprintable() and char != "`")
    return plain if len(plain) <= _LONGEST else f"{plain[: _LONGEST - 1]}…"
