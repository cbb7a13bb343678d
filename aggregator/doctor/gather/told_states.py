"""The states of servers as the log of a started aggregator tells them, and what each server wrote to its stderr."""

import json
import re
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

# `aggregator.cli.runtime.logs` writes these lines, `aggregator.upstream.lifecycle.state` the sentences.
_LINE: Final = re.compile(r"\S+ [A-Z]+ +([\w.-]+)(?: \[[^\]]*\])*: (.*)")
_STATE: Final = re.compile(r"server (\S+) is (?:still )?([a-z]+)(?:: (.*))?")
_SERVER: Final = "server."
_ROOT: Final = "aggregator."
_MOST_SERVERS: Final = 2_000
_WORDS: Final = 6
_LONGEST: Final = 400
_UP: Final = "ready"
_DOWN: Final = frozenset({"unavailable", "reconnecting", "disabled"})


@dataclass(slots=True)
class LoggedServer:
    """The last known state of one server, why it is in that state, and its last lines on stderr."""

    state: str = ""
    reason: str = ""
    words: deque[str] = field(default_factory=lambda: deque(maxlen=_WORDS))


class ToldStates:
    """The servers of one started aggregator. Lines that are none of its log are ignored, and all once it is `ending`.

    ending: it is being ended, which stops every server.
    """

    def __init__(self) -> None:
        self.ending = False
        self._servers: dict[str, LoggedServer] = {}

    def __repr__(self) -> str:
        return f"<ToldStates of {len(self._servers)} servers>"

    @property
    def servers(self) -> Mapping[str, LoggedServer]:
        """The state of each server, by its id."""
        return self._servers

    def take(self, line: str) -> None:
        """Take one line of stderr."""
        if self.ending:
            return
        logger, message = _parts(line)
        logger = logger.removeprefix(_ROOT)
        if logger.startswith(_SERVER):
            if (told := self._of(logger.removeprefix(_SERVER))) is not None:
                told.words.append(message[:_LONGEST])
        elif (found := _STATE.fullmatch(message)) is not None and (told := self._of(found[1])) is not None:
            told.state, told.reason = found[2], (found[3] or "")[:_LONGEST]

    def settled(self, servers: Collection[str]) -> bool:
        """Return whether each of these servers is known to have come up, or not to."""
        return all(one in self._servers and self._servers[one].state in (_UP, *_DOWN) for one in servers)

    def _of(self, server: str) -> LoggedServer | None:
        if server not in self._servers and len(self._servers) >= _MOST_SERVERS:
            return None
        return self._servers.setdefault(server, LoggedServer())


def _parts(line: str) -> tuple[str, str]:
    """Return the logger and the message of a line; empty texts if it is none of the log."""
    if line.startswith("{"):
        try:
            event = json.loads(line)
        except ValueError:
            return "", ""
        return str(event.get("logger", "")), str(event.get("message", ""))
    found = _LINE.fullmatch(line)
    return (found[1], found[2]) if found is not None else ("", "")
