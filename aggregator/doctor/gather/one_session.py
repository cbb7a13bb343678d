"""The result of a session with the aggregator in the place of a host, and the states of servers as its log reports
them.
"""

import json
import re
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from aggregator import __version__
from aggregator.wire.codec import encode

# The revision that every host of today can speak.
_REVISION: Final = "2025-06-18"
# Pages of a list; no list of ours has so many.
MOST_PAGES: Final = 200

SessionFault = Literal["ended", "hangs", "not_started", "not_mcp", "refused", "no_answer"]

# `aggregator.cli.runtime.logs` writes these lines, `aggregator.upstream.lifecycle.state` the sentences.
_LINE: Final = re.compile(r"\S+ [A-Z]+ +([\w.-]+)(?: \[[^\]]*\])*: (.*)")
_STATE: Final = re.compile(r"server (\S+) is (?:still )?([a-z]+)(?:: (.*))?")
_SERVER: Final = "server."
_ROOT: Final = "aggregator."
_MOST_SERVERS: Final = 2_000
_WORDS: Final = 6
# Characters of a line to show; more are kept, so that half a secret is never shown (`beginning`).
LINE_SHOWN: Final = 400
LINE_KEPT: Final = 2 * LINE_SHOWN + 1
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
                told.words.append(message[:LINE_KEPT])
        elif (found := _STATE.fullmatch(message)) is not None and (told := self._of(found[1])) is not None:
            told.state, told.reason = found[2], (found[3] or "")[:LINE_KEPT]

    def settled(self, servers: Collection[str]) -> bool:
        """Return whether each of these servers has come up or failed."""
        return all(one in self._servers and self._servers[one].state in (_UP, *_DOWN) for one in servers)

    def _of(self, server: str) -> LoggedServer | None:
        if server not in self._servers and len(self._servers) >= _MOST_SERVERS:
            return None
        return self._servers.setdefault(server, LoggedServer())


def _parts(line: str) -> tuple[str, str]:
    """Return the logger and the message of a line; empty texts if it is not a line of the log."""
    if line.startswith("{"):
        try:
            event = json.loads(line)
        except ValueError:
            return "", ""
        return str(event.get("logger", "")), str(event.get("message", ""))
    found = _LINE.fullmatch(line)
    return (found[1], found[2]) if found is not None else ("", "")


@dataclass(frozen=True, slots=True)
class SessionTools:
    """The tools that a host got, or why it got none.

    `version` and `instructions` are the aggregator's own. `words` are the stderr tail of a program, `said` is the
    sentence of a refusal, `status` its HTTP status. `told` are the states of the servers in a program's log within
    `waited` seconds.
    """

    tools: Sequence[dict[str, Any]] = ()
    version: str | None = None
    fault: SessionFault | None = None
    seconds: float = 0.0
    words: Sequence[str] = ()
    said: str = ""
    status: int | None = None
    instructions: str = ""
    told: Mapping[str, LoggedServer] = field(default_factory=dict)
    waited: float = 0.0

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the tools."""
        return tuple(str(tool.get("name")) for tool in self.tools)

    @property
    def tokens(self) -> int:
        """The cost of the list and the instructions for a model, at four bytes a token."""
        return (sum(len(encode(tool)) for tool in self.tools) + len(self.instructions.encode("utf-8", "replace"))) // 4


def initialize(client: str | None) -> dict[str, Any]:
    """Return the first request of a host that says of itself that it is `client`; None if its name is not known."""
    params = {
        "protocolVersion": _REVISION,
        "capabilities": {},
        "clientInfo": {"name": client or "aggregator-doctor", "version": __version__},
    }
    return {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}


INITIALIZED: Final = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def list_tools(request_id: int, cursor: str | None) -> dict[str, Any]:
    """Return the request for one page of the tools."""
    params = {"cursor": cursor} if cursor is not None else {}
    return {"jsonrpc": "2.0", "id": request_id, "method": "tools/list", "params": params}


def session_with(result: dict[str, Any], tools: Sequence[dict[str, Any]]) -> SessionTools:
    """Return a session in which these tools were listed, after this result of `initialize`."""
    server, said = result.get("serverInfo"), result.get("instructions")
    version = server.get("version") if isinstance(server, dict) else None
    instructions = said if isinstance(said, str) else ""
    return SessionTools(tools, str(version) if version is not None else None, instructions=instructions)
