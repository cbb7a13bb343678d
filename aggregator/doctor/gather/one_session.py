"""The result of a session with the aggregator in the place of a host."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from aggregator import __version__
from aggregator.doctor.gather.told_states import LoggedServer
from aggregator.wire.codec import encode

# The revision that every host of today can speak.
_REVISION: Final = "2025-06-18"
# Pages of a list; no list of ours has so many.
MOST_PAGES: Final = 200

SessionFault = Literal["ended", "hangs", "not_started", "not_mcp", "refused", "no_answer"]


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
